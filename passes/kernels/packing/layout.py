"""How packed operands are laid out.

Rows and lanes share one scheme: a panel is a list of vectors, and a vector is laid out part after part.

rows:   [batch][panel][k / width][row of the panel][part][width along k]
lanes:  [batch][panel][k][vector of the panel][part][width along the lanes]

Elements beyond the operand are +0, and the depth of a lane panel is made even, or a multiple of four where a word holds
four integers. pack_code.py packs when a program runs, pack_arrays.py does the same in numpy for weights.

The panels of a weight may hold codes of a narrow format instead of float32 numbers. In each block of k, the codes of
one lane of successive vectors follow each other in the bits of that lane, from the least significant bit of the first
word up: 32 vectors of 10 bits take the place of 10 vectors of float32 numbers. expand_codes.py expands them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from numc.numerics.formats import Record
from numc.numerics.grammar import parse_conversion
from numc.passes.kernels.kernel import Kernel


@dataclass(frozen=True)
class Layout:
    """The layout of one packed operand. `count`: rows, or vectors, of a panel.

    dot: 0, or how many numbers there are in one 32-bit word in place of an f32 number, for the instructions that
    multiply and add all of them: two of 16 bits or four of 8. They are successive steps of k, the earliest one in the
    lowest bits. A row's vector has its words at its beginning; those of lanes are the first vectors of a block. One
    of four is unsigned for the instruction, that of a row: 128 is added to it. What this adds to the sum of a group,
    128 times the sum of its lanes, is behind the block's vectors of lanes and their units, as i32, with the other sign.
    alone: the operand has no groups: numbers are ``bf16`` codes, or ``integers`` that stand for themselves, or
    ``unsigned`` ones. Rows of integers have no room in their vectors: each has `steps` of k.
    group: how many steps of k share a unit, if there are units. They are f32 numbers: in the second half of the first
    vector of a group of a row, one after the other where a vector has several; behind a block's vectors of lanes.
    scales: numbers are elements, whose scales are f32 numbers behind the vectors of every block: those of a row one
    after the other, those of lanes a vector for each group.
    channel: there is one largest magnitude for every row or lane, in whole panels, in place of one for the operand.
    dense: the words of a block of lanes take the room that they need, and not that of as many float32 numbers.
    matrix: 0, or how many words of a row or lane a matrix register takes: panels have whole registers of them. Those of
    lanes behind the last step are -0 if they are bfloat16 numbers, and so are their products: no sum changes, not even
    -0. (The last step of an odd number shares its word with +0, as the operator defines it.)
    code: the format whose codes the panels hold; empty if they hold float32 numbers or words of integers.
    """

    side: str
    width: int
    count: int
    parts: int
    k_block: int
    dot: int = 0
    group: int = 0
    channel: bool = False
    scales: bool = False
    code: str = ""
    dense: bool = False
    alone: str = ""
    matrix: int = 0

    @property
    def code_format(self) -> Record:
        """The format of the codes, of one part."""
        fmt = parse_conversion(self.code).format
        assert isinstance(fmt, Record)
        return replace(fmt, parts=1)

    @property
    def bits(self) -> int:
        """The size of an element in bits."""
        return self.code_format.bits if self.code else 32

    @property
    def period(self) -> int:
        """How many vectors of codes fill whole vectors of words."""
        return 32 // math.gcd(self.bits, 32)

    @property
    def steps(self) -> int:
        """How many steps of k a vector of a row has."""
        return self.width * self.dot if self.matrix or self.alone in ("integers", "unsigned") else self.width

    @property
    def unit(self) -> int:
        """What the steps of a block of lanes are padded to a multiple of."""
        return max(self.dot, 2) * (self.matrix or 1)

    @property
    def extent(self) -> int:
        """Rows or lanes of a panel."""
        return self.count if self.side == "rows" else self.count * self.width

    def panel_words(self, depth: int) -> int:
        """The size of one panel, in f32 numbers."""
        whole, rest = divmod(depth, self.k_block)
        return whole * self.block_words(self.k_block) + self.block_words(rest)

    def block_words(self, depth: int) -> int:
        """The size of one block of k of a panel, in f32 numbers."""
        return self.words_of(self.block_vectors(depth))

    def block_vectors(self, depth: int) -> int:
        """How many vectors of numbers one block of k of a panel is."""
        if self.side == "lanes":
            return self.block_steps(depth) * self.step_vectors
        groups = -(-depth // self.group) if self.scales else 0
        return (-(-depth // self.steps) + -(-groups // self.width)) * self.step_vectors

    def words_of(self, vectors: int) -> int:
        """The size of so many vectors of one block, in f32 numbers."""
        return -(-vectors * self.bits // 32) * self.width

    def block_steps(self, depth: int) -> int:
        """The size of a block of k of lanes, in steps; `depth` is below `k_block` in the last one."""
        groups = -(-depth // (self.group or self.k_block))
        behind = groups if self.scales else 0
        if self.dot and not self.alone:
            behind = groups * ((self.group > 0) + (self.dot == 4))
        return self.word_steps(depth) + behind

    def word_steps(self, depth: int) -> int:
        """The same without what is behind the words or numbers."""
        steps = -(-depth // self.unit) * self.unit
        return steps // self.dot if self.dense else steps

    def batch_words(self, size: int, depth: int) -> int:
        """The size of the panels of one batch of `size` rows or lanes."""
        return -(-size // self.extent) * self.panel_words(depth)

    def words(self, batches: int, size: int, depth: int) -> int:
        """The size of a whole packed operand, with the guard's data and then its largest magnitudes behind it."""
        blocks = max(1, -(-depth // self.k_block))
        panels = batches * (self.batch_words(size, depth) + 2 * -(-size // self.extent) * blocks)
        return panels + self.room + self.largest_words(size)

    @property
    def room(self) -> int:
        """What is left free behind panels of codes, in f32 numbers: codes are read in whole periods."""
        return self.period * self.bits // 32 * self.width if self.code else 0

    def largest_words(self, size: int) -> int:
        """How many largest magnitudes there are of `size` rows or lanes; channels are those of one batch."""
        return -(-size // self.extent) * self.extent if self.channel else 1

    @property
    def step_words(self) -> int:
        """The size of one step along k in f32 numbers: `width` of them for rows, one for lanes."""
        return self.step_vectors * self.width

    @property
    def step_vectors(self) -> int:
        """The same in vectors."""
        return self.count * self.parts

    def index(self, batch: int, place: int, depth: int, size: int) -> npt.NDArray[np.int64]:
        """Where part 0 of every k of row or lane `place` is; `size` is the number of rows or lanes; shape (depth,)."""
        base = batch * self.batch_words(size, depth) + place // self.extent * self.panel_words(depth)
        block, k = np.divmod(np.arange(depth), self.k_block)
        inside, start = place % self.extent, base + block * self.block_words(self.k_block)
        if self.side == "rows":
            return np.asarray(
                start + k // self.width * self.step_words + inside * self.parts * self.width + k % self.width
            )
        vector = inside // self.width * self.parts * self.width
        return np.asarray(start + k * self.step_words + vector + inside % self.width)

    def scale_index(self, batch: int, across: int, depth: int, size: int) -> npt.NDArray[np.int64]:
        """Where the scales of the groups of row or lane `across` are; shape (groups,)."""
        first = self.index(batch, across, depth, size)[:: self.group]
        k = np.arange(0, depth, self.group)
        block, within = np.divmod(k, self.k_block)
        count = np.minimum(depth - block * self.k_block, self.k_block)
        if self.side == "rows":
            there = -(-count // self.width) * self.step_words
            number, before = within // self.group, within // self.width * self.step_words + within % self.width
            there = there + number // self.width * self.step_words + number % self.width
            return np.asarray(first - before + there)
        there = -(-count // self.unit) * self.unit + within // self.group
        return np.asarray(first + (there - within) * self.step_words)


def layout(kernel: Kernel, side: str) -> Layout:
    """The layout that the micro-kernels of `kernel` read."""
    count = kernel.tile.rows if side == "rows" else kernel.tile.vectors
    to = kernel.grouped(side)
    group = 0 if to is None else to.format.group or 0
    channel = to is not None and to.channel
    scales = kernel.fma.multiplies == "elements" or (kernel.groups is not None and kernel.groups.scales_sums)
    words = kernel.dot, group, channel, scales
    alone = ""
    if kernel.dot and kernel.groups is None:
        first = "unsigned" if kernel.operand(side) == 0 else "integers"
        alone = {"avx512_bf16": "bf16", "amx_bf16": "bf16", "bytes": first}.get(kernel.fma.datapath.name, "integers")
    sizes = kernel.tile.width, count, kernel.parts(side), kernel.tile.k_block
    matrix = 0 if kernel.matrix is None else kernel.matrix.size
    return Layout(side, *sizes, *words, alone=alone, matrix=matrix)


def stored_layout(kernel: Kernel, side: str) -> Layout:
    """The layout of an operand that is packed when the program is built: dense words, or perhaps codes."""
    to = layout(kernel, side)
    if kernel.access(side).codes:
        return replace(to, code=kernel.conversion(side).format.name)
    return replace(to, dense=kernel.lanes.dense and side == "lanes")


def has_codes(kernel: Kernel, side: str) -> bool:
    """Whether panels of an operand can be codes: single values in a usual format of fewer than 32 bits with a NaN.

    Words of them are already.
    """
    if kernel.grouped(side) is not None or kernel.dot or kernel.is_open(side):
        return False
    fmt = kernel.conversion(side).format
    return fmt.bits < 32 * fmt.parts and fmt.is_usual and fmt.has_nan
