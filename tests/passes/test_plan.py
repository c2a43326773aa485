"""Plans edited by hand: another plan is other code with the same bits, and an impossible one is refused in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn
from torch_mlir import ir

import numc
from numc.compiler import pipeline
from numc.compiler.arrays.arrays import matmul
from numc.compiler.lower import lower
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Imported
from numc.frontends.load import load_file
from numc.frontends.pytorch.load import load
from numc.numerics.groups import Factors
from numc.passes.plan import records
from numc.runtime.container import Contents
from numc.runtime.program import Program
from numc.studies.observe.operands import Operands
from numc.support.errors import NumcError
from targets_here import runnable
from tiers import one_in

CNN = "examples/digits/cnn.onnx"
Edit = Callable[[str], str]
F32Array = npt.NDArray[np.float32]

# The positive part of a product and a matrix: 19 rows, 45 lanes, 150 steps of k.
M, N, K = 19, 45, 150
PRODUCT = """
func.func @main(%a: A, %b: B, %c: C) -> C {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : C
  %start = linalg.fill ins(%zero : f32) outs(%empty : C) -> C
  %r = linalg.matmul ins(%a, %b : A, B) outs(%start : C) -> C loc("product")
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%r, %c : C, C) outs(%empty : C) {
  ^bb0(%x: f32, %u: f32, %o: f32):
    %s = arith.addf %x, %u : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  } -> C
  return %y : C
}"""
# A matrix times the transpose of another one.
TRANSPOSED = """
func.func @main(%a: A, %b: D) -> C {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : C
  %start = linalg.fill ins(%zero : f32) outs(%empty : C) -> C
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : A, D) outs(%start : C) {
  ^bb0(%x: f32, %u: f32, %o: f32):
    %p = arith.mulf %x, %u : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> C loc("product")
  return %r : C
}"""
# The transpose of a matrix times another one.
TURNED = TRANSPOSED.replace("(i, k)", "(k, i)").replace("(j, k)", "(k, j)").replace("A", "E").replace("D", "B")
# The gradient of a pointwise convolution's weight: steps of k are adjacent along a row of an image.
RUNS = """
func.func @main(%a: R, %b: S) -> C {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : C
  %start = linalg.fill ins(%zero : f32) outs(%empty : C) -> C
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, n, k) -> (n, i, k)>, affine_map<(i, j, n, k) -> (n, j, k)>,
      affine_map<(i, j, n, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%a, %b : R, S) outs(%start : C) {
  ^bb0(%x: f32, %u: f32, %o: f32):
    %p = arith.mulf %x, %u : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> C loc("product")
  return %r : C
}"""
# Four products with one matrix, one after the other, as in a recurrent network; and with its transpose.
_STEP = """
  %{1} = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%{0}, %w : A, W) outs(%start : A) {{
  ^bb0(%x: f32, %u: f32, %o: f32):
    %p = arith.mulf %x, %u : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  }} -> A loc("step")"""
REPEATED = f"""
func.func @main(%a: A, %w: W) -> A {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : A
  %start = linalg.fill ins(%zero : f32) outs(%empty : A) -> A
  {"".join(_STEP.format(*pair) for pair in ("ab", "bc", "cd", "de"))}
  return %e : A
}}"""
REPEATED_TRANSPOSED = REPEATED.replace("(k, j)", "(j, k)")
# A depthwise convolution of padded images.
DEPTHWISE = """
func.func @main(%x: X, %k: F, %c: Y) -> Y {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : P
  %border = linalg.fill ins(%zero : f32) outs(%empty : P) -> P
  %p = tensor.insert_slice %x into %border[0, 0, 1, 1] [2, 17, 14, 14] [1, 1, 1, 1] : X into P
  %s = linalg.depthwise_conv_2d_nchw_chw {strides = dense<1> : vector<2xi64>, dilations = dense<1> : vector<2xi64>}
      ins(%p, %k : P, F) outs(%c : Y) -> Y loc("depthwise")
  return %s : Y
}"""
TYPES = {
    "A": f"tensor<{M}x{K}xf32>",
    "B": f"tensor<{K}x{N}xf32>",
    "C": f"tensor<{M}x{N}xf32>",
    "D": f"tensor<{N}x{K}xf32>",
    "E": f"tensor<{K}x{M}xf32>",
    "R": f"tensor<7x{M}x49xf32>",
    "S": f"tensor<7x{N}x49xf32>",
    "W": f"tensor<{K}x{K}xf32>",
    "X": "tensor<2x17x14x14xf32>",
    "P": "tensor<2x17x16x16xf32>",
    "F": "tensor<17x3x3xf32>",
    "Y": "tensor<2x17x14x14xf32>",
}
SHAPES = {
    PRODUCT: ((M, K), (K, N), (M, N)),
    TRANSPOSED: ((M, K), (N, K)),
    TURNED: ((K, M), (K, N)),
    RUNS: ((7, M, 49), (7, N, 49)),
    REPEATED: ((M, K), (K, K)),
    REPEATED_TRANSPOSED: ((M, K), (K, K)),
    DEPTHWISE: ((2, 17, 14, 14), (17, 3, 3), (2, 17, 14, 14)),
}


@cache
def imported(source: str) -> Imported:
    if source == CNN:
        return load_file(CNN)
    return Imported(mlir=re.sub(r"\b[ABCDERSWXPFY]\b", lambda m: TYPES[m[0]], source))


def built(source: str, options: Options, edit: Edit | None = None) -> Contents:
    """What is built from a model, or from the text of its plan as `edit` returns it."""
    plan = pipeline.STAGES["plan"]["plan-kernels"]

    def edited(module: ir.Module, state: pipeline.State) -> None:
        plan(module, state)
        before = pipeline.text(module)
        after = edit(before)
        assert after != before, "the edit changes nothing"
        new = ir.Module.parse(after, module.context)
        for op in list(module.body.operations):
            op.operation.erase()
        for op in list(new.body.operations):
            module.body.append(op)
        for name in list(module.operation.attributes):
            del module.operation.attributes[name]
        for name in new.operation.attributes:
            module.operation.attributes[name] = new.operation.attributes[name]

    with pytest.MonkeyPatch.context() as patch:
        if edit is not None:
            patch.setitem(pipeline.STAGES["plan"], "plan-kernels", edited)
        return build(imported(source), options)


def changed(**entries: object) -> Edit:
    """Write other entries into the plans of a text."""

    def edit(text: str) -> str:
        for name, value in entries.items():
            written = str(value).lower() if isinstance(value, bool) else value
            written = f'"{written}"' if isinstance(value, str) else written
            number = " : i64" if type(value) is int else ""
            pattern = rf'(numc\.plan = .*\b{name} = )("[^"]*"|\[[^]]*\]|\w+(?: : i64)?)'
            text, count = re.subn(pattern, rf"\g<1>{written}{number}", text)
            assert count, f"no plan has {name}"
        return text

    return edit


@cache
def feeds(source: str) -> Mapping[str, F32Array]:
    rng = np.random.default_rng(1)
    if source == CNN:
        return {"x": rng.standard_normal((5, 64)).astype(np.float32)}
    shapes = SHAPES[source]
    return {f"arg{n}": rng.standard_normal(shape).astype(np.float32) for n, shape in enumerate(shapes)}


def result(contents: Contents, source: str) -> F32Array:
    (found,) = Program(contents).by_name(dict(feeds(source)), threads=2).values()
    return np.asarray(found)


usual_contents = cache(built)


def check(source: str, options: Options, *edits: Edit) -> None:
    """Every edit gives other code and the same bits."""
    usual = usual_contents(source, options)
    expected = result(usual, source).view(np.uint32)
    for edit in edits:
        other = built(source, options, edit)
        assert bytes(other.code) != bytes(usual.code)
        assert np.array_equal(result(other, source).view(np.uint32), expected)


TILES = {
    "one": changed(rows=1, vectors=1, k_block=32, partial=[], narrow=False),
    "odd": changed(rows=3, vectors=2, k_block=64, partial=[1], narrow=False),
    "wide": changed(rows=2, vectors=7, k_block=96, partial=[1], narrow=True),
    "tall": changed(rows=16, vectors=1, k_block=2048, partial=[3, 7], narrow=False),
}


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("fma", one_in(2, ["bf16_1_1", "fp32"]))
def test_another_tile_gives_the_same_bits(fma: str, tile: str) -> None:
    way = [changed(way="panels")] if fma == "fp32" else []
    check(PRODUCT, Options(fma=fma), lambda text: TILES[tile](way[0](text) if way else text))


@pytest.mark.parametrize(
    "fma",
    one_in(2, ["mp", "bf16_2_2{3}", "fmac(e6m9,chunk=8)", "fmac(e6m9:sr8)", "highbfp", "int8", "mxfp8", "amx_bf16"]),
)
def test_another_tile_of_other_operators(fma: str) -> None:
    check(PRODUCT, Options(fma=fma), changed(rows=5, vectors=3, k_block=64, partial=[2], narrow=False))


@pytest.mark.parametrize(
    ("fma", "target", "edit"),
    [
        ("fp32", "host", changed(way="panels")),
        ("fp32", "host", lambda text: text.replace('rows = "in place"', 'rows = "panels"')),
        ("fp32", "x86-64-v4", changed(lanes="panels")),
        ("fp32", "host", changed(way="panels", rows=5, vectors=3, partial=[4], narrow=True)),
        ("fmac(e6m9)", "host", changed(partial=[])),
        ("fp32", "host", changed(rows=5, vectors=3, partial=[4], narrow=False)),
        ("bf16_1_1", "host", changed(guarded=False)),
        ("fmac(e6m9)", "x86-64-v4", changed(narrow=False)),
        ("bf16_1_1", "x86-64-v4", changed(partial=[1, 2, 5])),
        ("bf16_1_1", "host", changed(partial=[1, 2, 3])),
    ],
)
def test_another_way_gives_the_same_bits(fma: str, target: str, edit: Edit) -> None:
    check(PRODUCT, Options(fma=fma, target=runnable(target)), edit)


def test_lanes_are_read_in_place_from_a_plane_or_packed() -> None:
    in_place = changed(lanes="in place", tasks="blocks of rows and lanes")
    panels = changed(lanes="panels", tasks="blocks of rows and lanes", way="panels")
    more, wide = changed(rows=3, vectors=2, k_block=32), changed(vectors=4, narrow=True)
    edits = in_place, panels, lambda text: more(panels(text)), lambda text: wide(in_place(text))
    check(DEPTHWISE, Options(fma="bf16_1_1"), *edits)


@pytest.mark.parametrize("source", [PRODUCT, TRANSPOSED, TURNED, RUNS])
@pytest.mark.parametrize(("fma", "target"), [("amx_bf16", "x86-64-v4-amx"), ("avx512_bf16", "zen4")])
def test_words_of_bfloat16_numbers(source: str, fma: str, target: str) -> None:
    """However they are packed; the runs of steps that are adjacent have an odd length."""
    contents, plain = (built(source, Options(fma=fma, target=name)) for name in (runnable(target), "x86-64-v4"))
    got, want = (result(each, source) for each in (contents, plain))
    assert "dot = 2" in pipeline_text(source, Options(fma=fma, target=target))
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_tiles_in_matrix_registers() -> None:
    """Whole registers, for enough rows and steps of k; a tile of other rows is one of vectors, which has no words."""
    options = Options(fma="amx_bf16", target="x86-64-v4-amx")
    for (rows, steps), tile in {(16, 24): (16, 2), (33, 64): (32, 2), (3, 150): None, (19, 23): None}.items():
        few = re.sub(r"\bA\b", f"tensor<{rows}x{steps}xf32>", PRODUCT)
        few = re.sub(r"\bB\b", f"tensor<{steps}x{N}xf32>", re.sub(r"\bC\b", f"tensor<{rows}x{N}xf32>", few))
        text = pipeline_text(few, options)
        assert ("matrix registers" in text) == (tile is not None)
        assert tile is None or f"rows = {tile[0]} : i64, vectors = {tile[1]} : i64" in text
    with pytest.raises(NumcError, match="dot = 2: the target or operator 'amx_bf16' with this tile has no such dot"):
        built(PRODUCT, options, changed(rows=12, vectors=2, partial=[]))


@pytest.mark.parametrize(
    ("fma", "target"), [("fp32", "x86-64-v4"), ("bf16_2_2{3}", "x86-64-v3"), ("highbfp", "x86-64-v4")]
)
def test_lanes_are_transposed_as_they_are_packed(fma: str, target: str) -> None:
    def panels(text: str) -> str:
        return text.replace('lanes = "transposed panels"', 'lanes = "panels"')

    options = Options(fma=fma, target=runnable(target))
    check(TRANSPOSED, options, panels, changed(rows=3, vectors=3, k_block=64, partial=[], narrow=False))
    a, b = feeds(TRANSPOSED).values()
    expected = np.asarray(matmul(a, b.T, fma=fma))
    assert np.array_equal(result(usual_contents(TRANSPOSED, options), TRANSPOSED), expected)


@pytest.mark.parametrize(
    ("fma", "target", "tile"),
    [
        ("fp32", "x86-64-v4", (3, 3)),
        pytest.param("bf16_2_2{3}", "x86-64-v3", (11, 1), marks=pytest.mark.all),
        pytest.param("highbfp", "x86-64-v4", (16, 1), marks=pytest.mark.all),
        pytest.param("mp", "x86-64-v2", (6, 2), marks=pytest.mark.all),
    ],
)
def test_adjacent_rows_are_transposed_as_they_are_packed(fma: str, target: str, tile: tuple[int, int]) -> None:
    def panels(text: str) -> str:
        return text.replace('rows = "transposed panels"', 'rows = "panels"')

    options, (rows, vectors) = Options(fma=fma, target=runnable(target)), tile
    check(TURNED, options, panels, changed(rows=rows, vectors=vectors, k_block=64, partial=[], narrow=False))
    a, b = feeds(TURNED).values()
    expected = np.asarray(matmul(a.T, b, fma=fma))
    assert np.array_equal(result(usual_contents(TURNED, options), TURNED), expected)


@pytest.mark.parametrize(
    ("fma", "target"),
    [
        ("fp32", "x86-64-v4"),
        pytest.param("bf16_2_2{3}", "x86-64-v3", marks=pytest.mark.all),
        pytest.param("fmac(e5m2, chunk=8)", "x86-64-v4", marks=pytest.mark.all),
        pytest.param("int8", "x86-64-v4", marks=pytest.mark.all),
    ],
)
def test_lanes_are_transposed_run_after_run(fma: str, target: str) -> None:
    def panels(text: str) -> str:
        return text.replace('lanes = "transposed panels"', 'lanes = "panels"')

    options = Options(fma=fma, target=runnable(target))
    check(RUNS, options, panels, changed(rows=3, vectors=3, k_block=32, partial=[], narrow=False))
    a, b = (np.moveaxis(x, 0, 1).reshape(x.shape[1], -1) for x in feeds(RUNS).values())
    expected = np.asarray(matmul(a, b.T, fma=fma))
    assert np.array_equal(result(usual_contents(RUNS, options), RUNS), expected)


@pytest.mark.parametrize(
    ("source", "fma", "target"),
    [
        (REPEATED_TRANSPOSED, "fp32", "x86-64-v3"),
        (REPEATED, "mp", "host"),
        pytest.param(REPEATED, "fp32", "x86-64-v4", marks=pytest.mark.all),
        pytest.param(REPEATED_TRANSPOSED, "bf16_1_1", "host", marks=pytest.mark.all),
        pytest.param(REPEATED, "bf16_2_2{3}", "x86-64-v3", marks=pytest.mark.all),
        pytest.param(REPEATED_TRANSPOSED, "fma(a=fp32,acc=bf16)", "x86-64-v4", marks=pytest.mark.all),
        pytest.param(REPEATED, "fma(a=fp32,acc=fp16)", "portable", marks=pytest.mark.all),
    ],
)
def test_lanes_of_several_products_are_packed_once(source: str, fma: str, target: str) -> None:
    def apart(text: str) -> str:
        return text.replace('lanes = "once"', 'lanes = "panels"')

    options = Options(fma=fma, target=runnable(target))
    usual = usual_contents(source, options)
    kinds = [part["kind"] for part in Program(usual).manifest["parts"]]
    assert (kinds.count("packing"), kinds.count("contraction")) == (1, 4)
    check(source, options, apart, changed(rows=3, vectors=3, k_block=64, partial=[], narrow=False))
    x, w = feeds(source).values()
    for _ in range(4):
        x = np.asarray(matmul(x, w if source == REPEATED else w.T, fma=fma))
    assert np.array_equal(result(usual, source).view(np.uint32), x.view(np.uint32))


def test_observers_see_lanes_that_are_packed_once_before_their_conversion() -> None:
    program = Program(usual_contents(REPEATED, Options(fma="mp")))
    table = {row["id"]: row for row in program.manifest["contractions"]}
    x, w = feeds(REPEATED).values()
    seen: list[F32Array] = []

    def watch(number: int, operands: int, phase: int) -> None:
        if phase == 0:
            view = Operands(operands, table[number])
            seen.append(np.stack([view.values("lane", 0, n) for n in range(K)], axis=1))

    with program.observe(watch):
        watched = program(x, w)
    assert len(seen) == 4
    assert all(np.array_equal(each, w) for each in seen)
    plain = Program(usual_contents(REPEATED, Options(fma="fp32")))
    assert [part["bytes"] for part in program.manifest["parts"]] == [part["bytes"] for part in plain.manifest["parts"]]
    assert np.array_equal(np.asarray(watched).view(np.uint32), np.asarray(program(x, w)).view(np.uint32))


@pytest.mark.all
@pytest.mark.parametrize("fma", one_in(2, ["highbfp", "bf16_1_1"]))
def test_weights_are_packed_when_the_program_is_built_or_runs(fma: str) -> None:
    def unpacked(text: str) -> str:
        return re.sub(r'(numc\.plan = .*)"at compile time"', r'\1"panels"', text)

    tile = changed(rows=4, vectors=3, k_block=64, partial=[], narrow=False)
    check(CNN, Options(fma=fma), unpacked, tile)


def test_one_layer_alone() -> None:
    """Two layers with one operator, of which one computes without cheap sequences."""

    def one(text: str) -> str:
        head, first, rest = re.split(r"(numc\.plan = .*)", text, maxsplit=1)
        return head + first.replace("guarded = true", "guarded = false") + rest

    check(CNN, Options(fma="bf16_1_1"), one)


def test_every_other_element_is_read_by_a_loop() -> None:
    """A residual that is pooled on its way is added after the contraction, one that is not within."""

    class Block(nn.Module):
        def __init__(self, stride: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(8, 8, 1)
            self.stride = stride

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rest = nn.functional.avg_pool2d(x, 2) if self.stride > 1 else x
            return rest + self.conv(x[:, :, :: self.stride, :: self.stride].contiguous())

    for stride, epilogue in ((1, "arith.addf"), (2, "none")):
        text = str(numc.lower(load(Block(stride).eval(), (torch.zeros(1, 8, 32, 32),)), to="plan"))
        assert f'epilogue = "{epilogue}"' in text


def test_the_plan_of_a_product_reads_well() -> None:
    module = pipeline_text(PRODUCT, Options(fma="bf16_1_1", target="x86-64-v4"))
    for part in (
        'layer = "product", operator = "bf16_1_1"',
        "batch = []",
        "rows = [0]",
        "lanes = [1]",
        "k = [2]",
        f"sizes = [{M}, {N}, {K}]",
        'prologue = "fill with 0.0"',
        'epilogue = "arith.addf, arith.maximumf"',
        'packing = {lanes = "panels", rows = "panels"}',
        "k_block = 256 : i64, narrow = true, partial = [5], rows = 7 : i64, vectors = 2 : i64, width = 16 : i64",
        'way = "panels"',
    ):
        assert part in module


@pytest.mark.parametrize(("fma", "rows", "vectors"), [("fp32", M, 1), ("mp", M, 1), ("fmac(e6m9)", 7, 2)])
def test_some_rows_are_one_tile_where_broadcasts_are_free(fma: str, rows: int, vectors: int) -> None:
    assert f"rows = {rows} : i64, vectors = {vectors} : i64" in pipeline_text(PRODUCT, Options(fma=fma, target="zen4"))
    assert "rows = 7 : i64, vectors = 2 : i64" in pipeline_text(PRODUCT, Options(fma=fma, target="x86-64-v4"))


def pipeline_text(source: str, options: Options) -> str:
    found = []

    def keep(text: str) -> str:
        found.append(text)
        return text + "\n"

    built(source, options, keep)
    return str(found[0])


REFUSED = {
    "rows": (changed(rows=0), "tile.rows = 0, tile.vectors = 2: want rows x vectors from 1 to 32, the target's"),
    "registers": (changed(rows=17), "tile.rows = 17, tile.vectors = 2: want rows x vectors from 1 to 32"),
    "width": (changed(width=8), "tile.width = 8: the target's vectors have 16 lanes"),
    "k_block": (changed(k_block=48), "tile.k_block = 48: want a multiple of 32 up to 32768"),
    "no k_block": (changed(k_block=0), "tile.k_block = 0: want a multiple of 32"),
    "much k_block": (changed(k_block=1 << 20), "tile.k_block = 1048576: want a multiple of 32 up to 32768"),
    "partial": (changed(partial=[9]), "tile.partial = [9]: want different numbers from 1 to 6, below tile.rows"),
    "twice": (changed(partial=[2, 2]), "tile.partial = [2, 2]: want different numbers"),
    "narrow": (changed(vectors=1), "tile.narrow = true: a tile of one vector has no form for a single vector"),
    "way": (changed(way="panel"), "way = 'panel' (did you mean 'panels'?): want 'panels', 'registers',"),
    "registers of more": (changed(way="registers"), "way = 'registers': wants several rows, and an operator of which"),
    "lanes in place": (
        changed(lanes="in place"),
        "way = 'panels', packing.lanes = 'in place': lanes are read unpacked by",
    ),
    "transposed": (
        changed(way="transposed tiles"),
        "numc.contraction.swap = False: it is True in the region",
    ),
    "row": (
        changed(way="unpacked row", lanes="in place"),
        "way = 'unpacked row': not with tile.rows = 7 and operator 'bf16_1_1'",
    ),
    "many steps": (
        changed(way="unpacked row", lanes="in place", rows=1, partial=[], k_block=32),
        "way = 'unpacked row': 150 steps of k: want from 1 to tile.k_block = 32",
    ),
    "plane": (
        changed(way="unpacked row", lanes="padded plane", rows=1, partial=[], tasks="planes"),
        "numc.plan.packing.lanes = 'padded plane': the region does not pad the lanes by planes",
    ),
    "rows in place": (
        lambda text: text.replace('rows = "panels"', 'rows = "in place"'),
        "packing.rows = 'in place': wants an operator that neither converts them nor has a cheap sequence: not "
        "'bf16_1_1'",
    ),
    "adjacent lanes": (
        changed(lanes="in place where adjacent"),
        "packing.lanes = 'in place where adjacent': wants an operator that neither converts them nor has a cheap "
        "sequence: not 'bf16_1_1'",
    ),
    "tasks": (changed(tasks="planes"), "tasks = 'planes': with packing.lanes = 'panels' they are 'blocks of rows"),
    "no weight": (
        lambda text: text.replace('lanes = "panels"', 'lanes = "at compile time"'),
        "numc.plan.packing.lanes = 'at compile time': the operand of the lanes is no weight",
    ),
    "both": (
        lambda text: re.sub(
            r"packing = {[^}]*}", 'packing = {lanes = "at compile time", rows = "at compile time"}', text
        ),
        "packing: rows = 'at compile time' and lanes = 'at compile time': one operand can be packed before",
    ),
    "unknown packing": (
        lambda text: text.replace('lanes = "panels"', 'lanes = "nowhere"'),
        "packing.lanes = 'nowhere': want 'panels', 'transposed panels', 'once', 'at compile time', "
        "'codes', 'expanded codes', 'in place', 'padded plane'",
    ),
    "dot": (
        changed(dot=4),
        "dot = 4: the target or operator 'bf16_1_1' with this tile has no such dot products",
    ),
    "counts": (changed(counts=3), "counts = 3: operator 'bf16_1_1' can count 0 or 1"),
    "prologue": (
        changed(prologue="none"),
        "numc.plan.prologue = 'none': the region computes 'fill with 0.0': leave it as",
    ),
    "epilogue": (
        changed(epilogue="none"),
        "numc.plan.epilogue = 'none': the region computes 'arith.addf, arith.maximumf'",
    ),
    "a type": (changed(way=True), "numc.plan.way = true: want a text"),
    "another type": (changed(k_block="64"), "numc.plan.tile.k_block = '64': want an integer"),
    "no flag": (changed(guarded=1), "numc.plan.guarded = 1: want true or false"),
    "no list": (changed(partial=3), "numc.plan.tile.partial = 3: want a list"),
    "in a list": (changed(partial="[true]"), "numc.plan.tile.partial = '[true]': want a list"),
    "no dictionary": (
        lambda text: re.sub(r"tile = {[^}]*}", "tile = 3 : i64", text),
        "numc.plan.tile = 3: want a dictionary {...}",
    ),
    "unknown entry": (
        lambda text: text.replace("guarded =", "guard ="),
        "numc.plan: unknown entry 'guard' (did you mean 'guarded'?): the entries are tile, way, packing,",
    ),
    "missing entry": (
        lambda text: text.replace("guarded = true, ", ""),
        "numc.plan: there is no 'guarded': the entries",
    ),
    "another attribute": (
        lambda text: re.sub(r'(numc\.plan = .*)way = "panels"', r"\1way = array<i64: 1>", text),
        "numc.plan: array<i64: 1>",
    ),
    "sizes": (
        lambda text: text.replace("sizes = [19,", "sizes = [20,"),
        "numc.contraction.sizes = [20, 45, 150]: it is [19, 45, 150] in the region",
    ),
    "operator": (
        lambda text: text.replace('operator = "bf16_1_1"', 'operator = "mp"'),
        "numc.contraction.operator = 'mp': it is 'bf16_1_1' in the region",
    ),
    "calibration": (
        lambda text: text.replace("numc.plan =", "numc.calibration = [1 : i64], numc.plan ="),
        "numc.calibration = [1]: want two encodings of finite magnitudes",
    ),
    "other operations": (
        lambda text: text.replace("scf.yield", "memref.assume_alignment %alloc, 4 : memref<19x45xf32>\n scf.yield", 1),
        "its region holds a memref.assume_alignment that no kernel computes: move it out",
    ),
}


@dataclass(frozen=True)
class Words:
    factors: Factors


def test_a_word_that_is_none_of_a_list_is_refused() -> None:
    assert records.of_data(Words, {"factors": "sums"}, "words") == Words("sums")
    with pytest.raises(NumcError, match=r"words\.factors = 'sum': want 'values', 'sums', 'elements'"):
        records.of_data(Words, {"factors": "sum"}, "words")


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_plan_is_refused(name: str) -> None:
    edit, text = REFUSED[name]
    with pytest.raises(NumcError) as error:
        built(PRODUCT, Options(fma="bf16_1_1", target="x86-64-v4"), edit)
    assert str(error.value).startswith("layer 'product': ")
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fma", "target", "edit", "text"),
    [
        (
            "fp32",
            "x86-64-v4",
            changed(way="unpacked row", lanes="in place", rows=1, partial=[], narrow=False),
            "packing.rows = 'in place': not with way = 'unpacked row'",
        ),
        (
            "highbfp",
            "x86-64-v4",
            changed(k_block=40),
            "tile.k_block = 40: want a multiple of 16 (whole groups of 16 in",
        ),
        (
            "highbfp",
            "x86-64-v4",
            changed(narrow=True),
            "tile.narrow = true: operator 'fma(a=bfp(16,3,4),acc=fp32)' has no form for a single",
        ),
        ("fp32", "x86-64-v2", changed(guarded=True), "guarded = true: the target has no FMA: cheap sequences need one"),
        ("fp32", "x86-64-v3", changed(vectors=5), "tile.rows = 4, tile.vectors = 5: want rows x vectors from 1 to 16"),
        (
            "highbfp",
            "x86-64-v4",
            changed(lanes="once"),
            "packing.lanes = 'once': wants single values of fixed widths: not 'fma(a=bfp(16,3,4),acc=fp32)'",
        ),
        (
            "highbfp",
            "x86-64-v4",
            changed(lanes="codes"),
            "packing.lanes = 'codes': wants values of fixed widths and fewer than 32 bits, a NaN or groups, and codes "
            "that kernels read: not 'fma(a=bfp(16,3,4),acc=fp32)'",
        ),
        ("fp32", "x86-64-v4", changed(lanes="expanded codes"), "packing.lanes = 'expanded codes': wants values of"),
        ("int8", "x86-64-v4", changed(counts=1), "counts = 1: operator 'fma(a=int8,acc=fp32)' can count 0"),
    ],
)
def test_what_targets_and_operators_cannot_do(fma: str, target: str, edit: Edit, text: str) -> None:
    with pytest.raises(NumcError) as error:
        built(PRODUCT, Options(fma=fma, target=target), edit)
    assert text in str(error.value)


def test_functions_are_called_by_their_layers() -> None:
    """Also where the model has functions of such names."""
    text = str(lower(imported(CNN), to="vector", fma="mp", target="x86-64-v3"))
    assert "@node_conv2d_task_body(" in text
    assert "call @node_linear_contraction(" in text
    taken = PRODUCT + "func.func private @product_task_body() { return }"
    names = str(lower(Imported(mlir=imported(taken).mlir), to="vector", fma="mp", target="x86-64-v3"))
    assert "@product_task_2_body(" in names
    assert "call @product_contraction(" in names


def test_two_contractions_of_one_number() -> None:
    with pytest.raises(NumcError) as error:
        built(CNN, Options(fma="mp"), lambda text: text.replace("id = 1 : i64", "id = 0 : i64"))
    assert "layer 'node_conv2d_1': numc.contraction.id = 0: layer 'node_conv2d' has that number" in str(error.value)


def test_a_weight_that_is_not_the_packed_side() -> None:
    swap = {"panels": "at compile time", "at compile time": "panels"}

    def edit(text: str) -> str:
        return re.sub(
            r'packing = {lanes = "([^"]*)", rows = "([^"]*)"}',
            lambda m: f'packing = {{lanes = "{swap[m[1]]}", rows = "{swap[m[2]]}"}}',
            text,
        )

    with pytest.raises(NumcError, match="packing.lanes = 'at compile time': the operand of the lanes is no weight"):
        built(CNN, Options(fma="bf16_1_1"), edit)


def test_what_is_packed_once_is_an_argument_of_known_sizes() -> None:
    def edit(text: str) -> str:
        return re.sub(r"packing = {[^}]*}", 'packing = {lanes = "once", rows = "panels"}', text)

    size = "  %z = arith.constant 0 : index\n  %n = tensor.dim %b, %z : D\n  %zero"
    free = TRANSPOSED.replace("  %zero", size, 1).replace("tensor.empty()", "tensor.empty(%n)")
    free = free.replace("D", f"tensor<?x{K}xf32>").replace("C", f"tensor<{M}x?xf32>")
    for source, text in (CNN, "no argument that is only read"), (free, "of free sizes"):
        with pytest.raises(NumcError) as error:
            built(source, Options(fma="fp32"), edit)
        assert f"numc.plan.packing.lanes = 'once': the operand of the lanes is {text}" in str(error.value)


def test_products_that_differ_in_a_sign_or_an_order_have_their_own_code() -> None:
    ways = {  # where the sum begins, what its reader does with %d, which is the third: what is found
        ("-0.0", "addf %x, %d", "-0.0"): -0.0,
        ("0.0", "addf %x, %d", "-0.0"): 0.0,
        ("-0.0", "addf %x, %d", "0.0"): 0.0,
        ("-0.0", "subf %x, %d", "1.0"): -1.0,
        ("-0.0", "subf %d, %x", "1.0"): 1.0,
    }
    text = "".join(
        f"""
  %c{n} = arith.constant {start} : f32
  %d{n} = arith.constant {constant} : f32
  %s{n} = linalg.fill ins(%c{n} : f32) outs(%empty : C) -> C
  %r{n} = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x32xf32>) outs(%s{n} : C) -> C loc("product {n}")
  %y{n} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%r{n} : C) outs(%empty : C) {{
  ^bb0(%x: f32, %o: f32):
    %z = arith.{reader.replace("%d", f"%d{n}")} : f32
    linalg.yield %z : f32
  }} -> C"""
        for n, (start, reader, constant) in enumerate(ways)
    )
    results = ", ".join(f"%y{n}" for n in range(len(ways)))
    text = f"""func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x32xf32>) -> ({", ".join("C" * len(ways))}) {{
  %empty = tensor.empty() : C{text}
  return {results} : {", ".join("C" * len(ways))}
}}"""
    program = Program(build(Imported(text.replace("C", "tensor<4x32xf32>")), Options()))
    found = program(np.full((4, 8), -1, np.float32), np.zeros((8, 32), np.float32))
    for got, want in zip(found.values(), ways.values(), strict=True):
        assert np.array_equal(got.view(np.int32), np.full((4, 32), want, np.float32).view(np.int32))
