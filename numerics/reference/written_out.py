"""Contractions that are written out in simpler ones, defined (arithmetic.md, "Scales outside of a sum").

Operands are matrices of rows along the reduction. They may be rotated by a Hadamard matrix; then tiles of them are
converted, and operators of single values, or blocks of elements and scales, sum what that gives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from numc.numerics.exact.value import POINT, Value, bits_of, from_bits, to_array
from numc.numerics.formats.rounding import parts_of, rounder
from numc.numerics.groups import GroupConversion, Noisy
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.datapaths import Draws, Parts, contraction, f32_fma, f32_mul
from numc.numerics.reference.group_operators import Vector
from numc.numerics.reference.hadamard import hadamard_matrix
from numc.numerics.reference.random import conversion_draws
from numc.numerics.reference.scaled_blocks import scaled_dot
from numc.numerics.reference.tile_groups import Groups, largest_of_rows, tiled_groups, tiled_values

Matrix = npt.NDArray[np.float32]


def rotated(matrix: Matrix, size: int, signs: int) -> Matrix:
    """Return the rows of a matrix, filled up with zeros to whole blocks, times a Hadamard matrix block by block.

    Each number is a chain of binary32 FMAs from +0.
    """
    length = -(-matrix.shape[1] // size) * size
    values = [[from_bits(b) for b in row] for row in bits_of(matrix).tolist()]
    encoded = bits_of(np.array(hadamard_matrix(size, signs), np.float32)).tolist()
    entries = [[from_bits(b) for b in row] for row in encoded]
    turned: list[Value] = []
    for row in values:
        whole = [*row, *[0] * (length - len(row))]
        for start in range(0, length, size):
            for j in range(size):
                total: Value = 0
                for i in range(size):
                    total = f32_fma(whole[start + i], entries[i][j], total)
                turned.append(total)
    return to_array(turned, (len(matrix), length))


def operand_values(matrix: Matrix, to: GroupConversion, stream: int) -> Matrix:
    """Return the rows of a matrix in a format with groups, as values."""
    values = tiled_values(_noisy(matrix, to, stream), to)
    to_f32 = rounder(FP32, POINT)
    return to_array((to_f32(value) for row in values for value in row), matrix.shape)


def summed(
    op: Fma, matrices: Sequence[Matrix], starts: Sequence[Value], *, streams: Sequence[int], first: Draws
) -> list[Value]:
    """The elements of a contraction of two operands with groups, whose rows are those of two matrices.

    streams: those that the conversions of A and B draw from. first: what the first accumulator draws from.
    """
    assert op.groups is not None
    alone = op.multiplies == "elements"
    rows = [_noisy(x, to, each) for x, to, each in zip(matrices, op.groups, streams, strict=False)]
    groups = [tiled_groups(some, to, alone=alone) for some, to in zip(rows, op.groups, strict=True)]
    if not alone:
        pairs = [(x, y) for x in groups[0] for y in groups[1]]
        return [_with_scales(op, x, y, c) for (x, y), c in zip(pairs, starts, strict=True)]
    vectors = [
        [_vector(row, to, largest_of_rows(some, to)) for row in each]
        for each, to, some in zip(groups, op.groups, rows, strict=True)
    ]
    both = [(x, y) for x in vectors[0] for y in vectors[1]]
    return [
        scaled_dot(op, x, y, c, Draws(first.stream, first.element + n))
        for n, ((x, y), c) in enumerate(zip(both, starts, strict=True))
    ]


def _with_scales(op: Fma, a: Groups, b: Groups, c: Value) -> Value:
    """Sums of elements by the unit, each from +0, times the scales of their groups: one binary32 FMA for each."""
    unit = op.summed_by
    contract, size = contraction(unit), _size(op)
    for (x, of_x), (y, of_y) in zip(a, b, strict=True):
        left, right = (_parts(unit, n, values, size) for n, values in enumerate((x, y)))
        total = contract(left, right, 0, Draws(0, 0))
        c = f32_fma(total, f32_mul(of_x, of_y), c)
    return c


def _size(op: Fma) -> int:
    """The length that groups are filled up to."""
    assert op.group is not None
    return 0 if op.group.group is None or op.unit is None else op.group.group if op.group.group <= 1 << 30 else 0


def _parts(unit: Fma, number: int, values: Sequence[Value], size: int) -> list[Parts]:
    """Elements as the unit takes them; a group that is short is filled up with zeros."""
    to = unit.singles[number]
    rounded = rounder(to, POINT)
    whole = [*values, *[0] * (size - len(values))]
    return [parts_of(rounded(x), to.format) for x in whole]


def _vector(groups: Groups, to: GroupConversion, largest: Value) -> Vector:
    values = [value for elements, _ in groups for value in elements]
    return Vector(values, to, largest, quantized=True, scales=[scale for _, scale in groups])


def _noisy(matrix: Matrix, to: GroupConversion, stream: int) -> list[list[Noisy]]:
    """The rows of a matrix with what their elements draw: each by its index among whole groups, row by row."""
    bits = bits_of(matrix)
    size = to.format.group if to.format.group is not None and to.format.group <= 1 << 30 else max(bits.shape[1], 1)
    length = -(-bits.shape[1] // size) * size
    drawn = np.array(conversion_draws(stream, len(bits) * length, to.noise), np.uint32).reshape(len(bits), length)
    return [
        [(from_bits(b), noise) for b, noise in zip(row, of_row, strict=False)]
        for row, of_row in zip(bits.tolist(), drawn.tolist(), strict=True)
    ]
