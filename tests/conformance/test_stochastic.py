"""Stochastic rounding in generated code: the bits of the reference on every path, unbiased over ten million draws."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc.compiler.arrays.arrays import matmul
from numc.frontends.imported import Argument, Imported
from numc.numerics import reference
from numc.numerics.grammar import parse_fma
from numc.numerics.reference.group_operators import PARTS, Source
from numc.numerics.reference.operators import grouped_dot, vector
from numc.runtime.program import Program
from numc.studies.observe.verify import verify
from numc.support.errors import NumcError
from targets_here import HERE, some_variants
from tiers import by_default, one_in, pairs

F32 = npt.NDArray[np.float32]
ROOT = Path(__file__).parents[2]
CONVERSIONS = (
    *("e6m9:sr8", "bf16:sr16", "bf16:sr1", "e8m20:sr8", "e4m3fn:sr8", "e4m3fn:sr4:nan", "e5m2:sr24", "e8m0:sr3"),
    *("e6m9n:sr8", "e8m7n:sr8", "e2m0:sr1", "bf16x2:sr8", "bf16x3:sr8", "e8m22:sr24", "fp32:sr8", "bf16:sr8.lfsr"),
    "e6m9:sr24.lfsr",
)
OPERATORS = (
    *("fma(a=bf16,acc=bf16:sr8)", "fmac(e6m9:sr8)", "fma(a=bf16,acc=bf16:sr16)", "fma(a=bf16,acc=tf32:sr24)"),
    *("fma(a=e6m9,acc=e6m9:sr8,datapath=exact)", "fma(a=bf16,acc=bf16:sr20,datapath=exact)"),
    *("fma(a=fp32,acc=e6m9:sr14,datapath=exact)", "fma(a=bf16,acc=fp32:sr8,datapath=exact)"),
    *("fma(a=bf16,acc=bf16x2:sr8)", "fma(a=bf16,acc=bf16x2:sr8,datapath=exact)", "fma(a=bf16x2,acc=e6m9:sr8)"),
    *("mac(e6m9:sr4)", "mac(e5m2:sr9,datapath=exact)", "fmac(e6m9n:sr8)", "fma(a=bf16,acc=e6m9:sr8.lfsr)"),
    *(
        "fma(a=bf16,acc=e6m9:sr8,chunk=8)",
        "fma(a=bf16,acc=bf16:sr8,chunk=7)",
        "fma(a=bf16,acc=bf16:sr8.lfsr,chunk=300)",
    ),
    *("fmac(e4m3fn:sr8)", "fmac(e5m2:sr3)", "fma(a=bf16:sr8,b=e6m9:sr3,acc=fp32)", "fma(a=fp32,acc=e4m3:sr8)"),
)


def assert_same(got: npt.ArrayLike, want: npt.ArrayLike) -> None:
    assert (found := vectorised.first_mismatch(np.asarray(got), np.asarray(want))) is None, found


@pytest.mark.parametrize("to", CONVERSIONS)
def test_round(to: str) -> None:
    x = vectorised.samples(3000, 4)
    for seed in (0, 5, 2**64 - 1):
        assert_same(numc.round(x, to, seed=seed), reference.round(x, to, stream=reference.stream(seed, 0)))


@pytest.mark.parametrize("fma", OPERATORS)
def test_fma(fma: str) -> None:
    a, b, c = vectorised.operands(500, 2)
    assert_same(numc.fma(a, b, c, fma, seed=3), reference.fma(a, b, c, fma, seed=3))


@pytest.mark.parametrize(
    ("fma", "kind"),
    one_in(15, pairs(OPERATORS, ["plain", "special", "tiny", "overflow"]), ("fmac(e6m9:sr8)", "special")),
)
def test_matmul(fma: str, kind: str) -> None:
    """Blocks and runs of k that end early; some operators on another target too."""
    rng = np.random.default_rng(8)
    for m, k, n in ((9, 37, 19), (3, 261, 3)):
        a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
        if kind == "tiny":  # most sums are subnormal in e6m9, or below it
            a, b, c = a * np.float32(2**-17), b * np.float32(2**-16), c * np.float32(2**-33)
        elif kind == "overflow":
            a, b = a * np.float32(2**16), b * np.float32(2**14.5)
        elif kind == "special":
            for x in (a, b, c):
                flat = x.reshape(-1)
                some = np.array([np.inf, np.nan, 0, -0.0, 1e-42, 3e38], np.float32)
                flat[rng.integers(0, flat.size, 3)] = rng.choice(some, 3)
                x.view(np.uint32)[np.isnan(x)] = 0x7FFFFFFF  # the payload that an addition would carry out of
        want = reference.matmul(a, b, c, fma, seed=6)
        assert_same(matmul(a, b, c, fma=fma, seed=6, threads=3), want)
        number = OPERATORS.index(fma)
        for target, fast in some_variants(fma, number // 4)[1:] if number % 4 == 0 else ():
            assert_same(matmul(a, b, c, fma=fma, seed=6, target=target, fast=fast), want)


@pytest.mark.parametrize("fma", by_default(["fmac(e6m9:sr8)", "fma(a=bf16:sr8,acc=bf16:sr16)"], ["fmac(e6m9:sr8)"]))
def test_same_bits_for_any_number_of_threads(fma: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((150, 290), (290, 300)))
    want = matmul(a, b, fma=fma, seed=1, threads=1, target=HERE[0], fast=False)
    for threads in (1, 2, 3, 8):
        assert_same(matmul(a, b, fma=fma, seed=1, threads=threads), want)


# --- executions, operations, loops ---------------------------------------------


def test_every_execution_draws_anew() -> None:
    """The first run of a program has step 0, the next ones 1, 2, ...; runs with a seed do not count."""
    text = """
    func.func @main(%x: tensor<500xf32>) -> tensor<500xf32> {
      %e = tensor.empty() : tensor<500xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]} ins(%x : tensor<500xf32>) outs(%e : tensor<500xf32>) {
      ^bb0(%a: f32, %o: f32):
        %y = "numc.round"(%a) {to = "e6m9:sr8"} : (f32) -> f32
        linalg.yield %y : f32
      } -> tensor<500xf32>
      return %r : tensor<500xf32>
    }"""
    program = numc.compile(Imported(mlir=text))
    x = vectorised.samples(500, 1)
    x = np.where(np.isnan(x), np.float32(1), x)  # bytes are compared below, and a NaN may have any

    def want(seed: int, step: int) -> F32:
        return reference.round(x, "e6m9:sr8", stream=reference.stream(seed, 0, step))

    assert_same(program(x), want(0, 0))
    assert_same(program(x, seed=9), want(9, 0))
    assert_same(program(x), want(0, 1))
    assert_same(program(x, seed=np.uint64(2**64 - 1)), want(2**64 - 1, 0))
    with ThreadPoolExecutor(4) as pool:  # each of concurrent runs has draws of its own
        runs = list(pool.map(lambda _: program(x), range(8)))
    assert {y.tobytes() for y in runs} == {want(0, step).tobytes() for step in range(2, 10)}


LOOP = """
func.func @main(%x: tensor<40xf32>, %n: tensor<i64>) -> tensor<40xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = tensor.extract %n[] : tensor<i64>
  %end = arith.index_cast %v : i64 to index
  %r = scf.for %i = %c0 to %end step %c1 iter_args(%y = %x) -> (tensor<40xf32>) {
    %e = tensor.empty() : tensor<40xf32>
    %z = linalg.add ins(%y, %x : tensor<40xf32>, tensor<40xf32>) outs(%e : tensor<40xf32>) -> tensor<40xf32>
    scf.yield %z : tensor<40xf32>
  }
  return %r : tensor<40xf32>
}"""


def test_an_operation_in_a_loop_draws_anew_each_time() -> None:
    program = numc.compile(Imported(mlir=LOOP), ops="bf16:sr8")
    x = np.linspace(1, 2, 40, dtype=np.float32)

    def rounded(y: F32, operation: int, occurrence: int) -> F32:
        return reference.round(y, "bf16:sr8", stream=reference.stream(4, operation, 0, occurrence))

    y = x
    for n in range(5):
        y = rounded(rounded(y, 0, n) + rounded(x, 1, n), 2, n)
    assert_same(program(x, np.array(5), seed=4), y)


def test_equal_operations_draw_for_themselves() -> None:
    """Nothing merges them: not the two roundings of one weight, nor two equal sums."""
    text = """
    func.func @main(%x: tensor<200xf32>) -> (tensor<200xf32>, tensor<200xf32>) {
      %e = tensor.empty() : tensor<200xf32>
      %a = linalg.add ins(%x, %x : tensor<200xf32>, tensor<200xf32>) outs(%e : tensor<200xf32>) -> tensor<200xf32>
      %b = linalg.add ins(%x, %x : tensor<200xf32>, tensor<200xf32>) outs(%e : tensor<200xf32>) -> tensor<200xf32>
      return %a, %b : tensor<200xf32>, tensor<200xf32>
    }"""
    x = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    first, second = numc.compile(Imported(mlir=text), ops="bf16:sr8")(x, seed=0).values()
    assert not np.array_equal(first, second)
    plain, same = numc.compile(Imported(mlir=text), ops="bf16")(x).values()
    assert np.array_equal(plain, same)


def test_what_reads_in_another_order_leaves_the_draws_as_they_are() -> None:
    """The rounding draws by its own elements: it does not become a part of the loop over the transposed ones."""
    text = """
    #ij = affine_map<(i, j) -> (i, j)>
    #ji = affine_map<(i, j) -> (j, i)>
    func.func @main(%x: tensor<9x9xf32>) -> tensor<9x9xf32> {
      %e = tensor.empty() : tensor<9x9xf32>
      %y = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
          ins(%x : tensor<9x9xf32>) outs(%e : tensor<9x9xf32>) {
      ^bb0(%a: f32, %o: f32):
        %s = "numc.round"(%a) {to = "e6m9:sr8"} : (f32) -> f32
        linalg.yield %s : f32
      } -> tensor<9x9xf32>
      %r = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]}
          ins(%y : tensor<9x9xf32>) outs(%e : tensor<9x9xf32>) {
      ^bb0(%a: f32, %o: f32):
        %n = arith.negf %a : f32
        linalg.yield %n : f32
      } -> tensor<9x9xf32>
      return %r : tensor<9x9xf32>
    }"""
    x = np.random.default_rng(0).standard_normal((9, 9)).astype(np.float32)
    want = -reference.round(x, "e6m9:sr8", stream=reference.stream(4, 0)).T
    assert_same(numc.compile(Imported(mlir=text))(x, seed=4), np.ascontiguousarray(want))


CONV = """
func.func @main(%x: tensor<2x3x6x7xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x4x4x5xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x4x5xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x3x6x7xf32>, tensor<4x3x3x3xf32>)
      outs(%f : tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xf32>
  return %r : tensor<2x4x4x5xf32>
}"""


def test_a_convolution_draws_by_the_row_major_index_of_its_output() -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 6, 7), (4, 3, 3, 3)))
    fma = "fma(a=bf16,acc=bf16:sr8)"
    got = numc.compile(Imported(mlir=CONV), fma=fma)(x, w, seed=5)
    key = reference.stream(5, 3)
    want = [
        reference.dot(
            x[n, :, i : i + 3, j : j + 3].ravel(), w[f].ravel(), 0.0, fma, draws=reference.Draws(key, element)
        )
        for element, (n, f, i, j) in enumerate(np.ndindex(2, 4, 4, 5))
    ]
    assert_same(got, np.array(want).reshape(got.shape))


def test_a_body_that_is_no_plain_multiply_add_draws_the_same() -> None:
    text = """
    func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
          affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) {
      ^bb0(%x: f32, %y: f32, %z: f32):
        %m = math.absf %x : f32
        %p = arith.mulf %m, %y : f32
        %s = arith.addf %p, %z : f32
        linalg.yield %s : f32
      } -> tensor<?x?xf32>
      return %r : tensor<?x?xf32>
    }"""
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((5, 21), (21, 7), (5, 7)))
    for fma in ("fma(a=bf16,acc=bf16:sr8)", "fma(a=bf16,acc=e6m9:sr12.lfsr)"):
        program = numc.compile(Imported(mlir=text), fma=fma)
        assert not program.manifest["contractions"]
        assert_same(program(a, b, c, seed=5), reference.matmul(np.abs(a), b, c, fma, seed=5))


# --- operands with groups --------------------------------------------------------

GROUPED = (
    "fma(a=bfp(16,3,4):sr8,b=bfp(16,3,4),acc=fp32)",
    *("fma(a=bfp(16,3,4),b=bfp(16,3,4):sr8,acc=fp32)", "fma(a=bfp(7,3,5):sr3,b=bfp(7,2,2):sr20,acc=fp32)"),
    *("fma(a=bfp(48,8,23):sr24,b=bfp(48,3,4):sr,acc=fp32)", "fma(a=bfp(4,3,4):sr9.lfsr,acc=fp32)"),
    "fma(a=bfp(16,3,4):sr8,acc=fp32,datapath=fmac2)",
    *(
        "fma(a=mxfp8:sr8,b=mxfp4,acc=fp32)",
        "fma(a=mxint8:rtz,b=mxfp6_e3m2:sr4,acc=fp32)",
        "fma(a=mxint8:sr16,acc=fp32)",
    ),
    *("fma(a=int8:sr8,acc=fp32)", "fma(a=int8,b=int12:sr8:channel,acc=fp32)"),
)


@pytest.mark.parametrize(("fma", "kind"), one_in(5, pairs(GROUPED, ["plain", "special", "wide", "tiny"])))
@pytest.mark.all
def test_matmul_of_groups(fma: str, kind: str) -> None:
    rng = np.random.default_rng(8)
    for m, k, n in ((9, 37, 19), (18, 261, 3), (1, 40, 35)):
        a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
        if kind == "tiny":
            a, b = a * np.float32(2**-143), b * np.float32(2**-4)
        elif kind == "wide":
            a *= np.exp2(rng.integers(-140, 120, a.shape)).astype(np.float32)
        elif kind == "special":
            for x in (a, b):
                some = np.array([np.inf, np.nan, 0, -0.0, 1e-42, 3e38], np.float32)
                x.reshape(-1)[rng.integers(0, x.size, 4)] = rng.choice(some, 4)
        want = reference.matmul(a, b, c, fma, seed=6)
        assert_same(matmul(a, b, c, fma=fma, seed=6, threads=3), want)
        number = GROUPED.index(fma)
        for target, fast in some_variants(fma, number // 3)[1:] if number % 3 == 0 and m > 1 else ():
            assert_same(matmul(a, b, c, fma=fma, seed=6, target=target, fast=fast), want)


@pytest.mark.parametrize("fma", by_default(GROUPED[:2], GROUPED[:1]))
def test_groups_draw_the_same_for_any_number_of_threads(fma: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((150, 600), (600, 300)))
    want = matmul(a, b, fma=fma, seed=1, threads=1, target=HERE[0], fast=False)
    for threads in (1, 2, 3, 8):
        assert_same(matmul(a, b, fma=fma, seed=1, threads=threads), want)


@pytest.mark.parametrize("fma", by_default([GROUPED[2], GROUPED[6]], [GROUPED[6]]))
def test_a_batch_of_groups_draws_by_the_row_major_index_of_its_output(fma: str) -> None:
    text = """
    func.func @main(%a: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>, %c: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
      %r = linalg.batch_matmul ins(%a, %b : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
          outs(%c : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
      return %r : tensor<?x?x?xf32>
    }"""
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((3, 9, 40), (3, 40, 7), (3, 9, 7)))
    op, key = parse_fma(fma), reference.stream(5, 3)
    assert op.groups is not None
    to_a, to_b = op.groups
    most_a, most_b = np.abs(a).max(), np.abs(b).max()
    want = np.empty_like(c)
    for n, i, j in np.ndindex(*c.shape):
        x = vector(a[n, i], to_a, largest=most_a, source=Source(key, (n * 9 + i) * 7, PARTS[0]))
        y = vector(b[n, :, j], to_b, largest=most_b, source=Source(key, n * 9 * 7 + j, PARTS[1]))
        want[n, i, j] = grouped_dot(x, y, c[n, i, j], op)
    program = numc.compile(Imported(mlir=text), fma=fma)
    assert_same(program(a, b, c, seed=5), want)


@pytest.mark.parametrize(("fma", "weight"), pairs(GROUPED[:3], [False, True]))
def test_a_convolution_draws_for_every_window(fma: str, weight: bool) -> None:
    """By the first output that a window, or a filter, is part of; a weight anew in every execution."""
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 6, 7), (4, 3, 3, 3)))
    given = (Argument("x", "float32", x.shape), Argument("w", "float32", w.shape))
    result = (Argument("y", "float32", (2, 4, 4, 5)),)
    source = Imported(CONV, given[:1], result, {1: ("w", w)}) if weight else Imported(CONV, given, result)
    program = numc.compile(source, fma=fma)
    feeds = {"x": x} if weight else {"x": x, "w": w}
    first, second, seeded = program(feeds), program(feeds), program(feeds, seed=5)
    assert not np.array_equal(np.asarray(first), np.asarray(second))
    op, key = parse_fma(fma), reference.stream(5, 3)
    assert op.groups is not None
    windows = {
        (n, i, j): vector(
            x[n, :, i : i + 3, j : j + 3].ravel(),
            op.groups[0],
            largest=np.abs(x).max(),
            source=Source(key, (n * 4 * 4 + i) * 5 + j, PARTS[0]),
        )
        for n, i, j in np.ndindex(2, 4, 5)
    }
    filters = [
        vector(w[f].ravel(), op.groups[1], largest=np.abs(w).max(), source=Source(key, f * 4 * 5, PARTS[1]))
        for f in range(4)
    ]
    want = [grouped_dot(windows[n, i, j], filters[f], np.float32(0), op) for n, f, i, j in np.ndindex(2, 4, 4, 5)]
    for threads in (1, 3):
        assert_same(program(feeds, seed=5, threads=threads), np.array(want).reshape(2, 4, 4, 5))
    assert_same(seeded, np.array(want).reshape(2, 4, 4, 5))
    report = verify(program, feeds, samples=100)
    assert report.checked > 50
    assert report.mismatches == 0, report.first


@pytest.mark.all
@pytest.mark.parametrize(
    "fma", one_in(3, ["fma(a=bfp(16,3,4):sr8,acc=fp32)", "fma(a=mxfp8:sr8,acc=fp32)", "fma(a=int8:sr8,acc=fp32)"])
)
@pytest.mark.all
def test_groups_in_a_model(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits CNN: its kernels recompute what they drew, and no optimisation changes a draw."""
    path = ROOT / "examples" / "digits" / "cnn.onnx"
    program = numc.compile(path, fma=fma)
    (given,) = program.inputs
    x = np.random.default_rng(0).standard_normal([d or 3 for d in given.shape]).astype(np.float32)
    feeds: dict[str, npt.NDArray[np.generic]] = {given.name: x}
    report = verify(program, feeds, samples=60)
    assert report.checked > 40
    assert report.mismatches == 0, report.first
    monkeypatch.setenv("NUMC_DISABLE", SWITCHES[0])
    other = numc.compile(path, fma=fma, cache=False)
    assert_same(other(feeds, seed=3, threads=2), program(feeds, seed=3, threads=1))


@pytest.mark.parametrize(
    "fma", ["fma(a=bfp(1,8,4):sr8,b=bfp(1,8,4),acc=fp32)", "fma(a=bfp(1,8,4),b=bfp(1,8,4):sr4,acc=fp32)"]
)
def test_operands_with_groups_are_unbiased(fma: str) -> None:
    """5/16 of the way up, with one step of one element in each group: rows or columns, steps and executions."""
    p, depth, size = 5 / 16, 1024, 1000
    sigma = np.sqrt(p * (1 - p))
    of_b = ":sr" in fma.split("b=")[1]
    x = np.full((size, depth), 1 + p / 8, np.float32)
    ones = np.ones((1, depth), np.float32)
    ups = []
    for seed in (0, 1):
        total = matmul(ones, x.T, fma=fma, seed=seed)[0] if of_b else matmul(x, ones.T, fma=fma, seed=seed)[:, 0]
        ups.append((total - depth) * 8)
        assert np.array_equal(ups[-1], np.rint(ups[-1]))
        assert abs(ups[-1].mean() - p * depth) < 4 * sigma * np.sqrt(depth / size)
    first, second = ((up - p * depth) / (sigma * np.sqrt(depth)) for up in ups)
    assert abs(first.std() - 1) < 4 / np.sqrt(2 * size)  # steps are independent
    assert abs((first * second).mean()) * np.sqrt(size) < 4
    for lag in (1, 2, 16):
        assert abs((first[lag:] * first[:-lag]).mean()) * np.sqrt(size - lag) < 4


def test_values_of_a_format_with_groups_never_change() -> None:
    a = np.random.default_rng(0).integers(-15, 16, (20, 64)).astype(np.float32)
    a[:, ::16] = 15  # the exponent of every group
    ones = np.ones((64, 3), np.float32)
    for seed in range(5):
        got = matmul(a, ones, fma="fma(a=bfp(16,3,4):sr8,acc=fp32)", seed=seed)
        assert np.array_equal(got, a @ ones)


MODELS = ("digits/mlp.onnx", "models/lstm.onnx")
SWITCHES = ("fuse-elementwise,fuse-first,fuse-last,merge-products,pack-weights,fold-constants,parallel-loops",)


@pytest.fixture(scope="module", params=one_in(len(MODELS), MODELS))
def model(request: pytest.FixtureRequest) -> tuple[Path, Program, dict[str, npt.NDArray[np.generic]]]:
    """A model, stochastic in its weights, activations, accumulators and other operations, and inputs of it."""
    path = ROOT / "examples" / str(request.param)
    program = numc.compile(path, fma="fma(a=bf16:sr8,acc=e6m9:sr8)", ops="bf16:sr8")
    rng = np.random.default_rng(0)
    inputs: dict[str, npt.NDArray[np.generic]] = {}
    for spec in program.inputs:
        shape = tuple(d or 3 for d in spec.shape)
        is_float = spec.dtype == "float32"
        x = rng.standard_normal(shape) if is_float else rng.integers(0, 10, shape)
        inputs[spec.name] = x.astype(spec.dtype)
    return path, program, inputs


@pytest.mark.all
def test_models_verify(model: tuple[Path, Program, dict[str, npt.NDArray[np.generic]]]) -> None:
    _, program, inputs = model
    report = verify(program, inputs, samples=150)
    assert report.checked > 100
    assert report.mismatches == 0, report.first
    assert not np.array_equal(program(inputs), program(inputs))


@pytest.mark.all
@pytest.mark.parametrize("off", SWITCHES)
@pytest.mark.all
def test_no_optimisation_changes_a_draw(
    model: tuple[Path, Program, dict[str, npt.NDArray[np.generic]]], off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, program, inputs = model
    monkeypatch.setenv("NUMC_DISABLE", off)
    other = numc.compile(path, fma="fma(a=bf16:sr8,acc=e6m9:sr8)", ops="bf16:sr8", cache=False)
    assert_same(other(inputs, seed=3, threads=2), program(inputs, seed=3, threads=1))


# --- statistics over many draws ------------------------------------------------

DRAWS = 10_000_000


@pytest.mark.parametrize(
    "to", by_default(["bf16:sr8", "e6m9:sr16", "e5m2:sr4", "bf16:sr8.lfsr"], ["e6m9:sr16", "bf16:sr8.lfsr"])
)
def test_conversions_are_unbiased(to: str) -> None:
    """A value 5/16 of the way up gets there with that probability, to 4 sigma, whatever its neighbours in memory do."""
    bits = numc.formats.get(to.split(":")[0], None)
    significand = bits.significand_bits if bits else int(to.split(":")[0].split("m")[1])
    x = np.full(DRAWS, 1 + 5 / 16 * 2.0**-significand, np.float32)
    up = numc.round(x, to, seed=11) > 1
    p = 5 / 16
    sigma = np.sqrt(p * (1 - p))
    assert abs(up.mean() - p) < 4 * sigma / np.sqrt(DRAWS)
    centred = (up[: 1 << 22] - p) / sigma
    for lag in (1, 2, 16, 4096):
        assert abs((centred[lag:] * centred[:-lag]).mean()) * np.sqrt(centred.size - lag) < 4


UNBIASED = ["fma(a=fp32,acc=bf16:sr8)", "fma(a=fp32,acc=e6m9:sr8)", "fma(a=fp32,acc=e5m2:sr16)"]


@pytest.mark.parametrize("fma", by_default(UNBIASED, UNBIASED[:1]))
def test_accumulators_are_unbiased(fma: str) -> None:
    """One step each: rows, columns and executions are uncorrelated."""
    significand = {"bf16": 7, "e6m9": 9, "e5m2": 2}[fma.split("=")[2].split(":")[0]]
    p = 5 / 16
    sigma = np.sqrt(p * (1 - p))
    a = np.full((4000, 1), 1 + p * 2.0**-significand, np.float32)
    b = np.ones((1, 2500), np.float32)
    first, second = (matmul(a, b, fma=fma, seed=seed) > 1 for seed in (0, 1))
    assert abs(first.mean() - p) < 4 * sigma / np.sqrt(DRAWS)
    x, y = ((up - p) / sigma for up in (first, second))
    assert abs((x * y).mean()) * np.sqrt(DRAWS) < 4
    for lag in (1, 2, 16, 100):
        for products in (x[lag:] * x[:-lag], x[:, lag:] * x[:, :-lag]):
            assert abs(products.mean()) * np.sqrt(products.size) < 4


def test_a_long_sum_does_not_stagnate() -> None:
    """1 + 4096 times 2^-9 in bf16: to nearest it stays 1; the mean over many sums is 9."""
    a, b = np.full((64, 4096), 2.0**-9, np.float32), np.ones((4096, 64), np.float32)
    start = np.ones((64, 64), np.float32)
    assert np.all(matmul(a, b, start, fma="fmac(bf16)") == 1)
    got = matmul(a, b, start, fma="fma(a=bf16,acc=bf16:sr8)", seed=0)
    assert abs(got.mean() - 9) < 4 * got.std() / np.sqrt(got.size)
    assert got.std() < 1


# --- what a user can get wrong ---------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_seeds_out_of_range(seed: object) -> None:
    message = f"seed: got {seed!r}, want a whole number from 0 to 18446744073709551615"
    x = np.ones(3, np.float32)
    for to in ("bf16:sr8", "bf16", "bfp(16,3,4)", "bfp(16,3,4):sr8"):
        with pytest.raises(NumcError) as error:
            numc.round(x, to, seed=seed)  # type: ignore[arg-type]
        assert str(error.value) == message


def test_a_seed_without_stochastic_rounding_changes_nothing() -> None:
    x = np.float32([1.01, 2.5])
    assert_same(numc.round(x, "bf16", seed=1), numc.round(x, "bf16"))


def test_pack_does_not_draw() -> None:
    with pytest.raises(NumcError) as error:
        numc.pack(np.ones(3, np.float32), "bf16:sr8")
    assert str(error.value) == "pack: 'bf16:sr8' draws at random: numc.round(x, 'bf16:sr8', seed=...) first, then pack"
