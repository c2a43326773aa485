# ruff: noqa: E501 - the long lines are MLIR text
"""contractions-to-kernels: each linalg.generic on memrefs whose body is one numc.fma becomes a call of its kernel.

What fills its accumulators before, and the elementwise operation that alone reads its result, become part of the
kernel where no value changes by that; weights are packed when the program is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from torch_mlir import ir

from numc.compiler.arithmetic.operators import SOFTWARE_DATAPATHS
from numc.compiler.support.switches import disabled
from numc.passes import linalg
from numc.passes.buffers.lower_numc import stream
from numc.passes.kernels.datapaths.groups import block_of_k
from numc.passes.kernels.micro_kernel import Kernel, Tile, kernel_text
from numc.passes.kernels.packing.convert_groups import quantize_text
from numc.passes.kernels.packing.layout import Layout, layout
from numc.passes.kernels.packing.pack_code import pack_dense_text, pack_text
from numc.passes.kernels.tasks.edges import PROBE_TEXT, Driver, Stream
from numc.passes.kernels.tasks.register_tile import whole_text
from numc.passes.kernels.tasks.task import task_text
from numc.passes.kernels.tasks.unpacked_row import direct_text
from numc.passes.plan.contraction import Found, Operand, find, places_of, size_of, sizes_of
from numc.passes.plan.descriptor import call_text
from numc.passes.plan.fusion import VIEWS, Neighbour, consumer, producer, root
from numc.passes.plan.padding import Padded, Plane, stage_text, unpadded
from numc.passes.plan.weights import Packing, packing_of
from numc.passes.tensors.skip_zeros import BY_PHASES, PHASE

# Up to this many steps of k, lanes are read where they are; beyond, adjacent reads of whole panels are worth a copy.
_FEW = 64


@dataclass(frozen=True)
class Contraction:
    """What the runtime's observer needs to know about one kernel call: its number, operator, name and orientation.

    passes: how many times FAST's fMAC goes over a group. packed: the operand (``rows``, ``lanes`` or none) that lies packed
    in the program, and its layout. plane: how the operand of the lanes is padded, if it is not in memory. counts: how
    many additions of a multiply-add it can count. phases: whether it is computed by phases where nobody watches
    (skip_zeros.py).
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


