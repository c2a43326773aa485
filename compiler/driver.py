"""Compiling through the cache: MLIR and ONNX are imported for what is not in it only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from numc.compiler import cache as programs
from numc.compiler.errors import NumcError
from numc.compiler.options import Options
from numc.compiler.policy import Policy
from numc.compiler.policy_text import load_policy
from numc.frontends.imported import Imported
from numc.runtime.container import Contents
from numc.runtime.program import Program


def compile(
    source: Any,
    example_inputs: Any = None,
    *,
    fma: str = "fp32",
    ops: str = "fp32",
    policy: str | os.PathLike[str] | Policy | None = None,
    target: str = "host",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dynamic_shapes: Any = None,
    fast: bool = True,
    cache: bool = True,
    dump_dir: str | os.PathLike[str] | None = None,
) -> Program:
    """Compile a model to a program that computes in the arithmetic named.

    source: a file (ONNX, linalg MLIR text, an exported program of PyTorch), or a torch.nn.Module, torch.fx.GraphModule
    or torch.export.ExportedProgram. example_inputs, dynamic_shapes: for modules, what torch.export takes.
    fma: the FMA operator of every contraction and multiply-add. ops: the format of every other float operation.
    policy: the arithmetic of every operation, instead of fma and ops: a file, a text or a preset (docs/policies.md).
    target: host or a name of `numc list targets`. shapes: fixes input shapes by name. cache: False compiles anew and
    keeps nothing. dump_dir: an existing folder that receives the IR after every pass, without the cache.
    fast: False leaves the cheap rounding sequences out; no bit may depend on it.
    Raises NumcError for bad input, or if this processor cannot run the target.
    """
    if not isinstance(source, (str, os.PathLike, Imported)):
        from numc.compiler.compile import pytorch

        kind = type(source).__name__
        frontend = pytorch(kind)
        if not frontend.is_model(source):
            raise NumcError(f"cannot compile a {kind}: want a file name, a torch.nn.Module or an ExportedProgram")
        if shapes:
            raise NumcError(f"{kind}: shapes are for files: example_inputs and dynamic_shapes say what sizes are")
        source = frontend.load(source, example_inputs, dynamic_shapes=dynamic_shapes)
    elif example_inputs is not None or dynamic_shapes is not None:
        raise NumcError(f"{source}: example_inputs and dynamic_shapes are for PyTorch modules, files have their inputs")
    options = Options(fma, ops, target, fast, None if policy is None else load_policy(policy))
    return Program(contents(source, options, shapes, cache=cache, dump_dir=dump_dir)[0])


def contents(
    source: str | os.PathLike[str] | Imported,
    options: Options,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    cache: bool = True,
    dump_dir: str | os.PathLike[str] | None = None,
) -> tuple[Contents, bool]:
    """Return what the program file holds, without loading its code, and whether that came from the cache.

    Raises NumcError for bad input.
    """
    entry = programs.entry(source, options, shapes) if cache and dump_dir is None else None
    if entry is not None and (found := entry.load()) is not None:
        return found, True
    from numc.compiler.compile import build, load_source

    imported = source if isinstance(source, Imported) else load_source(source, shapes)
    built = build(imported, options, dump_dir)
    if entry is not None:
        entry.store(built)
    return built, False
