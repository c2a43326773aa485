"""The units of @main, once every part is a call: parts with their marks, memory, and what may be computed again."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.views import VIEWS
from numc.passes.vector.call_rows import BEGIN, END
from numc.passes.vector.lower_numc import STREAM
from numc.passes.vector.mark_parts import MARK

_MEMORY = ("memref.alloc", "memref.dealloc")
# Operations that neither read nor write memory: it does not matter how often and when they are computed.
_PURE = (*VIEWS, "memref.get_global", "memref.dim")


@dataclass
class Unit:
    """Operations of @main that stay together: a part and its marks. parts: the numbers of the parts in it."""

    ops: list[ir.Operation] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)


@dataclass
class Stretch:
    """Operations that follow each other, and that may be moved within what they depend on.

    ops: all of them, in order: those of units, and others, which keep their order where they stay in @main. of: the
    number of the unit that an operation belongs to.
    """

    ops: list[ir.Operation] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    of: dict[ir.Operation, int] = field(default_factory=dict)

    def drop(self, unit: Unit) -> None:
        """Take the last unit away: it does not stay together."""
        self.units.remove(unit)
        self.ops = [op for op in self.ops if op not in unit.ops]
        for op in unit.ops:
            del self.of[op]


def is_pure(op: ir.Operation) -> bool:
    """Whether an operation depends on its operands only."""
    return op.name in _PURE or (op.name.startswith("arith.") and not op.regions)


def stretches(main: ir.Operation) -> list[Stretch]:
    """The stretches of @main, between operations that nothing may be moved across."""
    all_stretches = [Stretch()]
    unit: Unit | None = None
    in_rows = False
    for op in [op.operation for op in main.regions[0].blocks[0].operations]:
        here = all_stretches[-1]
        callee, ends = _callee(op), False
        if callee == MARK:
            number = linalg.integer(op.operands[0])
            assert number is not None
            ends = number < 0
            if not ends:
                unit = Unit([], [number])
                here.units.append(unit)
        elif not in_rows and (is_pure(op) or op.name in _MEMORY or callee == STREAM):
            here.ops.append(op)
            continue
        elif unit is None or (op.results and not in_rows):
            if unit is not None:
                here.drop(unit)
            all_stretches.append(Stretch())
            unit = None
            continue
        if unit is None:
            continue
        unit.ops.append(op)
        here.ops.append(op)
        here.of[op] = len(here.units) - 1
        in_rows = callee == BEGIN or (in_rows and callee != END)
        if ends:
            unit = None
    return [each for each in all_stretches if len(each.units) > 1]


def _callee(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value if op.name in ("func.call", "llvm.call") else ""
