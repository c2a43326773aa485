"""Packed tensors whose scales are those of several rows: tile after tile, those of the same rows first."""

from __future__ import annotations

import numpy as np

from numc.numerics.codes import Bits
from numc.numerics.float_arrays import F32Array
from numc.numerics.groups import GroupFormat
from numc.numerics.kinds.tile_arrays import Tiles, Tiling
from numc.numerics.numpy_groups import to_values


def to_tiles(fmt: GroupFormat) -> bool:
    """Whether a format has such scales; those of intN are stored apart."""
    return fmt.rows != 1 and not fmt.sums_integers


def tile_bits(tiles: Tiles, fmt: GroupFormat, tensor: float) -> Bits:
    """Return the bits of a converted matrix: for each tile its scale, then its elements, row by row."""
    parts = [
        fmt.to_bits(tiles.elements[rows, steps].reshape(1, -1), tiles.scales[n : n + 1], tensor).reshape(-1)
        for n, (rows, steps) in enumerate(tiles.tiling.parts())
    ]
    return np.concatenate(parts)


def packed_tile_bits(rows: int, steps: int, fmt: GroupFormat) -> int:
    """Return how many bits a matrix takes."""
    tiling = Tiling.of((rows, steps), fmt)
    return sum(fmt.group_bits((r.stop - r.start) * (s.stop - s.start)) for r, s in tiling.parts())


def from_tile_bits(bits: Bits, rows: int, steps: int, fmt: GroupFormat, tensor: float) -> F32Array:
    """Return the matrix (rows, steps) of bits."""
    tiling = Tiling.of((rows, steps), fmt)
    result, start = np.empty((rows, steps), np.float32), 0
    for r, s in tiling.parts():
        shape = r.stop - r.start, s.stop - s.start
        size = shape[0] * shape[1]
        end = start + fmt.group_bits(size)
        result[r, s] = to_values(*fmt.from_bits(bits[None, start:end], size, tensor), tensor, fmt).reshape(shape)
        start = end
    return result
