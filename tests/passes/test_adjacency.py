"""What is known of the memory of operands, for which functions that pack them have fewer ways to read."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from torch_mlir import ir

import numc
from numc.passes.dialect import context
from numc.passes.plan.adjacency import adjacency
from numc.passes.plan.contraction import find
from targets_here import runnable
from tiers import pairs

PRODUCT = """
#a = affine_map<(i, j, k) -> (A)>
#b = affine_map<(i, j, k) -> (B)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @main(%a: memref<TYPE_A>, %b: memref<TYPE_B>, %c: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<TYPE_A>, memref<TYPE_B>) outs(%c : memref<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %0 = "numc.fma"(%x, %y, %z) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %0 : f32
  }
  return
}"""
# Pixels of an image in the lanes, filters in the rows.
WINDOWS = """
#a = affine_map<(f, y, x, c, v, u) -> (f, c, v, u)>
#b = affine_map<(f, y, x, c, v, u) -> (c, y * STRIDE + v, x * STRIDE + u)>
#c = affine_map<(f, y, x, c, v, u) -> (f, y, x)>
func.func @main(%a: memref<8x3xSIZExf32>, %b: memref<3xIMAGExf32>, %c: memref<8xOUTxf32>) {
  linalg.generic {indexing_maps = [#a, #b, #c],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%a, %b : memref<8x3xSIZExf32>, memref<3xIMAGExf32>) outs(%c : memref<8xOUTxf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %0 = "numc.fma"(%x, %y, %z) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %0 : f32
  }
  return
}"""


def known(text: str) -> tuple[str, str]:
    """What is known of the rows and of the lanes of the one contraction in a text."""
    with context():
        module = ir.Module.parse(text)
        (main,) = module.body.operations
        generic = next(op for op in main.body.blocks[0].operations if op.operation.name == "linalg.generic")
        found = find(generic.operation)
        assert found is not None
        operands = (found.rows, found.shape.k), (found.lanes, found.shape.lanes)
        rows, lanes = (adjacency(found, *each) for each in operands)
        return rows.name, lanes.name


@pytest.mark.parametrize(
    ("a", "type_a", "b", "type_b", "expected"),
    [
        ("i, k", "24x40xf32", "k, j", "40x56xf32", ("ALL", "ALL")),
        ("i, k", "?x?xf32", "k, j", "?x?xf32", ("ALL", "ALL")),
        ("k, i", "40x24xf32", "j, k", "56x40xf32", ("NONE", "NONE")),
        # Every other element, and what may turn out to be that.
        ("k, i", "40x2xf32", "j, k", "56x40xf32", ("UNKNOWN", "NONE")),
        ("k, i", "2x24xf32", "j, k", "56x2xf32", ("NONE", "UNKNOWN")),
        ("k, i", "?x?xf32", "j, k", "?x?xf32", ("UNKNOWN", "UNKNOWN")),
        # One element of a row, or one lane, is adjacent to none that is missing.
        ("k, i", "1x24xf32", "j, k", "56x1xf32", ("ALL", "ALL")),
        ("k, i", "40x1xf32", "j, k", "1x40xf32", ("ALL", "ALL")),
        # A view of every third column.
        ("i, k", "24x40xf32, strided<[120, 3]>", "k, j", "40x56xf32, strided<[168, 3]>", ("THIRD", "THIRD")),
        ("i, k", "24x40xf32, strided<[240, 5]>", "k, j", "40x56xf32, strided<[280, 5]>", ("NONE", "NONE")),
        ("i, k", "24x40xf32, strided<[120, ?]>", "k, j", "40x56xf32, strided<[168, ?]>", ("UNKNOWN", "UNKNOWN")),
    ],
)
def test_of_products(a: str, type_a: str, b: str, type_b: str, expected: tuple[str, str]) -> None:
    text = PRODUCT.replace("TYPE_A", type_a).replace("TYPE_B", type_b).replace("(A)", f"({a})").replace("(B)", f"({b})")
    assert known(text) == expected


@pytest.mark.parametrize(
    ("size", "stride", "image", "out", "expected"),
    [
        ("1x1", 1, "14x14", "14x14", ("ALL", "ALL")),
        ("3x3", 1, "16x16", "14x14", ("ALL", "UNKNOWN")),
        ("1x1", 2, "27x27", "14x14", ("ALL", "UNKNOWN")),
        ("4x4", 4, "56x56", "14x14", ("ALL", "FOURTH")),
        ("1x1", 5, "66x66", "14x14", ("ALL", "NONE")),
    ],
)
def test_of_windows(size: str, stride: int, image: str, out: str, expected: tuple[str, str]) -> None:
    text = WINDOWS.replace("STRIDE", str(stride)).replace("SIZE", size).replace("IMAGE", image).replace("OUT", out)
    assert known(text) == expected


SIZES = (1, 2, 3, 9, 33)


@pytest.mark.parametrize("equation", ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn"])
@pytest.mark.parametrize(
    ("fma", "target"), pairs(["bf16_1_1", "fp32", "fmac(e6m9)"], ["portable", "x86-64-v3", "x86-64-v4"])
)
def test_products_of_free_sizes(fma: str, target: str, equation: str, tmp_path: Path) -> None:
    """One program for all sizes, so that each has to serve where a stride of 2, or a size of 1, was not foreseen."""
    operands = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [*name]) for name in re.findall("[a-z]+", equation)
    ]
    node = helper.make_node("Einsum", [o.name for o in operands[:2]], [operands[2].name], equation=equation)
    graph = helper.make_graph([node], "einsum", operands[:2], operands[2:])
    model = tmp_path / "einsum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), model)
    program = numc.compile(model, fma=fma, target=runnable(target))
    rng = np.random.default_rng(0)
    for sizes in itertools.product(SIZES, repeat=3):
        of = dict(zip("mkn", sizes, strict=True))
        shapes = [[of[letter] for letter in o.name] for o in operands[:2]]
        given = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]  # so small that sums are exact
        got, want = program(*given), np.einsum(equation, *given)
        assert (got == want).all(), f"{of}: {got[got != want][0]!r}, not {want[got != want][0]!r}"
