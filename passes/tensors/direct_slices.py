"""direct-slices: slices of a tensor that was put together from parts are put where they go from these parts.

An image that is shifted along two dimensions is cut in two and put together again twice. Cut in four at once, every
element is moved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import tensor

from numc.passes import linalg

# Parts and slices of a tensor at most: each pair of them may become a copy of its own.
_MOST = 8
_CUT, _PUT = "tensor.extract_slice", "tensor.insert_slice"


@dataclass(frozen=True)
class _Box:
    """Where a slice is: its first element and its size in every dimension."""

    first: tuple[int, ...]
    size: tuple[int, ...]

    @staticmethod
    def of(op: ir.Operation) -> _Box | None:
        """The box of a slice that is cut or put, None if it is not known or no box of adjacent elements."""
        first, size, steps = (tuple(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
        small = op.results[0] if op.name == _CUT else op.operands[0]
        known = len(op.operands) == (1 if op.name == _CUT else 2) and set(steps) <= {1}
        return _Box(first, size) if known and tuple(ir.RankedTensorType(small.type).shape) == size else None

    def common(self, other: _Box) -> _Box | None:
        """The box of the elements in both, None if there are none."""
        first = tuple(map(max, self.first, other.first))
        ends = (min(a + n, b + m) for a, n, b, m in zip(self.first, self.size, other.first, other.size, strict=True))
        size = tuple(end - begin for begin, end in zip(first, ends, strict=True))
        return _Box(first, size) if min(size, default=0) > 0 else None

    def within(self, outer: _Box, offset: Sequence[int] | None = None) -> _Box:
        """This box counted from the first element of `outer`, which is at `offset`."""
        start = offset or (0,) * len(self.first)
        return _Box(tuple(a - b + c for a, b, c in zip(self.first, outer.first, start, strict=True)), self.size)


def direct_slices(module: ir.Operation) -> None:
    """Put slices of tensors that were put together from parts where they go without making these tensors."""
    with module.context, ir.Location.unknown():
        while any(map(_direct, linalg.operations(module, _PUT))):  # that may have made others that can be replaced
            pass


def _direct(whole: ir.Operation) -> bool:
    """Replace all uses of a tensor of parts, if all of them are slices that are put elsewhere; whether they are."""
    cuts = [use.owner.operation for use in whole.results[0].uses]
    if any(cut.name != _CUT or linalg.uses(cut.results[0]) != 1 for cut in cuts):
        return False
    puts = [use.owner.operation for cut in cuts for use in cut.results[0].uses]
    if any(put.name != _PUT or linalg.maker(put.operands[0]) not in cuts for put in puts):
        return False
    parts = _parts(whole)
    boxes = [(_Box.of(put.operands[0].owner.operation), _Box.of(put)) for put in puts]
    if parts is None or not boxes or max(len(parts), len(puts)) > _MOST:
        return False
    moves = []
    for put, (cut, target) in zip(puts, boxes, strict=True):
        if cut is None or target is None:
            return False
        overlaps = [(source, box, both) for source, box in parts if (both := box.common(cut)) is not None]
        if sum(prod(both.size) for _, _, both in overlaps) != prod(cut.size):
            return False  # something of it is in no part
        moves.append((put, [(v, both.within(box), both.within(cut, target.first)) for v, box, both in overlaps]))
    for put, pieces in moves:
        into = put.operands[1]
        with ir.InsertionPoint(put), put.location:
            for source, taken, destination in pieces:
                piece_type = ir.RankedTensorType.get(taken.size, ir.RankedTensorType(source.type).element_type)
                steps = [1] * len(taken.size)
                piece = tensor.ExtractSliceOp(piece_type, source, [], [], [], taken.first, taken.size, steps).result
                into = tensor.InsertSliceOp(piece, into, [], [], [], destination.first, destination.size, steps).result
        put.results[0].replace_all_uses_with(into)
        put.erase()
    for each in cuts:
        each.erase()
    for _ in parts:
        whole, unused = linalg.owner(whole.operands[1]), whole
        unused.erase()
    return True


def _parts(whole: ir.Operation) -> list[tuple[ir.Value, _Box]] | None:
    """The parts that a tensor is made of and where they are; None if it is not made of parts apart from each other."""
    parts: list[tuple[ir.Value, _Box]] = []
    op: ir.Operation | None = whole
    while op is not None and op.name == _PUT:
        box = _Box.of(op)
        if box is None or any(box.common(other) for _, other in parts) or (parts and linalg.uses(op.results[0]) != 1):
            return None
        parts.append((op.operands[0], box))
        op = linalg.maker(op.operands[1])
    return parts[::-1]
