"""The multiply-adds of a model: in contractions, outside of them, and where their number is not known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

import numc
from numc.compiler.lower import lower
from numc.frontends.imported import Imported
from numc.passes.explicit.fmas import FmaRow, fmas_of
from numc.runtime.run_counts import evaluated, run_counts

torch = pytest.importorskip("torch")
from torch.export import Dim  # noqa: E402

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


class Image(torch.nn.Module):
    """Windows that reach into padding, with strides, beside others of the same image; a product over what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), torch.nn.Conv2d(3, 4, 5, stride=2)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.nn.functional.pad(self.right(x), (1, 1, 1, 1))
        parts = [torch.nn.functional.max_pool2d(self.left(x), 2).flatten(2), wide.flatten(2)]
        return self.head(torch.cat(parts, dim=2).transpose(1, 2))


class Attention(torch.nn.Module):
    """Products of two tensors that both have a free size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, 1:])


@pytest.mark.parametrize(
    ("module", "free", "sizes"),
    [
        (Image(), {0: Dim("n"), 2: Dim("h", min=8), 3: Dim("w", min=8)}, [(2, 3, 12, 9), (5, 3, 17, 16)]),
        (Attention().eval(), {0: Dim("n"), 1: Dim("t", min=3)}, [(2, 7, 8), (3, 12, 8)]),
    ],
)
def test_free_sizes_give_the_numbers_of_fixed_ones(
    module: torch.nn.Module, free: dict[int, Dim], sizes: list[tuple[int, ...]]
) -> None:
    def counts(program: numc.Program, x: torch.Tensor) -> dict[tuple[str, str], int]:
        return {(role, fma): count for role, fma, count in run_counts(program.manifest, (x,))}

    program = numc.compile(module, (torch.randn(sizes[0]),), fma="bf16_1_1", ops="bf16", dynamic_shapes=(free,))
    for size in sizes:
        x = torch.randn(size)
        assert counts(program, x) == counts(numc.compile(module, (x,), fma="bf16_1_1", ops="bf16"), x)


def test_formulas() -> None:
    x = np.zeros((3, 7), np.float32)
    assert evaluated("2 x0.1 1 - 2 / * x1 max", (x, np.int64(5))) == 6
    assert evaluated("x0.0 x0.1 min 0 /", (x,)) == 0  # of no windows
    assert [evaluated(f"x0.0 {n} < 5 t1 ?", (x,), [8, 9]) for n in (3, 4)] == [9, 5]


def test_multiply_adds_are_counted() -> None:
    def found(text: str) -> list[FmaRow] | None:
        return fmas_of(lower(Imported(mlir=text), fma="bf16_1_1").operation)[0]

    assert found(MODEL.replace("ROWS", "5")) == [
        FmaRow("forward", "bf16_1_1", True, 5 * 3 * 4),
        FmaRow("forward", "bf16_1_1", False, 4 * 3 + 2 * 6),
    ]
    assert found(MODEL.replace("ROWS", "?")) == [
        FmaRow("forward", "bf16_1_1", True, 0, "12 x0.0 *"),
        FmaRow("forward", "bf16_1_1", False, 4 * 3 + 2 * 6),
    ]
    assert found(IN_A_LOOP.replace("ROWS", "5")) is None