def contractions_to_kernels(
    module: ir.Operation,
    tile: Tile,
    weights: Iterable[int] = (),
    *,
    fast: bool = True,
    dot: bool = False,
    statistics: bool = False,
    calibration: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> tuple[list[Contraction], dict[int, Packing], set[int]]:
    """Rewrite `module` in place; returns the contractions in program order, packed weights, and weights without a use.

    dot: the target has VNNI. statistics: kernels can count their additions. calibration: of contractions by number, the largest magnitudes of rows and lanes, where they
    are not found anew in every execution. weights: the arguments of main whose values are known. Packed weights are new arguments of main, by their numbers;
    the arguments that nothing uses any more are empty.
    """
    with module.context, ir.Location.unknown():
        found = [f for g in linalg.operations(module, "linalg.generic") if (f := find(g)) is not None]
        lowering = _Lowering(module, tile, fast and not disabled("fast"), dot, statistics, set(weights), calibration)
        # Paddings first: they change what the operations before them write.
        for each, kernel, padding in [(each, *lowering.prepared(each)) for each in found]:
            lowering.lower(each, kernel, padding)
        lowering.finish()
    return lowering.table, lowering.packings, lowering.unused


class _Lowering:
    """The functions added to a module so far, and what was learnt about its contractions."""

    def __init__(
        self,
        module: ir.Operation,
        tile: Tile,
        fast: bool,
        dot: bool,
        statistics: bool,
        weights: set[int],
        calibration: Mapping[int, tuple[int, int]],
    ) -> None:
        self._calibration = calibration
        self.module, self.tile, self.fast, self.dot, self.statistics = module, tile, fast, dot, statistics
        self._weights = {linalg.main(module).regions[0].blocks[0].arguments[n]: n for n in weights}
        self._packed: dict[tuple[object, ...], ir.Value] = {}
        self.table: list[Contraction] = []
        self.packings: dict[int, Packing] = {}
        self.unused: set[int] = set()
        self._kernels: dict[str, Kernel] = {}
        self._drivers: dict[str, str] = {}
        self._calls: dict[str, str] = {}

    def prepared(self, found: Found) -> tuple[Kernel, Padded | None]:
        """The kernel of a contraction, and how the operand of its lanes is padded if it can take it unpadded."""
        tile = _tile(self.tile, found)
        tile = replace(tile, k_block=block_of_k(tile.k_block, tile.width, found.fma))
        partial, narrow = _partial(tile, found), _narrow(tile, found)
        kernel = Kernel(found.fma, tile, found.swap, self.fast, partial, self.dot, narrow, self.statistics)
        staged = _few_steps(kernel, found) and not disabled("stage-padding")
        return kernel, unpadded(found) if staged else None

    def lower(self, found: Found, kernel: Kernel, padding: Padded | None) -> None:
        """Replace one contraction, and what fuses with it, by a call."""
        generic, buffer = found.generic, found.out.value
        first = None if disabled("fuse-first") else producer(generic, buffer)
        others = () if padding is None else (padding.source,)
        last = None if disabled("fuse-last") else consumer(generic, buffer, first, others)
        units = {d for d, size in sizes_of(found).items() if size == 1}
        first_streams = (
            [found.out] if first is None else [_moved(o, first, found).spread(units) for o in first.operands]
        )
        last_streams = [] if last is None else [_moved(o, last, found).spread(units) for o in last.operands]
        out = found.out if last is None else _moved(last.output, last, found)
        steps = _few_steps(kernel, found)
        side, packing, found = self._pack(found, kernel)
        lanes = set(found.shape.lanes)
        driver = Driver(
            kernel,
            side,
            steps if side != "lanes" else 0,
            None if padding is None else padding.plane,
            (lambda _, values: values[0]) if first is None else first.emit,
            (lambda _, values: values[0]) if last is None else lambda code, v: last.emit(code, v[1:], v[0]),
            tuple(Stream(bool(o.dims() & lanes)) for o in first_streams),
            tuple(Stream(bool(o.dims() & lanes)) for o in last_streams),
        )
        self._kernels[kernel.name] = kernel
        task = self._named(self._drivers, _functions_of(driver), "driver", "task")
        lanes_operand = found.lanes if padding is None else padding.operand(found)
        operands = [found.rows, lanes_operand, *first_streams, *last_streams, out]
        number = -1 if PHASE in generic.attributes else len(self.table)
        calibrated = self._calibration.get(number)
        text = call_text(task, kernel, side, packing, found, operands, driver.plane, calibrated)
        callee = self._named(self._calls, text, "contraction", "contraction")
        about = layout(kernel, side) if side else None
        name, passes = _name(generic), found.fma.passes
        described = (number, str(found.fma), passes, name, found.swap, side, about, driver.plane, kernel.counts)
        phases = BY_PHASES in generic.attributes
        if number >= 0:
            self.table.append(Contraction(*described, phases))
        place = generic if last is None else last.op
        drawn = [stream(self.module, place, found.number)] if found.fma.draws else []
        with ir.InsertionPoint(place), generic.location:
            id_ = ir.Operation.create(
                "arith.constant",
                results=[ir.IntegerType.get_signless(64)],
                attributes={"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)},
            ).results[0]
            ir.Operation.create(
                "func.call",
                operands=[*(o.value for o in operands), id_, *drawn],
                attributes={"callee": ir.FlatSymbolRefAttr.get(callee)},
            )
        for op in (generic, *(n.op for n in (first, last) if n is not None)):
            op.erase()
        if padding is not None:
            padding.erase()
        _erase_unused(buffer)

    def _named(self, known: dict[str, str], text: str, placeholder: str, stem: str) -> str:
        name = known.setdefault(text, f"{stem}_{len(known)}")
        assert f"@{placeholder}" in text
        return name

    def _pack(self, found: Found, kernel: Kernel) -> tuple[str, Packing | None, Found]:
        """Put the packed form of a weight among main's arguments, if an operand is a weight; returns which side it is."""
        for side, across in (("rows", found.shape.rows), ("lanes", found.shape.lanes)):
            operand = found.rows if side == "rows" else found.lanes
            source = root(operand.value)
            if disabled("pack-weights") or source not in self._weights:
                continue
            packing = packing_of(self._weights[source], operand, found, across, kernel, side)
            if packing is None:
                continue
            if packing.key not in self._packed:
                kind = ir.MemRefType.get([packing.layout.words(*packing.shape)], ir.F32Type.get())
                main = linalg.main(self.module).regions[0].blocks[0]
                self._packed[packing.key] = main.add_argument(kind, ir.Location.unknown())
                self.packings[len(main.arguments) - 1] = packing
            packed_operand = Operand(self._packed[packing.key], operand.places, operand.conversion)
            if side == "rows":
                return side, packing, replace(found, rows=packed_operand)
            return side, packing, replace(found, lanes=packed_operand)
        return "", None, found

    def finish(self) -> None:
        """Add the functions to the module."""
        self._drop_unused_weights()
        if not self._kernels:
            return
        parts = [_EXTERNALS, PROBE_TEXT]
        for text, name in self._drivers.items():
            parts.append(text.replace("@driver", f"@{name}"))
        for text, name in self._calls.items():
            parts.append(text.replace("@contraction(", f"@{name}("))
        for kernel in self._kernels.values():
            parts += [
                kernel_text(kernel),
                pack_text(kernel, "rows"),
                pack_text(kernel, "lanes"),
                pack_dense_text(kernel),
            ]
            if kernel.groups is not None:
                parts += [quantize_text(kernel, side) for side in ("rows", "lanes")]
        source = ir.Module.parse("\n".join(parts), self.module.context)
        for op in source.body.operations:
            self.module.regions[0].blocks[0].append(op.operation.clone())

    def _drop_unused_weights(self) -> None:
        """A weight that is used in packed form only becomes an empty argument."""
        if not self._weights:
            return
        for weight in self._weights:
            _erase_dead_views(weight)
            if linalg.uses(weight) == 0 and str(ir.MemRefType(weight.type).element_type) == "f32":
                weight.set_type(ir.MemRefType.get([0], ir.F32Type.get()))
                self.unused.add(self._weights[weight])
        linalg.retype(linalg.main(self.module))


def _erase_dead_views(value: ir.Value) -> None:
    for use in list(value.uses):
        user = use.owner.operation
        if user.name in VIEWS:
            _erase_dead_views(user.results[0])
            if linalg.uses(user.results[0]) == 0:
                user.erase()


def _few_steps(kernel: Kernel, found: Found) -> int:
    """How many steps of k there are if lanes can be read where they are, else 0."""
    depth = size_of(found, found.shape.k)
    return depth if kernel.reads_directly and depth is not None and depth <= _FEW else 0


def _functions_of(driver: Driver) -> str:
    text = task_text(driver)
    if driver.direct:
        text += direct_text(driver)
    if driver.joins:
        text += whole_text(driver)
    return text if driver.plane is None else text + stage_text(driver.kernel, driver.plane)


def _tile(tile: Tile, found: Found) -> Tile:
    """The micro-tile for the sizes that are known: few rows leave registers for more vectors, and the other way round."""
    accumulators = tile.rows * tile.vectors
    rows, lanes = size_of(found, found.shape.rows), size_of(found, found.shape.lanes)
    if lanes is not None and lanes <= tile.width:
        return replace(tile, vectors=1, rows=max(1, min(accumulators, rows or accumulators)))
    if rows is not None and rows < tile.rows:
        vectors = accumulators // max(1, rows)
        if lanes is not None:  # as few panels as that allows, all of them of one size
            needed = -(-lanes // tile.width)
            vectors = -(-needed // -(-needed // vectors)) if needed else 1
        return replace(tile, rows=max(1, rows), vectors=vectors)
    return tile


def _partial(tile: Tile, found: Found) -> tuple[int, ...]:
    """Numbers of rows below a whole tile that get a micro-kernel of their own."""
    rows = size_of(found, found.shape.rows)
    if rows is None:
        return tuple(n for n in (1, 2, 4) if n < tile.rows)
    return (rows % tile.rows,) if rows % tile.rows else ()


def _narrow(tile: Tile, found: Found) -> bool:
    """Whether the last lanes are a vector or less of several: for a whole tile of them, half of the work is wasted."""
    fma, lanes = found.fma, size_of(found, found.shape.lanes)
    plain = not fma.draws and not fma.groups and fma.chunk is None and fma.datapath in SOFTWARE_DATAPATHS
    return plain and tile.vectors > 1 and lanes is not None and 0 < lanes % tile.lanes <= tile.width


def _moved(operand: tuple[ir.Value, ir.AffineMap], neighbour: Neighbour, found: Found) -> Operand:
    """An operand of a neighbour, addressed by the contraction's dimensions: both index the contraction's buffer."""
    own = neighbour.output[1]
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


def _erase_unused(buffer: ir.Value) -> None:
    users = [use.owner.operation for use in buffer.uses]
    if not isinstance(buffer.owner, ir.Block) and all(user.name == "memref.dealloc" for user in users):
        for user in users:
            user.erase()
        buffer.owner.erase()


def _name(generic: ir.Operation) -> str:
    """The source name of an operation: the innermost name in its location."""
    text = str(generic.location)
    quoted = text.split('"')
    return quoted[1] if len(quoted) > 1 else text


_EXTERNALS = """
func.func private @numc_ftz_begin() -> i32
func.func private @numc_ftz_end(i32)
func.func private @numc_underflow_begin() -> i32
func.func private @numc_underflow_end(i32) -> i32
llvm.func @numc_alloc(i64) -> !llvm.ptr
llvm.func @numc_free(!llvm.ptr)
llvm.func @numc_contract(!llvm.ptr, !llvm.ptr, i64)
llvm.func @numc_count(!llvm.ptr, !llvm.ptr, i64)
llvm.func @numc_largest(!llvm.ptr, i64, !llvm.ptr, i32) -> i32
"""
