"""by-rows: operations that follow each other, as those of attention and of pooling, are computed some rows at a time.

Some rows go through all steps of a chain (chain.py) before the next rows begin, and what lies between two steps is
never in memory as a whole. Every element is computed as before. A chain is one of three kinds:

- two products of activations and the loops between them, as in attention, of which the scores lie between the steps;
- products of activations and the loops between them, of which a batch is a row: in the backward pass of attention, some
  products sum over the rows of the scores of a head, and others over their columns;
- loops and copies that follow each other (loop_chains.py), as the padding of images and the pooling of windows of them.

A chain becomes an ``scf.execute_region`` with the attribute ``numc.rows``; so do its loops, whose attribute says how
many of their dimensions are rows. rows.py says what becomes of it.
"""

from __future__ import annotations

import math

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.explicit.width_slots import measures
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.plan.plan import AT_COMPILE_TIME, ONCE, PLAN
from numc.passes.plan.region import Region, operands_of, read_region
from numc.passes.rows.buffer_rows import base, bytes_of
from numc.passes.rows.chain import FREE, Chain, Stretch
from numc.passes.rows.loop_chains import chains_of_loops
from numc.passes.vector.call_rows import BATCHES
from numc.support.switches import disabled

# Bytes at least between the steps of a chain of batches.
_LEAST_BETWEEN = 1 << 20


def by_rows(module: ir.Operation, isa: InstructionSet) -> None:
    """Compute chains of products and loops by rows, so that what lies between them is never in memory as a whole.

    isa: the instructions of the target.
    """
    if disabled("parallel-loops"):  # loops of that pass alone can be computed in parts
        return
    with module.context, ir.Location.unknown():
        planned = [op for op in linalg.operations(module, "scf.execute_region") if _is_of_activations(op)]
        used: set[ir.Operation] = set()
        block = Stretch([])
        for op in planned:
            if op in used:
                continue
            if op not in block.at:
                block = Stretch(inner.operation for inner in op.block.operations)
            chain = _Products.of(block, op, isa) or _Batches.of(block, op, isa)
            if chain is not None:
                used.update(chain.members)
                region = chain.move(chain.numbers)
                if isinstance(chain, _Batches):
                    region.attributes[BATCHES] = ir.UnitAttr.get()
                block = Stretch([])
        chains_of_loops(linalg.main(module))


def _is_of_activations(op: ir.Operation) -> bool:
    """Whether an operation is a planned product of which no operand is a weight: those are read once for each block."""
    return PLAN in op.attributes and not any(f'"{how}"' in str(op.attributes[PLAN]) for how in (AT_COMPILE_TIME, ONCE))


class _OfProducts(Chain):
    """A chain that begins with a product."""

    def __init__(self, block: Stretch, start: int, isa: InstructionSet) -> None:
        super().__init__(block, start)
        self._isa = isa
        self._numbers: dict[ir.Operation, int] = {}

    @property
    def numbers(self) -> list[int]:
        """The numbers of the contractions."""
        return [self._numbers[op] for op in self.members if op in self._numbers]

    def add_contraction(self, op: ir.Operation) -> bool:
        """Add a product, or return False if it cannot be computed by rows."""
        if not _is_of_activations(op) or measures(op):  # what may measure an operand stays where it is
            return False
        region = read_region(op, self._isa)
        if region.padding is not None or region.outside is not None or region.contraction.id < 0:
            return False
        rows, lanes, *streams, out = operands_of(region)
        known = [o for o in (rows, lanes, *streams) if base(o.value) in self.rows]
        dims = self.dims_in(region, rows in known, lanes in known)
        if not dims:
            return False
        if any(self.dims_of(o.value, o.places) != dims for o in known):
            return False
        self._numbers[op] = region.contraction.id
        return self.add(op, [(o.value, o.places) for o in (rows, lanes, *streams)], (out.value, out.places), dims)

    def dims_in(self, region: Region, by_rows: bool, by_lanes: bool) -> list[int]:
        """The dimensions of a product that are rows of the chain; none if it cannot be a step.

        by_rows, by_lanes: whether steps have made the operand that supplies its rows or its lanes.
        """
        raise NotImplementedError


class _Products(_OfProducts):
    """A chain that begins and ends with a product."""

    @staticmethod
    def of(block: Stretch, first: ir.Operation, isa: InstructionSet) -> _Products | None:
        """The chain that begins with the contraction `first` and ends with the next one that takes its result."""
        start = block.at[first]
        chain = _Products(block, start, isa)
        if not chain.add_contraction(first):
            return None
        for op in block.ops[start + 1 :]:
            taken = block.touched(op)
            if op.name in FREE or not taken:
                continue
            if taken.isdisjoint(chain.rows):
                chain.others.append(op)
            elif op.name == "linalg.generic":
                if not chain.add_loops(op):
                    return None
            elif PLAN not in op.attributes or not chain.add_contraction(op):
                return None
            else:
                return chain if chain.is_closed() else None
        return None

    def dims_in(self, region: Region, by_rows: bool, by_lanes: bool) -> list[int]:
        """Its batches and rows, if it takes the result of the first product as its rows."""
        shape, sizes = region.found.shape, region.found.sizes
        if not shape.batch and isinstance(base(region.found.lanes.value).owner, ir.Block):
            return []  # as the weights of a training are: every block of rows would read all of them
        if by_lanes or bool(self.members) != by_rows or (by_rows and _needs_whole(region, "rows")):
            return []
        return [d for d in (*shape.batch, *shape.rows) if sizes.get(d) != 1]


class _Batches(_OfProducts):
    """A chain of products of which every batch is a row. A step may be a product of what no step has made."""

    _batches = 0

    @staticmethod
    def of(block: Stretch, first: ir.Operation, isa: InstructionSet) -> _Batches | None:
        """The longest chain that begins with the contraction `first`, if much lies between its steps."""
        start = block.at[first]
        chain = _Batches(block, start, isa)
        if not chain.add_contraction(first):
            return None
        for op in block.ops[start + 1 :]:
            taken = block.touched(op)
            if op.name in FREE or not taken:
                continue
            if op.name == "linalg.generic" and not taken.isdisjoint(chain.rows):
                if not chain.add_loops(op):
                    break
            elif PLAN not in op.attributes or not chain.add_contraction(op):
                if not taken.isdisjoint(chain.rows):
                    break
                chain.others.append(op)
        while len(chain.members) > 1:
            if chain.is_closed() and sum(map(bytes_of, chain.between())) >= _LEAST_BETWEEN:
                return chain
            chain.members.pop()
        return None

    def dims_in(self, region: Region, by_rows: bool, by_lanes: bool) -> list[int]:
        """Its batches, if all sizes are known."""
        found = region.found
        if any(found.sizes.get(d) is None for d in found.shape.order):
            return []
        if (by_rows and _needs_whole(region, "rows")) or (by_lanes and _needs_whole(region, "lanes")):
            return []
        batch = {d: found.sizes[d] for d in found.shape.batch if found.sizes[d] != 1}
        if math.prod(batch.values()) != (self._batches or math.prod(batch.values())):
            return []
        self._batches = math.prod(batch.values())
        return list(batch)


def _needs_whole(region: Region, side: str) -> bool:
    """Whether a contraction has to see all of an operand before it converts any of it."""
    kernel = region.kernel
    if kernel.is_open(side):  # a run may measure it
        return True
    groups = kernel.grouped(side)
    return groups is not None and (groups.channel or groups.format.shares_tensor)
