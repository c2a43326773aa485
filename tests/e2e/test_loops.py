# ruff: noqa: E501 - the long lines are MLIR text
"""Everything that is not a contraction: the same bits whatever is fused, and on any number of threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import numc
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Argument, Imported
from numc.frontends.load import load_file
from numc.support.switches import SWITCHES
from tiers import one_in, pairs

ROOT = Path(__file__).resolve().parents[2] / "examples"

# A chain over a size known at run time, a maximum and a sum over rows, a sum over columns, a window with stride 2, a
# transposed copy, integers, a loop index: enough elements that every one of them is split into tasks.
TEXT = """
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
#win = affine_map<(i, j, u, v) -> (i * 2 + u, j * 2 + v)>
#uv = affine_map<(i, j, u, v) -> (u, v)>
#wout = affine_map<(i, j, u, v) -> (i, j)>
func.func @main(%x: tensor<?x301xf32>, %y: tensor<257x263xf32>) -> (tensor<?x301xf32>, tensor<?xf32>, tensor<301xf32>, tensor<128x131xf32>, tensor<263x257xf32>, tensor<?x301xi64>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %n = tensor.dim %x, %c0 : tensor<?x301xf32>
  %e = tensor.empty(%n) : tensor<?x301xf32>
  %er = tensor.empty(%n) : tensor<?xf32>
  %ec = tensor.empty() : tensor<301xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %fm = linalg.fill ins(%low : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %fc = linalg.fill ins(%zero : f32) outs(%ec : tensor<301xf32>) -> tensor<301xf32>
  %max = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x301xf32>) outs(%fm : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %sub = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %max : tensor<?x301xf32>, tensor<?xf32>) outs(%e : tensor<?x301xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x301xf32>
  %exp = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%sub : tensor<?x301xf32>) outs(%e : tensor<?x301xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<?x301xf32>
  %sum = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%exp : tensor<?x301xf32>) outs(%fr : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %soft = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%exp, %sum : tensor<?x301xf32>, tensor<?xf32>) outs(%e : tensor<?x301xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x301xf32>
  %columns = linalg.generic {indexing_maps = [#ij, #j], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<?x301xf32>) outs(%fc : tensor<301xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<301xf32>
  %w = tensor.empty() : tensor<3x3xf32>
  %ep = tensor.empty() : tensor<128x131xf32>
  %fp = linalg.fill ins(%zero : f32) outs(%ep : tensor<128x131xf32>) -> tensor<128x131xf32>
  %pool = linalg.generic {indexing_maps = [#win, #uv, #wout], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%y, %w : tensor<257x263xf32>, tensor<3x3xf32>) outs(%fp : tensor<128x131xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<128x131xf32>
  %et = tensor.empty() : tensor<263x257xf32>
  %t = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<257x263xf32>) outs(%et : tensor<263x257xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<263x257xf32>
  %ei = tensor.empty(%n) : tensor<?x301xi64>
  %index = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x301xf32>) outs(%ei : tensor<?x301xi64>) {
  ^bb0(%a: f32, %o: i64):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %j, %i : index
    %m = arith.index_cast %k : index to i64
    %c = arith.cmpf ogt, %a, %zero : f32
    %p = arith.extui %c : i1 to i64
    %r = arith.addi %m, %p : i64
    linalg.yield %r : i64
  } -> tensor<?x301xi64>
  return %soft, %sum, %columns, %pool, %t, %index : tensor<?x301xf32>, tensor<?xf32>, tensor<301xf32>, tensor<128x131xf32>, tensor<263x257xf32>, tensor<?x301xi64>
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loops") / "loops.mlir"
    path.write_text(TEXT)
    return path


def all_bits(program: numc.Program, inputs: list[np.ndarray], threads: int) -> list[bytes]:
    result = program(*inputs, threads=threads)
    return [v.tobytes() for v in (result.values() if isinstance(result, dict) else [result])]


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
def test_every_kind_of_loop_has_its_defined_value(source: Path, target: str) -> None:
    program = numc.compile(source, target=target)
    rng = np.random.default_rng(0)
    y = rng.standard_normal((257, 263)).astype(np.float32)
    for rows in (1, 7, 8, 300):  # fewer rows than are summed together, exactly as many, many and a rest
        x = rng.standard_normal((rows, 301)).astype(np.float32)
        runs = [all_bits(program, [x, y], threads) for threads in (1, 2, 3)]
        assert runs[0] == runs[1] == runs[2]
        soft, total, columns, pool, transposed, index = program(x, y, threads=2).values()
        # np.add.accumulate adds in ascending order, which is the definition of these sums.
        np.testing.assert_array_equal(columns, np.add.accumulate(x, axis=0)[-1])
        np.testing.assert_array_equal(transposed, y.T)
        np.testing.assert_array_equal(index, np.arange(301) - np.arange(rows)[:, None] + (x > 0))
        window = np.zeros((128, 131), np.float32)
        for u in range(3):
            for v in range(3):
                window = y[u : u + 255 : 2, v : v + 261 : 2] + window
        np.testing.assert_array_equal(pool, window)
        exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        np.testing.assert_allclose(total, exact.sum(1), rtol=1e-5)
        np.testing.assert_allclose(soft, exact / exact.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("switch", one_in(6, SWITCHES))
def test_no_bit_depends_on_a_switch(source: Path, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((37, 301), (257, 263))]
    monkeypatch.delenv("NUMC_DISABLE", raising=False)
    expected = all_bits(numc.compile(source, ops="bf16"), inputs, 2)
    monkeypatch.setenv("NUMC_DISABLE", switch)
    assert all_bits(numc.compile(source, ops="bf16"), inputs, 2) == expected


def check_model(name: str, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_file(ROOT / f"{name}.onnx")
    monkeypatch.delenv("NUMC_DISABLE", raising=False)
    program = numc.compile(model, fma="bf16_1_2", ops="bf16")
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal([5 if d is None else d for d in i.shape]).astype(np.float32) for i in program.inputs]
    expected = all_bits(program, inputs, 1)
    assert all_bits(program, inputs, 3) == expected
    monkeypatch.setenv("NUMC_DISABLE", switch)
    assert all_bits(numc.compile(model, fma="bf16_1_2", ops="bf16"), inputs, 2) == expected


@pytest.mark.all
@pytest.mark.parametrize(("switch", "name"), one_in(8, pairs(SWITCHES, ["digits/cnn", "models/lstm"])))
def test_no_bit_of_a_model_depends_on_a_switch(switch: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_model(name, switch, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("switch", SWITCHES)
def test_no_bit_of_a_transformer_depends_on_a_switch(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_model("models/transformer", switch, monkeypatch)


NORMALIZATION = """
func.func @main(%x: tensor<?x64xf32>, %mean: tensor<64xf32>, %var: tensor<64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %eps = arith.constant 1.0e-3 : f32
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty() : tensor<64xf32>
  %f = tensor.empty(%n) : tensor<?x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%var : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %eps : f32
    %y = math.rsqrt %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %mean, %r : tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>) outs(%f : tensor<?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %p = arith.mulf %d, %c : f32
    linalg.yield %p : f32
  } -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
"""


def test_what_depends_on_weights_alone_is_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    mean, var = rng.standard_normal(64).astype(np.float32), rng.random(64).astype(np.float32)
    x = Argument("x", "float32", (-1, 64))
    weights = {1: ("mean", mean), 2: ("var", var)}
    source = Imported(NORMALIZATION, (x,), (Argument("y", "float32", (-1, 64)),), weights)
    monkeypatch.delenv("NUMC_DISABLE", raising=False)
    contents = build(source, Options(ops="bf16", target="x86-64-v3"))
    # What only a folded constant needed is empty.
    assert [(w.name, w.shape) for w in contents.abi.weights] == [("mean", (64,)), ("var", (0,)), ("folded_0", (64,))]
    sum_ = numc.round(numc.round(var, "bf16") + numc.round(np.float32([1e-3]), "bf16"), "bf16")
    exact = 1 / np.sqrt(sum_.astype(np.float64))
    np.testing.assert_array_equal(contents.weights[2], numc.round(exact.astype(np.float32), "bf16"))
    values = rng.standard_normal((5, 64)).astype(np.float32)
    expected = all_bits(numc.compile(source, ops="bf16"), [values], 1)
    monkeypatch.setenv("NUMC_DISABLE", "fold-constants")
    assert all_bits(numc.compile(source, ops="bf16"), [values], 1) == expected


LANES = """
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf64>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %double = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?xf32>
  %er = tensor.empty(%n) : tensor<?xf32>
  %ed = tensor.empty(%n) : tensor<?xf64>
  %et = tensor.empty(%m, %n) : tensor<?x?xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %fd = linalg.fill ins(%double : f64) outs(%ed : tensor<?xf64>) -> tensor<?xf64>
  %sum = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%fr : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %squares = linalg.generic {indexing_maps = [#ij, #i, #i], iterator_types = ["parallel", "reduction"]}
      ins(%x, %sum : tensor<?x?xf32>, tensor<?xf32>) outs(%fd : tensor<?xf64>) {
  ^bb0(%a: f32, %s: f32, %o: f64):
    %d = arith.subf %a, %s : f32
    %w = arith.extf %d : f32 to f64
    %q = arith.mulf %w, %w : f64
    %r = arith.addf %q, %o : f64
    linalg.yield %r : f64
  } -> tensor<?xf64>
  %t = linalg.generic {indexing_maps = [#ji, #ij, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%et : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x?xf32>
  return %sum, %squares, %t : tensor<?xf32>, tensor<?xf64>, tensor<?x?xf32>
}
"""


@pytest.mark.parametrize("target", ["portable", "x86-64-v3", "host"])
def test_rows_in_lanes(target: str) -> None:
    """Sums over rows and a transposed reader: whole vectors and blocks of steps, and what is left over of either."""
    program, rng = numc.compile(Imported(mlir=LANES), target=target), np.random.default_rng(6)
    for rows, columns in ((1, 1), (3, 5), (4, 4), (7, 64), (16, 3), (17, 65), (20, 130), (33, 8), (1000, 70)):
        x, y = (rng.standard_normal(s).astype(np.float32) for s in ((rows, columns), (columns, rows)))
        total, squares, transposed = program(x, y, threads=2).values()
        np.testing.assert_array_equal(total, np.add.accumulate(x, axis=1)[:, -1])
        difference = (x - total[:, None]).astype(np.float64)
        np.testing.assert_array_equal(squares, np.add.accumulate(difference * difference, axis=1)[:, -1])
        np.testing.assert_array_equal(transposed, x.T - y)


def test_a_tensor_that_is_read_in_two_ways() -> None:
    """Its maker becomes a part of the loop that reads it once for each way of reading."""
    text = """
    #ij = affine_map<(i, j) -> (i, j)>
    #ji = affine_map<(i, j) -> (j, i)>
    func.func @main(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
      %e = tensor.empty() : tensor<5x5xf32>
      %y = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
          ins(%x : tensor<5x5xf32>) outs(%e : tensor<5x5xf32>) {
      ^bb0(%a: f32, %o: f32):
        %n = arith.negf %a : f32
        linalg.yield %n : f32
      } -> tensor<5x5xf32>
      %r = linalg.generic {indexing_maps = [#ij, #ji, #ij], iterator_types = ["parallel", "parallel"]}
          ins(%y, %y : tensor<5x5xf32>, tensor<5x5xf32>) outs(%e : tensor<5x5xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %s = arith.subf %a, %b : f32
        linalg.yield %s : f32
      } -> tensor<5x5xf32>
      return %r : tensor<5x5xf32>
    }"""
    x = np.random.default_rng(4).standard_normal((5, 5)).astype(np.float32)
    np.testing.assert_array_equal(numc.compile(Imported(mlir=text))(x), x.T - x)


def test_a_reshaped_tensor_is_not_overwritten_while_it_is_read() -> None:
    """What follows the product may be computed into the memory of its operand, but not tile by tile."""
    text = """
    #id = affine_map<(i, j) -> (i, j)>
    func.func @main(%x: tensor<?x256xf32>, %w: tensor<256x256xf32>) -> tensor<?x256xf32> {
      %c0 = arith.constant 0 : index
      %z = arith.constant 0.0 : f32
      %n = tensor.dim %x, %c0 : tensor<?x256xf32>
      %e = tensor.empty(%n) : tensor<?x256xf32>
      %t = linalg.negf ins(%x : tensor<?x256xf32>) outs(%e : tensor<?x256xf32>) -> tensor<?x256xf32>
      %rows = arith.index_cast %n : index to i64
      %columns = arith.constant 256 : i64
      %shape = tensor.from_elements %rows, %columns : tensor<2xi64>
      %r = tensor.reshape %t(%shape) : (tensor<?x256xf32>, tensor<2xi64>) -> tensor<?x256xf32>
      %g = tensor.empty(%n) : tensor<?x256xf32>
      %f = linalg.fill ins(%z : f32) outs(%g : tensor<?x256xf32>) -> tensor<?x256xf32>
      %y = linalg.matmul ins(%r, %w : tensor<?x256xf32>, tensor<256x256xf32>) outs(%f : tensor<?x256xf32>) -> tensor<?x256xf32>
      %o = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
          ins(%y : tensor<?x256xf32>) outs(%e : tensor<?x256xf32>) {
      ^bb0(%a: f32, %b: f32):
        %s = arith.addf %a, %a : f32
        linalg.yield %s : f32
      } -> tensor<?x256xf32>
      return %o : tensor<?x256xf32>
    }"""
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((70, 256), (256, 256)))
    program, want = numc.compile(Imported(mlir=text)), -2 * (x.astype(np.float64) @ w)
    for threads in (1, 3):
        # One rounding for each of 256 terms.
        np.testing.assert_allclose(program(x, w, threads=threads), want, atol=1e-3)
