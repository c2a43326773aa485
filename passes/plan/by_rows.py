"""by-rows: products of activations and the loops between them, as in attention, are computed some rows at a time.

A product, loops over its result and the next product form a chain if each row of every result depends on the same row
of the results before it. Then some rows can go through the whole chain before the next rows begin, and what lies
between two steps, such as the scores of attention, is never in memory as a whole. Every element is computed as before.

A chain becomes an ``scf.execute_region`` with the attribute ``numc.rows``; so do its loops, whose attribute says how
many of their dimensions are rows. rows.py says what becomes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.compiler.support.switches import disabled
from numc.passes import facts, linalg
from numc.passes.buffers.loop_nest import nest_of
from numc.passes.buffers.rows import ROWS
from numc.passes.buffers.views import VIEWS, buffers
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.linalg import Linear
from numc.passes.plan.contraction import places_of
from numc.passes.plan.emit_kernels import operands_of
from numc.passes.plan.fusion import written
from numc.passes.plan.plan import AT_COMPILE_TIME, ONCE, PLAN
from numc.passes.plan.region import Region, read_region

# What looks at a whole buffer in the order of its elements.
_WHOLE_VIEWS = ("memref.cast", "memref.expand_shape", "memref.collapse_shape", "memref.reshape")
_FREE = (*VIEWS, "memref.reshape", "memref.dim", "memref.alloc", "memref.dealloc")
_MOST_OPERANDS = 60  # of a loop: the runtime is told in one word which are memory


@dataclass(frozen=True)
class _Rows:
    """How a buffer is divided into rows, all dimensions of size 1 left out.

    count: their number, None if a size is free; then the runtime compares the numbers of all steps. inside: how many
    dimensions a row has.
    """

    count: int | None
    inside: int


def by_rows(module: ir.Operation, isa: InstructionSet) -> None:
    """Compute chains of products of activations by rows, so that what lies between them is never in memory as a whole.

    isa: the instructions of the target.
    """
    if disabled("parallel-loops"):  # loops of that pass alone can be computed in parts
        return
    with module.context, ir.Location.unknown():
        planned = [op for op in linalg.operations(module, "scf.execute_region") if _is_of_activations(op)]
        used: set[ir.Operation] = set()
        for op in planned:
            chain = None if op in used else _Chain.of([inner.operation for inner in op.block.operations], op, isa)
            if chain is not None:
                used.update(chain.members)
                chain.move()


def _has_loops(op: ir.Operation, rows: int) -> bool:
    """Whether parallel-loops will make loops of a linalg.generic, of whose body `nest_of` takes what it looks up."""
    copy = op.clone(ir.InsertionPoint(op)).operation
    found = nest_of(copy, rows) is not None
    copy.erase()
    return found


def _is_of_activations(op: ir.Operation) -> bool:
    """Whether an operation is a planned product of which no operand is a weight: those are read once for each block."""
    return PLAN in op.attributes and not any(f'"{how}"' in str(op.attributes[PLAN]) for how in (AT_COMPILE_TIME, ONCE))


class _Chain:
    """A chain that begins with one contraction, and grows by one operation after the other.

    ops: those of the block. start: where the chain begins among them. members: its steps, in order once it is closed;
    others: what else computes something between them. rows: those of every buffer that a step writes, None if it is not
    written row by row. dims: of loops, how many first dimensions are rows. numbers: of the contractions.
    """

    def __init__(self, ops: list[ir.Operation], start: int, isa: InstructionSet) -> None:
        self._ops, self._start, self._isa = ops, start, isa
        self._at = {op: n for n, op in enumerate(ops)}
        self._rows: dict[ir.Value, _Rows | None] = {}
        self._dims: dict[ir.Operation, int] = {}
        self._numbers: list[int] = []
        self._others: list[ir.Operation] = []
        self.members: list[ir.Operation] = []

    @staticmethod
    def of(ops: list[ir.Operation], first: ir.Operation, isa: InstructionSet) -> _Chain | None:
        """The chain that begins with the contraction `first` and ends with the next one that takes its result."""
        chain = _Chain(ops, ops.index(first), isa)
        if not chain._add_contraction(first):
            return None
        for op in ops[chain._start + 1 :]:
            taken = _touched(op)
            if op.name in _FREE or not taken:
                continue
            if taken.isdisjoint(chain._rows):
                chain._others.append(op)
            elif op.name == "linalg.generic":
                if not chain._add_loops(op):
                    return None
            elif PLAN not in op.attributes or not chain._add_contraction(op):
                return None
            else:
                return chain if chain._is_closed() else None
        return None

    def _add_contraction(self, op: ir.Operation) -> bool:
        if not _is_of_activations(op):
            return False
        region = read_region(op, self._isa)
        rows, lanes, *streams, out = operands_of(region)
        shape, sizes = region.found.shape, region.found.sizes
        dims = [d for d in (*shape.batch, *shape.rows) if sizes.get(d) != 1]
        known = [o for o in (rows, lanes, *streams) if _base(o.value) in self._rows]
        if region.padding is not None or region.outside is not None or region.contraction.id < 0 or not dims:
            return False
        if not shape.batch and isinstance(_base(lanes.value).owner, ir.Block):
            return False  # as the weights of a training are: every block of rows would read all of them
        if lanes in known or (rows in known and _needs_whole_rows(region)) or bool(self.members) != (rows in known):
            return False
        if any(self._dims_of(o.value, o.places) != dims for o in known):
            return False
        self._numbers.append(region.contraction.id)
        return self._add(op, [(o.value, o.places) for o in (rows, lanes, *streams)], (out.value, out.places), dims)

    def _add_loops(self, op: ir.Operation) -> bool:
        """Add loops of which some operand is row by row."""
        inputs = linalg.input_count(op)
        maps = linalg.indexing_maps(op)
        if any(linalg.linear(e) is None for m in maps for e in m.results):
            return False
        operands = [(v, places_of(m)) for v, m in zip(op.operands, maps, strict=True)]
        found = [self._dims_of(v, places) for v, places in operands if _base(v) in self._rows]
        if not found or found[0] is None or any(dims != found[0] for dims in found):
            return False
        dims = found[0]
        count = dims[-1] + 1
        sizes, kinds = linalg.loop_sizes(op)[:count], linalg.iterator_types(op)[:count]
        if [d for d in range(count) if sizes[d] != 1] != dims or "reduction" in kinds:
            return False
        if any(not self._rows.keys().isdisjoint(buffers(v)) for v in linalg.captured(op)[1]):  # it looks elements up
            return False
        if len(op.operands) > _MOST_OPERANDS or not _has_loops(op, count):
            return False
        self._dims[op] = count
        return all(self._add(op, operands[:inputs], out, dims) for out in operands[inputs:])

    def _add(
        self,
        op: ir.Operation,
        inputs: Iterable[tuple[ir.Value, Sequence[Linear]]],
        out: tuple[ir.Value, Sequence[Linear]],
        dims: list[int],
    ) -> bool:
        """Add a step and the buffer that it writes; `dims`: those of its dimensions that are rows."""
        values = [value for value, _ in inputs]
        if any(_base(v) not in self._rows and not self._rows.keys().isdisjoint(buffers(v)) for v in values):
            return False
        buffer = _base(out[0])
        maker = linalg.maker(buffer)
        if maker is None or maker.name != "memref.alloc":
            return False
        if buffer not in self._rows:
            if any(buffer in buffers(v) for v in values) or any(buffer in _touched(m) for m in self.members):
                return False  # a step may need other rows of what was there before
            self._rows[buffer] = _rows_of(*out, dims)
            self._add_fills(buffer)
        if op not in self.members:
            self.members.append(op)
        return True

    def _add_fills(self, buffer: ir.Value) -> None:
        """Add the loops between the steps that have filled a buffer, as the start of a sum."""
        for op in [other for other in self._others if _touched(other) == {buffer}]:
            if op.name == "linalg.generic" and self._add_loops(op):
                self._others.remove(op)

    def _dims_of(self, value: ir.Value, places: Sequence[Linear]) -> list[int] | None:
        """The dimensions of an operation that count the rows of a buffer; None if they do not do so in their order."""
        rows, kind = self._rows[_base(value)], ir.MemRefType(value.type)
        count = None if rows is None or not _is_whole(value) else _first_dims(kind, rows)
        if count is None:
            return None
        found: list[int] = []
        for n, (coefficients, start) in enumerate(places[:count]):
            if _size(kind, n) == 1:
                continue
            if list(coefficients.values()) != [1] or start != 0:
                return None
            found += coefficients
        inside = {d for coefficients, _ in places[count:] for d in coefficients}
        return found if inside.isdisjoint(found) else None

    def _is_closed(self) -> bool:
        """Whether some buffer is used by the steps only, and what else is between them can go before them."""
        self.members.sort(key=self._at.__getitem__)
        for op in self._others:
            before = [m for m in self.members if self._at[m] < self._at[op]]
            if not written(op).isdisjoint(buffer for m in before for buffer in _touched(m)):
                return False
        return any(rows is not None and rows.inside > 0 for rows in map(self._rows.get, self._between()))

    def _between(self) -> list[ir.Value]:
        """The buffers that only the steps use."""
        return [b for b, rows in self._rows.items() if rows is not None and self._uses(b) is not None]

    def _uses(self, buffer: ir.Value) -> list[ir.Operation] | None:
        """What makes, views and frees a buffer that only the steps use; None if others use it."""
        found = [buffer.owner.operation]
        for value in (waiting := [buffer]):
            for use in value.uses:
                op = use.owner.operation
                if op in self._at and op.name in _WHOLE_VIEWS:
                    found.append(op)
                    waiting.append(op.results[0])
                elif op in self._at and op.name == "memref.dealloc":
                    found.append(op)
                elif self._step(op) not in self.members:
                    return None
        return found if all(op in self._at for op in found) else None

    def _step(self, op: ir.Operation) -> ir.Operation:
        """The operation of the block that an operation is in."""
        while op not in self._at and op.parent is not None:
            op = op.parent.operation
        return op

    def move(self) -> None:
        """Move the steps into a region, with what makes and frees the buffers between them."""
        last = self.members[-1]
        inside = {op for b in self._between() for op in self._uses(b) or ()} | set(self.members)
        with ir.InsertionPoint(last), self.members[0].location:
            region = ir.Operation.create("scf.execute_region", attributes={"no_inline": ir.UnitAttr.get()}, regions=1)
            with ir.InsertionPoint(region.regions[0].blocks.append()):
                end = ir.Operation.create("scf.yield")
        for op in self._ops[self._start : self._at[last]]:
            if op.name == "memref.dealloc" and op not in inside:  # the steps may still need what it frees
                op.move_after(region)
        for op in sorted(inside, key=self._at.__getitem__):
            op.move_before(end)
        facts.put(region, ROWS, self._numbers)
        for op, count in self._dims.items():  # an operation that has changed is found in no dictionary any more
            facts.put(op, ROWS, count)
        for op in inside:
            if op.name == "memref.alloc":  # the bytes that it asks for are those of its rows; all memory is aligned
                facts.drop(op, "alignment")


def _touched(op: ir.Operation) -> set[ir.Value]:
    """The buffers that an operation, or what it contains, takes."""
    values = {value for inner in linalg.operations(op) for value in inner.operands}
    return {found for value in values if isinstance(value.type, ir.MemRefType) for found in buffers(value)}


def _needs_whole_rows(region: Region) -> bool:
    """Whether a contraction has to see all of the operand that supplies the rows before it converts any of it."""
    kernel = region.kernel
    if kernel.is_open("rows"):  # a run may measure it
        return True
    groups = None if kernel.groups is None else kernel.groups_of("rows")
    return groups is not None and (groups.channel or groups.format.shares_tensor)


def _size(kind: ir.MemRefType, n: int) -> int:
    return -1 if kind.is_dynamic_dim(n) else kind.get_dim_size(n)


def _base(value: ir.Value) -> ir.Value:
    """The buffer that `value` is a view of."""
    while (op := linalg.maker(value)) is not None and op.name in (*VIEWS, "memref.reshape"):
        value = op.operands[0]
    return value


def _is_whole(value: ir.Value) -> bool:
    """Whether `value` is a dense view of all elements of a buffer in their order."""
    while (op := linalg.maker(value)) is not None and op.name in _WHOLE_VIEWS:
        value = op.operands[0]
    return value == _base(value) and isinstance(ir.MemRefType(value.type).layout, ir.AffineMapAttr)


def _long(kind: ir.MemRefType, first: int) -> int:
    """How many dimensions from `first` on are not of size 1."""
    return sum(_size(kind, n) != 1 for n in range(first, kind.rank))


def _first_dims(kind: ir.MemRefType, rows: _Rows) -> int | None:
    """How many first dimensions of a view of a buffer count its rows; None if no number of them does."""
    every = range(kind.rank + 1)
    if rows.count is None:
        return next((n for n in every if _long(kind, n) == rows.inside), None)
    return next((n for n in every if kind.has_static_shape and math.prod(kind.shape[:n]) == rows.count), None)


def _rows_of(value: ir.Value, places: Sequence[Linear], dims: list[int]) -> _Rows | None:
    """The rows of a buffer that an operation writes through a view; None if it does not write it row by row."""
    kind, left, count = ir.MemRefType(value.type), list(dims), 0
    while left and count < kind.rank:
        if _size(kind, count) != 1 and places[count] != ({left.pop(0): 1}, 0):
            return None
        count += 1
    inside = {d for coefficients, _ in places[count:] for d in coefficients}
    if left or not _is_whole(value) or not inside.isdisjoint(dims):
        return None
    known = kind.has_static_shape
    return _Rows(math.prod(kind.shape[:count]) if known else None, _long(kind, count))
