"""Compiling through the cache: MLIR and ONNX are imported for what is not in it only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numc.compiler.cache import cache as programs
from numc.compiler.options import CompileOptions, Options
from numc.frontends.imported import Imported
from numc.runtime.container import Contents, Description, write_program
from numc.support.arguments import Fixed, checked, checked_fixed
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted
from numc.support.files import checked_path, is_language_model
from numc.support.keywords import keywords, part
from numc.support.versions import check_torch_mlir

if TYPE_CHECKING:
    import numpy.typing as npt

    from numc.runtime.program import Program
    from numc.runtime.signature import Signer

    Data = Mapping[str, npt.NDArray[Any]]


@in_default_environment
@keywords(CompileOptions)
def compile(source: Any, given: CompileOptions) -> Program:
    """Compile a model to a program that computes in the arithmetic named.

    source: a file (ONNX, linalg MLIR text, an exported program of PyTorch), the folder of a language model of
    transformers, or an onnx.ModelProto, torch.nn.Module, torch.fx.GraphModule or torch.export.ExportedProgram.
    Raises NumcError for bad input, or if this processor cannot run the target.
    """
    from numc.frontends.load import check_alone, load
    from numc.runtime.any_program import program_of

    fixed = given.fixed()
    if not isinstance(source, (str, os.PathLike, Imported)):
        source = load(
            source, given.example_inputs, dynamic_shapes=given.dynamic_shapes, shapes=fixed, purpose="compile"
        )
    else:
        check_alone(source, given.example_inputs, given.dynamic_shapes)
    options = part(Options, given)
    if given.calibrate is not None:
        options = calibrated(source, options, fixed, given.calibrate, cache=given.cache)
    made, _ = contents(source, options, fixed, cache=given.cache, dump_dir=given.dump_dir)
    return program_of(made)  # type: ignore[no-any-return]


def calibrated(
    source: str | os.PathLike[str] | Imported,
    options: Options,
    shapes: Fixed | None,
    data: Data,
    *,
    cache: bool = True,
) -> Options:
    """Return the options with the scales of intN that `data`, inputs by name, gives on this machine.

    Raises NumcError for an operator without such scales, and for data that does not fit the model.
    """
    from numc.compiler.programs.calibration import calibrate, check_calibrated
    from numc.runtime.program import Program

    policy, _ = options.resolved()
    if policy.is_plain:
        check_calibrated(policy.default[0])
    here = replace(options, target="host")
    scales = calibrate(Program(contents(source, here, shapes, cache=cache)[0]), data)
    return replace(options, calibration=scales)


def contents(
    source: str | os.PathLike[str] | Imported,
    options: Options,
    shapes: Fixed | None = None,
    *,
    cache: bool = True,
    dump_dir: str | os.PathLike[str] | None = None,
    imported: Imported | None = None,
    apart: bool = False,
) -> tuple[Contents, bool]:
    """Return what the program file holds, without loading its code, and whether that came from the cache.

    imported: the source, if it is a file that has been read already. apart: whether a worker compiles, so that this
    process does not load MLIR; for an Imported, without dump_dir. Raises NumcError for bad input.
    """
    source, shapes = _read(source, checked_fixed(shapes))
    entry = _entry(source, options, shapes, cache, dump_dir)
    return programs.through(entry, lambda: _made(imported or source, options, shapes, dump_dir, apart))


def to_file(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    options: Options,
    shapes: Fixed | None = None,
    *,
    sign: Signer | None = None,
    cache: bool = True,
    dump_dir: str | os.PathLike[str] | None = None,
) -> tuple[Description, bool]:
    """Compile a file to the program file `path`; return what that says, and whether it came from the cache.

    sign: signs the program file. Raises NumcError for bad input, and if the program file cannot be written.
    """
    model, shapes = _read(source, checked_fixed(shapes))
    entry = _entry(model, options, shapes, cache, dump_dir)
    if entry is not None and sign is None and (copied := entry.copy(Path(path))) is not None:
        return copied, True
    from concurrent.futures import ThreadPoolExecutor

    known = None if entry is None else entry.load()
    program = known or _made(model, options, shapes, dump_dir)
    with ThreadPoolExecutor(1) as pool:  # both files wait for the disk
        stored = pool.submit(entry.store, program) if entry is not None and known is None else None
        write_program(path, program, sign)
    if stored is not None:
        stored.result()
    return program.description, known is not None


def _read(source: str | os.PathLike[str] | Imported, shapes: Fixed) -> tuple[str | os.PathLike[str] | Imported, Fixed]:
    """A folder is read before the cache is asked, which knows the content of files, and of what has been imported."""
    if isinstance(source, Imported) or not is_language_model(source):
        return source, shapes
    from numc.frontends.load import load_file

    return load_file(source, shapes), {}


def _entry(
    source: str | os.PathLike[str] | Imported,
    options: Options,
    shapes: Fixed | None,
    cache: bool,
    dump_dir: str | os.PathLike[str] | None,
) -> programs.Entry | None:
    checked(cache, "cache", bool, "True or False")
    if dump_dir is not None and not checked_path(dump_dir).is_dir():
        raise NumcError(f"dump_dir: there is no folder {quoted(dump_dir)}: create it first")
    return programs.entry(source, options, shapes) if cache and dump_dir is None else None


def _made(
    source: str | os.PathLike[str] | Imported,
    options: Options,
    shapes: Fixed | None,
    dump_dir: str | os.PathLike[str] | None,
    apart: bool = False,
) -> Contents:
    check_torch_mlir()
    if apart and isinstance(source, Imported):
        from numc.compiler.programs.apart import build

        return build(source, options)
    from concurrent.futures import ThreadPoolExecutor

    from numc.frontends.load import load_file

    # MLIR, which what the cache has does not need, is imported while a worker imports the model.
    with ThreadPoolExecutor(1) as pool:
        compiler = pool.submit(import_module, "numc.compiler.programs.build")
        read = source if isinstance(source, Imported) else load_file(source, shapes)
    built: Contents = compiler.result().build(read, options, dump_dir)
    return built
