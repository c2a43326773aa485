"""The micro-tile for one contraction: the target's, or another one where the sizes that are known suggest it."""

from __future__ import annotations

from dataclasses import replace

from torch_mlir import ir

from numc.numerics.datapaths import Blocks
from numc.passes.kernels.datapaths.groups import STEPS, block_of_k
from numc.passes.kernels.datapaths.matrix import multiplied
from numc.passes.kernels.datapaths.steps.guarded import splits
from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile
from numc.passes.kernels.kernel import Kernel
from numc.passes.plan.contraction import Found, Operand, size_of
from numc.passes.plan.plan import takes_narrow
from numc.support.switches import disabled

# Up to this many steps of k, lanes are read where they are; beyond, adjacent reads of whole panels are worth a copy.
# Planes are copies already, and their steps are straight code: more of them if a step is one FMA.
_FEW, _FEW_IN_PLANES, MANY_IN_PLANES = 64, 128, 1024
# Rows and steps of k, at most, that lanes are not packed for if rows take several tiles: with more of them, packing
# takes less time than reading from many pages, and from few sets of a cache. Vectors of 32 bytes are packed: their
# addresses, and the lines that they cross, take longer than their multiply-adds.
_FEW_ROWS, _DEEPEST, _WIDE = 128, 640, 16
# As many FMAs as begin while one is computed, and rows that leave few of a tile of six empty.
_HIDING, _SEVERAL_ROWS = 10, 48
# What transposed tiles take, as multiply-adds of vectors: a vector of results on its way out, one of rows that are
# packed, and a row that is packed alone, in every task. They have to save so much of the time.
_RESULT, _PACKED, _ALONE, _SAVED = 8, 4, 40, 0.02
# Accumulators of sums in blocks that are in binary64.
_ROWS_IN_BLOCKS = 4
# Rows that are computed in turn, from memory and back.
_ROWS_IN_TURN = 32
# Fewer rows or steps of k than these are computed in vectors: most of a matrix register would be empty.
_ROWS_OF_MATRIX, _STEPS_OF_MATRIX = 4, 24


