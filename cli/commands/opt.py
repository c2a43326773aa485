"""``numc opt``: run stages or single passes on dumped IR."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from numc.cli import output
from numc.cli.source import Arithmetic, arithmetic_options
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.support.files import check_writable
from numc.support.versions import check_torch_mlir

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
    from numc.compiler import opt
    from numc.compiler.pipeline import STAGES
    from numc.frontends import mlir

    names = list(STAGES)
    for option, stage in (("--from", after), ("--to", to)):
        if stage is not None and stage not in STAGES:
            near = did_you_mean(stage, names)
            raise NumcError(f"{option} {quoted(stage)}: no such stage{near}: want {', '.join(names)}")
    last = to or names[-1]
    if after is not None and names.index(after) >= names.index(last):
        raise NumcError(f"--from {after} --to {last}: nothing to run: the stages are {', '.join(names)}, in this order")
    options = arithmetic.options()
    options = replace(options, pack_weights=pack_weights, statistics=statistics, streams=streams, fast=not no_fast)
    text = mlir.load(file).mlir
    steps = opt.split_passes(passes, "--passes") if passes is not None else None
    output.write_text(out, opt.opted(text, file, options, after=after or "", to=last, steps=steps))
