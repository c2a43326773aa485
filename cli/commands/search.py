"""``numc search``: the cheapest arithmetic of a model that keeps a metric within a tolerance of fp32."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from numc.cli import output
from numc.cli.commands.compare import command_line, split_list
from numc.cli.grouped import grouped
from numc.cli.live import Opened, open_option
from numc.cli.samples import Samples, samples_options
from numc.cli.source import check_model, fixed_options
from numc.support.arguments import Fixed
from numc.support.errors import NumcError, quoted

if TYPE_CHECKING:
    from numc.studies.search.driver import Trial
    from numc.studies.search.found import Search

_EPILOG = """\b
The space is one of widths, eXmY by default, or of operators. Every other sample of the data is
kept out of the search and reported; --report-data gives others.
Ctrl-C leaves what is finished in the folder; --resume FOLDER with the same command goes on.

\b
Examples:
  numc search model.onnx --data x.npz --labels x.npz --tolerance 1% -o found
  numc search model.onnx --data x.npz --operators bf16_1_1,bf16_1_2,fp32 --objective area --tolerance 1e-4
  numc search gpt2/ --tokens val.bin --length 512 --metric perplexity --tolerance 1% --by kind
  numc search model.onnx --data x.npz --tolerance 0.01 --sampler tpe --trials 100 --workers 4 \\
    --space m=2..4 --settings 'fma = fma(a=bfp(16,3,{m}),b=bfp(16,3,{m}),acc=fp32)' --objective passes
"""


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The files of the samples that are only reported."""

    report_data: tuple[str, ...]
    report_tokens: str | None
    report_labels: str | None

    def read(self, model: str, samples: Samples) -> dict[str, Any]:
        """Return the arrays of both by the names that numc.search has for them. Raises NumcError."""
        arrays: dict[str, Any] = {}
        if samples.is_given:
            arrays["data"], arrays["labels"] = samples.read(model)
        if self.report_tokens is not None and samples.tokens is None:
            raise NumcError("--report-tokens needs --tokens and --length, the windows of the samples that decide")
        reported = replace(
            samples, data=self.report_data, tokens=self.report_tokens, labels=self.report_labels,
            **({} if self.report_tokens is not None else {"length": None, "stride": None}),
        )  # fmt: skip
        if reported.is_given:
            arrays["report_data"], arrays["report_labels"] = reported.read(model)
        return arrays


