"""The contractions of a program as observers need to know them: a row for each kernel call that was emitted."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import facts
from numc.passes.kernels.packing.layout import Layout, stored_layout
from numc.passes.kernels.tasks.interface import Task
from numc.passes.kernels.tasks.plane import Plane
from numc.passes.plan import records
from numc.passes.plan.region import Region

CONTRACTIONS = "numc.contractions"


@dataclass(frozen=True, kw_only=True)
class ContractionRow:
    """The facts of one kernel call for the runtime's observers: its number, operator, name and orientation.

    passes: how many times FAST's fMAC goes over a group. packed: the operand (``rows``, ``lanes`` or none) that lies
    packed in the program, and its layout. plane: how the operand of the lanes is padded, if it is not in memory.
    counts: how many additions of a multiply-add it can count. phases: whether it is computed by phases where nobody
    watches (skip_zeros.py). narrow: the operands that lie in memory in the bytes of their format.
    """

    id: int
    fma: str
    passes: int
    name: str
    swap: bool
    packed: str
    layout: Layout | None
    plane: Plane | None
    counts: int = 0
    phases: bool = False
    narrow: tuple[str, ...] = ()


def contractions_of(module: ir.Operation) -> list[ContractionRow]:
    """The contractions of a module whose kernels were emitted, by their numbers."""
    where = CONTRACTIONS
    return [records.of_data(ContractionRow, row, where) for row in facts.get(module, CONTRACTIONS, [])]


def row_of(region: Region, task: Task) -> ContractionRow:
    """The row of a region, whose output observers see as this task computes it."""
    kernel, about, fma = region.kernel, region.contraction, region.found.operator
    packed = stored_layout(kernel, task.packed) if task.packed else None
    return ContractionRow(
        id=about.id,
        fma=str(fma),
        passes=fma.passes,
        name=about.layer,
        swap=about.swap,
        packed=task.packed,
        layout=packed,
        plane=task.plane,
        counts=kernel.counts,
        phases=about.phases,
        narrow=kernel.sides("narrow"),
    )
