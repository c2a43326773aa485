"""The multiply-adds of a model: in contractions, outside of them, and where their number is not known beforehand."""

from __future__ import annotations

from numc.compiler.lower import lower
from numc.frontends.imported import Imported
from numc.passes.explicit.fmas import FmaRow, fmas_of

# A product of ROWS x 4 and 4 x 3, the sum of squared differences (no pure contraction), and two additions with a factor
# for each of 6 numbers.
MODEL = """
func.func @main(%a: tensor<ROWSx4xf32>, %b: tensor<4x3xf32>, %c: tensor<ROWSx3xf32>, %u: tensor<3xf32>,
    %v: tensor<6xf32>) -> (tensor<ROWSx3xf32>, tensor<3xf32>, tensor<6xf32>) {
  %n = arith.constant 3 : index
  %one = arith.constant 1 : index
  %r = linalg.matmul ins(%a, %b : tensor<ROWSx4xf32>, tensor<4x3xf32>) outs(%c : tensor<ROWSx3xf32>)
      -> tensor<ROWSx3xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]} ins(%b : tensor<4x3xf32>) outs(%u : tensor<3xf32>) {
  ^bb0(%e: f32, %o: f32):
    %d = arith.subf %e, %o : f32
    %p = arith.mulf %d, %d : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<3xf32>
  %w = scf.execute_region -> tensor<6xf32> {
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        outs(%v : tensor<6xf32>) {
    ^bb0(%e: f32):
      %p = arith.mulf %e, %e : f32
      %q = arith.addf %p, %e : f32
      %d = arith.mulf %q, %e : f32
      %t = arith.addf %d, %e : f32
      linalg.yield %t : f32
    } -> tensor<6xf32>
    scf.yield %y : tensor<6xf32>
  }
  return %r, %s, %w : tensor<ROWSx3xf32>, tensor<3xf32>, tensor<6xf32>
}"""
IN_A_LOOP = MODEL.replace("outs(%v", "outs(%x").replace(
    "scf.execute_region ->", "scf.for %k = %one to %n step %one iter_args(%x = %v) ->"
)


def test_multiply_adds_are_counted_where_sizes_are_fixed() -> None:
    def found(text: str) -> list[FmaRow] | None:
        return fmas_of(lower(Imported(mlir=text), fma="bf16_1_1").operation)

    assert found(MODEL.replace("ROWS", "5")) == [
        FmaRow("forward", "bf16_1_1", True, 5 * 3 * 4),
        FmaRow("forward", "bf16_1_1", False, 4 * 3 + 2 * 6),
    ]
    assert found(MODEL.replace("ROWS", "?")) is None
    assert found(IN_A_LOOP.replace("ROWS", "5")) is None
