"""by-rows: operations that follow each other, as those of attention and of pooling, are computed some rows at a time.

Some rows go through all steps of a chain (chain.py) before the next rows begin, and what lies between two steps is
never in memory as a whole. Every element is computed as before. A chain is one of two kinds:

- two products of activations and the loops between them, as in attention, of which the scores lie between the steps;
- loops and copies that follow each other (loop_chains.py), as the padding of images and the pooling of windows of them.

A chain becomes an ``scf.execute_region`` with the attribute ``numc.rows``; so do its loops, whose attribute says how
many of their dimensions are rows. rows.py says what becomes of it.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.compiler.support.switches import disabled
from numc.passes import linalg
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.plan.buffer_rows import base
from numc.passes.plan.chain import FREE, Chain, Stretch
from numc.passes.plan.emit_kernels import operands_of
from numc.passes.plan.loop_chains import chains_of_loops
from numc.passes.plan.plan import AT_COMPILE_TIME, ONCE, PLAN
from numc.passes.plan.region import Region, read_region


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
            chain = _Products.of(block, op, isa)
            if chain is not None:
                used.update(chain.members)
                chain.move(chain.numbers)
                block = Stretch([])
        chains_of_loops(linalg.main(module))


def _is_of_activations(op: ir.Operation) -> bool:
    """Whether an operation is a planned product of which no operand is a weight: those are read once for each block."""
    return PLAN in op.attributes and not any(f'"{how}"' in str(op.attributes[PLAN]) for how in (AT_COMPILE_TIME, ONCE))


class _Products(Chain):
    """A chain that begins and ends with a product; numbers: of the contractions."""

    def __init__(self, block: Stretch, start: int, isa: InstructionSet) -> None:
        super().__init__(block, start)
        self._isa = isa
        self.numbers: list[int] = []

    @staticmethod
    def of(block: Stretch, first: ir.Operation, isa: InstructionSet) -> _Products | None:
        """The chain that begins with the contraction `first` and ends with the next one that takes its result."""
        start = block.at[first]
        chain = _Products(block, start, isa)
        if not chain._add_contraction(first):
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
            elif PLAN not in op.attributes or not chain._add_contraction(op):
                return None
            else:
                return chain if chain.is_closed() else None
        return None

    def _add_contraction(self, op: ir.Operation) -> bool:
        if not _is_of_activations(op):
            return False
        region = read_region(op, self._isa)
        rows, lanes, *streams, out = operands_of(region)
        shape, sizes = region.found.shape, region.found.sizes
        dims = [d for d in (*shape.batch, *shape.rows) if sizes.get(d) != 1]
        known = [o for o in (rows, lanes, *streams) if base(o.value) in self.rows]
        if region.padding is not None or region.outside is not None or region.contraction.id < 0 or not dims:
            return False
        if not shape.batch and isinstance(base(lanes.value).owner, ir.Block):
            return False  # as the weights of a training are: every block of rows would read all of them
        if lanes in known or (rows in known and _needs_whole_rows(region)) or bool(self.members) != (rows in known):
            return False
        if any(self.dims_of(o.value, o.places) != dims for o in known):
            return False
        self.numbers.append(region.contraction.id)
        return self.add(op, [(o.value, o.places) for o in (rows, lanes, *streams)], (out.value, out.places), dims)


def _needs_whole_rows(region: Region) -> bool:
    """Whether a contraction has to see all of the operand that supplies the rows before it converts any of it."""
    kernel = region.kernel
    if kernel.is_open("rows"):  # a run may measure it
        return True
    groups = None if kernel.groups is None else kernel.groups_of("rows")
    return groups is not None and (groups.channel or groups.format.shares_tensor)
