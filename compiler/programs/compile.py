"""Compiling through the cache: MLIR and ONNX are imported for what is not in it only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numc.compiler.cache import cache as programs
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.numerics.policy.load import load_policy
from numc.numerics.policy.policy import Policy
from numc.runtime.container import Contents, Description, write_program
from numc.support.arguments import Fixed, checked, checked_fixed
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted
from numc.support.files import checked_path
from numc.support.versions import check_torch_mlir

if TYPE_CHECKING:
    import numpy.typing as npt

    from numc.runtime.program import Program
    from numc.runtime.signature import Signer

    Data = Mapping[str, npt.NDArray[Any]]


@in_default_environment
def compile(
    source: Any,
    example_inputs: Any = None,
    *,
    fma: str = "fp32",
    ops: str = "fp32",
    policy: str | os.PathLike[str] | Policy | None = None,
    target: str = "host",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
    dynamic_shapes: Any = None,
    fast: bool = True,
    pack_weights: bool = False,
    calibrate: Data | None = None,
    statistics: bool = False,
    respect_dtypes: bool = True,
    streams: int | None = None,
    cache: bool = True,
    dump_dir: str | os.PathLike[str] | None = None,
) -> Program:
    """Compile a model to a program that computes in the arithmetic named.

    source: a file (ONNX, linalg MLIR text, an exported program of PyTorch), or an onnx.ModelProto, torch.nn.Module,
    torch.fx.GraphModule or torch.export.ExportedProgram. example_inputs, dynamic_shapes: for modules, what torch.export
    takes.
    fma: the FMA operator of every contraction and multiply-add. ops: the format of every other float operation.
    policy: the arithmetic of every operation, instead of fma and ops: a file, a text or a preset (docs/policies.md).
    target: host or a name of `numc list targets`. shapes: fixes input shapes by name. values: fixes inputs of an ONNX
    model by name, which the program then does not have. cache: False compiles anew and keeps nothing. dump_dir: an
    existing folder that receives the IR after every pass, without the cache.
    fast: False leaves the cheap rounding sequences out; no bit may depend on it. pack_weights: the program holds
    weights in the bits of their format, with the same results; those with groups it expands when it is loaded. It holds
    activations in them, too, where that takes no longer and `statistics` is False (docs/memory.md).
    statistics: kernels can count their additions (numc.collect_stats), which takes a little time even when they do not.
    calibrate: inputs by name, on which the scales of intN are found once and for all, not in every execution.
    respect_dtypes: what tensors of bfloat16, float16 and float8 store is rounded to these; False computes on them as on
    float32, and rounds results only (docs/arithmetic.md). streams: the most MiB that buffers may take at once where
    parts run side by side, 0 for one after the other; None: 64, or as many as they then take (docs/streams.md).
    Raises NumcError for bad input, or if this processor cannot run the target.
    """
    from numc.frontends.load import check_alone, load
    from numc.runtime.program import Program

    fixed = checked_fixed(shapes, values)
    if not isinstance(source, (str, os.PathLike, Imported)):
        source = load(source, example_inputs, dynamic_shapes=dynamic_shapes, shapes=fixed, purpose="compile")
    else:
        check_alone(source, example_inputs, dynamic_shapes)
    if calibrate is not None:
        checked(calibrate, "calibrate", Mapping, "arrays by name of the input")
    chosen = None if policy is None else load_policy(policy)
    options = Options(
        fma=fma,
        ops=ops,
        target=target,
        fast=fast,
        policy=chosen,
        pack_weights=pack_weights,
        statistics=statistics,
        respect_dtypes=respect_dtypes,
        streams=streams,
    )
    if calibrate is not None:
        options = calibrated(source, options, fixed, calibrate, cache=cache)
    return Program(contents(source, options, fixed, cache=cache, dump_dir=dump_dir)[0])


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
    found = calibrate(Program(contents(source, here, shapes, cache=cache)[0]), data)
    return replace(options, calibration=found)


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
    shapes = checked_fixed(shapes)
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
    shapes = checked_fixed(shapes)
    entry = _entry(source, options, shapes, cache, dump_dir)
    if entry is not None and sign is None and (copied := entry.copy(Path(path))) is not None:
        return copied, True
    from concurrent.futures import ThreadPoolExecutor

    known = None if entry is None else entry.load()
    found = known or _made(source, options, shapes, dump_dir)
    with ThreadPoolExecutor(1) as pool:  # both files wait for the disk
        stored = pool.submit(entry.store, found) if entry is not None and known is None else None
        write_program(path, found, sign)
    if stored is not None:
        stored.result()
    return found.description, known is not None


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
