"""emit-kernels: every planned contraction becomes a call of its kernel; the functions for that join the module.

Nothing is decided here: what a region and its plan (plan_kernels.py) leave open is not there. Weights that the plan
packs at compile time become arguments of @main of their own, and those that nothing reads any more are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.dependences import NUMBER, PACKS, SEEN
from numc.passes.buffers.loop_nest import element, in_memory
from numc.passes.buffers.views import VIEWS, root
from numc.passes.kernels.backend import CodeGenerator, Target
from numc.passes.kernels.builder import Code
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.convert_packed import convert_packed_text
from numc.passes.kernels.packing.layout import Layout, stored_layout
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.interface import SELF, Stream, Task
from numc.passes.kernels.tasks.plane import Plane
from numc.passes.plan import records
from numc.passes.plan.adjacency import with_adjacency
from numc.passes.plan.contraction import Found, Operand, places_of, size_of
from numc.passes.plan.descriptor import WATCHED, call_text, numbers_of, pack_text
from numc.passes.plan.functions import Functions
from numc.passes.plan.fusion import Elementwise, epilogue_of, prologue_of
from numc.passes.plan.padding import Padded
from numc.passes.plan.plan import BUILT, ONCE, PLAN, REGISTERS, TRANSPOSED_TILES, UNPACKED_ROW
from numc.passes.plan.region import Region, regions_of
from numc.passes.plan.tiling import is_same_in_runs
from numc.passes.plan.weights import EMPTY, PackedWeights, Packing, packing_of, read_only_arguments, weights_of
from numc.passes.vector.lower_numc import stream, width
from numc.support.errors import NumcError
from numc.support.progress import tell

CONTRACTIONS = "numc.contractions"
FMAS = "numc.fmas"
"""On a call of a contraction: its multiply-adds, if its sizes are known."""

_SPLATS = 62
"""How many streams a descriptor has bits for."""


@dataclass(frozen=True)
class ContractionRow:
    """What the runtime's observers need to know about one kernel call: its number, operator, name and orientation.

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


def emit_kernels(module: ir.Operation, target: Target) -> None:
    """Make every planned contraction a call of its kernel; the target's backend writes the functions for that.

    Raises NumcError for a plan that no kernel can follow.
    """
    with module.context, ir.Location.unknown():
        emitter = _Emitter(module, target.backend.generator())
        regions = with_adjacency(regions_of(module, target.isa))
        for number, region in enumerate(regions):
            tell("kernel of", region.contraction.layer, number, len(regions))
            emitter.emit(region)
        emitter.finish()


def contractions_of(module: ir.Operation) -> list[ContractionRow]:
    """The contractions of a module whose kernels were emitted, by their numbers."""
    where = CONTRACTIONS
    return [records.of_data(ContractionRow, row, where) for row in facts.get(module, CONTRACTIONS, [])]


