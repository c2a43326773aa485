"""The tables of the study, in Markdown: published rows beside those measured here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from cells import difference, markdown, spread
from copying import Copying
from published import TABLES, TIMES
from results import Results
from settings import BASE, BLOCKS, FACTORS, LOWS, MP, SWEPT, Dynamic
from tasks import Digits
from training import Outcome

from numc.train import speed_up

Task = Digits | Copying


@dataclass(frozen=True)
class Measure:
    """What is read off a run. best: 1 if more is better, -1 if less is. digits: after the point."""

    title: str
    of: Callable[[Outcome], float]
    best: int
    digits: int


def measures(task: Task) -> list[Measure]:
    """Return what the tables show of a network."""
    if isinstance(task, Digits):
        return [Measure("top-1 (%)", lambda run: run.quality, 1, 2)]
    late = Measure("training loss", lambda run: float(np.mean(run.losses[-len(run.losses) // 10 :])), -1, 3)
    return [late, Measure("validation loss", lambda run: run.quality, -1, 3)]


def qualities(results: Results, tasks: Sequence[Task], lows: Sequence[str], seeds: Sequence[int]) -> str:
    """Return tables 6.3 and 6.4: values in fp32, differences from them, and shares of multiply-adds."""
    high = "from fp32"
    head = ["network", "measure", BASE, MP, "dynamic", "FMAs low", f"dynamic {high}", "FMAs low", "low", "FMAs low"]
    rows = []
    for row in TABLES:
        digits = 2 if "%" in row.measure else 3
        mp, dynamic, static = (f"{value - row.fp32:+.{digits}f}" for value in (row.mp, row.dynamic, row.static))
        line = [f"published: {row.title}", row.measure, f"{row.fp32:.{digits}f}", mp, dynamic]
        rows.append([*line, f"{row.dynamic_share:g} %", "", "", static, f"{row.static_share:g} %"])
    for task in tasks:
        for which in lows:
            low = LOWS[which]
            for measure in measures(task):
                base = results.runs(task, BASE, seeds) or []
                line = [
                    f"{task.title}, {which}",
                    measure.title,
                    spread([measure.of(r) for r in base], f".{measure.digits}f"),
                ]
                line.append(_difference(results, task, MP, seeds, measure))
                for name in (Dynamic(low).name, Dynamic(low, BASE).name, low):
                    line += [_difference(results, task, name, seeds, measure), _share(results, task, name, seeds)]
                rows.append(line)
    return markdown([head, *rows], 2)


def orders(results: Results, tasks: Sequence[Task], lows: Sequence[str], seeds: Sequence[int]) -> str:
    """Return, for each row, the order of the mean differences from worst to best, published and found."""
    rows = []
    for row in TABLES:
        sign = 1 if "%" in row.measure else -1
        values = {"low": row.static, "dynamic": row.dynamic, MP: row.mp, BASE: row.fp32}
        rows.append([f"published: {row.title}", row.measure, _order({n: sign * v for n, v in values.items()}), ""])
    for task in tasks:
        for which in lows:
            low = LOWS[which]
            names = {"low": low, "dynamic": Dynamic(low).name, MP: MP, BASE: BASE}
            for measure in measures(task):
                values = {
                    short: measure.best * np.array([measure.of(r) for r in results.runs(task, name, seeds) or []])
                    for short, name in names.items()
                }
                better = f"{int((values['dynamic'] > values['low']).sum())} of {len(seeds)}"
                order = _order({short: float(found.mean()) for short, found in values.items()})
                rows.append([f"{task.title}, {which}", measure.title, order, better])
    head = ["network", "measure", "from worst to best", "seeds with dynamic better than low"]
    return markdown([head, *rows], 3)


def _order(values: dict[str, float]) -> str:
    return " < ".join(sorted(values, key=lambda name: values[name]))


def speed_ups(results: Results, tasks: Sequence[Task], lows: Sequence[str], seeds: Sequence[int]) -> str:
    """Return table 6.5: published speed-ups, those that follow from the published shares, and from those found here.

    The seconds are the published ones in all of them.
    """
    rows = []
    for published, task in zip(TIMES, (Digits, Copying), strict=True):
        seconds = {BASE: published.fp32, MP: published.mp, "bf16": published.bf16}
        shares = {"published": published.share}
        for mine, which in product(tasks, lows):
            if isinstance(mine, task):
                runs = results.runs(mine, Dynamic(LOWS[which]).name, seeds) or []
                shares[f"{mine.title}, {which}"] = float(np.mean([run.measured["low"] for run in runs]))
        for where, share in shares.items():
            line = [published.title, f"{where}: {100 * share:.1f} %"]
            for high in (BASE, MP):
                line.append(f"{speed_up({'bf16': share, high: 1 - share}, seconds):.4f}")
            printed = [f"{published.over_fp32:.2f}", f"{published.over_mp:.2f}"] if where == "published" else ["", ""]
            rows.append([*line, *printed])
    head = ["seconds of", "share in BF16", "with fp32", "with mp", "printed: with fp32", "printed: with mp"]
    return markdown([head, *rows], 2)


def sweeps(results: Results, tasks: Sequence[Task], seeds: Sequence[int]) -> str:
    """Return the tables of figures 6.6 and 6.7: difference from fp32, and share, by block and threshold."""
    rows = []
    for task in tasks:
        measure = measures(task)[-1]
        for block in BLOCKS:
            line = [task.title, measure.title, str(block)]
            for factor in FACTORS:
                name = Dynamic(SWEPT, block=block, factor=factor).name
                found = _difference(results, task, name, seeds, measure), _share(results, task, name, seeds)
                line += found
            rows.append(line)
    head = ["network", "measure", "block"]
    for factor in FACTORS:
        head += [f"threshold x {factor:g}", "FMAs low"]
    return markdown([head, *rows], 3)


def _difference(results: Results, task: Task, name: str, seeds: Sequence[int], measure: Measure) -> str:
    runs, base = results.runs(task, name, seeds) or [], results.runs(task, BASE, seeds) or []
    return difference([measure.of(run) for run in runs], [measure.of(run) for run in base], f".{measure.digits}f")


def _share(results: Results, task: Task, name: str, seeds: Sequence[int]) -> str:
    runs = results.runs(task, name, seeds) or []
    return f"{100 * np.mean([run.measured['low'] for run in runs]):.4g} %"
