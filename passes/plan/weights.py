"""Weights that a contraction reads in packed form: packed once, when the program is built."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch_mlir import ir

from numc.compiler.arithmetic.formats import Format
from numc.compiler.arithmetic.groups import GroupConversion, GroupFormat
from numc.compiler.arithmetic.numpy_groups import convert_operand, largest_magnitude, magnitude_chunks
from numc.passes.kernels.micro_kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, layout
from numc.passes.kernels.packing.pack_arrays import packed, packed_groups
from numc.passes.plan.contraction import Found, Operand, static_sizes

Directions = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Packing:
    """How a weight, an argument of main by its number, is packed.

    start: the offset of its first element; then sizes and strides along batch, rows or lanes, and k. dims: the sizes of
    the contraction's dimensions, as far as the weight knows them. conversion: what its values need first, or nothing.
    groups: the conversion that follows, if its format has groups; what it depends on is the largest value of the whole
    operand, at `origin` and along `whole`.
    format: what they are in then.
    """

    weight: int
    start: int
    batch: Directions
    across: Directions
    k: Directions
    dims: dict[int, int]
    layout: Layout
    conversion: str
    groups: GroupConversion | None
    origin: int
    whole: Directions
    format: Format | GroupFormat

    @property
    def key(self) -> tuple[object, ...]:
        """Equal keys mean equal packed weights."""
        places = self.start, self.batch, self.across, self.k, self.origin, self.whole
        return self.weight, *places, self.layout, self.conversion, self.groups

    @property
    def shape(self) -> tuple[int, int, int]:
        """Batches, rows or lanes, depth."""
        batch, across, k = (math.prod(size for size, _ in d) for d in (self.batch, self.across, self.k))
        return batch, across, k

    def __call__(self, weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pack `weight`, converted already, but to groups."""
        flat = weight.reshape(-1)
        values = flat[_indices(self.start, (*self.batch, *self.across, *self.k))]
        if self.groups is None:
            return packed(values.reshape(self.shape), self.layout)
        rows = values.reshape(-1, self.shape[2])
        largest: np.float32 | npt.NDArray[np.float32]
        if self.groups.channel:
            largest = np.array([largest_magnitude(row, self.groups.format) for row in rows], np.float32)
        else:
            largest = largest_magnitude(flat[_indices(self.origin, self.whole)], self.groups.format)
        operand = convert_operand(rows, self.groups, largest)
        chunks = magnitude_chunks(operand.values, self.groups, largest, self.layout.parts)  # of bfp
        return packed_groups(operand, chunks, self.shape, self.layout, largest)


def _indices(start: int, directions: Iterable[tuple[int, int]]) -> npt.NDArray[np.int64]:
    index = np.full((1,), start, np.int64)
    for size, stride in directions:
        index = (index[:, None] + np.arange(size) * stride).reshape(-1)
    return index


def packing_of(
    weight: int, operand: Operand, found: Found, across: list[int], kernel: Kernel, side: str
) -> Packing | None:
    """How a view of a weight is packed for one side of a kernel, if its sizes and strides are known."""
    kind = ir.MemRefType(operand.value.type)
    strides_of_view, start = kind.get_strides_and_offset()
    sizes = static_sizes(operand, kind)
    batch = [d for d in found.shape.batch if d in operand.dims()]
    dims = (*batch, *across, *found.shape.k)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    if any(d not in sizes for d in dims) or dynamic in (*strides_of_view, start):
        return None
    origin, whole = start, tuple(zip(kind.shape, strides_of_view, strict=True))
    strides = dict.fromkeys(dims, 0)
    for (coefficients, constant), stride in zip(operand.places, strides_of_view, strict=True):
        start += constant * stride
        for d, factor in coefficients.items():
            strides[d] += factor * stride

    def directions(group: Iterable[int]) -> tuple[tuple[int, int], ...]:
        return tuple((sizes[d], strides[d]) for d in group)

    places = directions(batch), directions(across), directions(found.shape.k)
    if layout(kernel, side).channel and math.prod(size for size, _ in places[0]) != 1:
        return None  # one list of channels is what a packed weight has
    groups = None if kernel.fma.groups is None else kernel.groups_of(side)
    if groups is not None and groups.noise is not None:
        return None  # drawn anew in every execution
    fmt = kernel.conversion(side).format if groups is None else groups.format
    to = layout(kernel, side)
    return Packing(weight, start, *places, sizes, to, operand.conversion, groups, origin, whole, fmt)
