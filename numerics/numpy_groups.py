"""Conversions to formats with groups on whole arrays, in numpy; `reference/groups.py` and `kinds/` define them.

Everything is computed in binary64, where it is exact, but for the quotients of intN, which are binary32 divisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.numerics.binary32 import INFINITY
from numc.numerics.float_arrays import F32Array, F64Array
from numc.numerics.groups import Factors, GroupConversion, GroupFormat
from numc.numerics.kinds.tile_arrays import quantized_tiles, tile_values
from numc.numerics.numpy_rounding import ToInteger, largest_magnitudes
from numc.support.errors import NumcError, shortened

_BLOCK = 1 << 15  # values that are converted together: their binary64 temporaries stay in the cache
_LEAST = 2.0**-149  # the smallest binary32 number


@dataclass(frozen=True)
class Layout:
    """Where the groups of a tensor are: rows of the moved tensor, cut into full groups and a short one.

    shape: of the tensor; axis: along which groups run, not negative, None where the tensor is one group.
    """

    shape: tuple[int, ...]
    axis: int | None
    rows: int
    length: int
    group: int

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """For full groups, then for the short one: how many there are in a row, of how many values."""
        full, rest = divmod(self.length, self.group)
        return tuple(part for part in ((full, self.group), (1, rest)) if part[0] and part[1])

    def rows_of(self, x: F32Array) -> F32Array:
        """Return a tensor as (rows, length)."""
        moved = x if self.axis is None else np.moveaxis(x, self.axis, -1)
        return np.ascontiguousarray(moved).reshape(self.rows, self.length)

    def tensor_of(self, rows: F32Array) -> F32Array:
        """Return (rows, length) as the tensor."""
        if self.axis is None:
            return rows.reshape(self.shape)
        moved = (*self.shape[: self.axis], *self.shape[self.axis + 1 :], self.length)
        return np.ascontiguousarray(np.moveaxis(rows.reshape(moved), -1, self.axis))

    def split(self, rows: npt.NDArray[Any], width: int = 1) -> Iterator[npt.NDArray[Any]]:
        """Yield views of (rows, length * width) as (rows, groups, size * width): full groups, then the short one."""
        start = 0
        for count, size in self.parts:
            end = start + count * size * width
            yield rows[:, start:end].reshape(self.rows, count, size * width)
            start = end


def layout(shape: tuple[int, ...], fmt: GroupFormat, axis: int | None) -> Layout:
    """Return where the groups of a tensor are; None is the last axis. Raises NumcError for an axis it does not have."""
    if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int | np.integer)):
        raise NumcError(f"axis: got {shortened(type(axis).__name__)}, want a whole number or None")
    size = int(np.prod(shape, dtype=np.int64))
    if fmt.group is None:
        if axis is not None:
            raise NumcError(f"axis={shortened(axis)}: '{fmt.name}' has one scale for the whole tensor, leave axis out")
        return Layout(shape, None, 1, size, min(max(size, 1), _BLOCK))  # any cut will do: the scale is the tensor's
    if not shape:
        if axis is not None:
            raise NumcError(f"axis={shortened(axis)}: x is a scalar, leave axis out")
        return Layout(shape, None, 1, 1, 1)
    stated_axis, axis = axis, -1 if axis is None else axis
    if not -len(shape) <= axis < len(shape):
        raise NumcError(f"axis={shortened(stated_axis)}: x has shape {shape}, want {-len(shape)} to {len(shape) - 1}")
    axis %= len(shape)
    length = shape[axis]
    return Layout(shape, axis, size // length if length else 0, length, min(fmt.group, max(length, 1)))


def round_groups(
    x: F32Array, to: GroupConversion, axis: int | None, noise: npt.NDArray[np.uint32] | None = None
) -> F32Array:
    """Return `x` converted, of the same shape; noise: what each element draws, if the rounding is stochastic.

    Raises NumcError for an axis it does not have.
    """
    where = layout(x.shape, to.format, axis)
    rows = where.rows_of(x)
    result = np.empty_like(rows)
    tensor = shared(rows, to.format)
    if to.format.rows != 1 and x.size and not to.format.sums_integers:
        of_rows = None if noise is None else where.rows_of(noise.view(np.float32)).view(np.uint32)
        return where.tensor_of(tile_values(quantized_tiles(rows, to, tensor, of_rows), to, tensor))
    drawn = where.rows_of(np.zeros(x.shape, np.float32) if noise is None else noise.view(np.float32))
    for values, out, some in zip(where.split(rows), where.split(result), where.split(drawn), strict=True):
        _convert(values, out, to, tensor, None if noise is None else some.view(np.uint32))
    return where.tensor_of(result)


def largest_magnitude(x: F32Array, fmt: GroupFormat) -> np.float32:
    """The fact on which the conversion of a tensor depends: its largest magnitude.

    An infinity or a NaN makes it NaN, but for formats of which only finite values count. 0 for an empty tensor.
    """
    magnitudes = x.reshape(-1).view(np.uint32) & np.uint32(0x7FFFFFFF)
    beyond = magnitudes >= np.uint32(INFINITY)
    if beyond.any():
        if not fmt.finite_only:
            nan: np.float32 = np.float32(np.nan)
            return nan
        magnitudes = magnitudes[~beyond]
    largest: np.float32 = magnitudes.max(initial=0).view(np.float32)
    return largest


@dataclass(frozen=True)
class Operand:
    """The rows (rows, K) of an operand of a contraction, converted in groups along K; integers where those are summed.

    units, largest: for each group (rows, groups), a power of two that its values are multiples of, and its largest
    magnitude before. Both are NaN, or the latter an infinity, for a group of NaN. There are none of integers. Where
    values are elements, units are what they are multiplied by, or the scales of groups alone.
    """

    values: F32Array
    units: F32Array
    largest: F32Array


def convert_operand(
    rows: F32Array, to: GroupConversion, largest: np.float32 | F32Array, *, factors: Factors = "sums"
) -> Operand:
    """Convert the rows of an operand whose tensor, or each of whose channels, has the largest magnitude `largest`.

    factors: what the contraction multiplies.
    """
    fmt, none = to.format, np.empty((len(rows), 0), np.float32)
    if to.channel:
        plain = GroupConversion(fmt, to.rounding)
        every = np.asarray(largest, np.float32)
        own = zip(rows, every, strict=True)
        each = [convert_operand(row[None], plain, m, factors=factors) for row, m in own]
        if not each:
            return Operand(rows, none, none)
        columns = zip(*((row.values, row.units, row.largest) for row in each), strict=True)
        return Operand(*map(np.concatenate, columns))
    where = layout(rows.shape, fmt, None)
    tensor = fmt.shared_by(float(largest))
    result = np.empty_like(rows)
    units: list[F32Array] = []
    most: list[F32Array] = []
    lines, outs = where.rows_of(rows), where.rows_of(result)
    for values, out in zip(where.split(lines), where.split(outs), strict=True):
        groups = values.reshape(-1, values.shape[-1])
        made, unit = np.empty_like(groups), np.empty(len(groups), np.float32)
        for block in blocks(groups):
            elements, scales = quantize(groups[block], to, tensor)
            in_sums = factors == "sums" and (fmt.sums_integers or fmt.sums_elements)
            alone = in_sums or factors in ("elements", "parts")
            made[block] = elements if alone else to_values(elements, scales, tensor, fmt)
            if factors == "elements":
                unit[block] = scales[:, 0]
            elif fmt.sums_elements or factors == "parts":
                unit[block] = fmt.factors(scales, tensor)[:, 0]
            else:
                unit[block] = np.maximum(scales[:, 0] * 2.0**fmt.unit_exponent, _LEAST)
        out[...] = made.reshape(out.shape)
        units.append(unit.reshape(values.shape[:2]))
        most.append(largest_magnitudes(groups).astype(np.float32).reshape(values.shape[:2]))
    values = where.tensor_of(outs)
    if (fmt.sums_integers and factors != "parts") or not units:
        return Operand(values, none, none)
    return Operand(values, np.concatenate(units, axis=1), np.concatenate(most, axis=1))


def magnitude_chunks(rows: F32Array, to: GroupConversion, largest: np.float32 | F32Array, count: int) -> list[F32Array]:
    """Cut converted rows into the `count` parts of their values, the most significant first, each in its place.

    Nothing is left of the parts but their sum where `count` is 1: then there are none.
    """
    if count == 1:
        return []
    chunks, rest = [], rows
    for n in range(1, count):
        # Truncation to the leading parts is a coarser format of the same kind with the same scales.
        coarse = GroupConversion(to.format.leading(n), "rtz")
        chunks.append(convert_operand(rows, coarse, largest).values - (rows - rest))
        rest = rest - chunks[-1]
    return [*chunks, rest]


def _convert(
    values: F32Array, out: F32Array, to: GroupConversion, tensor: float, noise: npt.NDArray[np.uint32] | None
) -> None:
    groups = values.reshape(-1, values.shape[-1])
    drawn = None if noise is None else noise.reshape(groups.shape)
    results = np.empty_like(groups)
    for block in blocks(groups):
        elements, scales = quantize(groups[block], to, tensor, None if drawn is None else drawn[block])
        results[block] = to_values(elements, scales, tensor, to.format)
    out[...] = results.reshape(out.shape)


def blocks(groups: F32Array) -> Iterator[slice]:
    """Yield slices of (n, size) groups that are converted together."""
    step = max(1, _BLOCK // groups.shape[-1])
    return (slice(start, start + step) for start in range(0, len(groups), step))


def shared(x: F32Array, fmt: GroupFormat) -> float:
    """Return what a tensor shares: a largest exponent, a scale, or 0 where there is nothing."""
    return fmt.shared_by(float(largest_magnitude(x, fmt))) if fmt.shares_tensor else 0.0


@np.errstate(all="ignore")  # a signalling NaN is no reason to warn
def quantize(
    values: F32Array, to: GroupConversion, tensor: float, noise: npt.NDArray[np.uint32] | None = None
) -> tuple[F64Array, F64Array]:
    """Return the elements of groups (n, size) and their scales (n, 1); a group without finite values has NaN as scale.

    noise: as `values`, what a stochastic rounding draws. tensor: what `shared` returns.
    """
    return to.format.quantize(values, tensor, ToInteger(to.rounding, to.noise, noise))


@np.errstate(all="ignore")  # codes that someone else wrote may mean more than binary32 holds
def to_values(elements: F64Array, scales: F64Array, tensor: float, fmt: GroupFormat) -> F32Array:
    """Return elements (n, size) times the scales (n, 1) of their groups: exact, or rounded to binary32 once."""
    return fmt.values_of(elements, scales, tensor)
