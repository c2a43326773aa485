"""Chains: operations on buffers that can be computed some rows at a time, one step after the other.

Each row of what a step computes depends on the same row of what the steps before it have computed. A row is what the
same numbers of the first dimensions of every buffer have: of a matrix a row, of an image one of its planes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.loop_nest import nest_of
from numc.passes.buffers.views import VIEWS, buffers
from numc.passes.linalg import Linear
from numc.passes.plan.contraction import places_of
from numc.passes.plan.fusion import written
from numc.passes.rows.buffer_rows import WHOLE_VIEWS, Rows, base, dims_of, rows_of
from numc.passes.vector.call_rows import ROWS

FREE = (*VIEWS, "memref.reshape", "memref.dim", "memref.alloc", "memref.dealloc")
LOOPS = ("linalg.generic", "memref.copy")
_MOST_OPERANDS = 60  # of a loop: the runtime is told in one word which are memory


class Stretch:
    """Operations of a block that follow each other, where several chains are looked for.

    at: the place of each of them. What an operation touches, and which loops it is, is found once, so that none of them
    may change.
    """

    def __init__(self, ops: Iterable[ir.Operation]) -> None:
        self.ops = list(ops)
        self.at = {op: n for n, op in enumerate(self.ops)}
        self._touched: dict[ir.Operation, set[ir.Value]] = {}
        self._loops: dict[ir.Operation, _Loops] = {}

    def loops(self, op: ir.Operation) -> _Loops:
        """The loops of one of the operations, which is one of LOOPS."""
        if op not in self._loops:
            self._loops[op] = _Loops.of(op)
        return self._loops[op]

    def touched(self, op: ir.Operation) -> set[ir.Value]:
        """The buffers that one of the operations, or what it contains, takes."""
        if op not in self._touched:
            values = {value for inner in linalg.operations(op) for value in inner.operands}
            memrefs = [value for value in values if isinstance(value.type, ir.MemRefType)]
            self._touched[op] = {buffer for value in memrefs for buffer in buffers(value)}
        return self._touched[op]


class Chain:
    """A chain that begins with one operation of a stretch, and grows by one operation after the other.

    start: where the chain begins in the stretch. members: its steps, in order once it is closed; others: what else
    computes something between them. rows: those of every buffer that a step writes, None if it is not written row by
    row. least: how many elements of a result loops compute in a row at least.
    """

    def __init__(self, stretch: Stretch, start: int, least: int = 0) -> None:
        self._stretch, self._start, self._least = stretch, start, least
        self._dims: dict[ir.Operation, int] = {}  # of loops, how many first dimensions are rows
        self.rows: dict[ir.Value, Rows | None] = {}
        self.others: list[ir.Operation] = []
        self.members: list[ir.Operation] = []

    def add_loops(self, op: ir.Operation, first: list[int] | None = None) -> bool:
        """Add loops of which an operand is row by row, or the first step, of which the dimensions `first` are rows."""
        loops = self._stretch.loops(op)
        if not loops.are_linear:
            return False
        operands = [(v, places_of(m)) for v, m in zip(op.operands, loops.maps, strict=True)]
        dims_by_operand = (
            [first] if first else [self.dims_of(v, places) for v, places in operands if base(v) in self.rows]
        )
        if not dims_by_operand or not dims_by_operand[0] or any(dims != dims_by_operand[0] for dims in dims_by_operand):
            return False
        dims = dims_by_operand[0]
        count = dims[-1] + 1
        if [d for d in range(count) if loops.sizes[d] != 1] != dims or "reduction" in loops.kinds[:count]:
            return False
        if any(not self.rows.keys().isdisjoint(buffers(v)) for v in linalg.captured(op)[1]):  # it looks elements up
            return False
        if len(op.operands) > _MOST_OPERANDS or not loops.can_be_made:
            return False
        into = {base(v) for v, _ in operands[loops.inputs :]}
        if loops.in_row(count) < self._least and into.isdisjoint(self.rows):  # it does not write a part of a row
            return False
        if not all(self.add(op, operands[: loops.inputs], out, dims) for out in operands[loops.inputs :]):
            self.members = [member for member in self.members if member != op]
            return False
        self._dims[op] = count
        return True

    def add(
        self,
        op: ir.Operation,
        inputs: Iterable[tuple[ir.Value, Sequence[Linear]]],
        out: tuple[ir.Value, Sequence[Linear]],
        dims: list[int],
    ) -> bool:
        """Add a step and the buffer that it writes; `dims`: those of its dimensions that are rows."""
        values = [value for value, _ in inputs]
        if any(base(v) not in self.rows and not self.rows.keys().isdisjoint(buffers(v)) for v in values):
            return False
        buffer = base(out[0])
        maker = linalg.maker(buffer)
        if maker is None or maker.name != "memref.alloc":
            return False
        if buffer not in self.rows:
            before = [self._stretch.touched(member) for member in self.members]
            if any(buffer in buffers(v) for v in values) or any(buffer in taken for taken in before):
                return False  # a step may need other rows of what was there before
            self.rows[buffer] = rows_of(*out, dims)
            self._add_fills(buffer)
        if op not in self.members:
            self.members.append(op)
        return True

    def _add_fills(self, buffer: ir.Value) -> None:
        """Add the loops between the steps that have filled a buffer, as the start of a sum."""
        for op in [other for other in self.others if self._stretch.touched(other) == {buffer}]:
            if op.name in LOOPS and self.add_loops(op):
                self.others.remove(op)

    def dims_of(self, value: ir.Value, places: Sequence[Linear]) -> list[int] | None:
        """The dimensions of an operation that count the rows of an operand, in their order; None if there are none."""
        return dims_of(value, places, self.rows[base(value)])

    def is_closed(self) -> bool:
        """Whether some buffer is used by the steps only, and what else is between them can go before them."""
        self.members.sort(key=self._stretch.at.__getitem__)
        for op in self.others:
            if self._stretch.at[op] > self._stretch.at[self.members[-1]]:
                continue
            before = [m for m in self.members if self._stretch.at[m] < self._stretch.at[op]]
            if not written(op).isdisjoint(buffer for m in before for buffer in self._stretch.touched(m)):
                return False
        return any(rows is not None and rows.inside > 0 for rows in map(self.rows.get, self.between()))

    def between(self) -> list[ir.Value]:
        """The buffers that only the steps use."""
        return [b for b, rows in self.rows.items() if rows is not None and self._uses(b) is not None]

    def _uses(self, buffer: ir.Value) -> list[ir.Operation] | None:
        """The operations that make, view and free a buffer that only the steps use; None if others use it."""
        users = [buffer.owner.operation]
        for value in (waiting := [buffer]):
            for use in value.uses:
                op = use.owner.operation
                if op in self._stretch.at and op.name in (*WHOLE_VIEWS, "memref.subview"):
                    users.append(op)
                    waiting.append(op.results[0])
                elif op in self._stretch.at and op.name == "memref.dealloc":
                    users.append(op)
                elif self._step(op) not in self.members:
                    return None
        return users if all(op in self._stretch.at for op in users) else None

    def _step(self, op: ir.Operation) -> ir.Operation:
        """The operation of the block that an operation is in."""
        while op not in self._stretch.at and op.parent is not None:
            op = op.parent.operation
        return op

    def move(self, contractions: list[int]) -> ir.Operation:
        """Move the steps, of which some are these contractions, into a region, with the buffers between them."""
        last = self.members[-1]
        inside = {op for b in self.between() for op in self._uses(b) or ()} | set(self.members)
        named = next(filter(linalg.name_of, self.members), last)
        with ir.InsertionPoint(last), named.location:
            region = ir.Operation.create("scf.execute_region", attributes={"no_inline": ir.UnitAttr.get()}, regions=1)
            with ir.InsertionPoint(region.regions[0].blocks.append()):
                end = ir.Operation.create("scf.yield")
        for op in self._stretch.ops[self._start : self._stretch.at[last]]:
            if op.name == "memref.dealloc" and op not in inside:  # the steps may still need what it frees
                op.move_after(region)
        for op in sorted(inside, key=self._stretch.at.__getitem__):
            op.move_before(end)
        facts.put(region, ROWS, contractions)
        for op in inside:
            if op.name == "memref.alloc":  # the bytes that it asks for are those of its rows; all memory is aligned
                facts.drop(op, "alignment")
        for op, count in self._dims.items():  # an operation that has changed is found in no dictionary any more
            facts.put(_as_generic(op), ROWS, count)
        return region


@dataclass(frozen=True)
class _Loops:
    """The loops of an operation: its operands' maps, the first `inputs` of which are read, trip counts and kinds."""

    op: ir.Operation
    inputs: int
    maps: list[ir.AffineMap]
    sizes: Sequence[int | None]
    kinds: Sequence[str]

    @staticmethod
    def of(op: ir.Operation) -> _Loops:
        if op.name == "linalg.generic":
            sizes, kinds = linalg.loop_sizes(op), linalg.iterator_types(op)
            return _Loops(op, linalg.input_count(op), linalg.indexing_maps(op), sizes, kinds)
        memref_type = ir.MemRefType(op.operands[1].type)
        sizes = [
            None if memref_type.is_dynamic_dim(n) else memref_type.get_dim_size(n) for n in range(memref_type.rank)
        ]
        return _Loops(op, 1, [ir.AffineMap.get_identity(memref_type.rank)] * 2, sizes, ["parallel"] * memref_type.rank)

    def in_row(self, rows: int) -> float:
        """The elements of a result that it computes in a row, if `rows` first dimensions are rows."""
        inside = zip(self.sizes[rows:], self.kinds[rows:], strict=True)
        return math.prod(math.inf if size is None else size for size, iterator in inside if iterator == "parallel")

    @cached_property
    def are_linear(self) -> bool:
        """Whether the places of all operands are sums of multiples of the loops' numbers."""
        return all(linalg.linear(e) is not None for m in self.maps for e in m.results)

    @cached_property
    def can_be_made(self) -> bool:
        """Whether parallel-loops will make loops of it, of whose body `nest_of` takes what it looks up.

        This does not depend on how many of its dimensions are rows.
        """
        copy = self.op.clone(ir.InsertionPoint(self.op)).operation
        generic = _as_generic(copy)
        has_nest = nest_of(generic) is not None
        generic.erase()
        return has_nest


def _as_generic(op: ir.Operation) -> ir.Operation:
    """A copy as linalg.generic, in its place; any other operation is returned as it is."""
    if op.name != "memref.copy":
        return op
    with ir.InsertionPoint(op), op.location:
        new = linalg.copying(*op.operands)
    op.erase()
    return new
