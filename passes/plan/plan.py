"""The plan of one contraction: every decision about its code, as the attribute ``numc.plan`` of its region.

No decision changes a result. A plan may be edited by hand; `check` refuses what no kernel can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numc.numerics.datapaths import Blocks
from numc.numerics.operators import Fma
from numc.passes.kernels.datapaths.groups import unit_of_k
from numc.passes.kernels.datapaths.table import datapath_of
from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import has_codes
from numc.passes.kernels.setting import Access
from numc.passes.plan.contraction import Found
from numc.support.errors import NumcError, did_you_mean

#: The attributes of a region: what it computes, how, and the largest magnitudes of its operands where they are given.
CONTRACTION, PLAN, CALIBRATION = "numc.contraction", "numc.plan", "numc.calibration"

#: Ways through a task: tiles from packed panels; the same, a tile staying in registers from its initial values to the
#: epilogue; one row, its lanes read where they are; tiles from packed panels that are transposed on their way in and
#: out, of operands that have changed places.
PANELS, REGISTERS, UNPACKED_ROW, TRANSPOSED_TILES = "panels", "registers", "unpacked row", "transposed tiles"
#: How an operand is packed: by the task that needs it, when the program is built, or not at all (whole panels of rows
#: whose steps of k are adjacent; lanes of the way 'unpacked row'); lanes also copied into a plane with padding.
#: Codes: when the program is built, in the codes of its format, which micro-kernels read; expanded codes: which tasks
#: expand to panels first.
#: Once: before the first of several contractions that read the same lanes; these find them packed.
#: In place where adjacent: vectors of lanes that are adjacent are not packed, the others are.
#: Transposed: rows that are adjacent themselves, or lanes whose steps of k are, are read in this direction.
AT_COMPILE_TIME, IN_PLACE, PADDED_PLANE = "at compile time", "in place", "padded plane"
CODES, EXPANDED_CODES = "codes", "expanded codes"
TRANSPOSED, ONCE = "transposed panels", "once"
#: The ways in which a weight is packed when the program is built.
BUILT = AT_COMPILE_TIME, CODES, EXPANDED_CODES
ADJACENT = "in place where adjacent"
ROWS = PANELS, TRANSPOSED, AT_COMPILE_TIME, EXPANDED_CODES, IN_PLACE
LANES = PANELS, TRANSPOSED, ONCE, *BUILT, IN_PLACE, PADDED_PLANE, ADJACENT
_IN_CODES = CODES, EXPANDED_CODES
#: What a task computes.
BLOCKS, PLANES = "blocks of rows and lanes", "planes"

# The bound that the guards of cheap sequences rely on (micro_kernel.py).
_MOST_STEPS = 1 << 15


@dataclass(frozen=True, kw_only=True)
class TilePlan:
    """The micro-tile: `rows` x `vectors` accumulators of `width` lanes, updated for `k_block` steps of k at a time.

    partial: numbers of rows below `rows` with a micro-kernel of their own. narrow: so have the last lanes, if they are
    one vector or less.
    """

    rows: int
    vectors: int
    width: int
    k_block: int
    partial: tuple[int, ...]
    narrow: bool


@dataclass(frozen=True)
class OperandPlan:
    """The packing of the operands of rows and of lanes: one of `ROWS`, one of `LANES`."""

    rows: str
    lanes: str

    def access(self, side: str, narrow: Sequence[str]) -> Access:
        """The access of micro-kernels to the operand of a side; narrow: the sides that are narrow in memory."""
        packed = self.rows if side == "rows" else self.lanes
        return Access(
            in_place=packed == (IN_PLACE if side == "rows" else ADJACENT),
            turned=packed in (TRANSPOSED, ONCE),
            codes=packed in _IN_CODES,
            expanded=packed == EXPANDED_CODES,
            narrow=side in narrow,
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is decided about the code of one contraction.

    way: through a task. prologue, epilogue: what else the region computes, before and after. guarded: cheap rounding
    sequences under guards. dot: how many integers (4 of 8 bits, 2 of 16) or bfloat16 numbers (2) are multiplied and
    added at once, 0 if products are of binary32 numbers. counts: additions of a multiply-add that are counted for
    statistics. tasks: what one of them computes; how large it is, is decided when the program runs. why: the reasons,
    for the reader.
    """

    tile: TilePlan
    way: str
    packing: OperandPlan
    prologue: str
    epilogue: str
    guarded: bool
    dot: int
    counts: int
    tasks: str
    why: str

    def kernel(self, found: Found, isa: InstructionSet) -> Kernel:
        """The micro-kernels of a contraction that the plan asks for, of the instructions `isa`."""
        t = self.tile
        tile = Tile(width=t.width, vectors=t.vectors, rows=t.rows, k_block=t.k_block)
        pairs, quads = (isa.dot(n) if n == self.dot else None for n in (2, 4))
        bf16, matrix = isa.dot_bf16 if self.dot == 2 else None, isa.matrix if self.dot else None
        used = replace(isa, dot_pairs=pairs, dot_quads=quads, dot_bf16=bf16, matrix=matrix)
        kernel = Kernel(
            fma=found.fma,
            tile=tile,
            swap=found.swap,
            fast=self.guarded,
            partial=t.partial,
            isa=used,
            narrow=t.narrow,
            statistics=self.counts > 0,
            rows=self.packing.access("rows", found.narrow),
            lanes=self.packing.access("lanes", found.narrow),
        )
        dense = self.packing.lanes == AT_COMPILE_TIME and kernel.dot > 0 and not kernel.is_open("lanes")
        return replace(kernel, lanes=replace(kernel.lanes, dense=dense))


