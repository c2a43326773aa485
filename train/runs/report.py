"""The report of one training or of several: a page, plots and JSON, from the folders that they left behind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numc.studies.report.charts import Chart, Exponents, distinct
from numc.studies.report.write import check_installed
from numc.support import notebook
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError
from numc.support.files import checked_path, write_whole
from numc.support.json_values import json_values
from numc.train.runs import charts, groups, number_charts
from numc.train.runs.read import COUNTS, Run, read_run
from numc.train.runs.summary import Fact, last_values, summary
from numc.train.runs.thin import stretches


@in_default_environment
@dataclass(frozen=True)
class TrainingReport:
    """The trainings that `report` read, which can show themselves."""

    runs: tuple[Run, ...]

    @property
    def notes(self) -> list[str]:
        """The faults of the folders, a line for each file that is missing or damaged."""
        return [*(f"{run.name}/{note}" for run in self.runs for note in run.notes), *groups.notes(self._groups)]

    @property
    def _groups(self) -> dict[str, list[Run]]:
        return groups.named(self.runs)

    def groups(self) -> list[groups.Row]:
        """Return the last metrics of each group of runs, and their paired differences to those of the first group."""
        return groups.rows(self._groups, {run.name: last_values(run) for run in self.runs})

    def summary(self) -> dict[str, list[Fact]]:
        """Return the main results of each run, by its name."""
        return {run.name: summary(run) for run in self.runs}

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the main results of each run."""
        facts = self.summary()
        columns = list(dict.fromkeys(fact.about for its in facts.values() for fact in its))
        answers = {name: {fact.about: fact.answer for fact in its} for name, its in facts.items()}
        rows = [[name, *(its.get(column, "-") for column in columns)] for name, its in answers.items()]
        return notebook.card("Trainings", notebook.table(["run", *columns], rows), about=f"{len(rows)} folders")

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write the page as one HTML file that needs no other file.

        Raises NumcError if the file cannot be written, or if the packages of ``numc[report]`` are not installed.
        """
        check_installed("jinja2")
        from numc.train.runs.page import render

        text = render(self.runs, self.notes, self.groups())
        write_whole(checked_path(path), lambda file: file.write(text.encode()))

    def write_plots(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the plots as .png and .svg into a folder, and return the names of the files.

        Swamping has plots for all contractions and for each role, denormals for each kind of tensors; those of single
        layers are on the page only.
        Raises NumcError if a file cannot be written, or if the packages of ``numc[report]`` are not installed.
        """
        check_installed("matplotlib", "resvg_py")
        from numc.studies.report.plots import draw

        return draw(self._charts(), checked_path(folder))

    def _charts(self) -> list[Chart | Exponents]:
        runs = self.runs
        all_charts: list[Chart | Exponents] = [chart for chart in (charts.loss(runs),) if chart is not None]
        all_charts += [*charts.metrics(runs), *charts.values(runs)]
        for choice in number_charts.swamping(runs, nonzero=False):
            all_charts += choice.charts if choice.group != "layers" else ()
        all_charts += [chart for count in COUNTS for chart in number_charts.denormals(runs, count)]
        return distinct([*all_charts, *number_charts.ranges(runs), *number_charts.exponents(runs)])

    def as_json(self) -> dict[str, Any]:
        """Return all that the page shows, unthinned, in types that JSON has; numbers that are not finite are strings.

        ``swamping`` has, for every epoch and contraction, the fractions of additions without swamping at 0 to 24 bits.
        """
        rows = [json_values(row.as_json()) for row in self.groups()]
        return {"runs": [json_values(_run(run)) for run in self.runs], "groups": rows}


@in_default_environment
def report(*runs: str | os.PathLike[str]) -> TrainingReport:
    """Read what trainings left behind, to lay them over one another on a page.

        numc.train.report("runs/fp32", "runs/dynamic").write_report("run.html")

    runs: folders, see RunFolder. What is missing or damaged in them is in the `notes` of the result. PyTorch is not
    needed. Runs of a group are drawn as their mean in a band. Raises NumcError for a folder without any file of a
    training, or one that is given twice, and for runs of one group that have one seed or other configurations.
    """
    if not runs:
        raise NumcError("report: got no run, want at least one folder of a training, see numc.train.RunFolder")
    trainings, names = [], set[str]()
    for folder in runs:
        run = read_run(folder)
        if run.name in names:  # folders of the same name in different places
            run.name = str(Path(folder))
        if run.name in names:
            raise NumcError(f"{run.name}: given twice: name each run once")
        names.add(run.name)
        trainings.append(run)
    groups.named(trainings)
    return TrainingReport(tuple(trainings))


def _run(run: Run) -> dict[str, Any]:
    shares, of = charts.fma_shares(run)
    return {
        "name": run.name,
        "notes": run.notes,
        "origin": None if run.origin is None else vars(run.origin),
        "seconds": run.seconds,
        "steps": len(run.decisions),
        "loss": _by_step(charts.loss_of(run)),
        "metrics": {name: _by_step(charts.metric_of(run, name)) for name in charts.metric_names([run])},
        "values": {name: _by_step(charts.value_of(run, name)) for name in charts.value_names([run])},
        "stretches": [{"first": a, "last": b, "used": used} for a, b, used in stretches(run.decisions)],
        "step_shares": charts.step_shares(run),
        "fma_shares": {"of": of, "shares": shares},
        "decisions": [decision.to_json() for decision in run.decisions if decision.reason],
        "swamping": _swamping(run),
        "denormals": {
            count: [
                {"layer": layer, "tensor": tensor, "fraction": fraction, "epoch": epoch, "step": step}
                for layer, tensor, fraction, epoch, step in number_charts.peaks(run, count)
            ]
            for count in COUNTS
        },
        "exponents": [
            {
                "step": seen.step,
                "kinds": {
                    kind: {"smallest": items[0][0], "largest": items[-1][0], "used": len(items)}
                    for kind, its in seen.kinds.items()
                    if (items := its.exponents.items())
                },
            }
            for seen in run.observed or run.denormals
        ],
    }


def _by_step(points: list[tuple[float, float]]) -> list[tuple[int, float]]:
    return [(int(step), value) for step, value in points]


def _swamping(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "epoch": epoch,
            "layer": row.layer,
            "role": row.role,
            "fma": row.fma,
            "all": [row.without_swamping(k) for k in range(25)],
            "nonzero": [row.without_swamping(k, nonzero=True) for k in range(25)],
        }
        for epoch, statistics in sorted(run.epochs.items())
        for row in statistics.rows
        if row.swamping is not None
    ]
