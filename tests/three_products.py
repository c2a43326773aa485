"""A model for tests of layers: x times three matrices, called first, second and third.

In `mp` the first one is exact for `data()`, whose x and first matrix are small whole numbers; the others are not.
"""

from __future__ import annotations

import numpy as np

MLIR = """
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


def data(samples: int = 5) -> dict[str, np.ndarray]:
    """Inputs by name."""
    rng = np.random.default_rng(0)
    whole = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((samples, 4), (4, 4))]
    parts = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (4, 3))]
    return {f"arg{n}": array for n, array in enumerate((*whole, *parts))}
