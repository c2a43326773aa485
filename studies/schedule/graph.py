"""The graph of a program: its operations with their times, what has to come before what, and the buffers they use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Before = Sequence[Iterable[int]]
"""For every operation the numbers of those that have to end before it begins, all smaller than its own."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of a program, as a schedule sees it.

    name, role, kind: as in the rows of a profile. serial, parallel: seconds; on p threads it takes
    ``serial + parallel / p``. after: the numbers of operations that have to end before it begins, all smaller than its
    own.
    """

    name: str
    serial: float
    parallel: float
    after: tuple[int, ...]
    role: str = ""
    kind: str = ""

    def seconds(self, threads: float) -> float:
        """The time that it takes on so many threads."""
        return self.serial + self.parallel / threads


@dataclass(frozen=True)
class Buffer:
    """Memory that is taken when the first of `users` begins, and free when the last of them has ended.

    bytes: None if the size is known at run time only. result: it is handed over, and stays until the end. users:
    numbers of operations, in order, at least one.
    """

    bytes: int | None
    users: tuple[int, ...]
    result: bool = False


@dataclass(frozen=True)
class Graph:
    """Operations in the order of the program, and buffers."""

    operations: tuple[Operation, ...]
    buffers: tuple[Buffer, ...] = ()

    @property
    def has_sizes(self) -> bool:
        """Whether the sizes of all buffers are known."""
        return all(buffer.bytes is not None for buffer in self.buffers)


def reduced(after: Before) -> tuple[tuple[int, ...], ...]:
    """Return the transitive reduction: without what another operation that has to come before waits for already."""
    ancestors: list[int] = []  # sets of operations, as bits
    reduction = []
    for before in after:
        known, kept = 0, []
        for predecessor in sorted(set(before), reverse=True):
            if not known >> predecessor & 1:
                kept.append(predecessor)
                known |= ancestors[predecessor] | 1 << predecessor
        ancestors.append(known)
        reduction.append(tuple(reversed(kept)))
    return tuple(reduction)


def accumulated(times: Sequence[float], after: Before) -> list[float]:
    """Return for every operation the time of the longest path that ends with it."""
    lengths: list[float] = []
    for time, before in zip(times, after, strict=True):
        lengths.append(time + max((lengths[predecessor] for predecessor in before), default=0))
    return lengths


def rests(times: Sequence[float], after: Before) -> list[float]:
    """Return for every operation the time of the longest path that begins with it."""
    lengths = list(times)
    for number in range(len(times) - 1, -1, -1):
        for predecessor in after[number]:
            lengths[predecessor] = max(lengths[predecessor], times[predecessor] + lengths[number])
    return lengths
