"""``numc explain --sensitivity``: its options, and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from numc.cli import output
from numc.cli.grouped import grouped
from numc.cli.inputs import gather, read_data, read_labels
from numc.cli.report_places import check_page, check_plots
from numc.cli.source import Arithmetic, check_model, program_from
from numc.support.errors import NumcError, quoted

if TYPE_CHECKING:
    from numc.studies.sensitivity.sensitivity import Sensitivity

_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a sensitivity."""

    sensitivity: bool
    training: bool
    data: tuple[str, ...]
    labels: str | None
    metrics: tuple[str, ...]
    widths: str | None
    report: str | None
    plots: str | None

    def check_unused(self, drawn: bool) -> None:
        """Raise NumcError for an option that is given without --sensitivity. drawn: whether --data is of a graph."""
        options = {
            "--data": () if drawn else self.data,
            "--labels": self.labels,
            "--metric": self.metrics,
            "--widths": self.widths,
        }
        more = {"--report": self.report, "--plots": self.plots, "--training": self.training or None}
        for option, value in {**options, **more}.items():
            if value not in (None, ()):
                raise NumcError(f"{option} is about a sensitivity: ask for one with --sensitivity")

    def read_widths(self) -> tuple[int, ...] | None:
        """Return the widths of accumulators, None for the default. Raises NumcError."""
        if self.widths is None:
            return None
        listed: list[int] = []
        for part in self.widths.split(","):
            low, dots, high = part.partition("..")
            ends = [low, high] if dots else [low, low]
            if not all(end.isdecimal() and 1 <= int(end) <= 23 for end in ends) or int(ends[0]) > int(ends[1]):
                raise NumcError(f"--widths {quoted(self.widths)}: want significand bits from 1 to 23: 3,7,23 or 3..10")
            listed += range(int(ends[0]), int(ends[1]) + 1)
        return tuple(dict.fromkeys(listed))


sensitivity_options = grouped(
    "asked",
    Asked,
    click.option("--sensitivity", is_flag=True, help="Print what each layer, role, operand and width does alone."),
    click.option(
        "--training", is_flag=True, help="Of --sensitivity: of the gradients of one step, of a .pt2; needs --labels."
    ),
    click.option(
        "--data",
        multiple=True,
        metavar="[NAME=]FILE",
        help="Of --sensitivity and --graph: .npz or .npy; default: random inputs.",
    ),
    click.option("--labels", metavar="FILE", help="Of --sensitivity: class numbers, or values like the output's."),
    click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Of --sensitivity: as in numc compare."),
    click.option("--widths", metavar="3..10,23", help="Of --sensitivity: significand bits of accumulators."),
    click.option("--report", metavar="FILE.html", help="Write the sensitivity as a page."),
    click.option("--plots", metavar="FOLDER", help="Write its charts as .png and .svg."),
)


def print_sensitivity(
    model: str, arithmetic: Arithmetic, asked: Asked, *, threads: int | None, batch: int | None, want_json: bool
) -> None:
    """Print, and draw, what each part of an operator does to a model. Raises NumcError."""
    check_model(model)
    if arithmetic.fma is None or arithmetic.policy is not None or arithmetic.ops is not None:
        raise NumcError("--sensitivity is about one operator, of which the rest is fp32: give --fma, and no other")
    if asked.report is not None:
        check_page(asked.report)
    if asked.plots is not None:
        check_plots(asked.plots)
    widths = asked.read_widths()
    tried = {} if widths is None else {"widths": widths}
    with output.progress_bar() as progress:
        if asked.training:
            outcome = _of_training(model, arithmetic.fma, asked, batch or _BATCH, {**tried, "progress": progress})
        else:
            outcome = _of_outputs(model, arithmetic, asked, batch, {**tried, "threads": threads, "progress": progress})
    if asked.report is not None:
        outcome.write_report(asked.report)
    if asked.plots is not None:
        outcome.write_plots(asked.plots)
    if want_json:
        output.as_json(outcome.as_json())
        return
    _show(outcome)
    for path in filter(None, (asked.report, asked.plots)):
        output.say(f"wrote {path}", err=not sys.stdout.isatty())


def _of_outputs(
    model: str, arithmetic: Arithmetic, asked: Asked, batch: int | None, given: Mapping[str, Any]
) -> Sensitivity:
    """Measure what each part does to the outputs. given: other arguments of `numc.sensitivity`. Raises NumcError."""
    data, labels = _samples(model, arithmetic, asked, batch)
    from numc.studies.sensitivity.sensitivity import sensitivity

    fixed: Any = arithmetic.fixed
    assert arithmetic.fma is not None
    return sensitivity(
        model, data, fma=arithmetic.fma, labels=labels, metrics=asked.metrics, batch=batch or _BATCH,
        shapes=fixed, **given,
    )  # fmt: skip


def _of_training(model: str, fma: str, asked: Asked, batch: int, given: Mapping[str, Any]) -> Sensitivity:
    """Measure what each part does to the gradients of one step. given: as for `_of_outputs`. Raises NumcError."""
    if asked.metrics:
        raise NumcError("--training is about errors of gradients: leave --metric out")
    if not model.endswith(".pt2"):
        raise NumcError(f"--training of {quoted(model)}: want an exported program of PyTorch (.pt2)")
    if not asked.data or asked.labels is None:
        raise NumcError("--training is about a step, whose loss has labels: give --data and --labels")
    data, labels = read_data(asked.data), read_labels(asked.labels)[:batch]
    step = {name: each[:batch] for name, each in data.items()} if isinstance(data, Mapping) else data[:batch]
    from numc.studies.sensitivity.training import sensitivity_of_file

    return sensitivity_of_file(model, step, labels, fma=fma, **given)


def _samples(model: str, arithmetic: Arithmetic, asked: Asked, batch: int | None) -> tuple[Any, Any]:
    """The inputs and labels that are given, or random inputs."""
    if asked.data:
        return read_data(asked.data), None if asked.labels is None else read_labels(asked.labels)
    if asked.labels is not None:
        raise NumcError("--labels are of samples: give --data, too")
    program = program_from(model, Arithmetic(fixed=arithmetic.fixed))
    return gather(program, (), 0, batch or _BATCH), None


def _show(found: Sensitivity) -> None:
    from numc.studies.metrics import METRICS

    rows = [
        [
            part.what,
            part.name,
            "-" if part.share is None else f"{part.share:.2%}",
            f"{part.error:.1e}" if part.error else "0",
            *(METRICS[name].text(value) for name, value in part.metrics.items()),
        ]
        for part in found.parts
    ]
    rows.insert(0, ["nothing", "fp32", "-", "0", *(METRICS[n].text(value) for n, value in found.fp32.items())])
    error = "error of gradients" if found.measured == "gradients" else "error"
    output.table(["narrow", "name", "FMAs", error, *found.metrics], rows)
