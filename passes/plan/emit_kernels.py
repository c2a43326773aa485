"""emit-kernels: every planned contraction becomes a call of its kernel; the functions for that join the module.

Nothing is decided here: what a region and its plan (plan_kernels.py) leave open is not there. Weights that the plan
packs at compile time become arguments of @main of their own, and those that nothing reads any more are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch_mlir import ir

from numc.passes import facts
from numc.passes.buffers.dependences import NUMBER, PACKS, SEEN
from numc.passes.buffers.views import root
from numc.passes.kernels.backend import CodeGenerator, Target
from numc.passes.kernels.builder import Code
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.convert_packed import convert_packed_text
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.interface import SELF, Task
from numc.passes.plan import records
from numc.passes.plan.adjacency import with_adjacency
from numc.passes.plan.contraction import Operand, size_of
from numc.passes.plan.contraction_rows import CONTRACTIONS, ContractionRow, row_of
from numc.passes.plan.descriptor import WATCHED, call_text, numbers_of, pack_text
from numc.passes.plan.functions import Functions
from numc.passes.plan.padding import Padded
from numc.passes.plan.plan import BUILT, ONCE, PLAN
from numc.passes.plan.region import Region, operands_of, regions_of, task_of
from numc.passes.plan.weights import (
    PackedWeights,
    Packing,
    empty_unused,
    packing_of,
    read_only_arguments,
    weights_of,
)
from numc.passes.vector.lower_numc import stream, width
from numc.support.errors import NumcError
from numc.support.progress import tell

FMAS = "numc.fmas"
"""On a call of a contraction: its multiply-adds, if its sizes are known."""


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
        task = seen = task_of(region, packing, operands)
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
        text = call_text(
            name,
            task,
            region.found,
            operands=operands,
            packing=packing,
            convert=convert,
            calibrated=region.calibrated,
            watched=watched,
        )
        callee = self._functions.define(text, layer, "contraction", location)
        call = self._call(callee, region, operands if watched is None else [watched[1], *operands])
        if watched is not None:
            call.attributes[SEEN] = ir.UnitAttr.get()
        if once is not None:
            self._last[operands[1].value] = call
        self._watches = self._watches or watched is not None
        self._rows.append(row_of(region, seen))
        region.op.erase()

    def _packing(self, region: Region) -> Packing | None:
        """The packing of the operand that the plan packs at compile time, if there is one."""
        packing = region.plan.packing
        for side, how, operand in (
            ("rows", packing.rows, region.found.rows),
            ("lanes", packing.lanes, region.found.lanes),
        ):
            if how not in BUILT:
                continue
            weight = self._weights.get(root(operand.value))
            built = None if weight is None else packing_of(weight, region.found, region.kernel, side)
            if built is None:
                reason = "no weight" if weight is None else "a weight that cannot be packed before the program runs"
                raise NumcError(f"{region.where}{PLAN}.packing.{side} = {how!r}: the operand of the {side} is {reason}")
            return built
        return None

    def _packing_once(self, region: Region) -> Packing | None:
        """The packing of the lanes that the plan packs once for several contractions, if it does."""
        if region.plan.packing.lanes != ONCE:
            return None
        number = self._read_only.get(root(region.found.lanes.value))
        packing = None if number is None else packing_of(number, region.found, region.kernel, "lanes")
        if packing is None:
            reason = "no argument that is only read" if number is None else "of free sizes"
            raise NumcError(f"{region.where}{PLAN}.packing.lanes = {ONCE!r}: the operand of the lanes is {reason}")
        return packing

    def _packed_once(self, region: Region, task: Task, packing: Packing) -> ir.Value:
        """The memory where the lanes of a region are packed: before it, if that has not been done for another."""
        key = packing, str(region.found.fma), region.op.block
        if key not in self._once:
            layer, location = region.contraction.layer, region.op.location
            name = self._functions.define(self._code.pack_function(task), layer, "pack", location)
            text = pack_text(name, task, region.found, packing)
            callee = self._functions.define(text, layer, "packed", location)
            with ir.InsertionPoint(region.op), location:
                memref_type = ir.MemRefType.get([packing.words], ir.F32Type.get())
                alignment = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64)
                attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]), "alignment": alignment}
                memory = ir.Operation.create("memref.alloc", results=[memref_type], attributes=attributes).results[0]
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
        found, op = region.found, region.op
        told = [
            (stream if name == "stream" else width)(self.module, op, number)
            for name, number in numbers_of(found).items()
        ]
        with ir.InsertionPoint(op), op.location:
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
        empty_unused(self.module, self._weights)
        first = [_EXTERNALS, *self._code.shared_functions()] if self._kernels else []
        if self._watches:
            first.append(f"func.func private @{WATCHED}() -> i32")
        self._functions.finish(first)
        rows = sorted((row for row in self._rows if row.id >= 0), key=lambda row: row.id)
        facts.put(self.module, CONTRACTIONS, records.data_of(tuple(rows)))


def _no_code(_: Code, values: Sequence[Value]) -> Value:
    """In the key of a task: the form of an edge stands for its code."""
    return values[0]


def _move_out(padding: Padded, region: ir.Operation) -> None:
    """Pad the lanes before a region, whose kernel reads the padded operand."""
    for op in padding.ops[:-1]:
        op.move_before(region)
    padding.ops[-1].move_after(region)


_EXTERNALS = """
llvm.func @numc_alloc(i64) -> !llvm.ptr
llvm.func @numc_free(!llvm.ptr)
llvm.func @numc_contract(!llvm.ptr, !llvm.ptr, i64)
llvm.func @numc_count(!llvm.ptr, !llvm.ptr, i64)
llvm.func @numc_largest(!llvm.ptr, i64, !llvm.ptr, i32) -> i32
llvm.func @numc_converted(!llvm.ptr, i64, i64, i64, !llvm.ptr) -> i64
"""
