"""Largest and smallest elements of rows: any number of rows and columns, zeros of both signs, infinities, NaN."""

from __future__ import annotations

import numpy as np
import pytest

import numc
from numc.frontends.imported import Imported

SHAPES = ((1, 1), (3, 5), (4, 16), (8, 1000), (16, 15), (40, 33), (35, 4), (129, 49))
FIXED = (5, 16, 49)  # numbers of columns that are known at compile time, too


def text(columns: str) -> str:
    """The largest x and -1, and the smallest s * x + y, of every row; s is a number of the row."""
    return f"""
#ij = affine_map<(i, j) -> (i, j)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<?x{columns}xf32>, %y: tensor<?x{columns}xf32>, %s: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {{
  %c0 = arith.constant 0 : index
  %one = arith.constant -1.0 : f32
  %inf = arith.constant 0x7F800000 : f32
  %n = tensor.dim %x, %c0 : tensor<?x{columns}xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f1 = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %f2 = linalg.fill ins(%inf : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %max = linalg.generic {{indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x{columns}xf32>) outs(%f1 : tensor<?xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  }} -> tensor<?xf32>
  %min = linalg.generic {{indexing_maps = [#ij, #ij, #i, #i], iterator_types = ["parallel", "reduction"]}}
      ins(%x, %y, %s : tensor<?x{columns}xf32>, tensor<?x{columns}xf32>, tensor<?xf32>) outs(%f2 : tensor<?xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %p = arith.mulf %a, %c : f32
    %q = arith.subf %p, %b : f32
    %r = arith.minimumf %o, %q : f32
    linalg.yield %r : f32
  }} -> tensor<?xf32>
  return %max, %min : tensor<?xf32>, tensor<?xf32>
}}
"""  # noqa: E501 - a signature


def operands(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers among which are zeros, so that some rows have nothing else, infinities and NaN."""
    rng = np.random.default_rng(columns)
    x, y = rng.standard_normal((2, rows, columns)).astype(np.float32)
    x[1::5] = np.where(rng.random(x[1::5].shape) < 0.5, np.float32(0), np.float32(-0.0))
    y[1::5] = 0
    x[2::5, -1] = np.nan
    x[3::5, rng.integers(columns)] = np.inf
    x[4::5] = -np.inf
    return x, y, np.where(np.arange(rows) % 2, np.float32(-2), np.float32(0.5))


def bits(values: np.ndarray) -> np.ndarray:
    """Encodings, with one for all NaN."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


def in_order(values: np.ndarray, sign: int) -> np.ndarray:
    """The largest of each row (sign 1), or the smallest (-1): -0 is below +0, and NaN wins."""
    ordered = np.where(values == 0, np.where(np.signbit(values), -1e-46, 1e-46), values.astype(np.float64))
    place = np.argmax(sign * ordered, axis=1)  # that of the first NaN, if there is one
    return values[np.arange(len(values)), place]


@pytest.mark.parametrize("target", ["portable", "x86-64-v3", "host"])
def test_extremes_of_rows(target: str) -> None:
    dynamic = numc.compile(Imported(mlir=text("?")), target=target)
    for rows, columns in SHAPES:
        x, y, s = operands(rows, columns)
        with np.errstate(invalid="ignore"):
            lowest = in_order(x * s[:, None] - y, -1)
        highest = in_order(np.concatenate([x, np.full((rows, 1), -1, np.float32)], 1), 1)
        programs = [dynamic]
        if columns in FIXED:
            programs.append(numc.compile(Imported(mlir=text(str(columns))), target=target))
        for program in programs:
            largest, smallest = program(x, y, s, threads=2).values()
            np.testing.assert_array_equal(bits(largest), bits(highest))
            np.testing.assert_array_equal(bits(smallest), bits(lowest))
