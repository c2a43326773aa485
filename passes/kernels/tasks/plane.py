"""Planes with zeros around them, made in cache: what a depthwise convolution reads in place of a padded tensor.

A plane is the part of the operand of the lanes that one batch of the contraction reads. Its elements are converted to
their format as they are copied into it, and their range of magnitudes is known before the first step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numc.passes.kernels.builder import Function
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.pack_code import converted, load_operand
from numc.passes.kernels.packing.segments import lanes_below
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.widths import run_time

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A plane of `sizes`, zeros but for a part of `inner` elements from `low` on; `strides`: of these in the source.

    lanes: how many there are along each of their dimensions, and how far apart in the plane; taps: where the steps of k
    are, from a lane.
    """

    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    low: tuple[int, ...]
    strides: tuple[int, ...]
    lanes: tuple[tuple[int, int], ...]
    taps: tuple[int, ...]

    @property
    def words(self) -> int:
        """Its size, in f32 numbers."""
        return math.prod(self.sizes)

    @property
    def rows(self) -> int:
        """Rows of lanes, through all of their dimensions but the last."""
        return math.prod(size for size, _ in self.lanes[:-1])

    @property
    def line(self) -> int:
        """The distance of one row of lanes to the next one."""
        return self.lanes[-2][1] if len(self.lanes) > 1 else 0

    @property
    def window(self) -> tuple[int, int]:
        """The taps as lines, which are as far apart as rows of lanes: how many, and how many taps each; else a line."""
        count = next((n for n, tap in enumerate(self.taps) if tap == self.line > 0), len(self.taps))
        height = len(self.taps) // count
        lines = tuple(n * self.line + tap for n in range(height) for tap in self.taps[:count])
        return (height, count) if lines == self.taps and self.taps[count - 1] < self.line else (1, len(self.taps))

    @property
    def pitches(self) -> tuple[int, ...]:
        """Its strides, row by row."""
        return tuple(math.prod(self.sizes[n + 1 :]) for n in range(len(self.sizes)))

    def sources(self, places: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Where the elements at `places` come from, and which of them are not padding."""
        at = np.stack([places // p % n for p, n in zip(self.pitches, self.sizes, strict=True)], axis=-1) - self.low
        inside = np.all((at >= 0) & (at < self.inner), axis=-1)
        return np.where(inside, at @ np.array(self.strides), 0), inside


def fill_plane_text(name: str, kernel: Kernel, plane: Plane) -> str:
    """The function `name` (source, plane, open widths), which fills the part of a plane that is not padding.

    Returns the smallest non-zero magnitude less one and the largest one, as encodings.
    """
    width = kernel.tile.width
    to, is_open, element = kernel.conversion("lanes"), kernel.is_open("lanes"), kernel.element("lanes")
    f = Function(name, {"source": PTR, "plane": PTR} | ({"width": "i64"} if is_open else {}), "i32, i32")
    code, widths = f.lanes(width), run_time(f, f["width"], to) if is_open else None
    length = plane.inner[-1]
    rows = math.prod(plane.inner[:-1])
    full = length - length % width
    start = sum(n * pitch for n, pitch in zip(plane.low, plane.pitches, strict=True))
    with f.carry(0, rows, 1, [code.int(0xFFFFFFFF), code.int(0)]) as row:
        outer, starts = plane.inner[:-1], []
        both = (f["source"], plane.strides, element), (f.at(f["plane"], start), plane.pitches, "f32")
        for base, strides, element_type in both:
            starts.append(f.at(base, offset_of(f, row.index, list(zip(outer, strides, strict=False))), element_type))
        source, target = starts

        def vector(place: Value | int, limits: Sequence[Value], mask: Value | None) -> Sequence[Value]:
            at, there = f.at(source, place, element), f.at(target, place)
            value = converted(code, kernel, "lanes", load_operand(code, kernel, "lanes", at, mask), widths)
            if kernel.limits is not None:
                limits = magnitude_range(code, code.cast("bitcast", value, "i32"), limits[0], limits[1])
            code.store(value, there, mask)
            return limits

        magnitudes: Sequence[Value] = row.values
        if full:
            with f.carry(0, full, width, magnitudes) as along:
                along.next = vector(along.index, along.values, None)
            magnitudes = along.results
        if full != length:
            magnitudes = vector(full, magnitudes, lanes_below(f, width, f.number(length - full)))
        row.next = magnitudes
    low, high = row.results
    return f.function(f.reduce("minui", low), f.reduce("maxui", high))


def offset_of(f: Function, number: Value, dims: Sequence[tuple[int, int]]) -> Value:
    """The offset of combination `number` of indices, the last one fastest; dims: their sizes and strides."""
    total, rest = f.number(0), number
    for size, stride in reversed(dims):
        total = f.i64("addi", total, f.i64("muli", f.i64("remui", rest, size), stride))
        rest = f.i64("divui", rest, size)
    return total
