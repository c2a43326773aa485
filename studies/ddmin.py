"""ddmin, the delta debugging algorithm of Zeller and Hildebrandt.

Simplifying and Isolating Failure-Inducing Input, IEEE Transactions on Software Engineering 28(2), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], enough: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a 1-minimal subset of `items` that is enough: without any one of its items it is not enough.

    There may be a smaller subset. All of `items` have to be enough, and no items must not be. `enough` is called at
    most n^2 + 3n times for n items.
    """
    kept, count = list(items), 2
    while len(kept) > 1:
        ends = [len(kept) * n // count for n in range(count + 1)]
        spans = [(ends[n], ends[n + 1]) for n in range(count)]
        parts = [kept[start:end] for start, end in spans]
        # With two parts, each part is the complement of the other.
        rests = [kept[:start] + kept[end:] for start, end in spans] if count > 2 else []
        if (part := next(filter(enough, parts), None)) is not None:
            kept, count = part, 2
        elif (rest := next(filter(enough, rests), None)) is not None:
            kept, count = rest, count - 1
        elif count < len(kept):
            count = min(2 * count, len(kept))
        else:
            break
    return kept