def tile_for(isa: InstructionSet, found: Found, *, fast: bool, ready: bool) -> tuple[Tile, str]:
    """The micro-tile for the sizes that are known, and why. fast: cheap rounding sequences may be used.

    ready: the lanes are in memory when the program begins, as a recurrent weight is, so that they can be packed once.
    Few rows leave registers for more vectors, few lanes for more rows.
    """
    if fast and (in_matrices := _in_matrices(isa, found)) is not None:
        return in_matrices, "matrix registers"
    tile = _special(isa, found, fast=fast) or isa.tile
    tile = replace(tile, k_block=block_of_k(tile.k_block, tile.width, found.fma))
    accumulators = min(tile.rows * tile.vectors, isa.registers)
    rows, lanes = size_of(found, found.shape.rows), size_of(found, found.shape.lanes)
    if lanes is not None and lanes <= tile.width:
        why = f"lanes fit into one vector ({lanes}): more rows"
        return replace(tile, vectors=1, rows=max(1, min(accumulators, rows or accumulators))), why
    if rows is not None and rows < tile.rows:
        vectors = accumulators // max(1, rows)
        if lanes is not None:  # as few panels as that allows, all of them of one size
            needed = -(-lanes // tile.width)
            vectors = -(-needed // -(-needed // vectors)) if needed else 1
        return replace(tile, rows=max(1, rows), vectors=vectors), f"few rows ({rows}): more vectors"
    # Where broadcasts from memory take no unit of their own, a second vector only serves whole tiles.
    single_fma = isa.adders is not None and found.fma.is_one_fma
    if ready and single_fma and rows and rows % tile.rows and rows <= 3 * tile.rows:
        return replace(tile, vectors=1, rows=rows), f"rows fit into one tile ({rows}): lanes are read once"
    line = _sliding(found.rows, found) if rows else None
    parts = [n for n in range(tile.rows, tile.rows // 2, -1) if line and line % n == 0]
    if parts:
        return replace(tile, rows=parts[0], vectors=accumulators // parts[0]), f"rows that lie in lines of {line}"
    even = 0 if rows is None else -(-rows // -(-rows // tile.rows))
    if rows and even < tile.rows:
        return replace(tile, rows=even), f"rows in tiles of one size ({rows}), not in whole ones and a rest"
    return tile, "the target's tile"


def _in_matrices(isa: InstructionSet, found: Found) -> Tile | None:
    """The micro-tile in matrix registers, if they compute the operator and known sizes fill enough of them."""
    unit, shape = isa.matrix, found.shape
    if unit is None or multiplied(found.fma.datapath.name, unit) is None:
        return None
    rows, lanes, depth = (size_of(found, dims) for dims in (shape.rows, shape.lanes, shape.k))
    if (rows is not None and rows < _ROWS_OF_MATRIX) or (depth is not None and depth < _STEPS_OF_MATRIX):
        return None
    few_rows, few_lanes = (n is not None and n <= unit.size for n in (rows, lanes))
    tile = unit.tile
    return replace(tile, rows=unit.size if few_rows else tile.rows, vectors=1 if few_lanes else tile.vectors)


def _special(isa: InstructionSet, found: Found, *, fast: bool) -> Tile | None:
    """The micro-tile for what an operator does with registers, if there is one."""
    fma = found.fma
    if isinstance(fma.datapath.within, Blocks):
        kernel = Kernel(fma=fma, tile=isa.tile, swap=found.swap, fast=fast, isa=isa)
        cheap = fast and kernel.limits is not None
        wide = kernel.datapath.cheap_wide if cheap else kernel.datapath.wide
        if vectors := kernel.datapath.in_turn(kernel):
            return replace(isa.tile, rows=_ROWS_IN_TURN, vectors=vectors)
        return replace(isa.tile, rows=_ROWS_IN_BLOCKS, vectors=1) if wide else None
    if isa.word_sums is not None and Kernel(fma=fma, tile=isa.tile, swap=found.swap, fast=fast, isa=isa).dot:
        return isa.word_sums if fma.group is None or fma.group.group is None else None
    # Rows that several products take are loaded into registers: then two vectors are to use them.
    if fast and not fma.groups and splits(fma) and len(fma.terms) == 1:
        return isa.adders
    return isa.one_fma if _takes_more(isa, found) else None


def _takes_more(isa: InstructionSet, found: Found) -> bool:
    """Whether a step is one FMA, and the tile with more accumulators for that pays.

    Where the usual tile hides the latency of FMAs already, the other one only saves loads: if no lanes are wasted, few
    rows are, and rows do not lie in lines.
    """
    if isa.one_fma is None or not found.fma.is_one_fma:
        return False
    usual, more = isa.tile, isa.one_fma
    rows, lanes = size_of(found, found.shape.rows), size_of(found, found.shape.lanes)
    if usual.rows * usual.vectors < _HIDING:
        return True
    filled = lanes is None or -(-lanes // more.lanes) * more.lanes <= -(-lanes // usual.lanes) * usual.lanes
    if found.fma.groups or not filled:
        return False
    return rows is None or (rows >= _SEVERAL_ROWS and _sliding(found.rows, found) is None)


def partial_rows(kernel: Kernel, found: Found) -> tuple[int, ...]:
    """Numbers of rows below a whole tile that get a micro-kernel of their own: of matrix registers, one of two."""
    tile, rows = kernel.tile, size_of(found, found.shape.rows)
    if kernel.matrix is not None:
        register_rows = kernel.matrix.size
        return (
            (register_rows,)
            if tile.rows > register_rows and (rows is None or 0 < rows % tile.rows <= register_rows)
            else ()
        )
    if rows is None:
        return tuple(n for n in (1, 2, 4, 8) if n < tile.rows)
    return (rows % tile.rows,) if rows % tile.rows else ()


def is_narrow(tile: Tile, found: Found) -> bool:
    """Whether the last lanes are a vector or less of several: for a whole tile of them, half of the work is wasted."""
    lanes = size_of(found, found.shape.lanes)
    return takes_narrow(found.fma) and tile.vectors > 1 and lanes is not None and 0 < lanes % tile.lanes <= tile.width


def saves_transposed(plain: tuple[Tile, Found], other: tuple[Tile, Found]) -> bool:
    """Whether a contraction takes less time in transposed tiles, with its operands exchanged, than as it is.

    Images of 7 x 7 pixels take 49 of the 64 lanes of four vectors, but all of the rows of seven tiles, as those of
    14 x 14 take all of the rows of 28 but not of 13 vectors; a single pixel takes one lane, or one row.
    """
    (tile, found), (before, after) = other, (_vectors(*each) for each in (plain, other))
    depth, rows, lanes = (size_of(found, dims) for dims in (found.shape.k, found.shape.rows, found.shape.lanes))
    if not (before and after and depth and rows and lanes):
        return False
    results = -(-rows // tile.rows) * lanes * _RESULT / depth
    packed = rows / tile.width * _PACKED if _has_unit_steps(found.rows, found) else rows * _ALONE
    return after + results + packed < (1 - _SAVED) * before


def _vectors(tile: Tile, found: Found) -> int | None:
    """The number of vectors of accumulators of all tiles, if the sizes are known."""
    rows, lanes = size_of(found, found.shape.rows), size_of(found, found.shape.lanes)
    if rows is None or lanes is None:
        return None
    whole, rest = divmod(lanes, tile.lanes)
    return rows * (whole * tile.vectors + ((1 if is_narrow(tile, found) else tile.vectors) if rest else 0))


def few_steps(kernel: Kernel, found: Found, *, in_planes: bool = False) -> int:
    """The number of steps of k if lanes can be read where they are, or in planes, else 0."""
    depth = size_of(found, found.shape.k)
    most = (MANY_IN_PLANES if found.fma.is_one_fma else _FEW_IN_PLANES) if in_planes else _FEW
    return depth if kernel.reads_directly and depth is not None and depth <= most else 0


def takes_in_place(kernel: Kernel, found: Found) -> bool:
    """Whether lanes are better read where they are than packed for the rows there are."""
    shape, width = found.shape, kernel.tile.width
    if disabled("lanes-in-place") or not kernel.takes_lanes_in_place or width < _WIDE:
        return False
    rows, depth, line = (size_of(found, dims) for dims in (shape.rows, shape.k, shape.lanes[-1:]))
    if rows is None or depth is None or line is None or line < width:
        return False
    if rows > kernel.tile.rows and (rows > _FEW_ROWS or depth > _DEEPEST):
        return False
    slides = found.lanes.places and shape.lanes and found.lanes.places[-1][0].get(shape.lanes[-1]) == 1
    return bool(slides) and _has_unit_stride(found.lanes)


def whole_depth(tile: Tile, found: Found, most: int = _DEEPEST) -> Tile:
    """The tile with one block of k, up to so many steps: lanes in place take no room of their own in a cache."""
    depth = size_of(found, found.shape.k)
    steps = 0 if depth is None else -(-depth // STEPS) * STEPS
    return replace(tile, k_block=steps) if tile.k_block < steps <= most else tile


def has_adjacent_k(operand: Operand, found: Found) -> bool:
    """Whether the last steps of k of a row or lane are adjacent in memory."""
    return _is_innermost(found.shape.k, operand)


def are_adjacent(rows: Operand, found: Found, tile: Tile) -> bool:
    """Whether the rows of whole tiles, at least, are adjacent in memory."""
    line = _sliding(rows, found)
    return _is_innermost(found.shape.rows, rows) or (line is not None and line % tile.rows == 0)


def is_same_in_runs(operand: Operand, found: Found) -> bool:
    """Whether an operand of prologue or epilogue differs between runs of lanes, but not between neighbours in one."""
    lanes = [d for d in found.shape.lanes if found.sizes.get(d) != 1]
    return bool(lanes) and lanes[-1] not in operand.dims() and bool(operand.dims().intersection(lanes))


def _sliding(rows: Operand, found: Found) -> int | None:
    """The number of rows that are adjacent where a smaller window slides along them, as along a line of an image."""
    if not rows.places or not found.shape.rows:
        return None
    (steps, _), last = rows.places[-1], found.shape.rows[-1]
    window, line = size_of(found, [d for d in steps if d != last]), size_of(found, [last])
    slides = len(steps) > 1 and steps.get(last) == 1 and _has_unit_stride(rows)
    return line if slides and window is not None and line is not None and window < line else None


def _has_unit_steps(rows: Operand, found: Found) -> bool:
    """Whether rows along their last dimension are adjacent in memory, as pixels of a line are without a stride."""
    steps = rows.places[-1][0] if rows.places and found.shape.rows else {}
    return steps.get(found.shape.rows[-1], 1) == 1 and _has_unit_stride(rows)


def reads_along_k(lanes: Operand, found: Found) -> bool:
    """Whether steps of k go further along memory than lanes do: of gradients of weights, k are images."""
    if not lanes.places or not found.shape.k:
        return False
    (steps, _), last = lanes.places[-1], found.shape.k[-1]
    others = [size_of(found, [d]) for d in steps if d != last]
    size = size_of(found, [last]) or 0
    return steps.get(last) == 1 and all(n is not None and n < size for n in others) and _has_unit_stride(lanes)


def _is_innermost(dims: list[int], operand: Operand) -> bool:
    """Whether steps along the last of some dimensions of a contraction are steps from one element to the next."""
    places = operand.places
    return bool(places and dims and places[-1] == ({dims[-1]: 1}, 0)) and _has_unit_stride(operand)


def _has_unit_stride(operand: Operand) -> bool:
    return bool(ir.MemRefType(operand.value.type).get_strides_and_offset()[0][-1] == 1)
