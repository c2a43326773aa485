"""The difference of two arrays of equal shape: in bits, in units in the last place, and relative."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LENGTHS = 33  # bins of distances in ulp: bin n has those in (2^(n - 1), 2^n]
_BLOCK = 1 << 20  # elements that are compared at once, so that float64 copies of large layers fit into memory


@dataclass(frozen=True)
class Element:
    """An element whose bits differ: index, the two values, and for a layer that runs again the execution, from 0."""

    index: tuple[int, ...]
    shape: tuple[int, ...]
    a: float
    b: float
    a_hex: str
    b_hex: str
    execution: int = 0

    def __str__(self) -> str:
        again = f" of execution {self.execution}" if self.execution else ""
        return (
            f"element {list(self.index)} of {' x '.join(map(str, self.shape)) or 'a scalar'}{again}: "
            f"{self.a_hex} ({self.a:.9g}) | {self.b_hex} ({self.b:.9g})"
        )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of values x of `b` from values r of `a`.

    elements: their number. differ: how many differ in a bit; all NaN count as equal. largest: the maximum of abs(x -
    r). relative: sum (x - r)^2 / sum r^2. mse: sum (x - r)^2 / elements. These three are NaN if one value of a pair is
    NaN and the other is not. ulp: the largest distance of two elements in float32 steps; 2^32 between a number and a
    NaN. ulp_half: the median of that distance, rounded up to 0 or a power of two. Both are None if no array is float32.
    first: the first element that differs.
    """

    elements: int
    differ: int
    largest: float
    relative: float
    mse: float
    ulp: int | None
    ulp_half: int | None
    first: Element | None


class Differences:
    """The difference summed up over arrays: over the executions of a layer, or for one output."""

    def __init__(self) -> None:
        self._elements = self._differ = self._float32 = 0
        self._largest = self._error = self._norm = 0.0
        self._ulp = 0
        self._steps = np.zeros(_LENGTHS, np.int64)  # how many elements have a distance in each bin
        self._first: Element | None = None

    def add(self, a: Array, b: Array, execution: int = 0) -> None:
        """Add two arrays of equal shape and type."""
        x, r = b.reshape(-1), a.reshape(-1)
        for start in range(0, r.size, _BLOCK):
            self._add(x[start : start + _BLOCK], r[start : start + _BLOCK], start, a.shape, execution)
        self._elements += r.size
        self._float32 += r.size if r.dtype == np.float32 else 0

    def _add(self, x: Array, r: Array, start: int, shape: tuple[int, ...], execution: int) -> None:
        with np.errstate(all="ignore"):
            wide = r.astype(np.float64)
            self._norm += float(np.square(wide).sum())
            differs = _bits(x) != _bits(r)
            if r.dtype.kind == "f":
                differs &= ~(np.isnan(x) & np.isnan(r))
            places = np.flatnonzero(differs)
            if places.size == 0:
                return
            first = int(places[0])
            if self._first is None:
                index = tuple(int(n) for n in np.unravel_index(start + first, shape)) if shape else ()
                values = (float(r[first]), float(x[first]))
                self._first = Element(index, shape, *values, _hex(r[first]), _hex(x[first]), execution)
            self._differ += places.size
            x, r, wide = x[places], r[places], wide[places]
            errors = np.abs(x.astype(np.float64) - wide)
            self._error += float(np.square(errors).sum())
            self._largest = float(np.maximum(self._largest, errors.max()))
            if r.dtype == np.float32:
                # A NaN is as far from every number as the smallest number from the largest.
                steps = np.where(np.isnan(x) | np.isnan(r), 1 << 32, np.abs(_ordered(x) - _ordered(r)))
                self._ulp = max(self._ulp, int(steps.max()))
                lengths = np.ceil(np.log2(np.maximum(steps, 1))).astype(np.int64)
                self._steps += np.bincount(lengths[steps > 0], minlength=_LENGTHS)

    def result(self) -> Difference:
        """Return the difference over all arrays added so far."""
        relative = self._error
        if relative > 0:
            relative = self._error / self._norm if self._norm else math.inf
        mse = self._error / self._elements if self._elements else 0.0
        ulp, half = (self._ulp, self._half()) if self._float32 else (None, None)
        return Difference(
            elements=self._elements,
            differ=self._differ,
            largest=self._largest,
            relative=relative,
            mse=mse,
            ulp=ulp,
            ulp_half=half,
            first=self._first,
        )

    def _half(self) -> int:
        zero = self._float32 - int(self._steps.sum())
        within = zero + np.cumsum(self._steps)
        return 0 if 2 * zero >= self._float32 else 1 << int(np.argmax(2 * within >= self._float32))


def difference(a: Array, b: Array) -> Difference:
    """Return the difference of two arrays of equal shape and type."""
    differences = Differences()
    differences.add(a, b)
    return differences.result()


def _bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _hex(x: Any) -> str:
    bits = _bits(np.asarray(x).reshape(1))
    return f"0x{int(bits[0]):0{2 * bits.itemsize}x}"


def _ordered(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return integers in the order of the numbers, consecutive ones for consecutive numbers; both zeros give 0."""
    bits = np.ascontiguousarray(x).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
