"""Which elements windows consist of: where a border that changes no extreme is left out, those of what is inside.

The largest element of three rows of a padded image is that of two rows at its edge. So the border need not be in memory
before the windows are reduced, which would copy the whole image.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, product
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import tensor

from numc.passes import linalg

# Parts of a result that are computed on their own at most: each is a loop.
MOST_PARTS = 3


class Window(NamedTuple):
    """The windows along one dimension: how far they are apart, how far their elements are, how many these are."""

    dim: int
    stride: int
    dilation: int
    size: int


class Segment(NamedTuple):
    """Some results along one dimension: the first, how many, and which elements of their windows they depend on.

    start, stride, dilation: where the first of these elements is for the first result, how far it is from that for the
    next result, and how far it is from the next one of them.
    """

    first: int
    size: int
    taps: int
    start: int
    stride: int
    dilation: int


class Source(NamedTuple):
    """A tensor that windows look at: what is `inside` of a border, and how many elements are before it.

    border: whether there is one.
    """

    inside: ir.Value
    before: tuple[int, ...]
    border: bool

    @staticmethod
    def of(value: ir.Value, number: str | None = None) -> Source:
        """`value`, without a border of a number if it has one."""
        op = linalg.maker(value)
        if number and op is not None and op.name == "tensor.insert_slice" and len(op.operands) == 2:
            inside, around = op.operands
            before, strides = (tuple(op.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
            same_rank = ir.RankedTensorType(inside.type).rank == len(before)
            if linalg.filled_with(around) == number and set(strides) == {1} and same_rank:
                return Source(inside, before, border=True)
        return Source(value, (0,) * ir.RankedTensorType(value.type).rank, border=False)

    def parts(self, windows: Sequence[Window], shape: Sequence[int]) -> list[tuple[Segment, ...]]:
        """The parts of a result of a shape, each with a segment in every dimension; what is only border is in none.

        Dimensions without a window keep their border.
        """
        moving = {window.dim: window for window in windows}
        sizes = ir.RankedTensorType(self.inside.type).shape
        segments_by_dim = [
            segments(moving[d], count, size, before)
            if d in moving
            else [Segment(first=before, size=size, taps=1, start=0, stride=1, dilation=1)]
            for d, (count, size, before) in enumerate(zip(shape, sizes, self.before, strict=True))
        ]
        return list(product(*segments_by_dim))

    def slices(self, part: Sequence[Segment]) -> list[ir.Value]:
        """One tensor for each element that the results of a part depend on, in the order of the windows."""
        source_type = ir.RankedTensorType(self.inside.type)
        sizes, strides = [s.size for s in part], [s.stride for s in part]
        slices = []
        for numbers in product(*(range(s.taps) for s in part)):
            starts = [s.start + n * s.dilation for s, n in zip(part, numbers, strict=True)]
            result = ir.RankedTensorType.get(sizes, source_type.element_type)
            slices.append(tensor.ExtractSliceOp(result, self.inside, [], [], [], starts, sizes, strides).result)
        return slices


def segments(window: Window, count: int, size: int, before: int) -> list[Segment]:
    """So many results of a window over `size` elements behind a border, by which elements are inside."""
    _, stride, dilation, taps = window

    def inside(n: int) -> list[int]:
        return [tap for tap in range(taps) if 0 <= n * stride + tap * dilation - before < size]

    first = min(-(-before // stride), count)
    end = max(first, min(count, (before + size - 1 - (taps - 1) * dilation) // stride + 1))
    edges = ([list(run) for _, run in groupby(some, inside)] for some in (range(first), range(end, count)))
    pieces, (low, high) = [], edges
    for run in (*low, range(first, end), *high):
        if run and (there := inside(run[0])):
            start = run[0] * stride + there[0] * dilation - before
            pieces.append(
                Segment(first=run[0], size=len(run), taps=len(there), start=start, stride=stride, dilation=dilation)
            )
    return pieces
