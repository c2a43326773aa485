"""The layer modifier: which layers are normalised (Xie et al., TrainBF, algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One round of the modifier. layer: what it normalised. errors: those of all layers before that."""

    layer: str
    errors: Mapping[str, float]


def modify(
    measure: Callable[[], Mapping[str, float]], normalise: Callable[[str], None], threshold: float
) -> tuple[list[Round], Mapping[str, float]]:
    """Normalise the layer of the largest error, again and again, until that of the last layer is below `threshold`.

    measure: returns the errors of the layers, in the order of execution. The first and the last 5 % of them, at least
    one each, are never chosen. Returns the rounds, and the errors at the end. Errors are measured anew in each round.
    """
    rounds: list[Round] = []
    errors = measure()
    names = list(errors)
    left = selectable(names)
    while left and not errors[names[-1]] < threshold:
        worst = max(left, key=lambda name: _order(errors[name]))
        normalise(worst)
        left.remove(worst)
        rounds.append(Round(worst, errors))
        errors = measure()
    return rounds, errors


def selectable(names: list[str]) -> list[str]:
    """Return the layers without the first and the last 5 %, at least one each."""
    ends = max(1, len(names) // 20)
    return names[ends:-ends]


def _order(error: float) -> float:
    return math.inf if math.isnan(error) else error
