"""Mean average precision of boxes of one size, as the PASCAL VOC challenge of 2010 and later defines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Box:
    """A box in an image, by the place of its middle in pixels."""

    image: int
    label: int
    x: float
    y: float


def overlap(a: Box, b: Box, side: float) -> float:
    """Return the area that two squares have in common over that of both."""
    width, height = (max(0.0, side - abs(p - q)) for p, q in ((a.x, b.x), (a.y, b.y)))
    common = width * height
    return common / (2 * side * side - common)


def mean_average_precision(
    found: Sequence[tuple[float, Box]], wanted: Sequence[Box], side: float, least: float = 0.5
) -> float:
    """Return the mean over labels of the area below precision over recall.

    found: scores and boxes. A box is right if it overlaps one that is wanted, of its label in its image, by `least` or
    more, and no box with a higher score has taken that.
    """
    labels = sorted({box.label for box in wanted})
    return float(np.mean([_average_precision(found, wanted, label, side, least) for label in labels]))


def _average_precision(
    found: Sequence[tuple[float, Box]], wanted: Sequence[Box], label: int, side: float, least: float
) -> float:
    free: dict[int, list[Box]] = {}
    for box in wanted:
        if box.label == label:
            free.setdefault(box.image, []).append(box)
    count = sum(map(len, free.values()))
    right = []
    for _, box in sorted((each for each in found if each[1].label == label), key=lambda each: -each[0]):
        near = max(free.get(box.image, []), key=lambda other: overlap(box, other, side), default=None)
        hit = near is not None and overlap(box, near, side) >= least
        if hit and near is not None:
            free[box.image].remove(near)
        right.append(hit)
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]  # precision does not rise with recall
    return float(best[np.asarray(right, bool)].sum() / count)
