"""The outcome of numc.compare: the data of a comparison, and the ways to write it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from numc.studies.report.write import write_plots, write_report
from numc.studies.results import ComparisonData, Result
from numc.support import notebook
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError
from numc.support.json_values import parsed


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Comparison(ComparisonData):
    """Several arithmetics of one model on the same data; the first result is that of fp32.

    model: its name. samples: how many samples the data has. batch: how many of them ran at once. threads: the number of
    threads, None for all processors. metrics: the names of the metrics, the most important first. labels: "classes",
    "values", or "" if there were none. results: one for each arithmetic. sources: the SHA-256 of the model and of the
    data. versions: of the packages that took part. commands: command lines that reproduce the comparison.
    """

    def _drawn(self) -> str:
        from numc.studies.report.comparison_charts import accuracy
        from numc.studies.report.svg import Drawing

        chart = Drawing(accuracy(self), "points", height=220.0).svg(470)
        return notebook.on_white(chart) if len(self.results) > 1 else ""

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML file that needs no other file.

        Raises NumcError if the file cannot be written, or if the packages of ``numc[report]`` are not installed.
        """
        write_report(self, Path(path))

    def write_plots(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every plot as .png and .svg into a folder, and return the names of the files.

        Raises NumcError if a file cannot be written, or if the packages of ``numc[report]`` are not installed.
        """
        return write_plots(self, Path(folder))

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Return the comparison that `to_json` wrote. Raises NumcError for any other text."""
        try:
            values = parsed(text)
            values["results"] = tuple(Result.of_json(result) for result in values["results"])
            values["metrics"], values["commands"] = tuple(values["metrics"]), tuple(values["commands"])
            return cls(**values)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NumcError("not the JSON of a comparison: want what Comparison.to_json wrote") from None
