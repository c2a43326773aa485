"""``numc compare``: compare arithmetics of a model on the same data, in a table and on a page."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numc.cli import complete, output
from numc.cli.grouped import grouped
from numc.cli.live import Opened, open_option
from numc.cli.report_places import check_page, check_plots
from numc.cli.samples import Samples, samples_options
from numc.cli.source import check_model, fixed_options
from numc.support.arguments import Fixed, checked_text
from numc.support.errors import NumcError, quoted
from numc.support.files import check_writable

if TYPE_CHECKING:
    from numc.studies.comparison import Comparison


_EPILOG = """\b
fp32 is always compared, as the first. FILE:ARRAY is one array of an .npz file; without
:ARRAY, --data takes the inputs' names in it, --labels the array called labels.
Ctrl-C leaves what is finished; the same command goes on from there.

\b
Examples:
  numc compare model.onnx --data inputs.npz --report out.html
  numc compare model.onnx --data x=test.npz:images --labels test.npz:labels --metric top1,top5
  numc compare model.onnx --fma 'mp,bf16_2_2{3},fma(a=bf16,acc=e8m10)' --policy mixed.policy --data x.npy --json
  numc compare model.onnx --fma "w4a8=fma(a=e4m3fn,b=mxfp4,acc=fp32),w8a8=mxfp8" --data x.npy --report out.html
  numc compare gpt2/ --tokens val.bin --length 512 --stride 256 --metric perplexity --fma mp,bf16_1_1 --no-stats
"""

_NOT_KEPT = "not kept: --report or --results FILE keeps them"


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The arithmetics that are compared."""

    fmas: tuple[str, ...]
    policies: tuple[str, ...]

    def read(self) -> dict[str, Any]:
        """Return them by the names that numc.compare has for them, whose default stands for none. Raises NumcError."""
        fmas: dict[str, str] = {}
        for name, operator in (named(part) for text in self.fmas for part in split_list("--fma", text)):
            if fmas.setdefault(name, operator) != operator:
                raise NumcError(f"--fma {quoted(name)}: names two operators, want a name for each")
        return {"fmas": fmas, "policies": self.policies} if fmas or self.policies else {}


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Whether statistics are collected, and of how many additions."""

    stats: bool
    sample: str | None

    def check(self) -> None:
        """Raise NumcError for options that exclude each other."""
        if self.sample is not None and not self.stats:
            raise NumcError("--sample is about statistics: leave it or --no-stats out")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where results go."""

    report: str | None
    opened: bool
    plots: str | None
    results: str | None

    def check(self) -> None:
        """Raise NumcError if an output could not be written, before the work starts."""
        if self.opened and self.report is None:
            raise NumcError("--open is about a page: ask for one with --report")
        if self.report is not None:
            check_page(self.report)
        if self.plots is not None:
            check_plots(self.plots)
        if (kept := self.kept()) is not None:
            check_writable(Path(kept))

    def kept(self) -> str | None:
        """Return the file of finished results, by default beside the report."""
        return self.results or (f"{Path(self.report).with_suffix('')}.results.json" if self.report else None)


