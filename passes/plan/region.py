"""The regions of a planned module, read back, edited perhaps since they were written, and the tasks they ask for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch_mlir import ir

from numc.numerics.binary32 import INFINITY
from numc.passes import facts, linalg
from numc.passes.buffers.loop_nest import element, in_memory
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.tasks.interface import Stream, Task
from numc.passes.plan import records
from numc.passes.plan.contraction import Contraction, Found, Operand, described, exchanged, find, places_of, size_of
from numc.passes.plan.fusion import Elementwise, consumer, epilogue_of, producer, prologue_of, text_of
from numc.passes.plan.padding import Padded, padded
from numc.passes.plan.plan import (
    CALIBRATION,
    CONTRACTION,
    PADDED_PLANE,
    PLAN,
    REGISTERS,
    TRANSPOSED_TILES,
    UNPACKED_ROW,
    Plan,
    check,
)
from numc.passes.plan.tiling import is_same_in_runs
from numc.passes.plan.weights import Packing
from numc.support.errors import NumcError

_SPLATS = 62
"""The number of streams for which a descriptor has bits."""


@dataclass(frozen=True, kw_only=True)
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
        """The beginning of an error about it."""
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
    return Region(
        op=op,
        contraction=stated,
        plan=plan,
        found=found,
        kernel=kernel,
        first=first,
        last=last,
        padding=padding,
        outside=outside,
        calibrated=_calibrated(op, where),
    )


def _found(op: ir.Operation, where: str) -> Found:
    contractions = [f for g in linalg.operations(op, "linalg.generic") if (f := find(g)) is not None]
    if len(contractions) != 1:
        raise NumcError(f"{where}its region has {len(contractions)} contractions: want one")
    return contractions[0]


def _agree(stated: Contraction, actual: Contraction, where: str) -> None:
    """Raise NumcError unless the description of a region is that of the operations in it."""
    for field in fields(Contraction):
        claimed, true = (records.data_of(getattr(c, field.name)) for c in (stated, actual))
        if claimed != true:
            raise NumcError(f"{where}{CONTRACTION}.{field.name} = {claimed!r}: it is {true!r} in the region")


def _account(region: ir.Operation, known: list[ir.Operation], where: str) -> None:
    """Raise NumcError if a region holds more than what its kernel computes, and the buffers for that."""
    for op in region.regions[0].blocks[0].operations:
        if op.operation not in known and op.operation.name not in ("memref.alloc", "memref.dealloc", "scf.yield"):
            raise NumcError(f"{where}its region holds a {op.operation.name} that no kernel computes: move it out")


def _calibrated(op: ir.Operation, where: str) -> tuple[int, int] | None:
    if CALIBRATION not in op.attributes:
        return None
    words = facts.get(op, CALIBRATION)
    if not isinstance(words, list) or len(words) != 2 or not all(type(w) is int and 0 <= w < INFINITY for w in words):
        raise NumcError(f"{where}{CALIBRATION} = {words}: want two encodings of finite magnitudes")
    return words[0], words[1]


def task_of(region: Region, packing: Packing | None, operands: list[Operand]) -> Task:
    """The task function of a region; operands: rows, lanes, streams of prologue and epilogue, output."""
    plan, shape = region.plan, region.found.shape
    along = set(shape.rows if plan.way == TRANSPOSED_TILES else shape.lanes)
    (prologue, first), (epilogue, _) = prologue_of(region.first), epilogue_of(region.last)
    streams = tuple(
        Stream(
            bool(o.dims() & along),
            element(o.value.type),
            splat=plan.way != TRANSPOSED_TILES and n < _SPLATS and is_same_in_runs(o, region.found),
        )
        for n, o in enumerate(operands[2:-1])
    )
    depth = size_of(region.found, region.found.shape.k)
    return Task(
        kernel=region.kernel,
        packed="" if packing is None else packing.layout.side,
        unpacked_steps=depth if plan.way == UNPACKED_ROW and depth is not None else 0,
        in_registers=plan.way == REGISTERS,
        plane=None if region.padding is None else region.padding.plane,
        transposed=plan.way == TRANSPOSED_TILES,
        prologue=prologue,
        epilogue=epilogue,
        prologue_streams=streams[: len(first)],
        epilogue_streams=streams[len(first) :],
        output=Stream(along=True, element=in_memory(element(operands[-1].value.type))),
    )


def operands_of(region: Region) -> list[Operand]:
    """Rows, lanes, the streams of prologue and epilogue, and the output, by the contraction's dimensions."""
    found, first, last, padding = region.found, region.first, region.last, region.padding
    units = {d for d, size in found.sizes.items() if size == 1}
    edges = [_of_contraction(o, e, found).without(units) for e in (first, last) if e is not None for o in e.operands]
    before = [found.out] if first is None else []
    out = found.out if last is None else _of_contraction(last.output, last, found)
    return [found.rows, found.lanes if padding is None else padding.operand(found), *before, *edges, out]


def _of_contraction(operand: tuple[ir.Value, ir.AffineMap], edge: Elementwise, found: Found) -> Operand:
    """An operand of a prologue or epilogue by the contraction's dimensions: both index the contraction's buffer."""
    own = edge.output[1]
    to = {}
    for e, (coefficients, _) in zip(own.results, found.out.places, strict=True):
        to[ir.AffineDimExpr(e).position] = next(iter(coefficients))
    places = []
    for coefficients, start in places_of(operand[1]):
        moved: dict[int, int] = {}
        for d, factor in coefficients.items():
            moved[to[d]] = moved.get(to[d], 0) + factor
        places.append((moved, start))
    return Operand(operand[0], tuple(places))
