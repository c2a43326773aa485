"""The places of boxes and of the lines between them: rows of boxes from top to bottom, and lines in the gaps.

Boxes are in the rows that the longest ways to them say. A line that passes rows has a place of its own in each, which
the lines of one box share. The order in a row is that of the fewest crossings that some sweeps find (Sugiyama, Tagawa
and Toda 1981), and boxes then move towards what they are joined with, as far as the order lets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[int, int]
Point = tuple[float, float]
GAP, ASIDE, BEND = 18.0, 14.0, 34.0
"""Between boxes of a row, between lines, and between rows."""
_SWEEPS = 8


@dataclass(frozen=True)
class Size:
    """The size of a box. enters, leaves: where lines come in at the top and go out below, from the middle."""

    width: float
    height: float
    enters: float = 0.0
    leaves: float = 0.0


@dataclass(frozen=True)
class Line:
    """A line between two boxes, by number: it goes straight down and, between rows, from one point to the next."""

    start: int
    end: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Arranged:
    """The left and upper corners of boxes, the lines, and the size of all together."""

    corners: tuple[Point, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


@dataclass
class _Cell:
    """A box, or the place at which the lines of a box pass a row."""

    box: int
    row: int
    size: Size
    above: list[int]
    below: list[int]
    x: float = 0.0

    @property
    def passes(self) -> bool:
        return self.size.height == 0.0


def arrange(sizes: Sequence[Size], edges: Sequence[Edge]) -> Arranged:
    """Return the places of boxes, each of whose edges leads to a box with a larger number."""
    rows_of = _rows(len(sizes), edges)
    cells, ways = _cells(sizes, edges, rows_of)
    order: list[list[int]] = [[] for _ in range(max(rows_of, default=-1) + 1)]
    for number, cell in enumerate(cells):
        order[cell.row].append(number)
    order = _fewest_crossings(cells, order)
    _straighten(cells, order)
    left = min((cell.x - cell.size.width / 2 for cell in cells), default=0.0)
    for cell in cells:
        cell.x -= left
    tops, height = [], 0.0
    for row in order:
        tops.append(height)
        height += max(cells[n].size.height for n in row) + BEND
    corners = tuple((cells[n].x - size.width / 2, tops[cells[n].row]) for n, size in enumerate(sizes))
    bottoms = [top + max(cells[n].size.height for n in row) for top, row in zip(tops, order, strict=True)]
    lines = tuple(Line(*edge, _points(cells, way, tops, bottoms)) for edge, way in zip(edges, ways, strict=True))
    width = max((cell.x + cell.size.width / 2 for cell in cells), default=0.0)
    return Arranged(corners, lines, width, max(0.0, height - BEND))


def _rows(count: int, edges: Sequence[Edge]) -> list[int]:
    """The rows of boxes: below all that they take from; what takes from nothing, right above its first user."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        above[end].append(start)
        below[start].append(end)
    rows = [0] * count
    for n in range(count):
        rows[n] = max((rows[m] + 1 for m in above[n]), default=0)
    for n in range(count):
        if not above[n] and below[n]:
            rows[n] = min(rows[m] for m in below[n]) - 1
    return rows


def _cells(sizes: Sequence[Size], edges: Sequence[Edge], rows: Sequence[int]) -> tuple[list[_Cell], list[list[int]]]:
    """The boxes and the places of lines, and the cells that each line goes through."""
    cells = [_Cell(n, rows[n], size, [], []) for n, size in enumerate(sizes)]
    passing: dict[Edge, int] = {}
    ways = []
    for start, end in edges:
        way = [start]
        for row in range(rows[start] + 1, rows[end]):
            if (start, row) not in passing:
                passing[start, row] = len(cells)
                cells.append(_Cell(start, row, Size(ASIDE, 0.0), [], []))
            way.append(passing[start, row])
        way.append(end)
        for upper, lower in pairwise(way):
            if lower not in cells[upper].below:
                cells[upper].below.append(lower)
                cells[lower].above.append(upper)
        ways.append(way)
    return cells, ways


def _fewest_crossings(cells: Sequence[_Cell], order: list[list[int]]) -> list[list[int]]:
    """The best of the orders that sweeps up and down find: each cell goes to the mean of what it is joined with."""
    best, fewest = order, _crossings(cells, order)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        order = [list(row) for row in order]
        column = {n: float(at) for row in order for at, n in enumerate(row)}
        for row in order if down else reversed(order):
            joined = {n: cells[n].above if down else cells[n].below for n in row}
            wanted = {n: sum(column[m] for m in its) / len(its) if its else column[n] for n, its in joined.items()}
            row.sort(key=lambda n, wanted=wanted: (wanted[n], column[n]))  # type: ignore[misc]
            column.update((n, float(at)) for at, n in enumerate(row))
        crossings = _crossings(cells, order)
        if crossings < fewest:
            best, fewest = order, crossings
    return best


def _crossings(cells: Sequence[_Cell], order: Sequence[Sequence[int]]) -> int:
    column = {n: at for row in order for at, n in enumerate(row)}
    total = 0
    for row in order:
        ends: list[int] = []
        for n in row:
            its = sorted(column[m] for m in cells[n].below)
            total += sum(1 for end in ends for other in its if other < end)
            ends += its
    return total


def _straighten(cells: Sequence[_Cell], order: Sequence[Sequence[int]]) -> None:
    """Move cells towards the mean of what they are joined with, those of long lines most of all."""
    for row in order:
        at = 0.0
        for n in row:
            cells[n].x = at + cells[n].size.width / 2
            at += cells[n].size.width + GAP
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        for row in order if down else reversed(order):
            wanted, weights = [], []
            for n in row:
                joined = cells[n].above if down else cells[n].below
                own = cells[n].size.enters if down else cells[n].size.leaves
                ends = [cells[m].x + (cells[m].size.leaves if down else cells[m].size.enters) - own for m in joined]
                wanted.append(sum(ends) / len(ends) if ends else cells[n].x)
                weights.append((8.0 if cells[n].passes else 1.0) if ends else 0.05)
            widths = [cells[n].size.width for n in row]
            for n, x in zip(row, _apart(wanted, weights, widths), strict=True):
                cells[n].x = x


def _apart(wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The middles of boxes side by side, in their order, nearest to those wanted by the sum of weighted squares."""
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2 + GAP)
    blocks: list[tuple[float, float, int]] = []  # the mean, the weight and the number of boxes that touch
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, its, number = blocks.pop()
            mean = (mean * total + before * its) / (total + its)
            total, count = total + its, count + number
        blocks.append((mean, total, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _points(
    cells: Sequence[_Cell], way: Sequence[int], tops: Sequence[float], bottoms: Sequence[float]
) -> tuple[Point, ...]:
    """The points of a line: where it leaves a box, the ends of the rows that it passes, and where it enters a box."""
    first, last = cells[way[0]], cells[way[-1]]
    start = first.x + first.size.leaves
    points = [(start, tops[first.row] + first.size.height), (start, bottoms[first.row])]
    for n in way[1:-1]:
        points += [(cells[n].x, tops[cells[n].row]), (cells[n].x, bottoms[cells[n].row])]
    return (*points, (last.x + last.size.enters, tops[last.row]))