@click.command("compare", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2|FOLDER")
@grouped(
    "columns",
    Columns,
    click.option(
        "--fma",
        "fmas",
        multiple=True,
        metavar="[NAME=]FMA,...",
        shell_complete=complete.operators,
        help="Operators. Repeatable.",
    ),
    click.option("--policy", "policies", multiple=True, metavar="FILE", help="One more: a policy. Repeatable."),
)
@samples_options
@click.option("--metric", "metrics", multiple=True, metavar="NAME,...", help="top1, top5, mse, cosine, perplexity.")
@click.option("--output", "output_name", metavar="NAME", help="The output that is compared; default: the first.")
@click.option("--batch", type=click.IntRange(1), default=64, help="Samples that run at once.", show_default=True)
@click.option("--threads", type=click.IntRange(1, 1024), help="Number of threads; no bit depends on it.")
@grouped(
    "counting",
    Counting,
    click.option("--stats/--no-stats", default=True, help="Count swamping and exponents, which takes another run."),
    click.option("--sample", metavar="1/N", help="Count additions of that fraction of the steps of k."),
)
@grouped(
    "places",
    Places,
    click.option("--report", metavar="FILE.html", help="Write a page, again after every arithmetic."),
    open_option,
    click.option("--plots", metavar="FOLDER", help="Write every plot as .png and .svg."),
    click.option("--results", metavar="FILE", help="Keep finished results there, not beside the report."),
)
@fixed_options
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
@click.pass_context
def compare_command(
    context: click.Context,
    model: str,
    columns: Columns,
    samples: Samples,
    metrics: tuple[str, ...],
    output_name: str | None,
    batch: int,
    threads: int | None,
    counting: Counting,
    places: Places,
    fixed: Fixed,
    want_json: bool,
) -> None:
    """Run a model in several arithmetics on the same data, and show how far each is from fp32 and what it costs."""
    if not os.path.isdir(model):
        check_model(model)
    counting.check()
    places.check()
    results = places.kept()
    names = [name for text in metrics for name in split_list("--metric", text)]
    from numc.studies.metrics import check_names

    check_names(names)  # before a tokenizer is read
    data, labels = samples.read(model)
    compared = columns.read()
    from numc.studies.compare import Interrupted, compare

    page = Opened(Path(places.report) if places.opened and places.report is not None else None)
    try:
        with output.progress_bar() as progress, _following(places.report, page) as follow:
            comparison = compare(
                model, data, **compared, labels=labels, metrics=names, output=output_name,
                batch=batch, threads=threads, statistics=counting.stats, sample=counting.sample or 1, results=results,
                shapes=fixed,
                commands=(command_line(context, model),), progress=progress, partial=follow,
            )  # fmt: skip
    except Interrupted as stopped:
        kept = f"kept in {stopped.path}: the same command goes on from there" if stopped.path else _NOT_KEPT
        finished = f"{stopped.finished} of {stopped.total} arithmetics are finished"
        output.say(f"numc: interrupted: {finished} and {kept}", err=True)
        context.exit(130)
    if places.report is not None:
        comparison.write_report(places.report)
        page.show()
    if places.plots is not None:
        comparison.write_plots(places.plots)
    if want_json:
        output.as_json(comparison.as_json())
    else:
        _show(comparison, places.report, places.plots)
    peer = comparison.onnxruntime
    if peer is not None and not peer.holds:
        click.echo("numc: fp32 does not agree with onnxruntime: do not trust the rest", err=True)
        context.exit(1)


@contextlib.contextmanager
def _following(report: str | None, page: Opened) -> Iterator[Callable[[Comparison], None] | None]:
    """Give what writes the page of an unfinished comparison, and opens it; the page says if the work is stopped."""
    if report is None:
        yield None
        return
    from numc.studies.report.live_page import LivePage

    with LivePage(Path(report)) as live:

        def follow(so_far: Comparison) -> None:
            from numc.studies.report.comparison_page import render  # needs jinja2

            names = ", ".join(result.name for result in so_far.results)
            live.follow(lambda stopped: render(so_far, f"Finished: {names}.", stopped=stopped))
            page.show()

        yield follow


def split_list(option: str, text: str) -> list[str]:
    """Split a text at the commas outside of brackets. Raises NumcError for an empty part."""
    parts, depth = [""], 0
    for character in checked_text(text, option, 20_000):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    if not all(part.strip() for part in parts):
        raise NumcError(f"{option} {quoted(text)}: has an empty part: want names with one comma between them")
    return [part.strip() for part in parts]


def named(text: str) -> tuple[str, str]:
    """Return the name and the operator of NAME=OPERATOR; an operator without a name is its own."""
    name, equals, operator = text.partition("=")
    return (name.strip(), operator.strip()) if equals and "(" not in name and operator.strip() else (text, text)


def command_line(context: click.Context, model: str) -> str:
    """Return the command line that repeats what the command does."""
    words = ["numc", context.info_name or "", model]
    for option in context.command.params:
        value = context.params[option.name or ""]
        if not isinstance(option, click.Option) or value == option.default or value in (None, ()):
            continue
        if option.is_flag:
            words.append(option.secondary_opts[0] if option.secondary_opts and not value else option.opts[0])
            continue
        for argument in value if isinstance(value, tuple) else (value,):
            words += [option.opts[0], str(argument)]
    return shlex.join(words)


def _show(found: Comparison, *written: str | None) -> None:
    from numc.studies.metrics import METRICS

    shares = [name for name in found.metrics if name in found.results[0].shares]
    columns = [
        "arithmetic",
        *found.metrics,
        "error",
        "breaks at",
        "time",
        "weights",
        "gates",
        "area",
        "iso-area",
        "packed",
        *(f"{name} minus fp32" for name in shares),
    ]
    rows = [
        [
            result.name,
            *(METRICS[name].text(value) for name, value in result.metrics.items()),
            f"{result.error:.1e}" if result.error else "0",
            "-" if result.breaks is None else result.breaks.name or result.breaks.position,
            f"{result.time:.2f}",
            result.weights,
            "-" if result.gates is None else f"{result.gates:.0f}",
            f"{result.area:.4g}",
            f"{result.iso_area:.4g}",
            result.packed,
            *("-" if result is found.results[0] else result.shares[name].difference_text for name in shares),
        ]
        for result in found.results
    ]
    output.table(columns, rows)
    peer = found.onnxruntime
    if peer is not None:
        from numc.studies.results import AGREES

        text = f"relative error {peer.error:.1e}, allowed {AGREES:g}; largest difference {peer.largest:.1e}"
        said = peer.note or f"fp32 against onnxruntime {peer.version}: {text}"
        output.say(said, err=not sys.stdout.isatty())
    for path in filter(None, written):
        output.say(f"wrote {path}", err=not sys.stdout.isatty())
