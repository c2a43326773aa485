"""The regions of a planned module, read back: what plan-kernels wrote, and perhaps a person has edited since."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.kernel import Kernel
from numc.passes.plan import records
from numc.passes.plan.contraction import Contraction, Found, described, exchanged, find, size_of
from numc.passes.plan.fusion import Elementwise, consumer, producer, text_of
from numc.passes.plan.padding import Padded, padded
from numc.passes.plan.plan import CALIBRATION, CONTRACTION, PADDED_PLANE, PLAN, TRANSPOSED_TILES, Plan, check
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Region:
    """One planned contraction: the operation, its attributes, and what is inside.

    first, last: the operations of prologue and epilogue. padding: what pads the lanes, if the kernel does that.
    outside: what pads them, if the plan says that the kernel does not. calibrated: the largest magnitudes of rows and
    lanes, if they are given.
    """

    op: ir.Operation
    contraction: Contraction
    plan: Plan
    found: Found
    kernel: Kernel
    first: Elementwise | None
    last: Elementwise | None
    padding: Padded | None
    outside: Padded | None
    calibrated: tuple[int, int] | None

    @property
    def where(self) -> str:
        """What an error about it begins with."""
        return f"layer '{self.contraction.layer}': "


def regions_of(module: ir.Operation, isa: InstructionSet) -> list[Region]:
    """The planned contractions of a module, in its order. Raises NumcError for a plan that no kernel can follow."""
    planned = [op for op in linalg.operations(module, "scf.execute_region") if PLAN in op.attributes]
    regions = [read_region(op, isa) for op in planned]
    taken: dict[int, str] = {}
    for region in regions:
        number, layer = region.contraction.id, region.contraction.layer
        if number >= 0 and number in taken:
            raise NumcError(f"layer '{layer}': {CONTRACTION}.id = {number}: layer '{taken[number]}' has that number")
        taken[number] = layer
    return regions


def read_region(op: ir.Operation, isa: InstructionSet) -> Region:
    """One planned contraction. Raises NumcError for a plan that no kernel can follow."""
    stated = records.get(Contraction, op, CONTRACTION, f"{op.location}: ")
    where = f"layer '{stated.layer}': "
    plan = records.get(Plan, op, PLAN, where)
    found = _found(op, where)
    found = exchanged(found) if plan.way == TRANSPOSED_TILES else found
    _agree(stated, described(found, stated.id, stated.layer, stated.role, phases=stated.phases), where)
    kernel = plan.kernel(found, isa)
    check(plan, kernel, size_of(found, found.shape.k), isa, stated.layer)
    inside = padded(found)
    padding, outside = (inside, None) if plan.packing.lanes == PADDED_PLANE else (None, inside)
    if plan.packing.lanes == PADDED_PLANE and padding is None:
        raise NumcError(f"{where}{PLAN}.packing.lanes = {PADDED_PLANE!r}: the region does not pad the lanes by planes")
    generic, buffer = found.generic, found.out.value
    first = producer(generic, buffer)
    last = consumer(generic, buffer, first, () if padding is None else (padding.source,))
    for name, edge, text in (("prologue", first, plan.prologue), ("epilogue", last, plan.epilogue)):
        if text != text_of(edge):
            raise NumcError(
                f"{where}{PLAN}.{name} = {text!r}: the region computes {text_of(edge)!r}: leave it as it was"
            )
    _account(op, [generic, *(e.op for e in (first, last) if e), *(() if inside is None else inside.ops)], where)
    return Region(op, stated, plan, found, kernel, first, last, padding, outside, _calibrated(op, where))


def _found(op: ir.Operation, where: str) -> Found:
    found = [f for g in linalg.operations(op, "linalg.generic") if (f := find(g)) is not None]
    if len(found) != 1:
        raise NumcError(f"{where}its region has {len(found)} contractions: want one")
    return found[0]


def _agree(stated: Contraction, actual: Contraction, where: str) -> None:
    """Raise NumcError unless the description of a region is that of the operations in it."""
    for field in fields(Contraction):
        given, true = (records.data_of(getattr(c, field.name)) for c in (stated, actual))
        if given != true:
            raise NumcError(f"{where}{CONTRACTION}.{field.name} = {given!r}: it is {true!r} in the region")


def _account(region: ir.Operation, known: list[ir.Operation], where: str) -> None:
    """Raise NumcError if a region holds more than what its kernel computes, and the buffers for that."""
    for op in region.regions[0].blocks[0].operations:
        if op.operation not in known and op.operation.name not in ("memref.alloc", "memref.dealloc", "scf.yield"):
            raise NumcError(f"{where}its region holds a {op.operation.name} that no kernel computes: move it out")


def _calibrated(op: ir.Operation, where: str) -> tuple[int, int] | None:
    if CALIBRATION not in op.attributes:
        return None
    words = facts.get(op, CALIBRATION)
    if not isinstance(words, list) or len(words) != 2 or not all(type(w) is int and 0 <= w < _INFINITY for w in words):
        raise NumcError(f"{where}{CALIBRATION} = {words}: want two encodings of finite magnitudes")
    return words[0], words[1]


_INFINITY = 0x7F800000
