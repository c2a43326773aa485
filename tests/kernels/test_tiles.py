"""Every tile shape gives the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import arithmetic_vectorised as reference
from numc.compiler import targets
from numc.compiler.programs.compile import compile
from numc.compiler.targets import TARGETS
from numc.frontends.imported import Imported
from numc.numerics.grammar import parse_fma
from numc.passes.kernels.isa.instruction_set import Tile
from tiers import pairs


def matmul(a: str = "?x?", b: str = "?x?", c: str = "?x?") -> str:
    a, b, c = (f"tensor<{shape}xf32>" for shape in (a, b, c))
    return f"""
    func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %r : {c}
    }}"""


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
        monkeypatch.setattr(
            targets, "TARGETS", {"x86-64-v3": replace(v3, isa=replace(v3.isa.at(tile.width), tile=tile))}
        )
        got = compile(Imported(mlir=matmul()), fma=fma, target="x86-64-v3")(a, b, c)
        assert (found := reference.first_mismatch(got, want)) is None, f"{tile}: {found}"


@pytest.mark.parametrize(
    "fma", ["bf16_1_1", "bf16_1_2", "fmac(bf16,chunk=8)", "fmac(e6m9n)", "bf16_3_3{6}", "fma(a=bf16x3,acc=fp32)"]
)
@pytest.mark.parametrize(("rows", "vectors"), [(4, 1), (5, 1), (3, 3)])
def test_two_accumulators_at_a_time(fma: str, rows: int, vectors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where roundings are additions. Of an odd number the last one is alone; two may be of different rows."""
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((11, 100), (100, 21), (11, 21)))
    v3 = TARGETS["x86-64-v3"]
    tile = Tile(8, vectors, rows)
    isa = replace(v3.isa, tile=tile, adders=tile)
    monkeypatch.setattr(targets, "TARGETS", {"x86-64-v3": replace(v3, isa=isa)})
    program = compile(Imported(mlir=matmul()), fma=fma, target="x86-64-v3")
    for x in (a, np.ldexp(a, rng.integers(-130, 40, a.shape)).astype(np.float32)):  # and one beyond every guard
        want = reference.matmul(x, b, c, fma)
        assert (found := reference.first_mismatch(np.asarray(program(x, b, c)), want)) is None, found


@pytest.mark.parametrize(
    ("fma", "shape"),
    pairs(
        ["fp32", "bf16_2_2{3}", "fma(a=bf16,acc=bf16,datapath=exact)", "fmac(e6m9,chunk=24)"],
        [(19, 37, 300), (8, 196, 33), (16, 33, 7)],
    ),
)
def test_the_last_lanes_of_known_shapes(fma: str, shape: tuple[int, int, int]) -> None:
    """A vector or less behind whole tiles: a micro-kernel of its own, where the operator has one."""
    rows, lanes, depth = shape
    rng = np.random.default_rng(1)
    text = matmul(f"{rows}x{depth}", f"{depth}x{lanes}", f"{rows}x{lanes}")
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, lanes), (rows, lanes)))
    program = compile(Imported(mlir=text), fma=fma)
    for x in (a, np.ldexp(a, rng.integers(-130, 40, a.shape)).astype(np.float32)):  # and one beyond every guard
        start = reference.round(c, str(parse_fma(fma).acc))
        want = reference.matmul(x, b, start, fma)
        assert (found := reference.first_mismatch(np.asarray(program(x, b, c)), want)) is None, found


@pytest.mark.parametrize(
    ("rows", "lanes", "depth"),
    [(8, 64, 256), (16, 70, 40), (32, 96, 1), (40, 64, 20), (8, 64, 257), (9, 64, 30), (8, 32, 0)],
)
def test_few_rows_read_lanes_where_they_are(rows: int, lanes: int, depth: int) -> None:
    """Whole tiles of adjacent lanes, and what is packed as ever: other lanes, more rows, several blocks of k."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, lanes), (rows, lanes)))
    program = compile(Imported(mlir=matmul()), fma="fp32")
    want = reference.matmul(a, b, c, "fp32")
    assert (found := reference.first_mismatch(np.asarray(program(a, b, c)), want)) is None, found


def test_lanes_of_a_part_of_a_tensor_are_packed_unless_their_steps_are_equal() -> None:
    """Steps of k along two dimensions: of a part of the inner one, they are not equally far apart."""
    text = """
    #rows = affine_map<(b, m, n, i, j) -> (b, m, i, j)>
    #lanes = affine_map<(b, m, n, i, j) -> (b, i, j, n)>
    #out = affine_map<(b, m, n, i, j) -> (b, m, n)>
    func.func @main(%a: tensor<2x8x5x6xf32>, %w: tensor<2x5x9x64xf32>, %c: tensor<2x8x64xf32>) -> tensor<2x8x64xf32> {
      %b = tensor.extract_slice %w[0, 0, 1, 0] [2, 5, PART, 64] [1, 1, 1, 1]
          : tensor<2x5x9x64xf32> to tensor<2x5xPARTx64xf32>
      %x = tensor.extract_slice %a[0, 0, 0, 0] [2, 8, 5, PART] [1, 1, 1, 1]
          : tensor<2x8x5x6xf32> to tensor<2x8x5xPARTxf32>
      %r = linalg.generic {
          indexing_maps = [#rows, #lanes, #out],
          iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
          ins(%x, %b : tensor<2x8x5xPARTxf32>, tensor<2x5xPARTx64xf32>) outs(%c : tensor<2x8x64xf32>) {
      ^bb0(%p: f32, %q: f32, %s: f32):
        %t = arith.mulf %p, %q : f32
        %u = arith.addf %t, %s : f32
        linalg.yield %u : f32
      } -> tensor<2x8x64xf32>
      return %r : tensor<2x8x64xf32>
    }"""
    rng = np.random.default_rng(4)
    a, w, c = (rng.standard_normal(s).astype(np.float32) for s in ((2, 8, 5, 6), (2, 5, 9, 64), (2, 8, 64)))
    for part in (6, 1):
        got = np.asarray(compile(Imported(mlir=text.replace("PART", str(part))), fma="fp32")(a, w, c))
        for x, y, start, result in zip(a[..., :part], w[:, :, 1 : part + 1], c, got, strict=True):
            want = reference.matmul(x.reshape(8, -1), y.reshape(-1, 64), start, "fp32")
            assert (found := reference.first_mismatch(result, want)) is None, found
