"""Helpers of passes on linalg's operations."""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import context

TWICE = """
#same = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %room = tensor.empty() : tensor<2x2xf32>
  %flat = tensor.collapse_shape %room [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %square = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]}
    ins(%flat, %flat : tensor<4xf32>, tensor<4xf32>) outs(%flat : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %x : tensor<4xf32>
}
"""


def test_what_nothing_uses_is_erased_once() -> None:
    """A tensor is read twice, and given beside another that was made of it."""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(TWICE)
        (main,) = module.body.operations
        room, flat, square, _ = main.operation.regions[0].blocks[0].operations
        linalg.erase_unused(square.results[0], flat.results[0], room.results[0], square.results[0])
        assert [op.operation.name for op in main.operation.regions[0].blocks[0].operations] == ["func.return"]


def test_other_makers_stay() -> None:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(TWICE)
        (main,) = module.body.operations
        square = main.operation.regions[0].blocks[0].operations[2]
        linalg.erase_unused(square.results[0], makers=("linalg.generic",))
        names = [op.operation.name for op in main.operation.regions[0].blocks[0].operations]
        assert names == ["tensor.empty", "tensor.collapse_shape", "func.return"]
