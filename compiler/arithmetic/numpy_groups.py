"""Conversions to grouped formats on whole arrays, in numpy; the definition is `reference/groups.py`.

Everything is computed in binary64, where it is exact: scaling a binary32 number by a power of two, and its multiples of
another one. Only the quotients of `intN` are binary32 divisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.arithmetic.groups import CHUNK, SCALE_BIAS, Bfp, GroupConversion, GroupFormat, Int, Mx
from numc.compiler.support.errors import NumcError

F32Array = npt.NDArray[np.float32]
F64Array = npt.NDArray[np.float64]
_ToInteger = Callable[[F64Array], F64Array]

_BLOCK = 1 << 15  # values that are converted together: their binary64 temporaries stay in the cache
_LARGEST = float(np.finfo(np.float32).max)


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
    size = int(np.prod(shape, dtype=np.int64))
    if isinstance(fmt, Int):
        if axis is not None:
            raise NumcError(f"axis={axis}: '{fmt.name}' has one scale for the whole tensor, leave axis out")
        return Layout(shape, None, 1, size, min(max(size, 1), _BLOCK))  # any cut will do: the scale is the tensor's
    if not shape:
        if axis is not None:
            raise NumcError(f"axis={axis}: x is a scalar, leave axis out")
        return Layout(shape, None, 1, 1, 1)
    given, axis = axis, -1 if axis is None else axis
    if not -len(shape) <= axis < len(shape):
        raise NumcError(f"axis={given}: x has shape {shape}, allowed are {-len(shape)} to {len(shape) - 1}")
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
    tensor = shared(rows, to.format, where)
    drawn = where.rows_of(np.zeros(x.shape, np.float32) if noise is None else noise.view(np.float32))
    for values, out, some in zip(where.split(rows), where.split(result), where.split(drawn), strict=True):
        _convert(values, out, to, tensor, None if noise is None else some.view(np.uint32))
    return where.tensor_of(result)


def largest_magnitude(x: F32Array, fmt: GroupFormat) -> np.float32:
    """What the conversion of an operand of a contraction depends on: the largest magnitude of the tensor.

    Of bfp the largest finite one; for the others NaN if there is an infinity or a NaN. 0 for an empty tensor.
    """
    magnitudes = x.reshape(-1).view(np.uint32) & np.uint32(0x7FFFFFFF)
    beyond = magnitudes >= np.uint32(0x7F800000)
    if beyond.any():
        if not isinstance(fmt, Bfp):
            nan: np.float32 = np.float32(np.nan)
            return nan
        magnitudes = magnitudes[~beyond]
    largest: np.float32 = magnitudes.max(initial=0).view(np.float32)
    return largest


@dataclass(frozen=True)
class Operand:
    """The rows (rows, K) of an operand of a contraction, converted in groups along K; of intN the integers.

    units, largest: for each group (rows, groups), a power of two that its values are multiples of, and its largest
    magnitude before. Both are NaN, or the latter an infinity, for a group of NaN. intN has none.
    """

    values: F32Array
    units: F32Array
    largest: F32Array


def convert_operand(rows: F32Array, to: GroupConversion, largest: np.float32 | F32Array) -> Operand:
    """Convert the rows of an operand whose tensor, or each of whose channels, has the largest magnitude `largest`."""
    fmt = to.format
    if isinstance(fmt, Int) and to.channel:
        none = np.empty((len(rows), 0), np.float32)
        whole = GroupConversion(fmt, to.rounding)
        every = np.asarray(largest, np.float32)
        each = [convert_operand(row[None], whole, m).values for row, m in zip(rows, every, strict=True)]
        return Operand(np.concatenate(each) if each else rows, none, none)
    where = layout(rows.shape, fmt, None)
    if isinstance(fmt, Int):
        tensor = float("nan") if np.isnan(largest) else float(np.float32(largest) / np.float32(fmt.largest))
        tensor = max(tensor, 2.0**-149) if largest else 0.0
    elif isinstance(fmt, Bfp) and largest:
        tensor = float(exponents(np.array([largest], np.float64))[0])
    else:
        tensor = 0.0
    result = np.empty_like(rows)
    units: list[F32Array] = []
    most: list[F32Array] = []
    lines, outs = where.rows_of(rows), where.rows_of(result)
    for values, out in zip(where.split(lines), where.split(outs), strict=True):
        groups = values.reshape(-1, values.shape[-1])
        made, unit = np.empty_like(groups), np.empty(len(groups), np.float32)
        for block in blocks(groups):
            elements, scales = quantize(groups[block], to, tensor)
            made[block] = elements if isinstance(fmt, Int) else to_values(elements, scales, fmt)
            unit[block] = np.maximum(scales[:, 0] * 2.0 ** _unit_exponent(fmt), 2.0**-149)
        out[...] = made.reshape(out.shape)
        units.append(unit.reshape(values.shape[:2]))
        most.append(_largest(groups).astype(np.float32).reshape(values.shape[:2]))
    values = where.tensor_of(outs)
    if isinstance(fmt, Int) or not units:
        none = np.empty((len(rows), 0), np.float32)
        return Operand(values, none, none)
    return Operand(values, np.concatenate(units, axis=1), np.concatenate(most, axis=1))


def _unit_exponent(fmt: GroupFormat) -> int:
    """The exponent of the smallest element."""
    if not isinstance(fmt, Mx):
        return 0
    return (fmt.emin if fmt.exponent_bits else 0) - fmt.significand_bits


def magnitude_chunks(rows: F32Array, to: GroupConversion, largest: np.float32 | F32Array, count: int) -> list[F32Array]:
    """Cut the magnitudes of converted rows of bfp into `count` chunks, the most significant first, each in its place.

    Nothing is left of the chunks but their sum where `count` is 1.
    """
    if count == 1:
        return []
    fmt = to.format
    assert isinstance(fmt, Bfp)
    chunks, rest = [], rows
    for n in range(1, count):
        # Truncation to the leading bits of a magnitude is a coarser bfp with the same exponents.
        coarse = Bfp(fmt.group, fmt.exponent_bits, n * CHUNK)
        chunks.append(convert_operand(rows, GroupConversion(coarse, "rtz"), largest).values - (rows - rest))
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
        results[block] = to_values(elements, scales, to.format)
    out[...] = results.reshape(out.shape)


def blocks(groups: F32Array) -> Iterator[slice]:
    """Yield slices of (n, size) groups that are converted together."""
    step = max(1, _BLOCK // groups.shape[-1])
    return (slice(start, start + step) for start in range(0, len(groups), step))


def shared(rows: F32Array, fmt: GroupFormat, where: Layout) -> float:
    """Return what a tensor shares: its largest exponent (bfp; 0 where there is none), its scale (intN), 0 (mx)."""
    if isinstance(fmt, Mx):
        return 0.0
    largest = [_largest(values) for values in where.split(rows)]
    if isinstance(fmt, Bfp):
        tops = [np.max(exponents(m), where=(m > 0) & np.isfinite(m), initial=-1024) for m in largest]
        top = int(max(tops, default=-1024))
        return float(top) if top > -1024 else 0.0
    most = float(np.max([np.max(m) for m in largest], initial=0.0))
    if not np.isfinite(most):
        return float("nan")
    scale = np.float32(most) / np.float32(fmt.largest)
    return max(float(scale), 2.0**-149) if most else 0.0


@np.errstate(all="ignore")  # a signalling NaN is no reason to warn
def _largest(values: F32Array) -> F64Array:
    """The largest magnitude of each group; infinity or NaN where it has one of them."""
    magnitudes = values.view(np.uint32) & np.uint32(0x7FFFFFFF)
    largest: F64Array = magnitudes.max(axis=-1).view(np.float32).astype(np.float64)
    return largest


def exponents(x: F64Array) -> npt.NDArray[np.int64]:
    """floor(log2) of positive binary64 numbers that are binary32 numbers, subnormal ones too; -1023 for zero."""
    return (x.view(np.int64) >> 52 & 0x7FF) - 1023


def _power(exponent: npt.NDArray[np.int64]) -> F64Array:
    power: F64Array = (exponent + 1023 << 52).view(np.float64)
    return power


@np.errstate(all="ignore")
def quantize(
    values: F32Array, to: GroupConversion, tensor: float, noise: npt.NDArray[np.uint32] | None = None
) -> tuple[F64Array, F64Array]:
    """Return the elements of groups (n, size) and their scales (n, 1); a group without finite values has NaN as scale.

    noise: as `values`, what a stochastic rounding draws. tensor: what `shared` returns. An element is M, with its sign,
    of bfp; the element of mx; the integer of intN.
    """
    fmt, to_integer = to.format, _to_integer(to, noise)
    if isinstance(fmt, Int):
        finite = np.isfinite(tensor)
        quotients = values / np.float32(tensor or 1.0) if finite else np.zeros_like(values)
        elements = _rounded(quotients.astype(np.float64), to_integer, fmt.largest) + 0.0  # without the sign of a zero
        return elements, np.full((len(values), 1), tensor)
    largest = _largest(values)
    exponent = exponents(largest)
    is_nan = ~np.isfinite(largest)
    if isinstance(fmt, Bfp):
        exponent = np.maximum(exponent, int(tensor) - fmt.window) - (fmt.magnitude_bits - 1)
    else:
        exponent = np.maximum(exponent - fmt.emax, -SCALE_BIAS)
    scaled = values.astype(np.float64)
    if is_nan.any():
        scaled[is_nan] = 0.0
    scaled *= _power(-np.where(is_nan, 0, exponent))[:, None]
    scales = np.where(is_nan, np.nan, _power(np.where(is_nan, 0, exponent)))[:, None]
    if isinstance(fmt, Bfp):
        return _rounded(scaled, to_integer, fmt.largest), scales
    return _mx_elements(scaled, fmt, to_integer), scales


def _mx_elements(scaled: F64Array, fmt: Mx, to_integer: _ToInteger) -> F64Array:
    if not fmt.exponent_bits:
        step = 2.0**-fmt.significand_bits
        integers = _rounded(scaled / step, to_integer, float(fmt.largest) / step)
        unsigned_zeros: F64Array = integers * step + 0.0
        return unsigned_zeros
    steps = _power(np.maximum(exponents(np.abs(scaled)), fmt.emin) - fmt.significand_bits)
    elements = _rounded(scaled / steps, to_integer, np.inf) * steps
    largest = float(fmt.largest)
    clipped: F64Array = np.clip(elements, -largest, largest)
    return clipped


_TO_INTEGER: Mapping[str, _ToInteger] = {
    "rne": np.rint,
    "rtz": np.trunc,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rup": np.ceil,
    "rdn": np.floor,
    "odd": lambda x: _to_odd(np.trunc(x), x),
}


def _to_odd(whole: F64Array, x: F64Array) -> F64Array:
    return np.where((whole != x) & (np.fmod(whole, 2.0) == 0.0), whole + np.copysign(1.0, x), whole)


def _to_integer(to: GroupConversion, noise: npt.NDArray[np.uint32] | None) -> _ToInteger:
    """The rounding to integers; a stochastic one cuts the magnitude to the random bits, adds `noise` and truncates."""
    if to.noise is None:
        return _TO_INTEGER[to.rounding]
    assert noise is not None
    scale, drawn = 2.0**to.noise.bits, noise

    def noisy(x: F64Array) -> F64Array:
        size = np.abs(x)
        whole = np.floor(size)  # the sum with noise may need more bits than binary64 has
        carry = np.floor((size - whole) * scale) + drawn >= scale
        signed: F64Array = np.copysign(whole + carry, x)
        return signed

    return noisy


def _rounded(x: F64Array, to_integer: _ToInteger, largest: float) -> F64Array:
    """Round to integers, keep the signs of zeros, saturate."""
    rounded: F64Array = np.clip(to_integer(x), -largest, largest)
    return rounded


@np.errstate(all="ignore")  # codes that someone else wrote may mean more than binary32 holds
def to_values(elements: F64Array, scales: F64Array, fmt: GroupFormat) -> F32Array:
    """Return elements (n, size) times the scales (n, 1) of their groups.

    Exact, but for intN, whose products are rounded to binary32; the largest ones may not leave its range by that.
    """
    values = elements * scales
    if isinstance(fmt, Int):
        values = np.clip(values, -_LARGEST, _LARGEST)
    return values.astype(np.float32)
