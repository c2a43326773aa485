"""A set of micro-kernels: what it is generated for, and what its callers must know of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from hashlib import sha256

from numc.numerics.operators import FP32
from numc.passes.kernels.datapaths import counting, group_sums, stochastic
from numc.passes.kernels.datapaths.chunked import is_carried
from numc.passes.kernels.datapaths.datapath import Datapath, Guard
from numc.passes.kernels.datapaths.groups import Groups
from numc.passes.kernels.datapaths.matrix import product_of
from numc.passes.kernels.datapaths.reads import LANES_IN_PLACE, ROWS_IN_PLACE
from numc.passes.kernels.datapaths.table import datapath_of
from numc.passes.kernels.isa.instruction_set import Matrix
from numc.passes.kernels.setting import Setting


@dataclass(frozen=True, kw_only=True)
class Kernel(Setting):
    """The micro-kernels of one operator, tile and instruction set, and how they are called."""

    @property
    def datapath(self) -> Datapath:
        """The datapath of the multiply-adds."""
        return datapath_of(self.fma, statistics=self.statistics, rows=self.tile.rows, flushes=self.isa.flushes_rounded)

    @property
    def name(self) -> str:
        """The beginning of the names of its functions: operator and tile, for the reader, and a hash of all that it is.

        Its instructions are those of a name, less those that it does without (`dot`).
        """
        operator, t = str(self.fma), self.tile
        rest = [(each.name, getattr(self, each.name)) for each in fields(self) if each.name not in ("fma", "isa")]
        whole = repr((operator, self.isa.name, self.dot, *rest))
        text = "".join(ch if ch.isalnum() else "_" for ch in operator)
        return f"numc_{text}_{t.rows}x{t.lanes}x{t.k_block}_{sha256(whole.encode()).hexdigest()[:8]}"

    @property
    def limits(self) -> Guard | None:
        """When the cheap rounding sequence may run, or None if there is none."""
        return self.datapath.limits(self) if self.fast else None

    @property
    def scale(self) -> float:
        """The factor of products and accumulators in the cheap sequence."""
        return self.datapath.scale(self)

    @property
    def groups(self) -> Groups | None:
        """The sums of the dot products of groups, if both operands have groups."""
        return group_sums.groups_of(self) if self.fma.groups else None

    @property
    def scales_results(self) -> bool:
        """Whether the end of a reduction applies the scales of whole operands, or of their channels."""
        groups = self.groups
        return groups is not None and (
            groups.is_integer or (self.fma.multiplies == "elements" and self.fma.shares_tensor)
        )

    @property
    def dot(self) -> int:
        """The number of steps of k in a word of packed operands, which one instruction multiplies and adds; or 0."""
        return self.datapath.dot(self)

    @property
    def matrix(self) -> Matrix | None:
        """The matrix registers that hold the tile, if they do."""
        return self.isa.matrix if product_of(self) is not None else None

    @property
    def segment(self) -> int | None:
        """The number of steps of k that are summed apart, if not all of a block."""
        return self.datapath.segment(self)

    @property
    def carries_segments(self) -> bool:
        """Whether a segment can go on from one block of k to the next."""
        if self.fma.datapath.in_runs:
            return is_carried(self)
        return self.segment is not None and self.tile.k_block % self.segment != 0

    @property
    def growth(self) -> int:
        """The most by which the exponent of a sum can pass that of its largest term, between two looks at the guard."""
        block = self.tile.k_block
        steps = block if self.segment is None else min(self.segment, block)
        return (steps - 1).bit_length() + 2

    @property
    def tile_words(self) -> int:
        """The size of a tile in memory, in f32 words: the accumulators, then the datapath's own."""
        return self.accumulators * (1 + self.datapath.state(self))

    @property
    def counts(self) -> int:
        """The number of additions of a multiply-add that can be counted."""
        return self.datapath.additions(self.fma) if self.statistics else 0

    @property
    def waiting(self) -> int:
        """The most carries of its counters that wait."""
        return counting.waiting(self.counts, self.tile.rows * self.tile.vectors, self.tile.k_block)

    @property
    def drawn(self) -> tuple[tuple[str, str], ...]:
        """The arguments, and their types, that say what accumulators draw; none if they do not draw."""
        return tuple(stochastic.ARGUMENTS.items()) if self.fma.steps_draw else ()

    @property
    def needs_k0(self) -> bool:
        """Whether the kernel must be told where its block of k begins."""
        return bool(self.drawn) or self.counts > 0 or self.carries_segments

    @property
    def fetches_ahead(self) -> bool:
        """Whether the next panel of rows is prefetched: the processor notices too late where it begins.

        With three parts to a row LLVM runs out of registers for it: products took 1.8 times as long. Matrix registers
        are loaded faster than lines are fetched.
        """
        return self.groups is None and self.tile.rows > 1 and self.parts("rows") < 3 and self.matrix is None

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """Further arguments of the micro-kernels, and their types."""
        k0 = {"k0": "i64"} if self.needs_k0 else {}
        width = {"product_width": "i64"} if self.has_open_product else {}
        ahead = {"ahead": "!llvm.ptr"} if self.fetches_ahead else {}
        rows = ROWS_IN_PLACE if self.rows.in_place else {}
        lanes = LANES_IN_PLACE if self.lanes.in_place else {}
        return (*k0.items(), *self.datapath.arguments, *width.items(), *ahead.items(), *rows.items(), *lanes.items())

    @property
    def reads_directly(self) -> bool:
        """Whether lanes can be converted as they are read (unpacked_row.py): for one row, packing is half the work."""
        return self.tile.rows == 1 and self.datapath.in_place and self.grouped("lanes") is None

    @property
    def takes_rows_in_place(self) -> bool:
        """Whether rows need no packing if their steps of k are adjacent: they are f32, and no range is wanted."""
        is_f32 = not self.converts("rows") and self.element("rows") == "f32"
        return is_f32 and self.limits is None and not self.dot

    @property
    def takes_lanes_in_place(self) -> bool:
        """Whether vectors of lanes need no packing if they are adjacent."""
        return (
            self.datapath.in_place
            and not self.converts("lanes")
            and self.limits is None
            and self.element("lanes") == "f32"
        )

    def converts(self, side: str) -> bool:
        """Whether packing an operand may change values."""
        return self.grouped(side) is not None or self.is_open(side) or self.conversion(side) != FP32

    @property
    def packs_once(self) -> bool:
        """Whether lanes can be packed as a whole while the program runs (pack_once.py): values without groups."""
        return self.grouped("lanes") is None and not self.is_open("lanes")

    @property
    def joins(self) -> bool:
        """Whether whole tiles can go from their initial values to the epilogue in registers (register_tile.py)."""
        return self.fetches_ahead and not self.counts and self.fma.is_one_fma and self.datapath.in_place
