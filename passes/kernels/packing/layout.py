"""The layout of packed operands.

Rows and lanes share one scheme: a panel is a list of vectors, and a vector is laid out part after part.

rows:   [batch][panel][k / width][row of the panel][part][width along k]
lanes:  [batch][panel][k][vector of the panel][part][width along the lanes]

Elements beyond the operand are +0, and the depth of a lane panel is made even, or a multiple of four where a word holds
four integers. pack_code.py packs when a program runs, pack_arrays.py does the same in numpy for weights.

The panels of a weight may hold codes of a narrow format instead of float32 numbers. In each block of k, the codes of
one lane of successive vectors follow each other in the bits of that lane, from the least significant bit of the first
word up: 32 vectors of 10 bits take the place of 10 vectors of float32 numbers. Values of groups are held as the codes
of their elements, and behind those of a block as one float32 number for each group, by which its elements are
multiplied when they are read. expand_codes.py expands codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from numc.numerics.formats import Format
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
    part: the format of each of the parts of a number of several; those of chunks of magnitudes have none.
    code: the format whose codes the panels hold; empty if they hold float32 numbers or words of integers.
    scaled: the codes are those of elements, and the numbers are these times others, which lie where scales do.
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
    part: str = ""
    code: str = ""
    scaled: bool = False
    dense: bool = False
    alone: str = ""
    matrix: int = 0

    @property
    def code_format(self) -> Format:
        """The format of the codes, of one part."""
        return parse_conversion(self.code).format.part

    @property
    def bits(self) -> int:
        """The size of an element in bits."""
        return self.code_format.bits if self.code else 32

    @property
    def period(self) -> int:
        """The number of vectors of codes that fill whole vectors of words."""
        return 32 // math.gcd(self.bits, 32)

    @property
    def steps(self) -> int:
        """The number of steps of k in a vector of a row."""
        return self.width * self.dot if self.matrix or self.alone in ("integers", "unsigned") else self.width

    @property
    def unit(self) -> int:
        """The number to whose multiple the steps of a block of lanes are padded."""
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
        scales = self.scale_vectors(depth)
        return self.words_of(self.block_vectors(depth) - scales) + scales * self.width

    def block_vectors(self, depth: int) -> int:
        """The number of vectors of numbers of one block of k of a panel."""
        if self.side == "lanes":
            return self.block_steps(depth) * self.step_vectors
        return -(-depth // self.steps) * self.step_vectors + self.scale_vectors(depth)

    def scale_vectors(self, depth: int) -> int:
        """The number of these that hold the scales of groups, or what elements are multiplied by."""
        groups = -(-depth // self.scale_steps) if self.scales or self.scaled else 0
        return (groups if self.side == "lanes" else -(-groups // self.width)) * self.step_vectors

    @property
    def scale_steps(self) -> int:
        """The steps of k that share a scale, or what elements are multiplied by: at most those of a block."""
        return self.group or self.k_block

    def words_of(self, vectors: int) -> int:
        """The size of so many vectors of codes, or of numbers, of one block, in f32 numbers."""
        return -(-vectors * self.bits // 32) * self.width

    def block_steps(self, depth: int) -> int:
        """The size of a block of k of lanes, in steps; `depth` is below `k_block` in the last one."""
        groups = -(-depth // self.scale_steps)
        behind = groups if self.scales or self.scaled else 0
        if self.dot and not self.alone:
            behind = groups * ((self.group > 0) + (self.dot == 4))
        return self.word_steps(depth) + behind

    def word_steps(self, depth: int) -> int:
        """The steps of a block of k without those behind the words or numbers."""
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
        """The room that is left free behind panels of codes, in f32 numbers: codes are read in whole periods."""
        return self.period * self.bits // 32 * self.width if self.code else 0

    def largest_words(self, size: int) -> int:
        """The number of largest magnitudes of `size` rows or lanes; channels are those of one batch."""
        return -(-size // self.extent) * self.extent if self.channel else 1

    @property
    def step_words(self) -> int:
        """The size of one step along k in f32 numbers: `width` of them for rows, one for lanes."""
        return self.step_vectors * self.width

    @property
    def step_vectors(self) -> int:
        """The size of one step along k in vectors."""
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
        block, within = np.divmod(np.arange(0, depth, self.scale_steps), self.k_block)
        number, inside = within // self.scale_steps, across % self.extent
        count = np.minimum(depth - block * self.k_block, self.k_block)
        panel = batch * self.batch_words(size, depth) + across // self.extent * self.panel_words(depth)
        start = panel + block * self.block_words(self.k_block)
        codes = [self.words_of(self.block_vectors(n) - self.scale_vectors(n)) for n in count.tolist()]
        start = start + np.array(codes, np.int64)
        if self.side == "rows":
            within = number // self.width * self.step_words + inside * self.parts * self.width + number % self.width
        else:
            within = number * self.step_words + inside // self.width * self.parts * self.width + inside % self.width
        return np.asarray(start + within)


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
    part = kernel.conversion(side).format.part.name if to is None and kernel.parts(side) > 1 else ""
    return Layout(side, *sizes, *words, part=part, alone=alone, matrix=matrix)


def stored_layout(kernel: Kernel, side: str) -> Layout:
    """The layout of an operand that is packed when the program is built: dense words, or perhaps codes."""
    to = layout(kernel, side)
    if kernel.access(side).codes:
        fmt = kernel.coded(side)
        assert fmt is not None
        return replace(to, code=fmt.name, scaled=kernel.scaled_codes(side) is not None)
    return replace(to, dense=kernel.lanes.dense and side == "lanes")


def has_codes(kernel: Kernel, side: str) -> bool:
    """Whether panels of an operand can be codes: of single values in a format with a NaN, or of elements of groups.

    Words of them are already.
    """
    fmt = kernel.coded(side)
    if fmt is None or kernel.dot or kernel.is_open(side):
        return False
    if kernel.grouped(side) is not None:
        return kernel.parts(side) == 1 and fmt.parts == 1
    return fmt.bits < 32 * fmt.parts and fmt.has_nan
