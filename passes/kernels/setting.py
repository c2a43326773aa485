"""The setting of a set of micro-kernels: operator, tile, instructions, and how its operands are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from numc.numerics.formats import Conversion, Format
from numc.numerics.groups import GroupConversion, GroupFormat
from numc.numerics.operators import Fma
from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.unpacked import reads_codes


class Adjacency(Enum):
    """The known order of the memory of an operand of any size: which elements of a row or of lanes are adjacent.

    NONE: nor is there one between two of them. THIRD, FOURTH: most of them are three or four elements apart.
    """

    UNKNOWN = ""
    ALL = "adjacent"
    NONE = "apart"
    THIRD = "third"
    FOURTH = "fourth"

    @property
    def stride(self) -> int:
        """The distances in elements of those of a segment, other than one (packing/segments.py)."""
        return next((stride for stride, known in STRIDED.items() if known is self), 2)


STRIDED = {3: Adjacency.THIRD, 4: Adjacency.FOURTH}

SIDES = ("rows", "lanes")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The access of micro-kernels to one operand.

    in_place: a panel of rows, or every vector of a panel of lanes, may also be where the operand is. turned: a function
    of its own packs rows that are adjacent themselves, or lanes whose steps of k are. codes: panels are codes of the
    format; expanded: tasks make numbers of them. dense: panels are words of integers without room between them. narrow:
    the operand lies in memory in the bytes of its format, a narrow dtype, or in bytes of integers, and not as f32
    numbers. adjacency: that of the elements of a row along k, or of the lanes.
    """

    in_place: bool = False
    turned: bool = False
    codes: bool = False
    expanded: bool = False
    dense: bool = False
    narrow: bool = False
    adjacency: Adjacency = Adjacency.UNKNOWN


Parts = Sequence[Value]  # of an operand: its value, or the bf16 numbers whose sum it is


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The setting of a set of micro-kernels. `swap`: rows come from the operator's b, lanes from its a.

    fast: cheap sequences may run where they are exact. partial: row counts below `tile.rows` that get a micro-kernel of
    their own (fewer rows, the same panels). narrow: so does one vector of the tile's, for the last lanes.
    statistics: micro-kernels can count their additions (counting.py). rows, lanes: the operands.
    """

    fma: Fma
    tile: Tile
    swap: bool = False
    fast: bool = True
    partial: tuple[int, ...] = ()
    isa: InstructionSet = PORTABLE
    narrow: bool = False
    statistics: bool = False
    rows: Access = Access()
    lanes: Access = Access()

    @property
    def instructions(self) -> InstructionSet:
        """The instructions on vectors of the tile's width."""
        return self.isa.at(self.tile.width)

    @property
    def accumulators(self) -> int:
        """The number of accumulators of a tile."""
        return self.tile.rows * self.tile.lanes

    def operand(self, side: str) -> int:
        """The number of the operand (0 for a, 1 for b) that supplies the ``rows`` or the ``lanes``."""
        return int((side == "rows") == self.swap)

    def ordered(self, row: Parts, lane: Parts) -> tuple[Parts, Parts]:
        """The values of a row and of lanes as (a, b)."""
        return (lane, row) if self.swap else (row, lane)

    def parts(self, side: str) -> int:
        """The number of parts of the values of that operand."""
        return self.fma.parts[self.operand(side)]

    def conversion(self, side: str) -> Conversion:
        """The format of that operand, value by value: binary32 if it has groups, whose values are made in panels.

        A stochastic conversion of values without groups has been done before, as a whole.
        """
        return self.fma.singles[self.operand(side)].settled

    def coded(self, side: str) -> Format | None:
        """The format whose codes its panels can hold, of elements where it has groups; None if there is none."""
        groups = self.grouped(side)
        fmt = self.conversion(side).format if groups is None else groups.format.elements
        return fmt if fmt is not None and reads_codes(fmt) else None

    def scaled_codes(self, side: str) -> GroupFormat | None:
        """Its format with groups, if what is multiplied is an element times a number, and not one of them alone."""
        groups = self.grouped(side)
        if groups is None or self.fma.multiplies == "elements":
            return None
        alone = groups.format.sums_integers or groups.format.sums_elements
        return None if alone and self.fma.multiplies == "sums" else groups.format

    def element(self, side: str) -> str:
        """The type of that operand's elements in memory: f32, or integers of as many bits as its format has."""
        if not self.access(side).narrow:
            return "f32"
        return "i8" if self.fma.datapath.name == "bytes" else f"i{self.conversion(side).format.bits}"

    def access(self, side: str) -> Access:
        """The access to that operand."""
        return self.rows if side == "rows" else self.lanes

    def sides(self, flag: str) -> tuple[str, ...]:
        """The operands whose access has a flag."""
        return tuple(side for side in SIDES if getattr(self.access(side), flag))

    @property
    def codes(self) -> str:
        """The side whose panels are codes, or nothing."""
        return next(iter(self.sides("codes")), "")

    @property
    def expands(self) -> bool:
        """Whether tasks make numbers of codes, so that micro-kernels do not read them."""
        return bool(self.sides("expanded"))

    def is_open(self, side: str) -> bool:
        """Whether a run chooses the widths of that operand."""
        return (self.fma.a, self.fma.b)[self.operand(side)].open is not None

    @property
    def has_open_product(self) -> bool:
        """Whether a run chooses the widths that products are rounded to."""
        return self.fma.product is not None and self.fma.product.open is not None

    def grouped(self, side: str) -> GroupConversion | None:
        """The format of that operand if it has groups."""
        return self.fma.grouped[self.operand(side)]

    def groups_of(self, side: str) -> GroupConversion:
        """The format of that operand, which has groups."""
        to = self.grouped(side)
        assert to is not None
        return to
