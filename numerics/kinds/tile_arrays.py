"""Conversions with scales of several rows, on whole arrays in numpy; `reference/tile_groups.py` defines them.

A tile is the groups of neighbouring rows at the same steps. The last ones may have fewer rows and steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numc.numerics.float_arrays import F32Array, F64Array
from numc.numerics.groups import GroupConversion, GroupFormat
from numc.numerics.numpy_rounding import ToInteger


@dataclass(frozen=True)
class Tiling:
    """A matrix (rows, steps), cut into tiles of `height` rows and `width` steps."""

    rows: int
    steps: int
    height: int
    width: int

    @staticmethod
    def of(shape: Sequence[int], fmt: GroupFormat) -> Tiling:
        """The tiling of a matrix of this shape by a format."""
        rows, steps = shape
        height = rows if fmt.rows is None else min(fmt.rows, rows)
        width = steps if fmt.group is None else min(fmt.group, steps)
        return Tiling(rows, steps, max(height, 1), max(width, 1))

    @property
    def counts(self) -> tuple[int, int]:
        """The number of tiles along the rows, and along the steps."""
        return -(-self.rows // self.height), -(-self.steps // self.width)

    def groups(self, matrix: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the matrix as (tiles, height * width), with zeros where a tile has fewer rows or steps."""
        down, along = self.counts
        whole = np.zeros((down * self.height, along * self.width), matrix.dtype)
        whole[: self.rows, : self.steps] = matrix
        cut = whole.reshape(down, self.height, along, self.width)
        return np.ascontiguousarray(cut.transpose(0, 2, 1, 3)).reshape(down * along, self.height * self.width)

    def matrix(self, groups: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The inverse of `groups`."""
        down, along = self.counts
        whole = groups.reshape(down, along, self.height, self.width).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(whole.reshape(down * self.height, along * self.width)[: self.rows, : self.steps])

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """The rows and the steps of every tile, those of the same rows one after the other."""
        for row in range(0, self.rows, self.height):
            for step in range(0, self.steps, self.width):
                yield slice(row, min(row + self.height, self.rows)), slice(step, min(step + self.width, self.steps))


@dataclass(frozen=True)
class Tiles:
    """A converted matrix: elements (rows, steps), and the scales (tiles, n) of its tiles, as its format has them."""

    tiling: Tiling
    elements: F64Array
    scales: F64Array


@np.errstate(all="ignore")  # a signalling NaN is no reason to warn
def quantized_tiles(
    matrix: F32Array, to: GroupConversion, tensor: float, noise: npt.NDArray[np.uint32] | None = None
) -> Tiles:
    """Convert a matrix (rows, steps); noise: as `matrix`, what a stochastic rounding draws; tensor: what it shares."""
    tiling = Tiling.of(matrix.shape, to.format)
    drawn = None if noise is None else tiling.groups(noise)
    values: F32Array = tiling.groups(matrix)  # type: ignore[assignment]
    integers = ToInteger(to.rounding, to.noise, drawn)  # type: ignore[arg-type]
    elements, scales = to.format.quantize(values, tensor, integers)
    return Tiles(tiling, tiling.matrix(elements), scales)  # type: ignore[arg-type]


@np.errstate(all="ignore")
def tile_values(tiles: Tiles, to: GroupConversion, tensor: float) -> F32Array:
    """Return elements times the scales of their tiles, rounded to binary32 once."""
    groups: F64Array = tiles.tiling.groups(tiles.elements)  # type: ignore[assignment]
    values: F32Array = tiles.tiling.matrix(to.format.values_of(groups, tiles.scales, tensor))  # type: ignore[assignment]
    return values
