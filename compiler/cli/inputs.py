"""The inputs of a run: numpy files and random numbers."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
import numpy.typing as npt

from numc.compiler.errors import NumcError, did_you_mean
from numc.runtime.program import Program

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]


def input_options(function: F) -> F:
    """Add --input, --random-input, --batch and --threads."""
    for option in (
        click.option("--threads", type=click.IntRange(1, 1024), help="Threads; the bits never depend on it."),
        click.option("--batch", type=click.IntRange(1), default=1, help="Size of free dimensions of random inputs."),
        click.option("--random-input", "seed", type=click.IntRange(0), help="Seed: fill the other inputs at random."),
        click.option(
            "--input",
            "files",
            multiple=True,
            metavar="[NAME=]FILE",
            help="x.npy (inputs in order), name=x.npy, or one .npz with the inputs by name. Repeatable.",
        ),
    ):
        function = option(function)
    return function


def gather(program: Program, files: Sequence[str], seed: int | None, batch: int) -> dict[str, Array]:
    """Return the inputs of `program` by name, from files, the rest random if there is a seed. Raises NumcError."""
    names = [spec.name for spec in program.inputs]
    given: dict[str, Array] = {}
    unnamed: list[tuple[str, Array]] = []
    for text in files:
        name, equals, file = text.partition("=")
        if not equals or Path(text).exists():
            name, file = "", text
        content = read_file(file)
        if isinstance(content, dict):
            if len(files) > 1 or name:
                raise NumcError(f"--input {text}: an .npz names its arrays: want it alone, without a name")
            for key, array in content.items():
                _put(given, names, key, array, f"{file}: array")
        elif name:
            _put(given, names, name, content, "--input")
        else:
            unnamed.append((file, content))
    free = [name for name in names if name not in given]
    if len(unnamed) > len(free):
        wanted = ", ".join(f"'{name}'" for name in names) or "none"
        raise NumcError(f"--input {unnamed[len(free)][0]}: one input too many: the program takes {wanted}")
    given.update((name, array) for name, (_, array) in zip(free, unnamed, strict=False))
    missing = [spec for spec in program.inputs if spec.name not in given]
    if missing and seed is None:
        wanted = ", ".join(f"'{spec.name}' ({spec})" for spec in missing)
        raise NumcError(f"no value for {wanted}: give --input NAME=FILE.npy, or --random-input SEED")
    rng = np.random.default_rng(seed)
    for spec in missing:
        given[spec.name] = _random(rng, spec.dtype, tuple(batch if d is None else d for d in spec.shape))
    return given


def _put(given: dict[str, Array], names: Sequence[str], name: str, array: Array, what: str) -> None:
    if name not in names:
        wanted = ", ".join(f"'{n}'" for n in names) or "none"
        raise NumcError(f"{what} '{name}': no such input{did_you_mean(name, names)}: the program takes {wanted}")
    if name in given:
        raise NumcError(f"{what} '{name}': given twice")
    given[name] = array


def read_named(file: str) -> dict[str, Array]:
    """Return the arrays of an .npz file by name. Raises NumcError for any other file."""
    content = read_file(file)
    if not isinstance(content, dict):
        raise NumcError(f"{file}: one array without a name: want an .npz file with the inputs by name")
    return content


def read_data(file: str, names: Sequence[str]) -> dict[str, Array]:
    """Return the arrays of an .npz file that are inputs, called `names`; or the one of an .npy, if there is one input.

    Others, such as labels, are left out. Raises NumcError if inputs are missing.
    """
    content = read_file(file)
    if not isinstance(content, dict):
        if len(names) != 1:
            wanted = ", ".join(f"'{n}'" for n in names) or "none"
            raise NumcError(f"{file}: one array, but the inputs are {wanted}: want an .npz file with them by name")
        return {names[0]: content}
    missing = [name for name in names if name not in content]
    if missing:
        near = did_you_mean(missing[0], [name for name in content if name not in names])
        arrays = ", ".join(f"'{n}'" for n in content) or "nothing"
        raise NumcError(f"{file}: has no array '{missing[0]}'{near}, which is an input: its arrays are {arrays}")
    return {name: content[name] for name in names}


def read_labels(file: str) -> Array:
    """Return the array of an .npy file, or that called labels of an .npz. Raises NumcError."""
    content = read_file(file)
    if not isinstance(content, dict):
        return content
    if "labels" not in content:
        arrays = ", ".join(f"'{n}'" for n in content) or "nothing"
        raise NumcError(f"{file}: has no array 'labels': its arrays are {arrays}")
    return content["labels"]


def read_file(file: str) -> Array | dict[str, Array]:
    """Return the array of an .npy file, or those of an .npz file by name. Raises NumcError."""
    try:
        content = np.load(file, allow_pickle=False)
        return dict(content) if isinstance(content, np.lib.npyio.NpzFile) else np.asarray(content)
    except OSError as error:
        raise NumcError(f"{file}: cannot read: {error.strerror or error}: want a .npy or .npz file") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise NumcError(f"{file}: not a numpy file of plain numbers: want a .npy or .npz file") from None


def _random(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    return np.asarray(rng.integers(2 if kind == "b" else 10, size=shape)).astype(dtype)
