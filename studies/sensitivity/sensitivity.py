"""numc.sensitivity: which part of a narrow arithmetic costs a model how much."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numc.compiler.options import Options
from numc.numerics.grammar import parse_fma
from numc.studies.compare import compare, named_model
from numc.studies.hardware.contractions import contractions
from numc.studies.report.write import check_installed
from numc.studies.results import Result
from numc.studies.search.groups import groups, shares
from numc.studies.sensitivity.changes import WIDTHS, changes
from numc.studies.sensitivity.charts import charts
from numc.studies.sensitivity.records import Part, SensitivityData
from numc.support.arguments import checked, checked_fixed, checked_integer
from numc.support.environment import in_default_environment
from numc.support.files import write_whole

if TYPE_CHECKING:
    import numpy.typing as npt


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Sensitivity(SensitivityData):
    """The outcome of `numc.sensitivity` and of `numc.training_sensitivity`.

    model: its name. fma: the narrow operator. samples: how many there were. metrics: names, the most important first.
    fp32: their values in fp32. parts: everything first, then what was narrow alone, in program order. measured: what
    errors are of, the ``outputs`` or the ``gradients`` of all parameters, which have no metrics.
    """

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page that needs no other file.

        Raises NumcError if the file cannot be written, or if jinja2 is not installed.
        """
        check_installed("jinja2")
        from numc.studies.sensitivity.page import render

        text = render(self)
        write_whole(Path(path), lambda file: file.write(text.encode()))

    def write_plots(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write each chart as .png and .svg into a folder, and return the names of the files.

        Raises NumcError if a file cannot be written, or if the packages of ``numc[report]`` are not installed.
        """
        check_installed("matplotlib", "resvg_py")
        from numc.studies.report.plots import draw

        return draw(charts(self), Path(folder))


@in_default_environment
def sensitivity(
    model: Any,
    data: Any,
    *,
    fma: str,
    labels: npt.ArrayLike | None = None,
    metrics: Sequence[str] = (),
    widths: Sequence[int] = WIDTHS,
    batch: int = 64,
    threads: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Sensitivity:
    """Say what each part of a narrow arithmetic does to the outputs of a model, of which the rest stays in fp32.

    Narrow alone are each layer, each kind and role of layers if there are several, and of the operator A, B and both;
    then the operator has accumulators of other widths. model: as for numc.compile. data, labels, metrics, batch,
    threads: as for numc.compare. fma: the operator. widths: the significand bits of accumulators, 1 to 23. shapes: as
    for numc.compile. progress: called with what is being done, and the fraction of all work that is done.
    Raises NumcError if the model, the data or an option is not valid, and Interrupted for Ctrl-C.
    """
    op = parse_fma(fma)
    for width in checked(widths, "widths", (list, tuple), "a sequence of significand bits"):
        checked_integer(width, "a width of widths", 1, 23)
    name, imported = named_model(model, None, checked_fixed(shapes, None), None, purpose="sensitivity")
    layers = [decision.layer for decision in contractions(imported, Options(), training=False)]
    tried = changes(op, layers, widths)
    texts = {change: str(Options(policy=change.policy, pack_weights=True).resolved()[0]) for change in tried}
    comparison = compare(
        imported, data, fmas=("fp32",), policies={f"{n}": text for n, text in enumerate(dict.fromkeys(texts.values()))},
        labels=labels, metrics=metrics, batch=batch, threads=threads, statistics=False, progress=progress,
    )  # fmt: skip
    results: dict[str, Result] = {result.policy: result for result in comparison.results}
    of_groups = {by: shares(layers, groups(layers, by), by) for by in ("layer", "kind", "role")}
    parts = tuple(
        Part(
            what=change.what,
            name=change.name,
            policy=change.policy,
            share=of_groups.get(change.what, {}).get(change.name),
            error=results[texts[change]].error,
            metrics=results[texts[change]].metrics,
        )
        for change in tried
    )
    return Sensitivity(
        model=name,
        fma=str(op),
        samples=comparison.samples,
        metrics=comparison.metrics,
        fp32=comparison.results[0].metrics,
        parts=parts,
    )
