"""plan-kernels: every decision about the code of every contraction becomes an attribute.

Each linalg.generic on memrefs whose body is one numc.fma moves into an ``scf.execute_region``, with what else its
kernel computes where no value changes by it: the initial accumulators, the elementwise operation that alone reads the
result, the padding of the lanes. The attribute ``numc.contraction`` of the region says what is computed, ``numc.plan``
how. Its body is ordinary linalg: the IR means the same as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.views import root
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import has_codes
from numc.passes.kernels.setting import SIDES, Access
from numc.passes.kernels.tasks.interface import is_short
from numc.passes.plan import records
from numc.passes.plan.contraction import Found, described, exchanged, find, size_of
from numc.passes.plan.fusion import Elementwise, consumer, epilogue_of, producer, prologue_of, text_of
from numc.passes.plan.padding import Padded, pad_apart, padded
from numc.passes.plan.plan import (
    ADJACENT,
    AT_COMPILE_TIME,
    BLOCKS,
    CALIBRATION,
    CODES,
    CONTRACTION,
    EXPANDED_CODES,
    IN_PLACE,
    ONCE,
    PADDED_PLANE,
    PANELS,
    PLAN,
    PLANES,
    REGISTERS,
    TRANSPOSED,
    TRANSPOSED_TILES,
    UNPACKED_ROW,
    OperandPlan,
    Plan,
    TilePlan,
)
from numc.passes.plan.tiling import (
    MANY_IN_PLANES,
    are_adjacent,
    few_steps,
    has_adjacent_k,
    is_narrow,
    partial_rows,
    reads_along_k,
    saves_transposed,
    takes_in_place,
    tile_for,
    whole_depth,
)
from numc.passes.plan.weights import packing_of, read_only_arguments, weights_of
from numc.passes.tensors.products.skip_zeros import BY_PHASES, PHASE
from numc.support.switches import disabled

# Lanes are packed once for at least so many contractions, of at most so many rows each: with more rows, packing takes
# little of the time, and the packed operand takes memory.
_SEVERAL, _FEW_ROWS = 4, 128


def plan_kernels(
    module: ir.Operation,
    isa: InstructionSet,
    fast: bool,
    statistics: bool,
    pack_weights: bool = False,
) -> None:
    """Decide everything about the code of every contraction, and write it into the IR.

    isa: the instructions of the target. fast: cheap rounding sequences may be used. statistics: kernels count their
    additions. pack_weights: weights are held in codes where that takes less memory. The module's `numc.calibration`
    lists contractions by their numbers with the largest magnitudes of rows and lanes, where these are not found anew in
    every execution.
    """
    with module.context, ir.Location.unknown():
        fast = fast and isa.fma and not disabled("fast")
        planner = _Planner(module, isa, fast, statistics, pack_weights)
        generics = [g for g in linalg.operations(module, "linalg.generic") if linalg.contracts(g)]
        # Paddings first: they change what the operations before them write.
        for generic in generics:
            planner.pad(generic)
        every = [planner.prepared(found) for g in generics if (found := find(g)) is not None]
        planner.share(every)
        for prepared in every:
            planner.plan(prepared)


@dataclass(frozen=True)
class _Prepared:
    """A contraction, its micro-kernels, why they have this tile; how lanes are padded if the kernel can do it.

    transposed: rows and lanes have changed places, so tiles are transposed.
    """

    found: Found
    kernel: Kernel
    why: str
    padding: Padded | None
    transposed: bool


class _Planner:
    """The common state of all contractions of a module, and their number so far."""

    def __init__(
        self,
        module: ir.Operation,
        isa: InstructionSet,
        fast: bool,
        statistics: bool,
        pack_weights: bool,
    ) -> None:
        self._isa, self._fast, self._statistics, self._in_codes = isa, fast, statistics, pack_weights
        self._calibration = {number: largest for number, *largest in facts.get(module, CALIBRATION, [])}
        self._weights = {} if disabled("pack-weights") else weights_of(module)
        self._read_only = read_only_arguments(module)
        self._shared: set[ir.Operation] = set()
        self._by_planes: set[ir.Operation] = set()
        self._count = 0

    def pad(self, generic: ir.Operation) -> None:
        """Let a contraction pad its lanes plane by plane, if it and all others that read them can."""

        def takes(found: Found) -> bool:
            return few_steps(self._kernel(found)[0], found, in_planes=True) > 0

        found = None if disabled("stage-padding") or generic in self._by_planes else find(generic)
        if found is not None:
            self._by_planes.update(pad_apart(found.lanes.value, takes))

    def prepared(self, found: Found) -> _Prepared:
        """Choose the tile of a contraction and what its rows are, and find out how its lanes are padded."""
        kernel, why = self._kernel(found)
        if self._packed_side(found, kernel) == "rows" and not disabled("transposed-tiles"):
            other = exchanged(found)
            exchanged_kernel, _ = self._kernel(other)
            few = f"few pixels ({size_of(found, found.shape.lanes)}): filters in the lanes, tiles transposed"
            saves = saves_transposed((kernel.tile, found), (exchanged_kernel.tile, other))
            if saves and self._packed_side(other, exchanged_kernel) == "lanes":
                return _Prepared(other, exchanged_kernel, few, None, transposed=True)
        padding = padded(found) if found.generic in self._by_planes else None
        if padding is not None:
            kernel = replace(kernel, tile=whole_depth(kernel.tile, found, MANY_IN_PLANES))
        return _Prepared(found, kernel, why, padding, transposed=False)

    def _kernel(self, found: Found) -> tuple[Kernel, str]:
        """The micro-kernels of a contraction, and why they have this tile."""
        ready = root(found.lanes.value) in self._read_only
        tile, why = tile_for(self._isa, found, fast=self._fast, ready=ready)
        narrow = is_narrow(tile, found)
        kernel = Kernel(
            fma=found.fma,
            tile=tile,
            swap=found.swap,
            fast=self._fast,
            isa=self._isa,
            narrow=narrow,
            statistics=self._statistics,
            rows=Access(narrow="rows" in found.narrow),
            lanes=Access(narrow="lanes" in found.narrow),
        )
        kernel = replace(kernel, partial=partial_rows(kernel, found))
        if takes_in_place(kernel, found):
            kernel = replace(kernel, tile=whole_depth(tile, found))
        return kernel, why

    def share(self, every: Sequence[_Prepared]) -> None:
        """Find the contractions whose lanes are packed once: several of few rows that read the same argument alike."""
        if disabled("share-packing"):
            return
        readers: dict[tuple[object, ...], list[ir.Operation]] = {}
        for each in every:
            found, kernel = each.found, each.kernel
            rows = size_of(found, [*found.shape.batch, *found.shape.rows])
            if each.padding is not None or not kernel.packs_once or rows is None or rows > _FEW_ROWS:
                continue
            if few_steps(kernel, found) or self._packed_side(found, kernel):
                continue
            number = self._read_only.get(root(found.lanes.value))
            packing = None if number is None else packing_of(number, found, kernel, "lanes")
            if packing is not None:
                readers.setdefault((packing, str(found.fma), found.generic.block), []).append(found.generic)
        self._shared = {generic for group in readers.values() if len(group) >= _SEVERAL for generic in group}

    def plan(self, prepared: _Prepared) -> None:
        """Decide the rest, and move the contraction with what its kernel computes into a region."""
        found, padding = prepared.found, prepared.padding
        generic, buffer = found.generic, found.out.value
        first = None if disabled("fuse-first") else producer(generic, buffer)
        others = () if padding is None else (padding.source,)
        last = None if disabled("fuse-last") else consumer(generic, buffer, first, others)
        plan = self._decided(prepared, first, last)
        number = -1 if PHASE in generic.attributes else self._count
        self._count += number >= 0
        layer, role = _layer(generic), str(facts.get(generic, "numc.role", ""))
        contraction = described(found, number, layer, role, phases=BY_PHASES in generic.attributes)
        region = _region(found, first, last, padding)
        records.put(region, CONTRACTION, contraction)
        records.put(region, PLAN, plan)
        if number in self._calibration:
            facts.put(region, CALIBRATION, self._calibration[number])

    def _decided(self, prepared: _Prepared, first: Elementwise | None, last: Elementwise | None) -> Plan:
        found, kernel, why = prepared.found, prepared.kernel, [prepared.why]
        packed = self._packed_side(found, kernel)
        steps = few_steps(kernel, found, in_planes=prepared.padding is not None)
        way, lanes = PANELS, PANELS
        if packed != "lanes" and steps:
            way, lanes = UNPACKED_ROW, IN_PLACE if prepared.padding is None else PADDED_PLANE
            why.append(f"one row and few steps of k ({steps}): packing lanes is as much work as their products")
        elif prepared.transposed:
            way = TRANSPOSED_TILES
        elif kernel.joins and is_short(kernel.tile.width, prologue_of(first), epilogue_of(last)):
            way = REGISTERS
            why.append("a step is one FMA: tiles stay in registers")
        if found.generic in self._shared:
            lanes = ONCE
            why.append("several contractions read the same lanes")
        elif packed != "lanes" and lanes == PANELS and reads_along_k(found.lanes, found):
            lanes = TRANSPOSED
            why.append("the steps of k of a lane are adjacent")
        elif packed != "lanes" and lanes == PANELS and takes_in_place(kernel, found):
            lanes = ADJACENT
            why.append("few rows need no copy of lanes that are adjacent")
        built = self._built(found, kernel, packed) if packed else ""
        rows = built if packed == "rows" else PANELS
        if rows == PANELS and way != UNPACKED_ROW and kernel.takes_rows_in_place and has_adjacent_k(found.rows, found):
            rows = IN_PLACE
            why.append("rows need no conversion, and their steps of k are adjacent")
        elif (
            rows == PANELS
            and way != UNPACKED_ROW
            and kernel.tile.rows > 1
            and are_adjacent(found.rows, found, kernel.tile)
        ):
            rows = TRANSPOSED
            why.append("rows are adjacent")
        if packed:
            why.append(f"{packed} are a weight")
        if packed == "lanes":
            lanes = built
        t = kernel.tile
        return Plan(
            tile=TilePlan(
                rows=t.rows,
                vectors=t.vectors,
                width=t.width,
                k_block=t.k_block,
                partial=kernel.partial,
                narrow=kernel.narrow,
            ),
            way=way,
            packing=OperandPlan(rows, lanes),
            prologue=text_of(first),
            epilogue=text_of(last),
            guarded=kernel.fast,
            dot=kernel.dot,
            counts=kernel.counts,
            tasks=PLANES if lanes == PADDED_PLANE else BLOCKS,
            why="; ".join(why),
        )

    def _built(self, found: Found, kernel: Kernel, side: str) -> str:
        """The packing of the operand of a side, a weight, when the program is built."""
        if not self._in_codes or not has_codes(kernel, side):
            return AT_COMPILE_TIME
        weight = self._weights[root((found.rows if side == "rows" else found.lanes).value)]
        of_rows, of_lanes = (replace(kernel.access(each), codes=each == side) for each in SIDES)
        coded = replace(kernel, rows=of_rows, lanes=of_lanes)
        sizes = [packing_of(weight, found, each, side) for each in (kernel, coded)]
        whole, short = (0 if each is None else each.words for each in sizes)
        if short >= whole:
            return AT_COMPILE_TIME
        rows = size_of(found, found.shape.rows)
        once = side == "lanes" and rows is not None and rows <= kernel.tile.rows  # every code is read once
        return CODES if once else EXPANDED_CODES

    def _packed_side(self, found: Found, kernel: Kernel) -> str:
        """The operand that is packed when the program is built: ``rows`` or ``lanes`` that are a weight, or nothing."""
        for side, operand in (("rows", found.rows), ("lanes", found.lanes)):
            weight = self._weights.get(root(operand.value))
            if weight is not None and packing_of(weight, found, kernel, side) is not None:
                return side
        return ""


def _layer(generic: ir.Operation) -> str:
    """The source name of an operation: the first that is quoted in its location."""
    text = str(generic.location)
    quoted = text.split('"')
    return quoted[1] if len(quoted) > 1 else text


def _region(found: Found, first: Elementwise | None, last: Elementwise | None, padding: Padded | None) -> ir.Operation:
    """Move a contraction into a region, with what its kernel computes besides and the buffers of these alone."""
    generic = found.generic
    anchor = generic if last is None else last.op
    with ir.InsertionPoint(anchor), generic.location:
        unit = {"no_inline": ir.UnitAttr.get()}
        region = ir.Operation.create("scf.execute_region", attributes=unit, regions=1)
        with ir.InsertionPoint(region.regions[0].blocks.append()):
            end = ir.Operation.create("scf.yield")
    inside = [*(() if padding is None else padding.ops[:-1])]
    inside += [e.op for e in (first,) if e is not None] + [generic] + [e.op for e in (last,) if e is not None]
    frees = [*(() if padding is None else padding.ops[-1:])]
    buffer = found.out.value
    if last is not None and last.output[0] != buffer:
        users = [use.owner.operation for use in buffer.uses]
        others = [op for op in users if op not in inside]
        if all(op.name == "memref.dealloc" for op in others):
            inside, frees = [buffer.owner.operation, *inside], [*frees, *others]
    for op in (*inside, *frees):
        op.move_before(end)
    return region
