"""Conversions whose scales are those of several rows, defined: rows cut into tiles, each converted by its kind."""

from __future__ import annotations

import math
from collections.abc import Sequence

from numc.numerics.exact.value import Value
from numc.numerics.groups import GroupConversion, Noisy
from numc.numerics.kinds.exact_groups import is_finite, magnitude

Groups = list[tuple[list[Value], Value]]
"""The groups of a row: elements, and a scale or what they are multiplied by."""


def largest_of_rows(rows: Sequence[Sequence[Noisy]], to: GroupConversion) -> Value:
    """The largest magnitude of an operand; the largest finite one where the conversion depends on that."""
    values = [value for row in rows for value, _ in row]
    if not to.format.finite_only and not is_finite(values):
        return math.nan
    return max(map(magnitude, values), default=0)


def tiled_values(rows: Sequence[Sequence[Noisy]], to: GroupConversion) -> list[list[Value]]:
    """The values of a matrix in a format: elements times scales, in binary32."""
    shared = to.format.shared(largest_of_rows(rows, to))
    converted: list[list[Value]] = [[] for _ in rows]
    for first, cut in _tiles(rows, to):
        values = to.format.convert([each for row in cut for each in row], to, shared)
        for n, row in enumerate(_rows_of(values, cut)):
            converted[first + n] += row
    return converted


def tiled_groups(rows: Sequence[Sequence[Noisy]], to: GroupConversion, *, alone: bool) -> list[Groups]:
    """The groups of each row of a matrix: elements, and what they are multiplied by.

    alone: the scale of the tile without that of the tensor.
    """
    shared = to.format.shared(largest_of_rows(rows, to))
    groups: list[Groups] = [[] for _ in rows]
    for first, cut in _tiles(rows, to):
        group = [each for row in cut for each in row]
        elements, scale = (to.format.scaled if alone else to.format.parted)(group, to, shared)
        for n, row in enumerate(_rows_of(elements, cut)):
            groups[first + n].append((row, scale))
    return groups


def _tiles(rows: Sequence[Sequence[Noisy]], to: GroupConversion) -> list[tuple[int, list[Sequence[Noisy]]]]:
    """The tiles, each with its first row, in ascending order of rows, then of steps."""
    height, width = to.format.rows or max(len(rows), 1), to.format.group
    tiles: list[tuple[int, list[Sequence[Noisy]]]] = []
    for first in range(0, len(rows), height):
        some = rows[first : first + height]
        steps = len(some[0])
        size = width or max(steps, 1)
        tiles += [(first, [row[start : start + size] for row in some]) for start in range(0, steps, size)]
    return tiles


def _rows_of(values: Sequence[Value], cut: Sequence[Sequence[Noisy]]) -> list[list[Value]]:
    """Values of a tile as those of its rows."""
    size = len(cut[0])
    return [list(values[start : start + size]) for start in range(0, size * len(cut), size)]