def takes_narrow(fma: Fma) -> bool:
    """Whether the micro-kernels of an operator can have a form for one vector."""
    return datapath_of(fma).in_place


def check(plan: Plan, kernel: Kernel, depth: int | None, isa: InstructionSet, layer: str) -> None:
    """Raise NumcError if no kernel with the instructions `isa` can follow `plan`; depth: the steps of k, if known."""
    for complaints in (_tile(plan.tile, kernel, isa), _ways(plan, kernel, depth), _code(plan, kernel, isa)):
        for complaint in complaints:
            raise NumcError(f"layer '{layer}': numc.plan: {complaint}")


def _tile(t: TilePlan, kernel: Kernel, isa: InstructionSet) -> list[str]:
    problems, fma = [], kernel.fma
    if t.width != isa.width:
        problems.append(f"tile.width = {t.width}: the target's vectors have {isa.width} lanes")
    # Accumulators that are computed in turn are in memory, but for a row: there can be twice as many rows.
    held = max(t.rows // 2, t.vectors) if kernel.datapath.in_turn(kernel) else t.rows * t.vectors
    if t.rows < 1 or t.vectors < 1 or (held > isa.registers and kernel.matrix is None):
        registers = f"rows x vectors from 1 to {isa.registers}, the target's vector registers"
        problems.append(f"tile.rows = {t.rows}, tile.vectors = {t.vectors}: want {registers}")
    group, within, unit = fma.group_length, fma.datapath.within, unit_of_k(fma, t.width)
    if t.k_block < unit or t.k_block > _MOST_STEPS or t.k_block % unit:
        of = f" (whole groups of {group} in whole vectors)" if group else ""
        of += f" (whole blocks of {within.length})" if isinstance(within, Blocks) else ""
        problems.append(f"tile.k_block = {t.k_block}: want a multiple of {unit}{of} up to {_MOST_STEPS}")
    if any(not 1 <= n < t.rows for n in t.partial) or len(set(t.partial)) != len(t.partial):
        below = (
            f"different numbers from 1 to {t.rows - 1}, below tile.rows" if t.rows > 1 else "none: a tile is one row"
        )
        problems.append(f"tile.partial = {list(t.partial)}: want {below}")
    if t.narrow and (t.vectors < 2 or not takes_narrow(fma)):
        subject = "a tile of one vector" if t.vectors < 2 else f"operator '{fma}'"
        problems.append(f"tile.narrow = true: {subject} has no form for a single vector")
    return problems


def _ways(plan: Plan, kernel: Kernel, depth: int | None) -> list[str]:
    way, rows, lanes = plan.way, plan.packing.rows, plan.packing.lanes
    ways = (PANELS, REGISTERS, UNPACKED_ROW, TRANSPOSED_TILES)
    for name, value, allowed in (("way", way, ways), ("packing.rows", rows, ROWS), ("packing.lanes", lanes, LANES)):
        if value not in allowed:
            return [f"{name} = {value!r}{did_you_mean(value, allowed)}: want {', '.join(map(repr, allowed))}"]
    problems = []
    if rows in BUILT and lanes in (*BUILT, ONCE):
        problems.append(f"packing: rows = {rows!r} and lanes = {lanes!r}: one operand can be packed before")
    if kernel.codes and not has_codes(kernel, kernel.codes):
        wanted = "values of fixed widths and fewer than 32 bits, a NaN or groups, and codes that kernels read"
        problems.append(
            f"packing.{kernel.codes} = {getattr(plan.packing, kernel.codes)!r}: wants {wanted}: not '{kernel.fma}'"
        )
    if lanes == ONCE and not kernel.packs_once:
        problems.append(f"packing.lanes = 'once': wants single values of fixed widths: not '{kernel.fma}'")
    if rows == IN_PLACE and not kernel.takes_rows_in_place:
        problems.append(
            f"packing.rows = 'in place': wants an operator that neither converts them nor has a cheap sequence: "
            f"not '{kernel.fma}'"
        )
    if rows == IN_PLACE and way == UNPACKED_ROW:
        problems.append("packing.rows = 'in place': not with way = 'unpacked row'")
    if lanes == ADJACENT and not kernel.takes_lanes_in_place:
        problems.append(
            f"packing.lanes = {ADJACENT!r}: wants an operator that neither converts them nor has a cheap sequence: "
            f"not '{kernel.fma}'"
        )
    if way == REGISTERS and not kernel.joins:
        problems.append(
            f"way = 'registers': wants several rows, and an operator of which one step is one FMA: not '{kernel.fma}'"
        )
    if (way == UNPACKED_ROW) != (lanes in (IN_PLACE, PADDED_PLANE)):
        problems.append(
            f"way = {way!r}, packing.lanes = {lanes!r}: lanes are read unpacked by the way 'unpacked row' alone"
        )
    if way == UNPACKED_ROW and not kernel.reads_directly:
        problems.append(f"way = 'unpacked row': not with tile.rows = {kernel.tile.rows} and operator '{kernel.fma}'")
    if way == UNPACKED_ROW and (depth is None or not 1 <= depth <= kernel.tile.k_block):
        steps = "an unknown number of" if depth is None else depth
        problems.append(
            f"way = 'unpacked row': {steps} steps of k: want from 1 to tile.k_block = {kernel.tile.k_block}"
        )
    if plan.tasks != (PLANES if lanes == PADDED_PLANE else BLOCKS):
        wanted = PLANES if lanes == PADDED_PLANE else BLOCKS
        problems.append(f"tasks = {plan.tasks!r}: with packing.lanes = {lanes!r} they are {wanted!r}")
    return problems


def _code(plan: Plan, kernel: Kernel, isa: InstructionSet) -> list[str]:
    problems = []
    if plan.guarded and not isa.fma:
        problems.append("guarded = true: the target has no FMA: cheap sequences need one")
    if plan.dot != kernel.dot:
        problems.append(
            f"dot = {plan.dot}: the target or operator '{kernel.fma}' with this tile has no such dot products"
        )
    additions = datapath_of(kernel.fma).additions(kernel.fma)
    if plan.counts not in (0, additions):
        wanted = "0" if not additions else f"0 or {additions}"
        problems.append(f"counts = {plan.counts}: operator '{kernel.fma}' can count {wanted}")
    return problems