class _Emitter:
    """The functions and packed weights that were added to a module so far."""

    def __init__(self, module: ir.Operation, code: CodeGenerator) -> None:
        self.module = module
        self._code = code
        self._weights = weights_of(module)
        self._packed = PackedWeights(module)
        self._read_only = read_only_arguments(module)
        self._once: dict[tuple[object, ...], ir.Value] = {}
        self._watches = False
        self._last: dict[ir.Value, ir.Operation] = {}
        self._functions = Functions(module)
        self._kernels: dict[str, Kernel] = {}
        self._tasks: dict[tuple[Task, str, str], str] = {}
        self._rows: list[ContractionRow] = []

    def emit(self, region: Region) -> None:
        """Replace one region by a call."""
        if region.outside is not None:
            _move_out(region.outside, region.op)
        operands = operands_of(region)
        packing = self._packing(region)
        if packing is not None:
            n = 0 if packing.layout.side == "rows" else 1
            operands[n] = Operand(self._packed.argument(packing), operands[n].places, operands[n].conversion)
        layer, location = region.contraction.layer, region.op.location
        self._define_kernel(region.kernel, location)
        once = self._packing_once(region)
        packing = packing or once
        task = seen = _task(region, packing, operands)
        watched: tuple[str, Operand] | None = None
        if once is not None and region.kernel.converts("lanes"):
            seen = replace(task, packed="")
            function = self._functions.define(self._task_function(seen, region), layer, "task", location)
            watched = function, operands[1]
        if once is not None:
            operands[1] = Operand(self._packed_once(region, task, once), operands[1].places, operands[1].conversion)
        name = self._functions.define(self._task_function(task, region), layer, "task", location)
        convert = None
        if packing is not None and packing.is_open:
            text = convert_packed_text(SELF, region.kernel, packing.layout.side, packing.shape)
            convert = self._functions.define(text, layer, "convert", location)
        text = call_text(name, task, region.found, operands, packing, convert, region.calibrated, watched)
        callee = self._functions.define(text, layer, "contraction", location)
        call = self._call(callee, region, operands if watched is None else [watched[1], *operands])
        if watched is not None:
            call.attributes[SEEN] = ir.UnitAttr.get()
        if once is not None:
            self._last[operands[1].value] = call
        self._watches = self._watches or watched is not None
        self._rows.append(_row(region, seen))
        region.op.erase()

    def _packing(self, region: Region) -> Packing | None:
        """How the operand is packed that the plan packs at compile time, if there is one."""
        packing = region.plan.packing
        for side, how, operand in (
            ("rows", packing.rows, region.found.rows),
            ("lanes", packing.lanes, region.found.lanes),
        ):
            if how not in BUILT:
                continue
            weight = self._weights.get(root(operand.value))
            found = None if weight is None else packing_of(weight, region.found, region.kernel, side)
            if found is None:
                reason = "no weight" if weight is None else "a weight that cannot be packed before the program runs"
                raise NumcError(f"{region.where}{PLAN}.packing.{side} = {how!r}: the operand of the {side} is {reason}")
            return found
        return None

    def _packing_once(self, region: Region) -> Packing | None:
        """How the lanes are packed that the plan packs once for several contractions, if it does."""
        if region.plan.packing.lanes != ONCE:
            return None
        number = self._read_only.get(root(region.found.lanes.value))
        found = None if number is None else packing_of(number, region.found, region.kernel, "lanes")
        if found is None:
            reason = "no argument that is only read" if number is None else "of free sizes"
            raise NumcError(f"{region.where}{PLAN}.packing.lanes = {ONCE!r}: the operand of the lanes is {reason}")
        return found

    def _packed_once(self, region: Region, task: Task, packing: Packing) -> ir.Value:
        """The memory where the lanes of a region are packed: before it, if that has not been done for another."""
        key = packing, str(region.found.fma), region.op.block
        if key not in self._once:
            layer, location = region.contraction.layer, region.op.location
            name = self._functions.define(self._code.pack_function(task), layer, "pack", location)
            text = pack_text(name, task, region.found, packing)
            callee = self._functions.define(text, layer, "packed", location)
            with ir.InsertionPoint(region.op), location:
                kind = ir.MemRefType.get([packing.words], ir.F32Type.get())
                alignment = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64)
                attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]), "alignment": alignment}
                memory = ir.Operation.create("memref.alloc", results=[kind], attributes=attributes).results[0]
                to = {"callee": ir.FlatSymbolRefAttr.get(callee), PACKS: ir.UnitAttr.get()}
                ir.Operation.create("func.call", operands=[memory, region.found.lanes.value], attributes=to)
            self._once[key] = memory
        return self._once[key]

    def _task_function(self, task: Task, region: Region) -> str:
        """The text of a task function, which is made once for equal tasks: that takes time."""
        edges = ["" if edge is None else edge.form for edge in (region.first, region.last)]
        key = replace(task, prologue=_no_code, epilogue=_no_code), edges[0], edges[1]
        if key not in self._tasks:
            self._tasks[key] = self._code.task_function(task)
        return self._tasks[key]

    def _define_kernel(self, kernel: Kernel, location: ir.Location) -> None:
        if kernel.name in self._kernels:
            assert self._kernels[kernel.name] == kernel
            return
        self._kernels[kernel.name] = kernel
        self._functions.add_shared(self._code.kernel_functions(kernel), location)

    def _call(self, callee: str, region: Region, operands: list[Operand]) -> ir.Operation:
        found, place = region.found, region.op
        told = [
            (stream if name == "stream" else width)(self.module, place, number)
            for name, number in numbers_of(found).items()
        ]
        with ir.InsertionPoint(place), place.location:
            i64 = ir.IntegerType.get_signless(64)
            number = {"value": ir.IntegerAttr.get(i64, region.contraction.id)}
            id_ = ir.Operation.create("arith.constant", results=[i64], attributes=number).results[0]
            call = ir.Operation.create(
                "func.call",
                operands=[*(o.value for o in operands), id_, *told],
                attributes={"callee": ir.FlatSymbolRefAttr.get(callee), NUMBER: number["value"]},
            )
            fmas = size_of(found, found.shape.order)
            if fmas is not None:
                facts.put(call, FMAS, fmas)
            return call

    def finish(self) -> None:
        """Add the functions to the module, and what was learnt about its contractions."""
        for memory, last in self._last.items():
            with ir.InsertionPoint(last), last.location:
                ir.Operation.create("memref.dealloc", operands=[memory]).move_after(last)
        self._packed.finish()
        _empty_unused(self.module, self._weights)
        first = [_EXTERNALS, *self._code.shared_functions()] if self._kernels else []
        if self._watches:
            first.append(f"func.func private @{WATCHED}() -> i32")
        self._functions.finish(first)
        rows = sorted((row for row in self._rows if row.id >= 0), key=lambda row: row.id)
        facts.put(self.module, CONTRACTIONS, records.data_of(tuple(rows)))


