"""Conversions to formats with groups, defined: tensors cut into groups, each converted by its kind (`kinds/`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from numc.numerics.exact.value import Value, bits_of, from_bits, to_array
from numc.numerics.grammar import parse_group_conversion
from numc.numerics.groups import GroupConversion, Noisy
from numc.numerics.kinds.exact_groups import is_finite, magnitude
from numc.numerics.reference.random import conversion_draws, stream
from numc.numerics.reference.tile_groups import tiled_values
from numc.support.environment import in_default_environment


@in_default_environment
def round_groups(
    x: npt.ArrayLike, to: GroupConversion | str, axis: int = -1, *, stream: int = stream(0, 0)
) -> npt.NDArray[np.float32]:
    """Return float32 `x` converted to a format with groups, which run along `axis`.

    stream: what a stochastic rounding draws from; each element by its index in C order, whatever the axis.
    Raises NumcError for a text that is no such conversion, TypeError for an `x` that float32 does not hold.
    """
    to = (parse_group_conversion(to) if isinstance(to, str) else to).of_tensors()
    bits = bits_of(x)
    draws = np.array(conversion_draws(stream, bits.size, to.noise), np.uint32).reshape(bits.shape)
    if to.format.rows is None:
        noisy = [_noisy(bits.reshape(-1), draws.reshape(-1))]
        return to_array(tiled_values(noisy, to)[0], bits.shape)
    if to.format.group is None:
        rows = [_noisy(bits.reshape(-1), draws.reshape(-1))]
        return to_array(_converted(rows, to)[0], bits.shape)
    moved, moved_draws = np.moveaxis(bits, axis, -1), np.moveaxis(draws, axis, -1)
    rows = [_noisy(moved[index], moved_draws[index]) for index in np.ndindex(moved.shape[:-1])]
    converted = tiled_values(rows, to) if to.format.rows != 1 else _converted(rows, to)
    result = to_array((value for row in converted for value in row), moved.shape)
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))


def largest_magnitude(values: Sequence[Value], *, finite: bool) -> Value:
    """The largest magnitude, 0 for none; NaN if there is an infinity or a NaN, unless only `finite` ones count."""
    if not finite and not is_finite(values):
        return math.nan
    return max(map(magnitude, values), default=0)


def convert_row(row: Sequence[Noisy], to: GroupConversion, largest: Value, *, sums: bool) -> list[Value]:
    """Return the factors of one row of a contraction, whose tensor or channel has the largest magnitude `largest`.

    sums: it is a sum of groups, which may be of integers; otherwise it multiplies values.
    """
    shared, convert = to.format.shared(largest), to.format.operands if sums else to.format.convert
    return [value for group in _groups(row, to) for value in convert(group, to, shared)]


def parted_row(row: Sequence[Noisy], to: GroupConversion, largest: Value) -> list[tuple[list[Value], Value]]:
    """The groups of one row: elements, and what they are multiplied by."""
    shared = to.format.shared(largest)
    return [to.format.parted(group, to, shared) for group in _groups(row, to)]


def scaled_row(row: Sequence[Noisy], to: GroupConversion, largest: Value) -> list[tuple[list[Value], Value]]:
    """The groups of one row: elements, and their scales."""
    shared = to.format.shared(largest)
    return [to.format.scaled(group, to, shared) for group in _groups(row, to)]


def _converted(rows: Sequence[Sequence[Noisy]], to: GroupConversion) -> list[list[Value]]:
    """All rows of a tensor."""
    fmt = to.format
    shared = fmt.shared(largest_magnitude([value for row in rows for value, _ in row], finite=fmt.finite_only))
    return [[value for group in _groups(row, to) for value in fmt.convert(group, to, shared)] for row in rows]


def _groups(row: Sequence[Noisy], to: GroupConversion) -> list[Sequence[Noisy]]:
    size = to.format.group or max(len(row), 1)
    return [row[start : start + size] for start in range(0, len(row), size)]


def _noisy(bits: npt.NDArray[np.uint32], draws: npt.NDArray[np.uint32]) -> list[Noisy]:
    return [(from_bits(b), noise) for b, noise in zip(bits.tolist(), draws.tolist(), strict=True)]
