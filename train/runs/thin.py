"""Curves of many steps with few points, and the stretches of steps in one arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from numc.train.recipes.decision import Decision

Point = tuple[float, float]
Box = tuple[float, float, float, float]
BINS = 400
"""Parts of a curve. A wide window has about two pixels for each."""


def _binned(points: Sequence[Point], bins: int) -> Iterator[list[Point]]:
    """Yield the points in each of `bins` equal parts of their range of x, in ascending order; empty parts not."""
    first, last = points[0][0], points[-1][0]
    width = (last - first) / bins or 1.0
    part: list[Point] = []
    number = 0
    for point in points:
        if (its := min(bins - 1, int((point[0] - first) / width))) != number and part:
            yield part
            part = []
        number = its
        part.append(point)
    yield part


def thin(points: Sequence[Point], bins: int = BINS) -> list[Point]:
    """Return a curve that covers the same pixels: the first, lowest, highest and last point of each part.

    Uwe Jugel, Zbigniew Jerzak, Gregor Hackenbroich, Volker Markl, "M4: A Visualization-Oriented Time Series Data
    Aggregation", VLDB 2014. points: finite, in ascending order of x.
    """
    if len(points) <= 4 * bins:
        return list(points)
    thinned: list[Point] = []
    for part in _binned(points, bins):
        low, high = (choose(range(len(part)), key=lambda n: part[n][1]) for choose in (min, max))
        thinned += [part[n] for n in sorted({0, low, high, len(part) - 1})]
    return thinned


def means(points: Sequence[Point], bins: int = BINS // 4) -> list[Point]:
    """Return the mean of x and of y in each part of a curve of finite points."""
    if not points:
        return []
    return [
        (math.fsum(x for x, _ in part) / len(part), math.fsum(y for _, y in part) / len(part))
        for part in _binned(points, bins)
    ]


def unbroken(points: Iterable[Point]) -> tuple[list[list[Point]], list[Point]]:
    """Return the stretches of finite points, and the first point of each stretch that is not finite."""
    stretches: list[list[Point]] = []
    breaks: list[Point] = []
    finite = None
    for point in points:
        if math.isfinite(point[1]):
            if finite is not True:
                stretches.append([])
            stretches[-1].append(point)
        elif finite is not False:
            breaks.append(point)
        finite = math.isfinite(point[1])
    return stretches, breaks


def stretches(decisions: Iterable[Decision]) -> list[tuple[int, int, str]]:
    """Return the first and the last step of each stretch in one arithmetic, and its name."""
    merged: list[tuple[int, int, str]] = []
    for decision in decisions:
        if merged and merged[-1][2] == decision.used and merged[-1][1] + 1 == decision.step:
            merged[-1] = merged[-1][0], decision.step, decision.used
        else:
            merged.append((decision.step, decision.step, decision.used))
    return merged


def boxes(given: Sequence[tuple[int, int, str]], names: Sequence[str], bins: int = BINS) -> dict[str, list[Box]]:
    """Return the boxes of a strip that shows stretches: the ends in steps, and in height from 0 to 1.

    If there are many stretches, each part of the strip shows their shares of it, in the order of `names`.
    """
    strip: dict[str, list[Box]] = {name: [] for name in names}
    if len(given) <= bins:
        for first, last, name in given:
            strip[name].append((first - 0.5, last + 0.5, 0.0, 1.0))
        return strip
    low, high = given[0][0] - 0.5, given[-1][1] + 0.5
    width = (high - low) / bins
    parts = [dict.fromkeys(names, 0.0) for _ in range(bins)]
    for first, last, name in given:
        start, end = (first - 0.5 - low) / width, (last + 0.5 - low) / width
        for number in range(int(start), min(bins, math.ceil(end))):
            parts[number][name] += max(0.0, min(end, number + 1) - max(start, number))
    for number, shares in enumerate(parts):
        bottom, total = 0.0, math.fsum(shares.values())
        for name, share in shares.items():
            if share:
                top = bottom + share / total
                strip[name].append((low + number * width, low + (number + 1) * width, bottom, min(1.0, top)))
                bottom = top
    return strip
