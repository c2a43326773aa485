"""Models of a few products for tests of layers."""

from __future__ import annotations

import numpy as np

# x times three matrices, called first, second and third. In `mp` the first product is exact for `data()`, whose x and
# first matrix are small whole numbers; the others are not.
THREE = """
func.func @main(%x: tensor<?x4xf32>, %u: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x3xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %a = linalg.matmul ins(%x, %u : tensor<?x4xf32>, tensor<4x4xf32>) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32> loc("first")
  %b = linalg.matmul ins(%a, %v : tensor<?x4xf32>, tensor<4x4xf32>) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32> loc("second")
  %o = tensor.empty(%n) : tensor<?x3xf32>
  %g = linalg.fill ins(%zero : f32) outs(%o : tensor<?x3xf32>) -> tensor<?x3xf32>
  %c = linalg.matmul ins(%b, %w : tensor<?x4xf32>, tensor<4x3xf32>) outs(%g : tensor<?x3xf32>) -> tensor<?x3xf32> loc("third")
  return %c : tensor<?x3xf32>
}
"""  # noqa: E501


# The square of a matrix, three times.
LOOP = """
func.func @main(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %a) -> tensor<6x6xf32> {
    %e = tensor.empty() : tensor<6x6xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x6xf32>) -> tensor<6x6xf32>
    %y = linalg.matmul ins(%x, %x : tensor<6x6xf32>, tensor<6x6xf32>) outs(%f : tensor<6x6xf32>) -> tensor<6x6xf32> loc("square")
    scf.yield %y : tensor<6x6xf32>
  }
  return %r : tensor<6x6xf32>
}
"""  # noqa: E501


def data(samples: int = 5) -> dict[str, np.ndarray]:
    """Inputs of THREE by name."""
    rng = np.random.default_rng(0)
    whole = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((samples, 4), (4, 4))]
    parts = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (4, 3))]
    return {f"arg{n}": array for n, array in enumerate((*whole, *parts))}
