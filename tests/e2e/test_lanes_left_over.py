"""Neighbours that are left over of whole vectors, computed in one that leaves lanes out: the bits of other targets."""

from __future__ import annotations

import numpy as np
import pytest

import numc
from numc.frontends.imported import Imported

COLUMNS = ("2", "13", "16", "17", "31", "33", "46", "64", "77", "?")


def text(columns: str, element: str, result: str) -> str:
    """e^(x - y) of rows, y one number of each; the result is of another type, too."""
    last = f"%r = arith.truncf %e : {element} to {result}" if result != element else ""
    return f"""
#ij = affine_map<(i, j) -> (i, j)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<?x{columns}x{element}>, %y: tensor<?x{element}>) -> tensor<?x{columns}x{result}> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x{columns}x{element}>
  %m = tensor.dim %x, %c1 : tensor<?x{columns}x{element}>
  %o = tensor.empty(%n{", %m" if columns == "?" else ""}) : tensor<?x{columns}x{result}>
  %z = linalg.generic {{indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %y : tensor<?x{columns}x{element}>, tensor<?x{element}>) outs(%o : tensor<?x{columns}x{result}>) {{
  ^bb0(%a: {element}, %b: {element}, %c: {result}):
    %d = arith.subf %a, %b : {element}
    %e = math.exp %d : {element}
    {last}
    linalg.yield %{"r" if last else "e"} : {result}
  }} -> tensor<?x{columns}x{result}>
  return %z : tensor<?x{columns}x{result}>
}}
"""


@pytest.mark.parametrize(("element", "result"), [("f32", "f32"), ("f64", "f64"), ("f32", "bf16")])
def test_what_is_left_over_has_the_same_bits(element: str, result: str) -> None:
    kind = {"f32": np.float32, "f64": np.float64}[element]
    for columns in COLUMNS if result == "f32" else COLUMNS[1::4]:
        model = Imported(mlir=text(columns, element, result))
        host, other = numc.compile(model), numc.compile(model, target="x86-64-v3")
        for count in (1, 7, 40) if columns == "?" else (int(columns),):
            x = np.random.default_rng(count).standard_normal((5, count)).astype(kind)
            x[1], x[2, ::2], x[3, -1] = -np.inf, -200, np.nan
            y = np.array([0.5, 1, 2, 0, -80], kind)
            found, expected = host(x, y, threads=2), other(x, y, threads=1)
            assert np.array_equal(np.isnan(found), np.isnan(expected))
            assert np.where(np.isnan(found), 0, found).tobytes() == np.where(np.isnan(found), 0, expected).tobytes()