def _task(region: Region, packing: Packing | None, operands: list[Operand]) -> Task:
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
        region.kernel,
        "" if packing is None else packing.layout.side,
        depth if plan.way == UNPACKED_ROW and depth is not None else 0,
        plan.way == REGISTERS,
        None if region.padding is None else region.padding.plane,
        plan.way == TRANSPOSED_TILES,
        prologue,
        epilogue,
        streams[: len(first)],
        streams[len(first) :],
        Stream(along=True, element=in_memory(element(operands[-1].value.type))),
    )


def _no_code(_: Code, values: Sequence[Value]) -> Value:
    """In the key of a task: the form of an edge stands for its code."""
    return values[0]


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


def _row(region: Region, task: Task) -> ContractionRow:
    kernel, about, fma = region.kernel, region.contraction, region.found.fma
    packed = stored_layout(kernel, task.packed) if task.packed else None
    described = about.id, str(fma), fma.passes, about.layer, about.swap, task.packed, packed, task.plane
    return ContractionRow(*described, kernel.counts, about.phases, kernel.narrow_in_memory)


def _move_out(padding: Padded, region: ir.Operation) -> None:
    """Pad the lanes before a region, whose kernel reads the padded operand."""
    for op in padding.ops[:-1]:
        op.move_before(region)
    padding.ops[-1].move_after(region)


def _empty_unused(module: ir.Operation, weights: Mapping[ir.Value, int]) -> None:
    """Make the weights empty arguments that are used in packed form only."""
    empty = {}
    for weight, number in weights.items():
        _erase_dead_views(weight)
        if linalg.uses(weight) == 0 and str(ir.MemRefType(weight.type).element_type) == "f32":
            weight.set_type(ir.MemRefType.get([0], ir.F32Type.get()))
            empty[number] = True
    if empty:
        linalg.retype(linalg.main(module))
        facts.put_arguments(module, EMPTY, empty)


def _erase_dead_views(value: ir.Value) -> None:
    for use in list(value.uses):
        user = use.owner.operation
        if user.name in VIEWS:
            _erase_dead_views(user.results[0])
            if linalg.uses(user.results[0]) == 0:
                user.erase()


_EXTERNALS = """
llvm.func @numc_alloc(i64) -> !llvm.ptr
llvm.func @numc_free(!llvm.ptr)
llvm.func @numc_contract(!llvm.ptr, !llvm.ptr, i64)
llvm.func @numc_count(!llvm.ptr, !llvm.ptr, i64)
llvm.func @numc_largest(!llvm.ptr, i64, !llvm.ptr, i32) -> i32
llvm.func @numc_converted(!llvm.ptr, i64, i64, i64, !llvm.ptr) -> i64
"""
