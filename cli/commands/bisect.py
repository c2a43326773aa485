"""``numc bisect``: find the layers that have to be in fp32 for a result within a tolerance."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numc.cli import output
from numc.cli.samples import Samples, samples_options
from numc.cli.source import Arithmetic, arithmetic_options, check_model, fixed_options
from numc.support.errors import NumcError
from numc.support.files import check_writable

if TYPE_CHECKING:
    from numc.studies.bisect import Bisection, Try

_EPILOG = """\b
Metrics, all against the same model in fp32:
  relative  sum (x - r)^2 / sum r^2 of the worst output
  mse       mean of (x - r)^2 of the worst output
  top1      accuracy lost: 0.01 is one of a hundred samples (needs --labels)
The set is 1-minimal: no layer in it can be left out. Another set may be smaller.
Exit status: 0, 1 if all layers in fp32 are not enough, 2 for bad input, 130 after Ctrl-C.

\b
Examples:
  numc bisect model.onnx --fma 'fmac(e5m2)' --data x.npz --tolerance 1e-3
  numc bisect model.onnx --policy mixed.policy --data x.npz --tolerance 1e-3 -o fixed.policy
  numc bisect gpt2/ --fma 'fmac(e5m2)' --tokens val.bin --length 512 --tolerance 1e-2
  numc bisect model.onnx --fma bf16_1_1 --data x.npz --metric top1 --labels y.npy --tolerance 0.005
"""


@click.command("bisect", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2|FOLDER")
@arithmetic_options
@fixed_options
@samples_options
@click.option("--tolerance", type=float, required=True, metavar="T", help="The largest error that is allowed.")
@click.option("--metric", default="relative", show_default=True, metavar="M", help="relative, mse or top1.")
@click.option("--batch", type=click.IntRange(1), default=64, help="Samples that run at once.", show_default=True)
@click.option("--output", "-o", "out", metavar="FILE", help="Write the policy that was found.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of stochastic roundings; default: 0.")
@click.option("--threads", type=click.IntRange(1, 1024), help="Number of threads; no bit depends on it.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
@click.pass_context
def bisect_command(
    context: click.Context,
    model: str,
    arithmetic: Arithmetic,
    samples: Samples,
    tolerance: float,
    metric: str,
    batch: int,
    out: str | None,
    seed: int,
    threads: int | None,
    want_json: bool,
) -> None:
    """Find a smallest set of layers that have to be in fp32 for a result close to that in fp32 (delta debugging).

    Each try compiles the model and runs it on the data; the programs are kept in the cache (`numc cache`).
    """
    check_model(model)
    if out is not None:
        check_writable(Path(out))
    if arithmetic.fma is None and arithmetic.ops is None and arithmetic.policy is None:
        raise NumcError("nothing to bisect: give the arithmetic that is not fp32, with --fma, --ops or --policy")
    options = arithmetic.options()
    data, labels = samples.read(model)
    if samples.tokens is not None and metric != "top1":
        labels = None
    from numc.studies.bisect import Interrupted, bisect

    try:
        with _progress() as progress:
            bisection = bisect(
                model, data, fma=options.fma, ops=options.ops, policy=options.policy,
                tolerance=tolerance, metric=metric, labels=labels,
                batch=batch, shapes=arithmetic.fixed, target=options.target, threads=threads, seed=seed,
                progress=progress,
            )  # fmt: skip
    except Interrupted as stopped:
        if stopped.best is not None:
            where = f", written to {out}" if out is not None else ""
            enough = _count(len(stopped.best))
            output.say(f"after {stopped.tries} tries: {enough} in fp32 are enough, perhaps fewer{where}", err=True)
            if out is not None:
                output.write_text(out, stopped.policy)
            else:
                click.echo(stopped.policy, nl=False)
        raise
    if out is not None and bisection.layers is not None:
        output.write_text(out, bisection.policy)
    if want_json:
        output.as_json(bisection.to_json())
    else:
        _print(bisection, out)
    if bisection.layers is None:
        context.exit(1)


def _count(count: int) -> str:
    return f"{count} layer{'' if count == 1 else 's'}"


def _print(found: Bisection, out: str | None) -> None:
    unit = {"relative": "relative error", "mse": "mean squared error", "top1": "lost accuracy"}[found.metric]
    if found.layers is None:
        click.echo(
            f"fp32 in every contraction is not enough: the {unit} is {found.every:.4g} then, above "
            f"{found.tolerance:g}, because of other operations (--ops, or rules of `op`)"
        )
        return
    if not found.layers:
        click.echo(f"no layer has to be in fp32: the {unit} is {found.start:.4g}, at most {found.tolerance:g}")
        return
    columns = ("#", "layer", "shape", "instead of", f"{unit} without it")
    output.table(columns, [(k.position, k.name or "-", k.shape, k.fma, f"{k.without:.4g}") for k in found.layers])
    click.echo(
        f"{_count(len(found.layers))} of {found.candidates} in fp32: {unit} {found.error:.4g}, at most "
        f"{found.tolerance:g}; {found.start:.4g} without, {found.every:.4g} with all ({found.tries} tries)"
    )
    click.echo("none of them can be left out; another set may be smaller")
    if out is None:
        click.echo(found.policy, nl=False)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Try], None] | None]:
    """Show the last try and the smallest set so far on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("running in fp32") as status:

        def show(last: Try) -> None:
            best = "nothing is enough so far" if last.best is None else f"{_count(last.best)} are enough so far"
            status.update(f"try {last.number}: {_count(last.size)} in fp32, error {last.error:.3g}; {best}")

        yield show
