"""The charts of what happens to numbers in trainings: swamping, denormals and exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from numc.compiler.arrays.statistics import LayerStatistics, Statistics
from numc.numerics.formats import Format
from numc.numerics.grammar import parse_operand_conversion
from numc.studies.report.charts import (
    Chart,
    Exponents,
    Rule,
    Series,
    accumulator_bits,
    exponents_of,
    linear,
    slug,
    swamping_axes,
)
from numc.train.runs.charts import colour_of, line, steps
from numc.train.runs.read import KINDS, Observed, Run, Tensors
from numc.train.runs.thin import thin

EPOCHS = 12
"""At most so many epochs have a curve in a chart of swamping, among them the first and the last."""
_LAYER_BINS = 40
"""Parts of a curve of one layer, of which there are many."""


@dataclass(frozen=True)
class Choice:
    """Charts of one thing that a reader can choose. group: of its entry in the list of all, such as a role."""

    label: str
    charts: tuple[Chart, ...]
    group: str = ""


def swamping(runs: Sequence[Run], *, nonzero: bool) -> list[Choice]:
    """Return the charts of swamping of all contractions, of each role and of each layer: one for each run.

    Several runs have one more, with the last epoch of each.

    nonzero: of the additions of two numbers other than zero; else of all.
    """
    choices, every = [], [epoch for run in runs for epoch in run.epochs]
    for group, label, layer, role in _contractions(runs):
        charts = []
        for run in runs:
            name = f"swamping-{run.name}-{label}"
            chart = _swamping(run, layer, role, nonzero=nonzero, name=name, first=min(every), last=max(every))
            if chart is not None:
                charts.append(chart)
        if len(charts) > 1:
            charts.append(_last(runs, charts, f"swamping-last-{label}"))
        if charts:
            choices.append(Choice(label, tuple(charts), group))
    return choices


def _last(runs: Sequence[Run], charts: Sequence[Chart], name: str) -> Chart:
    """Return the last lines of charts in one, in the colours of the runs."""
    colours = {run.name: colour_of(runs, n) for n, run in enumerate(runs)}
    lines = (replace(c.series[-1], label=f"{c.title}, {c.series[-1].label}", colour=colours[c.title]) for c in charts)
    return replace(charts[0], name=slug(name), title="last epoch of each", series=tuple(lines), rules=())


def _contractions(runs: Sequence[Run]) -> list[tuple[str, str, str | None, str | None]]:
    """Return all contractions together, those of each role, and each of them: group, label, layer and role."""
    rows = [
        row for run in runs for statistics in run.epochs.values() for row in statistics.rows if row.swamping is not None
    ]
    if not rows:
        return []
    roles = dict.fromkeys(row.role for row in rows if row.role)
    layers = dict.fromkeys((row.layer, row.role) for row in rows)
    return [
        ("", "all contractions", None, None),
        *(("roles", role, None, role) for role in roles if len(roles) > 1),
        *(("layers", layer or "without a name", layer, role) for layer, role in layers if len(layers) > 1),
    ]


def _swamping(
    run: Run, layer: str | None, role: str | None, nonzero: bool, name: str, first: int, last: int
) -> Chart | None:
    """first, last: the epochs at the ends of the scale of colours."""
    x, y = swamping_axes()
    series, bits = [], set[int]()
    for epoch in _spread_out(sorted(run.epochs), EPOCHS):
        its = run.epochs[epoch]
        curve = [its.without_swamping(k, nonzero=nonzero, layer=layer, role=role) for k in range(25)]
        points = tuple((float(k), 100 * share) for k, share in enumerate(curve) if share is not None)
        if points:
            position = (epoch - first) / max(1, last - first)
            series.append(
                Series(label=f"epoch {epoch}", points=points, colour=f"q{position:.3f}", shape=0, line=True, told=("",))
            )
            bits |= {accumulator_bits(row.fma) for row in _rows(its, layer, role) if row.swamping is not None}
    if not series:
        return None
    rules = tuple(Rule("x", k, f"k = {k}") for k in sorted(bits)[:3])
    return Chart(name=slug(name), title=run.name, x=x, y=y, series=tuple(series), rules=rules)


def _rows(found: Statistics, layer: str | None, role: str | None) -> Iterable[LayerStatistics]:
    return (row for row in found.rows if layer in (None, row.layer) and role in (None, row.role))


def _spread_out(every: Sequence[int], most: int) -> list[int]:
    """Return at most so many of a list, among them the first and the last."""
    if len(every) <= most:
        return list(every)
    return [every[round(n * (len(every) - 1) / (most - 1))] for n in range(most)]


def denormals(runs: Sequence[Run], count: str) -> list[Chart]:
    """Return a chart of the fraction of denormals over the steps for each kind of tensors; count: one of COUNTS."""

    def fraction(of: Tensors) -> float:
        return of.counts[count] / of.elements if of.elements else 0.0

    charts = [_percent(runs, kind, f"denormals-{count}-{kind}", lambda seen, kind=kind: fraction(seen.kinds[kind])  # type: ignore[misc]
                      if kind in seen.kinds else None) for kind in KINDS.values()]  # fmt: skip
    return [chart for chart in charts if chart is not None]


def layer_denormals(runs: Sequence[Run]) -> list[Choice]:
    """Return the charts of denormals after rounding of each layer, of its operands and its result."""
    tensors = dict.fromkeys(key for run in runs for seen in run.denormals for key in seen.most)
    by_layer: dict[str, list[Chart]] = {}
    for key in tensors:
        chart = _percent(runs, _tensor(key[1]), f"denormals-{key[0]}-{key[1]}",
                         lambda seen, key=key: seen.most.get(key, {}).get("rounded_subnormals"), _LAYER_BINS)  # type: ignore[misc]  # fmt: skip
        if chart is not None:
            by_layer.setdefault(key[0], []).append(chart)
    return [Choice(layer or "without a name", tuple(charts)) for layer, charts in by_layer.items()]


def _tensor(name: str) -> str:
    return {"a": "operand A", "b": "operand B"}.get(name, name)


def _percent(
    runs: Sequence[Run], title: str, name: str, fraction: Callable[[Observed], float | None], bins: int = 200
) -> Chart | None:
    series = []
    for number, run in enumerate(runs):
        points = [(float(seen.step), 100 * y) for seen in run.denormals if (y := fraction(seen)) is not None]
        if points:
            series.append(line(run.name, thin(points, bins), colour_of(runs, number), f"{title}, percent"))
    if not series:
        return None
    top = max(y for curve in series for _, y in curve.points)
    percent = linear("elements (%)", [0.0, top or 1.0], margin=0.0, parts=6)
    return Chart(name=slug(name), title=title, x=steps(runs), y=percent, series=tuple(series))


def peaks(run: Run, count: str) -> list[tuple[str, str, float, int, int]]:
    """Return the largest fraction of every tensor, the largest first: layer, tensor, fraction, epoch and step."""
    maxima: dict[tuple[str, str], tuple[float, int, int]] = {}
    for seen in run.denormals:
        for key, its in seen.most.items():
            if key not in maxima or its[count] > maxima[key][0]:
                maxima[key] = its[count], seen.epoch, seen.step
    rows = [(layer, tensor, *its) for (layer, tensor), its in maxima.items()]
    return sorted(rows, key=lambda row: -row[2])


def ranges(runs: Sequence[Run]) -> list[Chart]:
    """Return a chart of the smallest and the largest exponent over the steps for each kind of tensors."""
    charts = []
    for kind in KINDS.values():
        series, shown, rules = [], list[float](), set[int]()
        for number, run in enumerate(runs):
            colour = colour_of(runs, number)
            for side, which in ((0, "smallest"), (-1, "largest")):
                points = []
                for seen in run.observed or run.denormals:
                    its = seen.kinds.get(kind)
                    if its is not None and (items := its.exponents.items()):
                        points.append((float(seen.step), float(items[side][0])))
                        rules |= _smallest_normal(its.format)
                if points:
                    drawn = thin(points, 200)
                    shown += [y for _, y in drawn]
                    series.append(line(run.name, drawn, colour, f"{which} exponent"))
        if not series:
            continue
        near = [emin for emin in sorted(rules) if min(shown) - 24 < emin]
        y = linear("exponent", [*shown, *near], margin=0.06, parts=6)
        charts.append(
            Chart(
                name=f"exponents-{slug(kind)}",
                title=kind,
                x=steps(runs),
                y=y,
                series=tuple(series),
                rules=tuple(Rule("y", emin, f"2^{emin}: smallest normal") for emin in near),
            )
        )
    return charts


def _smallest_normal(conversion: str | None) -> set[int]:
    fmt = parse_operand_conversion(conversion).format if conversion else None
    return {fmt.emin} if isinstance(fmt, Format) else set()


def exponents(runs: Sequence[Run]) -> list[Exponents]:
    """Return the histograms of the exponents of all layers in the last observed epoch of each run."""
    charts = []
    for run in runs:
        if not run.epochs:
            continue
        epoch = max(run.epochs)
        chart = exponents_of(f"{run.name}", f"{run.name}, epoch {epoch}", run.epochs[epoch].rows)
        charts += [chart] if chart is not None else []
    return charts
