"""Weights as places in a list of few values, perhaps times a number for each group: what all formats of few bits have.

The number need not be the scale that a conversion had: any one will do that gives every bit of the values again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.arrays import F32Array
from numc.numerics.codes import bits_of_codes
from numc.numerics.formats import Format
from numc.numerics.groups import GroupFormat
from numc.runtime.storage import Encoding
from numc.support.errors import NumcError

Bytes = npt.NDArray[np.uint8]
_MOST_BITS = 8
_NEIGHBOURS = (0, 1, -1, 2, -2)  # of a quotient, in ulps


def listed(rows: F32Array, fmt: Format | GroupFormat) -> tuple[Encoding, Bytes]:
    """Return (rows, k) in codes, then the list. Raises NumcError for other formats, and for values of none of them."""
    depth = rows.shape[1]
    single = fmt if isinstance(fmt, Format) else fmt.single
    if single is None or single.parts > 1 or single.bits > _MOST_BITS:
        raise NumcError(f"'{fmt.name}' is no format that the runtime reads")
    values, bits = single.decode_array(np.arange(1 << single.bits)), single.bits
    group = 0 if isinstance(fmt, Format) else fmt.group or depth
    if not group:
        return Encoding("listed", 0, bits), _joined([bits_of_codes(_places(rows, values), bits)], values)
    parts = []
    for start, size in _parts(depth, group):
        groups = rows[:, start : start + size]
        parts += _in_groups(groups, values, bits)
    return Encoding("listed", 32, bits, group=group), _joined(parts, values)


def _parts(depth: int, group: int) -> list[tuple[int, int]]:
    return [(start, min(group, depth - start)) for start in range(0, depth, group)]


def _joined(parts: list[npt.NDArray[np.uint8]], values: F32Array) -> Bytes:
    bits = np.concatenate(parts, axis=1)
    return np.concatenate([np.packbits(bits.reshape(-1), bitorder="little"), values.astype(np.float32).view(np.uint8)])


def _in_groups(groups: F32Array, values: F32Array, bits: int) -> list[npt.NDArray[np.uint8]]:
    """One group of every row: the bits of the number that it is multiplied by, and those of its codes."""
    codes, factors = np.zeros(groups.shape, np.int64), np.full(len(groups), np.nan, np.float32)
    left: npt.NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(groups), axis=1)
    magnitudes = np.unique(np.abs(values[np.isfinite(values) & (values != 0)]))[::-1]
    for magnitude in magnitudes:
        for ulps in _NEIGHBOURS:
            if not left.any():
                break
            some = groups[left]
            factor = (np.abs(some).max(axis=1) / magnitude).view(np.int32) + ulps
            factor = np.maximum(factor, 0).astype(np.int32).view(np.float32)
            quotients = some / np.where(factor == 0, np.float32(1), factor)[:, None]
            places = _places(quotients, values)
            same = (values[places] * factor[:, None]).view(np.uint32) == some.view(np.uint32)
            done = np.flatnonzero(left)[same.all(axis=1)]
            codes[done], factors[done] = places[same.all(axis=1)], factor[same.all(axis=1)]
            left[done] = False
    if left.any():
        raise NumcError("values are no elements times a number")
    return [bits_of_codes(factors.view(np.uint32).astype(np.int64)[:, None], 32), bits_of_codes(codes, bits)]


def _places(x: F32Array, values: F32Array) -> npt.NDArray[np.int64]:
    """The places of the nearest values in the list, of zeros those with the same sign if they are there."""
    order = np.lexsort((~np.signbit(values), values))
    ordered = values[order].astype(np.float64)
    ordered, order = ordered[np.isfinite(ordered)], order[np.isfinite(ordered)]
    above = np.clip(np.searchsorted(ordered, x), 1, len(ordered) - 1)
    nearer = np.abs(x - ordered[above - 1]) <= np.abs(ordered[above] - x)
    places = order[np.where(nearer, above - 1, above)]
    for zero in np.flatnonzero(values == 0):
        places = np.where((x == 0) & (np.signbit(x) == np.signbit(values[zero])), zero, places)
    for code in np.flatnonzero(~np.isfinite(values)):
        places = np.where((x == values[code]) | (np.isnan(x) & np.isnan(values[code])), code, places)
    return places.astype(np.int64)
