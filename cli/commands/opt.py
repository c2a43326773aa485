"""``numc opt``: run stages or single passes on dumped IR."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numc.cli import output
from numc.cli.source import Arithmetic, arithmetic_options
from numc.support.arguments import checked_text
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.support.files import check_writable
from numc.support.versions import check_torch_mlir

if TYPE_CHECKING:
    from torch_mlir import ir

    from numc.compiler.options import Options
    from numc.compiler.pipeline import Pass

_EPILOG = """\b
Examples:
  numc compile model.onnx --fma mp --dump-dir dump
  numc opt dump/linalg.mlir --from linalg --to numc --fma mp
  numc opt dump/numc.mlir --passes bufferize,canonicalize,cse -o out.mlir
  numc opt dump/numc.mlir --passes 'one-shot-bufferize{bufferize-function-boundaries}'
"""


@click.command("opt", epilog=_EPILOG)
@click.argument("file", metavar="FILE.mlir")
@click.option("--from", "after", metavar="STAGE", help="FILE is the IR after this stage; without it, it is a model.")
@click.option("--to", metavar="STAGE", help="The last stage to run; default: the last there is.")
@click.option("--passes", metavar="A,B,...", help="Run exactly these: `numc list passes`, or any upstream pass text.")
@arithmetic_options
@click.option("--pack-weights", is_flag=True, help="Weights and activations in their formats, as for `numc compile`.")
@click.option("--statistics", is_flag=True, help="Kernels that can count swamping, as for `numc compile`.")
@click.option("--streams", type=int, metavar="MIB", help="Memory for parts side by side, as for `numc compile`.")
@click.option("--no-fast", is_flag=True, help="Leave the cheap rounding sequences under guards out; the bits stay.")
@click.option("-o", "--output", "out", metavar="OUT", default="-", help="File to write; default: stdout.")
def opt_command(
    file: str,
    after: str | None,
    to: str | None,
    passes: str | None,
    arithmetic: Arithmetic,
    pack_weights: bool,
    statistics: bool,
    streams: int | None,
    no_fast: bool,
    out: str,
) -> None:
    """Run the stages that follow --from up to --to, or exactly the named passes, on MLIR text; print the IR."""
    if passes is not None and (after is not None or to is not None):
        raise NumcError("--passes runs exactly the passes it names: leave --from and --to out")
    if out != "-":
        check_writable(Path(out))

    check_torch_mlir()
    from numc.compiler.pipeline import STAGES
    from numc.frontends import mlir

    names = list(STAGES)
    for option, stage in (("--from", after), ("--to", to)):
        if stage is not None and stage not in STAGES:
            near = did_you_mean(stage, names)
            raise NumcError(f"{option} {quoted(stage)}: no such stage{near}: one of {', '.join(names)}")
    last = to or names[-1]
    if after is not None and names.index(after) >= names.index(last):
        raise NumcError(f"--from {after} --to {last}: nothing to run: the stages are {', '.join(names)}, in this order")
    options = arithmetic.options()
    options = replace(options, pack_weights=pack_weights, statistics=statistics, streams=streams, fast=not no_fast)
    text = mlir.load(file).mlir
    steps = split_passes(passes) if passes is not None else None
    output.write_text(out, lowered(text, file, options, after=after or "", to=last, steps=steps))


def lowered(
    text: str,
    name: str,
    options: Options,
    *,
    after: str = "",
    to: str = "",
    steps: list[str] | None = None,
) -> str:
    """Return the IR text after the stages `after` (exclusive) to `to`, or after exactly the passes `steps`.

    `name` is what errors call the text. Raises NumcError.
    """
    from numc.compiler import pipeline
    from numc.frontends.parse import parse_module

    state = pipeline.State.of(options)
    module = parse_module(text, name)
    if steps is None:
        pipeline.run(module, state, after=after, to=to)
        return pipeline.text(module)
    for step, function in [(step, _find(step, module)) for step in steps]:
        pipeline.run_pass(step, function, module, state)
    return pipeline.text(module)


def _find(step: str, module: ir.Module) -> Pass:
    """Return the pass `step`: one of ours, or upstream pass text. Raises NumcError."""
    from torch_mlir.passmanager import PassManager

    from numc.compiler.pipeline import STAGES, find_pass, upstream

    if ours := find_pass(step):
        return ours
    try:
        PassManager.parse(f"builtin.module({step})", module.context)
    except ValueError as error:
        known = [name for stage in STAGES.values() for name in stage]
        near = did_you_mean(step, [*known, *_UPSTREAM])
        reason = str(error).splitlines()[0].split("error: ")[-1]
        if "does not refer to a registered pass" in reason:
            reason = "no such pass"
        raise NumcError(f"--passes {quoted(step)}: {reason}{near}: see `numc list passes`") from None
    return upstream("", step)


# Upstream passes people ask for by name; only suggestions are made from this list.
_UPSTREAM = (
    "canonicalize",
    "cse",
    "inline",
    "symbol-dce",
    "one-shot-bufferize",
    "convert-linalg-to-loops",
    "convert-scf-to-cf",
    "lower-affine",
    "fold-memref-alias-ops",
    "expand-strided-metadata",
    "linalg-generalize-named-ops",
    "linalg-fuse-elementwise-ops",
    "eliminate-empty-tensors",
    "convert-math-to-llvm",
    "convert-arith-to-llvm",
    "convert-vector-to-llvm",
    "convert-vector-to-scf",
    "convert-func-to-llvm",
    "finalize-memref-to-llvm",
    "reconcile-unrealized-casts",
    "loop-invariant-code-motion",
    "arith-expand",
)


def split_passes(text: str) -> list[str]:
    """Split at the commas outside brackets. Raises NumcError for an empty name or unbalanced brackets."""
    steps, depth = [""], 0
    for character in checked_text(text, "--passes", 20_000):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            break
        if character == "," and depth == 0:
            steps.append("")
        else:
            steps[-1] += character
    steps = [step.strip() for step in steps]
    if depth != 0:
        raise NumcError(f"--passes {quoted(text)}: unbalanced brackets: want a,b{{option=1}},func.func(c)")
    if not all(steps):
        raise NumcError(f"--passes {quoted(text)}: an empty name: want a,b{{option=1}},func.func(c)")
    return steps
