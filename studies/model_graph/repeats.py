"""Blocks of layers that repeat, as the layers of a transformer do: a picture shows the first, and says how many."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from numc.studies.model_graph.nodes import Node


@dataclass(frozen=True)
class Repeat:
    """`count` blocks of `length` nodes each, one after the other from the node `first` on, that are built alike."""

    first: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """The number after that of its last node."""
        return self.first + self.length * self.count

    def copies(self, number: int) -> tuple[int, ...]:
        """Return the nodes that the node `number` of the first block stands for, itself first."""
        return tuple(number + self.length * n for n in range(self.count))


def repeats(nodes: Sequence[Node], edges: Sequence[tuple[int, int]], most: int = 4) -> tuple[Repeat, ...]:
    """Return the repeats of a graph, in order: those that leave the fewest nodes to show, until none saves `most`."""
    takes: list[list[int]] = [[] for _ in nodes]
    for start, end in edges:
        takes[end].append(start)
    marks = [_mark(node) for node in nodes]
    numbers: dict[Hashable, int] = {}
    signs = [numbers.setdefault(mark, len(numbers)) for mark in marks]
    return tuple(sorted(_within(signs, takes, (0, len(nodes)), most), key=lambda each: each.first))


def _mark(node: Node) -> Hashable:
    """A mark that nodes have in common which are built alike: names, positions and measured numbers are left out."""
    rows = tuple((row["kind"], row["shape"], row["fma"], row["ops"]) for row in node.rows)
    return node.word, node.role, rows, node.shape, tuple(shape for _, shape in node.weights)


def _within(signs: Sequence[int], takes: Sequence[list[int]], span: tuple[int, int], most: int) -> list[Repeat]:
    """The repeats in a span: the best one, and those before and behind it."""
    low, high = span
    best: Repeat | None = None
    for length in range(1, (high - low) // 2 + 1):
        run = 0
        for n in range(low + length, high + 1):
            if n < high and signs[n] == signs[n - length]:
                run += 1
                continue
            if run >= length:
                for shift in range(run % length + 1):  # the same blocks may begin at any of their nodes
                    begun = Repeat(n - run - length + shift, length, run // length + 1)
                    best = _better(takes, best, _cut(takes, begun))
            run = 0
    if best is None or best.length * (best.count - 1) < most:
        return []
    before, behind = (low, best.first), (best.end, high)
    return [*_within(signs, takes, before, most), best, *_within(signs, takes, behind, most)]


def _better(takes: Sequence[list[int]], best: Repeat | None, other: Repeat | None) -> Repeat | None:
    """The repeat that leaves fewer nodes to show; of equal ones, that whose blocks take less from one another."""
    if best is None or other is None:
        return best or other

    def merit(repeat: Repeat) -> tuple[int, int, int]:
        second = range(repeat.first + repeat.length, repeat.first + 2 * repeat.length)
        across = {m for n in second for m in takes[n] if repeat.first <= m < second[0]}
        return repeat.length * (repeat.count - 1), -repeat.length, -len(across)

    return max(best, other, key=merit)


def _cut(takes: Sequence[list[int]], repeat: Repeat) -> Repeat | None:
    """The blocks of a repeat, from the first on, that are joined alike inside; None if no other is like the first."""

    def inner(block: int) -> list[list[int]]:
        first = repeat.first + block * repeat.length
        return [sorted(m - first for m in takes[first + n] if m >= first) for n in range(repeat.length)]

    model = inner(0)
    count = next((n for n in range(1, repeat.count) if inner(n) != model), repeat.count)
    return Repeat(repeat.first, repeat.length, count) if count > 1 else None
