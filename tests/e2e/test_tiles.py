"""Every tile shape gives the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import arithmetic_vectorised as reference
from numc.compiler import targets
from numc.compiler.driver import compile
from numc.compiler.targets import TARGETS
from numc.frontends.imported import Imported
from numc.passes.kernels import Tile

MATMUL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
TILES = [
    Tile(width, vectors, rows, k_block)
    for width in (4, 8)
    for vectors in (1, 2)
    for rows in (1, 4, 8)
    for k_block in (32, 256)
]


@pytest.mark.parametrize("fma", ["bf16_1_1", "bf16_2_2{3}", "fmac(e6m9)", "fmac(e6m9,chunk=24)", "amx_bf16"])
def test_tiles(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((21, 100), (100, 75), (21, 75)))
    want = reference.matmul(a, b, c, fma)
    v3 = TARGETS["x86-64-v3"]
    for tile in TILES[:: 5 if fma != "bf16_1_1" else 1]:
        monkeypatch.setattr(targets, "TARGETS", {"x86-64-v3": replace(v3, tile=tile)})
        got = compile(Imported(mlir=MATMUL), fma=fma, target="x86-64-v3")(a, b, c)
        assert (found := reference.first_mismatch(got, want)) is None, f"{tile}: {found}"
