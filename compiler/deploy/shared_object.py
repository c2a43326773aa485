"""A program as a shared object of the system, with a C header of its own: no loader, and no memory that is both written
and executed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from numc.compiler.deploy.data_object import write_data_object
from numc.compiler.deploy.glue import functions_of, glue
from numc.compiler.deploy.header import header, identifier
from numc.compiler.deploy.linker import link_shared, linker
from numc.compiler.deploy.machines import MACHINES, Machine, machine_number
from numc.runtime.abi import encode_abi
from numc.runtime.container import Contents, padded, read_program, weight_places
from numc.runtime.library import FILE_NAME, find_library, include_folder, library
from numc.runtime.program import Program
from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted
from numc.support.files import check_writable, checked_path, write_whole

_SUFFIX = ".so"


@dataclass(frozen=True)
class Exported:
    """The files that an export wrote. name: what the functions of the header begin with."""

    name: str
    library: Path
    header: Path
    runtime: tuple[Path, ...]


@in_default_environment
def export_shared(
    program: Program | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    runtime: bool | str | os.PathLike[str] = True,
) -> Exported:
    """Write a program as the shared object `path`, ``lib<name>.so``, and its C header ``<name>.h`` beside it.

    The object needs libnumc_runtime.so at run time, and the header numc.h: both are copied beside them too unless
    `runtime` is false. Code and weights are those of the program, with the same bits; processes share their memory.
    The program may be for another machine than this one.

    Args:
        program: a program, or the path of a program file.
        path: where the object goes; it ends with ``.so``.
        name: an identifier that the functions begin with; by default from the name of the file.
        runtime: copy the runtime of this numc, or the one at this path: that of the program's machine.

    Raises:
        NumcError: for a path or a name that does not fit, without a linker, for a machine that it cannot link for, and
            for the runtime of another machine than the program's.
    """
    target = checked_path(path)
    if target.suffix != _SUFFIX or target.stem in ("", "lib"):
        near = f"lib{identifier(target.stem)}{_SUFFIX}"
        raise NumcError(f"{target}: want a name that ends with {_SUFFIX}, such as {near}")
    checked(runtime, "runtime", bool | str | os.PathLike, f"True, False or the path of a {FILE_NAME}")
    stem = target.name[: -len(_SUFFIX)].removeprefix("lib")
    own = identifier(stem) if name is None else name
    if not isinstance(own, str) or identifier(own) != own:
        raise NumcError(f"name: got {quoted(str(own))}, want an identifier of C, such as {identifier(str(own))}")
    beside = target.parent / f"{own}.h"
    if own == "numc" and runtime:
        raise NumcError("name: got 'numc', whose header is the runtime's own: want another one")
    for file in (target, beside):
        check_writable(file)
    contents = program.contents if isinstance(program, Program) else read_program(program)
    machine = _machine(contents.code)
    copied = _runtime(runtime, machine) if runtime is not False else ()
    linker(machine)
    version = library().numc_version().decode()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = folder / target.name
        parts = _parts(contents, machine, own, version, folder)
        link_shared(made, machine, parts, visible=functions_of(own), folder=folder)
        with open(made, "rb") as linked:
            write_whole(target, lambda file: shutil.copyfileobj(linked, file))
    text = header(own, target.name, contents.abi, _arithmetic(contents))
    write_whole(beside, lambda file: file.write(text.encode()))
    return Exported(own, target, beside, tuple(_copies(copied, target.parent)))


def _machine(code: bytes) -> Machine:
    """The machine of a program's code."""
    number = machine_number(code)
    if number not in MACHINES:  # a GPU's program has none
        names = " and ".join(machine.name for machine in MACHINES.values())
        raise NumcError(f"code of {_named(number)}: shared objects are made for {names} only: want another target")
    return MACHINES[number]


def _named(number: int) -> str:
    """A machine in messages."""
    if number in MACHINES:
        return MACHINES[number].name
    return f"machine {number}" if number else "no machine"


def _runtime(runtime: bool | str | os.PathLike[str], machine: Machine) -> Sequence[Path]:
    """The files that a shared object of a machine needs: the library, of this numc or at a path, and headers."""
    file = find_library() if runtime is True else checked_path(runtime)
    wanted = f"want the {FILE_NAME} of numc for {machine.name}"
    try:
        number = machine_number(file.read_bytes())
    except OSError as error:
        raise NumcError(f"{file}: cannot read: {error.strerror or error}: {wanted}") from None
    if number != machine.number:
        raise NumcError(
            f"{file}: code of {_named(number)}, and the program is for {machine.name}: {wanted} (--runtime, runtime=), "
            "or none (--no-runtime, runtime=False)"
        )
    return [file, *(include_folder() / f"numc{suffix}" for suffix in (".h", ".hpp"))]


def _parts(contents: Contents, machine: Machine, name: str, version: str, folder: Path) -> Sequence[Path]:
    weights = [np.ascontiguousarray(w) if w.ndim else w for w in contents.weights]
    places, size = weight_places(weights)
    abi = encode_abi(contents.abi, weights)
    code, data, calls = (folder / file for file in ("code.a", "data.o", "calls.o"))
    code.write_bytes(contents.code)
    write_data_object(data, machine.number, {"numc_abi": [abi], "numc_weights": padded(places, size)})
    calls.write_bytes(glue(machine, name, version, contents.abi.entry, (len(abi), size)))
    return calls, code, data


def _arithmetic(contents: Contents) -> str:
    used = dict.fromkeys(each["fma"] for each in contents.manifest["contractions"])
    return ", ".join(used) or str(contents.manifest["fma"])


def _copies(files: Sequence[Path], folder: Path) -> Iterator[Path]:
    """Copy files to a folder, the library by its name."""
    for source in files:
        copy = folder / (FILE_NAME if source is files[0] else source.name)
        content = source.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            write_whole(copy, lambda file, content=content: file.write(content))  # type: ignore[misc]
        yield copy
