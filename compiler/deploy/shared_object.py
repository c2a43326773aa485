"""A program as a shared object of the system, with a C header of its own: no loader, and no memory that is both written
and executed."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from numc.compiler.deploy.data_object import write_data_object
from numc.compiler.deploy.glue import functions_of, glue
from numc.compiler.deploy.header import header, identifier
from numc.compiler.deploy.linker import MACHINES, link_shared, linker
from numc.runtime.abi import encode_abi
from numc.runtime.archive import MAGIC
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
    runtime: bool = True,
) -> Exported:
    """Write a program as the shared object `path`, ``lib<name>.so``, and its C header ``<name>.h`` beside it.

    The object needs libnumc_runtime.so at run time, and the header numc.h: both are copied beside them too unless
    `runtime` is false. Code and weights are those of the program, with the same bits; processes share their memory.

    Args:
        program: a program, or the path of a program file.
        path: where the object goes; it ends with ``.so``.
        name: an identifier that the functions begin with; by default from the name of the file.
        runtime: copy the runtime.

    Raises:
        NumcError: for a path or a name that does not fit, without a linker, and for a machine that it cannot link for.
    """
    target = checked_path(path)
    if target.suffix != _SUFFIX or target.stem in ("", "lib"):
        near = f"lib{identifier(target.stem)}{_SUFFIX}"
        raise NumcError(f"{target}: want a name that ends with {_SUFFIX}, such as {near}")
    checked(runtime, "runtime", bool, "True or False")
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
    linker(machine)
    version = library().numc_version().decode()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = folder / target.name
        parts = _parts(contents, machine, own, version, folder)
        visible, libraries = functions_of(own), find_library().parent
        link_shared(made, machine, parts, visible=visible, libraries=libraries, folder=folder)
        with open(made, "rb") as linked:
            write_whole(target, lambda file: shutil.copyfileobj(linked, file))
    text = header(own, target.name, contents.abi, _arithmetic(contents))
    write_whole(beside, lambda file: file.write(text.encode()))
    return Exported(own, target, beside, tuple(_runtime(target.parent)) if runtime else ())


def _machine(code: bytes) -> int:
    """The machine of an object, or of the first one of an archive."""
    if not code.startswith((MAGIC, b"\x7fELF")):  # that of a GPU's program
        raise NumcError("code of no machine: shared objects are made for x86-64 only: want another target")
    start = code.find(b"\x7fELF") if code.startswith(MAGIC) else 0
    (machine,) = struct.unpack_from("<H", code, start + 18)
    if machine not in MACHINES:
        raise NumcError(f"code of machine {machine}: shared objects are made for x86-64 only: want another target")
    return int(machine)


def _parts(contents: Contents, machine: int, name: str, version: str, folder: Path) -> Sequence[Path]:
    weights = [np.ascontiguousarray(w) if w.ndim else w for w in contents.weights]
    places, size = weight_places(weights)
    abi = encode_abi(contents.abi, weights)
    code, data, calls = (folder / file for file in ("code.a", "data.o", "calls.o"))
    code.write_bytes(contents.code)
    write_data_object(data, machine, {"numc_abi": [abi], "numc_weights": padded(places, size)})
    calls.write_bytes(glue(name, version, contents.abi.entry, len(abi), size))
    return calls, code, data


def _arithmetic(contents: Contents) -> str:
    used = dict.fromkeys(each["fma"] for each in contents.manifest["contractions"])
    return ", ".join(used) or str(contents.manifest["fma"])


def _runtime(folder: Path) -> Iterator[Path]:
    """Copy what a shared object needs to a folder."""
    for source in (find_library(), *(include_folder() / f"numc{suffix}" for suffix in (".h", ".hpp"))):
        copy = folder / (FILE_NAME if source.suffix == _SUFFIX else source.name)
        content = source.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            write_whole(copy, lambda file, content=content: file.write(content))  # type: ignore[misc]
        yield copy
