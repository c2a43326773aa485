"""Every tile shape gives the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import arithmetic_vectorised as reference
from numc.compiler import targets
from numc.compiler.arithmetic.grammar import parse_fma
from numc.compiler.compile import compile
from numc.compiler.targets import TARGETS
from numc.frontends.imported import Imported
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