@click.command("search", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2|FOLDER")
@samples_options
@grouped(
    "reported",
    Reported,
    click.option(
        "--report-data", multiple=True, metavar="[NAME=]FILE", help="Samples that are only reported. Repeatable."
    ),
    click.option("--report-tokens", metavar="FILE", help="Instead of --report-data: tokens, in windows of --length."),
    click.option("--report-labels", metavar="FILE", help="The labels of --report-data."),
)
@click.option(
    "--tolerance", required=True, metavar="NUMBER|N%", help="By how much the metric may be worse than fp32's."
)
@click.option("--metric", metavar="NAME", help="top1, top5, mse, cosine or perplexity.")
@click.option("--output-name", metavar="NAME", help="The output that is judged; default: the first.")
@click.option(
    "--evaluate", metavar="MODULE:FUNCTION", help="A function of policy and split, instead of data and metric."
)
@click.option("--training", is_flag=True, help="The function trains: search the backward pass, too.")
@click.option("--space", metavar="WIDTHS", help="Widths; default: e=2..8 m=1..23.")
@click.option("--operators", multiple=True, metavar="FMA,...", help="FMA operators, instead of widths. Repeatable.")
@click.option("--settings", metavar="SETTINGS", help="Of a policy, with {e}; default: fma = fmacs(e{e}m{m}).")
@click.option("--by", default="layer", metavar="layer|kind|role|model", help="What shares a choice.", show_default=True)
@click.option("--only", multiple=True, metavar="NAME,...", help="Search these layers, kinds or roles only. Repeatable.")
@click.option(
    "--objective", default="bytes", metavar="NAME", help="bytes, area, passes, latency, energy.", show_default=True
)
@click.option("--machine", metavar="FILE|NAME", help="For latency and energy: `numc list machines`.")
@click.option("--sampler", metavar="NAME", help="procedure, greedy, tpe or nsga2.")
@click.option("--trials", type=click.IntRange(1), help="Propose no more after so many; for tpe and nsga2 64.")
@click.option("--proposals", type=click.IntRange(1), default=8, help="Of tpe and nsga2 at once.", show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Of tpe and nsga2.", show_default=True)
@click.option("--batch", type=click.IntRange(1), default=64, help="Samples that run at once.", show_default=True)
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of a program; no bit depends on it.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Evaluate in so many processes of this machine.")
@click.option("--scheduler", metavar="ADDRESS", help="Evaluate on the workers of this scheduler of Dask.")
@click.option("-o", "--output", "folder", metavar="FOLDER", help="Write the policy, the evaluations and a page there.")
@click.option("--resume", metavar="FOLDER", help="Go on with the search in this folder.")
@open_option
@fixed_options
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
@click.pass_context
def search_command(
    context: click.Context,
    /,
    model: str,
    samples: Samples,
    tolerance: str,
    operators: tuple[str, ...],
    only: tuple[str, ...],
    output_name: str | None,
    workers: int | None,
    folder: str | None,
    resume: str | None,
    fixed: Fixed,
    want_json: bool,
    **options: Any,
) -> None:
    """Find the cheapest arithmetic of every layer whose metric stays within a tolerance of fp32."""
    reported: Reported = options.pop("reported")
    page = Opened.of_folder(options.pop("opened"), resume or folder)
    check_model(model)
    if folder is not None and resume is not None:
        raise NumcError("--output starts a search, --resume goes on with one: leave one of them out")
    known: dict[str, Any] = {
        "tolerance": _number(tolerance),
        "operators": [operator for text in operators for operator in split_list("--operators", text)],
        "only": [name for text in only for name in split_list("--only", text)],
        **reported.read(model, samples),
        "workers": workers or 0,
        "folder": resume or folder,
        "resume": resume is not None,
        "shapes": fixed,
        "output": output_name,
    }
    if options["evaluate"] is not None and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # the function may be in a file of this folder
    from numc.studies.search.search import Interrupted, search

    try:
        with _bar(options["trials"]) as bar:
            known |= {"commands": (command_line(context, model),), "progress": _also(page.show, bar)}
            result = search(model, **known, **options)
    except Interrupted as stopped:
        kept = (
            f"kept in {stopped.folder}: --resume {stopped.folder}"
            if stopped.folder
            else "not kept: --output keeps them"
        )
        output.say(f"numc: interrupted: {stopped.trials} candidates are evaluated and {kept}", err=True)
        context.exit(130)
    page.show()
    if want_json:
        output.as_json(result.as_json())
    else:
        _show(result, resume or folder)
    if result.best is None:
        output.say(
            f"numc: nothing in the space keeps {result.metric.name} within {tolerance} of fp32: widen it", err=True
        )
        context.exit(1)


def _number(text: str) -> float:
    """Return a tolerance such as 0.01 or 1%. Raises NumcError for anything else."""
    digits = text.removesuffix("%")
    try:
        return float(digits) / (1 if digits == text else 100)
    except ValueError:
        raise NumcError(f"--tolerance {quoted(text)}: want a number such as 0.01 or 1%") from None


Told = Callable[[int, "Trial | None", "float | None"], None]


def _also(show: Callable[[], None], bar: Told | None) -> Told:
    """A progress that shows the page, too."""

    def told(count: int, best: Trial | None, fp32: float | None) -> None:
        show()
        if bar is not None:
            bar(count, best, fp32)

    return told


@contextlib.contextmanager
def _bar(trials: int | None) -> Iterator[Told | None]:
    """Show a progress bar with the best so far on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=trials)

        def told(count: int, best: Trial | None, fp32: float | None) -> None:
            known = "nothing holds yet"
            if best is not None:
                cost = f"{best.cost:.6g}" if not fp32 else f"{best.cost / fp32:.3g} of fp32's cost"
                known = f"best: {cost} at {best.value:.5g}"
            bar.update(task, completed=count, description=f"{count} evaluated, {known}")

        yield told


def _show(found: Search, folder: str | None) -> None:
    """Print the table of rows, then that of the groups, then what was written."""
    text = found.metric.text
    splits = [f"{found.metric.name}, {split} split" for split in ("search", "report")]
    output.table(
        ["arithmetic", found.settings["objective"], "of fp32", *splits],
        [
            [
                row.name,
                "-" if row.cost is None else f"{row.cost:.6g}",
                "-" if (ratio := found.ratio(row.cost)) is None else f"{ratio:.3f}",
                text(row.search),
                text(row.report),
            ]
            for row in found.rows
        ],
    )
    if found.best is not None:
        click.echo()
        values = found.values(found.best)
        axes = [axis.name for axis in found.space.axes]
        rows = [[name, f"{found.shares[name]:.2%}", *(its[a] for a in axes)] for name, its in values.items()]
        output.table([found.settings["by"], "FMAs", *axes], rows)
    lines = [f"{len(found.trials)} candidates, {len(found.front())} of them on the Pareto front"]
    lines += [f"{split} split: {count} samples" for split, count in found.samples.items()]
    if (worse := found.missed()) is not None:
        lines.append(f"on the report split {found.metric.name} is worse by {worse:.4g}: more than the tolerance")
    if folder is not None:
        lines.append(f"wrote {folder}")
    for line in lines:
        output.say(line, err=not sys.stdout.isatty())
