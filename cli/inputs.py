"""The inputs of a run, from numpy files or from random numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from numc.cli.grouped import grouped
from numc.studies.archives import check_expansion
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.support.files import checked_path

if TYPE_CHECKING:  # numpy is imported only where it is used, so that `--help` is quick
    import numpy as np
    import numpy.typing as npt

    from numc.runtime.program import Program

    Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs of a run: files, and the seed of random numbers for the others."""

    files: tuple[str, ...]
    seed: int | None
    batch: int
    threads: int | None


#: Adds --input, --random-input, --batch and --threads to a command, which gets them as `given`.
input_options = grouped(
    "given",
    Inputs,
    click.option(
        "--input",
        "files",
        multiple=True,
        metavar="[NAME=]FILE",
        help="x.npy (inputs in order), name=x.npy, or one .npz with the inputs by name. Repeatable.",
    ),
    click.option("--random-input", "seed", type=click.IntRange(0), help="Seed: fill the other inputs at random."),
    click.option("--batch", type=click.IntRange(1), default=1, help="Size of free dimensions of random inputs."),
    click.option("--threads", type=click.IntRange(1, 1024), help="Number of threads; no bit depends on it."),
)


def gather(program: Program, files: Sequence[str], seed: int | None, batch: int) -> dict[str, Array]:
    """Return the inputs of `program` by name: from files, and if there is a seed, random numbers for the others.

    Raises NumcError if a file cannot be read, or if an input is missing, unknown or given twice.
    """
    names = [spec.name for spec in program.inputs]
    arrays: dict[str, Array] = {}
    unnamed: list[tuple[str, Array]] = []
    for text in files:
        name, equals, file = text.partition("=")
        if not equals or os.path.exists(text):
            name, file = "", text
        content = read_file(file)
        if isinstance(content, dict):
            if len(files) > 1 or name:
                raise NumcError(f"--input {text}: an .npz names its arrays: want it alone, without a name")
            for key, array in content.items():
                _put(arrays, names, key, array, f"{file}: array")
        elif name:
            _put(arrays, names, name, content, "--input")
        else:
            unnamed.append((file, content))
    free = [name for name in names if name not in arrays]
    if len(unnamed) > len(free):
        wanted = ", ".join(map(quoted, names)) or "none"
        raise NumcError(f"--input {unnamed[len(free)][0]}: one input too many: the program takes {wanted}")
    arrays.update((name, array) for name, (_, array) in zip(free, unnamed, strict=False))
    missing = [spec for spec in program.inputs if spec.name not in arrays]
    if missing and seed is None:
        wanted = ", ".join(f"{quoted(spec.name)} ({spec})" for spec in missing)
        raise NumcError(f"no value for {wanted}: give --input NAME=FILE.npy, or --random-input SEED")
    import numpy as np

    rng = np.random.default_rng(seed)
    for spec in missing:
        arrays[spec.name] = _random(rng, spec.dtype, tuple(batch if d is None else d for d in spec.shape))
    return arrays


def _put(given: dict[str, Array], names: Sequence[str], name: str, array: Array, what: str) -> None:
    if name not in names:
        wanted = ", ".join(map(quoted, names)) or "none"
        raise NumcError(f"{what} {quoted(name)}: no such input{did_you_mean(name, names)}: the program takes {wanted}")
    if name in given:
        raise NumcError(f"{what} {quoted(name)}: given twice")
    given[name] = array


def read_named(file: str) -> dict[str, Array]:
    """Return the arrays of an .npz file by name. Raises NumcError for any other file."""
    content = read_file(file)
    if not isinstance(content, dict):
        raise NumcError(f"{file}: one array without a name: want an .npz file with the inputs by name")
    return content


def read_data(texts: Sequence[str]) -> Mapping[str, Array] | Array:
    """Return what --data gives: arrays by input, or one array without a name. Raises NumcError."""
    arrays: dict[str, Array] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or os.path.exists(text):
            name, file = "", text
        content = _read_array(file)
        if isinstance(content, dict) and name:
            listed = ", ".join(content)
            raise NumcError(
                f"--data {text}: it has the arrays {listed}: name one, such as {text}:{next(iter(content), '')}"
            )
        if not isinstance(content, dict) and not name:
            if len(texts) > 1:
                raise NumcError(f"--data {text}: an array without a name beside others: want NAME={text}")
            return content
        for key, array in content.items() if isinstance(content, dict) else [(name, content)]:
            if key in arrays:
                raise NumcError(f"--data {text}: {quoted(key)} is given twice")
            arrays[key] = array
    return arrays


def read_labels(text: str) -> Array:
    """Return the labels in an .npy file, in FILE:ARRAY, or in the array ``labels`` of an .npz file.

    Raises NumcError if the file cannot be read or has no such array.
    """
    content = _read_array(text)
    if isinstance(content, dict):
        if "labels" not in content:
            listed = ", ".join(content) or "no array"
            raise NumcError(f"--labels {text}: it has {listed}: name one, such as {text}:{next(iter(content), 'NAME')}")
        return content["labels"]
    return content


def _read_array(text: str) -> Array | dict[str, Array]:
    """Return the content of a numpy file, or the array of FILE:ARRAY. Raises NumcError."""
    file, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text):
        return read_file(text)
    content = read_file(file)
    if not isinstance(content, dict):
        raise NumcError(f"{text}: {file} is one array without a name: leave {quoted(':' + name)} out")
    if name not in content:
        raise NumcError(
            f"{text}: there is no array {quoted(name)} in it{did_you_mean(name, content)}: it has {', '.join(content)}"
        )
    return content[name]


def read_file(file: str) -> Array | dict[str, Array]:
    """Return the array of an .npy file, or the arrays of an .npz file by name. Raises NumcError."""
    import numpy as np

    path = checked_path(file)
    try:
        check_expansion(path)
        content = np.load(path, allow_pickle=False)
        arrays = dict(content) if isinstance(content, np.lib.npyio.NpzFile) else np.asarray(content)
    except OSError as error:
        raise NumcError(f"{path}: cannot read: {error.strerror or error}: want a .npy or .npz file") from None
    except NumcError:
        raise
    except MemoryError:
        raise NumcError(f"{path}: says that it holds more than there is memory for: want a .npy or .npz file") from None
    except Exception:  # numpy and zipfile have no list of what a damaged file may raise
        arrays = None
    values = arrays.values() if isinstance(arrays, dict) else [arrays]
    if not all(isinstance(value, np.ndarray) and _is_of_numbers(value.dtype) for value in values):
        raise NumcError(f"{path}: not a numpy file of plain numbers: want a .npy or .npz file")
    return arrays  # type: ignore[return-value]


def _is_of_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether a file has numbers; numbers of bfloat16 and float8 are in files of numpy as bytes."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.names is None and dtype.itemsize <= 2)


def _random(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    import numpy as np

    from numc.runtime.tensors import array_dtype

    if "float" in dtype:
        return np.asarray(rng.standard_normal(shape)).astype(array_dtype(dtype))
    most = {"bool": 2, "int4": 8, "int2": 2, "uint2": 4}.get(dtype, 10)
    return np.asarray(rng.integers(most, size=shape)).astype(array_dtype(dtype))
