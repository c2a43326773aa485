"""From the outputs of a text recogniser to a text, and how near it is to the right one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def decoded(outputs: npt.NDArray[np.float32], characters: Sequence[str]) -> str:
    """Return the greedy reading of CTC outputs [steps, classes]: the largest of each step, without repeats and blanks.

    characters: of all classes; class 0 is the blank.
    """
    best = outputs.argmax(1)
    kept = [label for label, before in zip(best, [-1, *best[:-1]], strict=True) if label not in (0, before)]
    return "".join(characters[label] for label in kept)


def edit_distance(text: str, other: str) -> int:
    """Return the fewest insertions, deletions and substitutions of characters from one text to the other."""
    row = list(range(len(other) + 1))
    for line, character in enumerate(text, 1):
        diagonal, row[0] = row[0], line
        for column, wanted in enumerate(other, 1):
            cost = diagonal + (character != wanted)
            diagonal, row[column] = row[column], min(cost, row[column] + 1, row[column - 1] + 1)
    return row[-1]


def share_right(text: str, right: str) -> float:
    """Return 1 - edit distance / length of the right text, and no less than 0."""
    return max(0.0, 1 - edit_distance(text, right) / len(right))
