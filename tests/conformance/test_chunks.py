"""Chunked accumulation (FMAC-8): by hand, against exact rationals, and the generated code for any chunk."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc.compiler.arrays.arrays import matmul
from numc.frontends.imported import Imported
from numc.numerics import reference
from numc.support.errors import NumcError
from targets_here import WITHOUT_CHEAP, WITHOUT_GROUPS, some_variants, variants
from tiers import by_default, one_in, pairs

F32 = npt.NDArray[np.float32]
FORMATS = ("bf16", "e6m9", "e6m9n", "fp16", "e5m2")
DEPTHS = (0, 1, 7, 8, 9, 255, 256, 257, 600)


def both(a: npt.ArrayLike, b: npt.ArrayLike, c: float, fma: str) -> float:
    """One dot product by the reference and by the generated code, which must agree."""
    x, y = np.asarray(a, np.float32), np.asarray(b, np.float32)
    want = reference.dot(x, y, np.float32(c), fma)
    got = numc.matmul(x[None, :], y[:, None], np.array([[c]], np.float32), fma=fma)
    assert (found := vectorised.first_mismatch(got, np.array([[want]]))) is None, found
    return float(want)


# --- the definition --------------------------------------------------


def test_a_long_sum_of_ones_is_not_swamped() -> None:
    """bf16 has 8 bits, so one accumulator stops at 2^8; e5m2 has 3. In chunks of 8, every chunk is exact."""
    ones = np.ones(4096)
    assert both(ones, ones, 0, "fmac(bf16)") == 256
    assert both(ones, ones, 0, "fmac(bf16,chunk=8)") == 4096
    assert both(ones, ones, 0, "fmac(e5m2)") == 8
    assert both(ones, ones, 0, "fmac(e5m2,chunk=8)") == 4096
    assert both(ones, ones, 0, "fmac(e5m2,chunk=16)") == 2048  # every chunk of 16 stops at 8


def test_the_last_chunk_may_be_short_and_the_total_is_rounded() -> None:
    ones = np.ones(600)
    assert both(ones, ones, 0, "fmac(bf16,chunk=7)") == 600
    assert both(ones[:261], ones[:261], 0, "fmac(bf16,chunk=8)") == 260  # 32 chunks, then 5 ones: 261, a tie to even
    assert both(ones, ones, 0, "fmac(e5m2,chunk=8)") == 640
    assert both(ones, ones, 0, "fmac(e5m2:rtz,chunk=8)") == 512
    assert both(ones[:3], ones[:3], 0, "fmac(bf16,chunk=1000)") == 3


def test_a_total_that_is_kept() -> None:
    ones = np.ones(261)
    assert both(ones, ones, 0, "fmac(bf16,chunk=8,total=fp32)") == 261
    assert both(ones, ones, 2**20 + 1, "fmac(bf16,chunk=8,total=fp32)") == 2**20 + 261  # the start is 2^20 in bf16
    assert math.copysign(1, both([2.0**-140], [-1.0], -0.0, "fma(a=fp32,acc=e6m9,chunk=8,total=fp32)")) == -1


def test_chunks_of_binary32() -> None:
    """2^-24 is half an ulp of 1, and is lost in ties; within a chunk of its own it is not."""
    x = np.array([1.0] + [2.0**-24] * 4)
    assert both(x, np.ones(5), 0, "fp32") == 1
    assert both(x, np.ones(5), 0, "fma(a=fp32,acc=fp32,chunk=1)") == 1
    assert both(x, np.ones(5), 0, "fma(a=fp32,acc=fp32,chunk=3)") == 1 + 2.0**-23


def test_the_start_is_converted_and_starts_the_total() -> None:
    ones = np.ones(8)
    assert both(ones, ones, 2048, "fmac(bf16)") == 2048
    assert both(ones, ones, 2048, "fmac(bf16,chunk=8)") == 2048 + 8 + 8 - 16  # a tie to even at a quantum of 16
    assert both(np.ones(9), np.ones(9), 2048, "fmac(bf16,chunk=8)") == 2064  # 2048 + 8 + 1
    assert both(ones, ones, 2048 + 7, "fmac(bf16,chunk=8)") == 2048  # the start is 2048 in bf16
    assert both([], [], 2048 + 9, "fmac(bf16,chunk=8)") == 2064  # no step leaves the converted start
    assert math.copysign(1, both([], [], -0.0, "fmac(bf16,chunk=8)")) == -1


def test_what_is_not_finite() -> None:
    """A chunk overflows by itself; the total, in binary32, only when it is rounded."""
    large = np.full(4, 40000.0)
    signs = np.array([1.0, 1.0, -1.0, -1.0])
    assert math.isnan(both(large, signs, 0, "fmac(fp16,chunk=2)"))  # inf + -inf
    assert both(large[:3], signs[:3], 0, "fmac(fp16,chunk=1)") == 40000
    assert both(large[:2], signs[:2], 0, "fmac(fp16,chunk=1)") == math.inf
    assert both(large[:2], signs[:2], 0, "fmac(fp16:rtz,chunk=1)") == 65504


def test_totals_are_added_as_binary32_is() -> None:
    """Also where the processor truncates, or makes zeros of subnormal numbers, for the steps of a chunk."""
    rng = np.random.default_rng(0)
    unit = "fma(a=bf16,acc=fp32:rtz,datapath=fused(l=16,bits=25,least=-133),chunk=32)"
    for _ in range(8):
        both(rng.standard_normal(300), rng.standard_normal(300), 0, unit)
    a, b = [1.5, 0, 0, 0, -1.25], np.full(5, 2.0**-65)
    assert both(np.ldexp(a, -60), b, 0, "fma(a=bf16,acc=fp32,datapath=pairwise(l=4,flush=1),chunk=4)") == 2.0**-127


def test_signs_of_zeros() -> None:
    """A chunk starts at +0, so that a sum of -0 is +0; a start of -0 stays only without any step."""
    assert math.copysign(1, both([0.0, 0.0], [-1.0, -1.0], -0.0, "fmac(e6m9,chunk=8)")) == 1
    assert math.copysign(1, both([2.0**-140], [-1.0], -0.0, "fma(a=fp32,acc=e6m9,chunk=8)")) == -1  # rounds to -0


@pytest.mark.parametrize("fma", ["fmac(bf16,chunk=3)", "fmac(e6m9,chunk=4)", "fmac(e5m2:rtz,chunk=5)"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 11, 12])
def test_against_exact_rationals(fma: str, depth: int) -> None:
    operator = numc.numerics.grammar.parse_fma(fma)
    to, size = str(operator.acc), operator.datapath.chunk
    assert size is not None
    rng = np.random.default_rng(depth)
    a, b = (vectorised.round(rng.standard_normal(depth).astype(np.float32), to) for _ in range(2))
    c = vectorised.round(np.float32(rng.standard_normal()), to)

    def rounded(x: Fraction, to: str) -> Fraction:
        return Fraction(float(reference.round_real(x, to)))

    total = Fraction(float(c))
    for begin in range(0, depth, size):
        partial = Fraction(0)
        for x, y in zip(a[begin : begin + size], b[begin : begin + size], strict=True):
            partial = rounded(rounded(Fraction(float(x)) * Fraction(float(y)) + partial, "fp32"), to)
        total = rounded(total + partial, "fp32")
    assert both(a, b, float(c), fma) == float(rounded(total, to))


def test_outside_of_a_reduction_it_is_a_plain_step() -> None:
    a, b, c = vectorised.operands(1 << 14, 5)
    want = vectorised.fma(a, b, c, "fmac(e6m9)")
    for got in (f(a, b, c, "fmac(e6m9,chunk=8)") for f in (numc.fma, reference.fma, vectorised.fma)):
        assert (found := vectorised.first_mismatch(got, want)) is None, found
    id_ = "affine_map<(i) -> (i)>"
    text = f"""
    func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>, %c: tensor<?xf32>) -> tensor<?xf32> {{
      %r = linalg.generic {{indexing_maps = [{id_}, {id_}, {id_}, {id_}], iterator_types = ["parallel"]}}
          ins(%a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%a : tensor<?xf32>) {{
      ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %p, %z : f32
        linalg.yield %s : f32
      }} -> tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""
    got = np.asarray(numc.compile(Imported(mlir=text), fma="fmac(e6m9,chunk=8)")(a, b, c))
    assert (found := vectorised.first_mismatch(got, want)) is None, found


# --- the generated code --------------------------------------------------


def operands(depth: int, kind: str, m: int = 11, n: int = 37) -> tuple[F32, F32, F32]:
    """`kind`: plain, or ones that meet the guard of the cheap sequences in some blocks and not in others."""
    rng = np.random.default_rng(depth)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, depth), (depth, n), (m, n)))
    if kind == "wide":
        a *= np.exp2(rng.integers(-24, 24, (1, depth))).astype(np.float32)
        c *= np.float32(2.0**14)
    elif kind == "specials" and depth:
        for x in (a, b, c):
            places = rng.integers(0, x.size, 1 + x.size // 200)
            x.reshape(-1)[places] = rng.choice(np.array([np.inf, np.nan, -0.0, 1e-42, 1e9], np.float32), places.size)
    return a, b, c


CHUNKS = one_in(2, pairs([1, 2, 7, 8, 32, 33, 100, 1000], FORMATS))


@pytest.mark.parametrize(
    ("chunk", "to"), by_default(one_in(9, CHUNKS, (7, "e6m9n"), (100, "e6m9")), [(7, "e6m9n"), (100, "e6m9")])
)
def test_any_chunk(chunk: int, to: str) -> None:
    """Blocks of k are 256: a chunk ends in them, with them, behind them."""
    fma = f"fmac({to},chunk={chunk})"
    for depth in DEPTHS:
        for kind in ("plain", "wide"):
            a, b, c = operands(depth, kind)
            want = vectorised.matmul(a, b, c, fma)
            for fast in (True, False):
                for threads in (1, 3):
                    got = matmul(a, b, c, fma=fma, fast=fast, threads=threads)
                    found = vectorised.first_mismatch(got, want)
                    assert found is None, f"k={depth}, {kind}, fast={fast}, threads={threads}: {found}"


@pytest.mark.parametrize(
    "target", by_default(WITHOUT_GROUPS, [target for target in WITHOUT_GROUPS if target not in WITHOUT_CHEAP])
)
def test_where_cheap_sequences_would_miss_an_overflow(target: str) -> None:
    """The steps of one chunk together; a chunk that goes on from a block with a large product to one of small ones.

    The start brings a total that is too large back, unless the chunk is infinite as it should be.
    """

    def check(a: F32, b: F32, start: float, chunk: int, *, overflows: bool) -> None:
        fma = f"fmac(fp16,chunk={chunk})"
        want = reference.dot(a, b, np.float32(start), fma)
        got = matmul(a[None, :], b[:, None], np.array([[start]], np.float32), fma=fma, target=target)[0, 0]
        assert math.isinf(want) == overflows
        assert got == want, f"chunk={chunk}"

    a, b = np.full(40, 64, np.float32), np.full(40, 48, np.float32)
    check(a, b, -65504, 20, overflows=False)
    check(a, b, -65504, 32, overflows=True)
    a, b = np.full(400, 3.75, np.float32), np.full(400, 7.5, np.float32)
    a[0], b[0] = 248, 250
    a[1:256] = 0
    check(a, b, -60000, 300, overflows=False)
    check(a, b, -60000, 400, overflows=True)


OPERATORS = [
    f"{operator}chunk={chunk})"
    for operator in (
        *("fmac(bf16,", "fmac(e6m9,", "mac(e5m2,", "fmac(e6m9n:odd,", "fmac(fp16,datapath=exact,"),
        *("fma(a=bf16x2,acc=bf16x2,products=3,", "fma(a=bf16,acc=bf16x3,datapath=exact,"),
        *("fmac(bf16,total=fp32,", "fma(a=bf16,acc=fp32,"),
    )
    for chunk in (8, 300)
]


def check_variants(fma: str, chosen: list[tuple[str, bool]]) -> None:
    for kind in ("plain", "specials"):
        a, b, c = operands(530, kind)
        want = vectorised.matmul(a, b, c, fma)
        for target, fast in chosen:
            got = matmul(a, b, c, fma=fma, fast=fast, target=target)
            found = vectorised.first_mismatch(got, want)
            assert found is None, f"{kind}, {target}, fast={fast}: {found}"


@pytest.mark.parametrize("fma", by_default(one_in(4, OPERATORS), OPERATORS[::4]))
def test_any_operator(fma: str) -> None:
    check_variants(fma, some_variants(fma, OPERATORS.index(fma)))


@pytest.mark.slow
@pytest.mark.parametrize("fma", OPERATORS)
def test_any_operator_on_every_target(fma: str) -> None:
    check_variants(fma, variants(fma))


@pytest.mark.parametrize("shape", [(1, 40, 70), (1, 600, 5), (3, 600, 1), (70, 520, 90), (0, 5, 3), (2, 5, 0)])
def test_any_shape(shape: tuple[int, int, int]) -> None:
    m, depth, n = shape
    for fma in ("fmac(bf16,chunk=8)", "fmac(e6m9:rtz,chunk=100)"):
        a, b, c = operands(depth, "plain", m, n)
        for threads in (1, 3):
            got = numc.matmul(a, b, c, fma=fma, threads=threads)
            assert (found := vectorised.first_mismatch(got, vectorised.matmul(a, b, c, fma))) is None, found


SPLIT = [
    "fma(a=bf16,acc=fp32:rtz,datapath=fused(l=16,bits=25,least=-133),splits=4)",  # of a matrix unit
    "fmac(e5m4,splits=7,total=fp32)",
    "fma(a=bf16,acc=e5m6:sr8,splits=5)",
    "fma(a=e4m3,acc=fp16,datapath=staged(l=6,bits=9,sum=12),splits=2)",
    "fma(a=bf16x2,acc=bf16x2,splits=3)",
    "fma(a=bf16,b=mxfp4,acc=fp16,splits=3)",
]


@pytest.mark.parametrize("fma", one_in(99, SPLIT, SPLIT[1]))
def test_splits(fma: str) -> None:
    """A reduction in so many runs is one in chunks of a length: the definition, and depths of more than one block."""
    rng, (head, _, splits) = np.random.default_rng(0), fma.partition("splits=")
    for m, k, n in ((3, 70, 5), (2, 0, 3), (2, 700, 40)):
        a, b, c = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n), (m, n)))
        unit = {"fused": 16, "staged": 6}.get(head.partition("datapath=")[2].partition("(")[0], 1)
        length = max(math.ceil(math.ceil(k / int(splits.partition(",")[0].rstrip(")"))) / unit), 1) * unit
        chunks = f"{head}chunk={length}{splits.lstrip('0123456789')}"
        wanted = [numc.matmul(a, b, c, fma=chunks, seed=1)]
        if k < 100:
            wanted.append(reference.matmul(a, b, c, fma=fma, seed=1))
        for want in wanted:
            found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=fma, seed=1), want)
            assert found is None, f"{fma}, {(m, k, n)}: {found}"


def test_splits_of_a_depth_that_a_run_brings() -> None:
    """One program, whose runs have different depths."""
    product = "%r = linalg.matmul ins(%a, %b : A, B) outs(%c : C) -> C"
    text = f"func.func @main(%a: A, %b: B, %c: C) -> C {{\n {product}\n return %r : C\n}}"
    kinds = {"A": "tensor<3x?xf32>", "B": "tensor<?x4xf32>", "C": "tensor<3x4xf32>"}
    for name, kind in kinds.items():
        text = re.sub(rf"\b{name}\b", kind, text)
    program, rng = numc.compile(Imported(mlir=text), fma="fmac(e5m4,splits=3)"), np.random.default_rng(0)
    for k in (1, 29, 600):
        a, b, c = (rng.standard_normal(size).astype(np.float32) for size in ((3, k), (k, 4), (3, 4)))
        want = numc.matmul(a, b, c, fma=f"fmac(e5m4,chunk={math.ceil(k / 3)})")
        assert (found := vectorised.first_mismatch(program(a, b, c), want)) is None, found


@pytest.mark.parametrize(("chunk", "threads"), pairs([8, 33], [1, 3]))
def test_convolution(chunk: int, threads: int) -> None:
    """Chunks count over channels and window together; what follows reads the rounded total."""
    rng = np.random.default_rng(chunk)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 9, 12, 12), (5, 9, 3, 3)))
    image, kernel, result = "tensor<2x9x12x12xf32>", "tensor<5x9x3x3xf32>", "tensor<2x5x10x10xf32>"
    id_ = "affine_map<(n, c, h, w) -> (n, c, h, w)>"
    text = f"""
    func.func @main(%a: {image}, %b: {kernel}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {result}
      %s = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.conv_2d_nchw_fchw ins(%a, %b : {image}, {kernel}) outs(%s : {result}) -> {result}
      %y = linalg.generic {{indexing_maps = [{id_}, {id_}],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%r : {result}) outs(%e : {result}) {{
      ^bb0(%v: f32, %o: f32):
        %m = arith.maximumf %v, %zero : f32
        linalg.yield %m : f32
      }} -> {result}
      return %y : {result}
    }}"""
    fma = f"fmac(e6m9,chunk={chunk})"
    program = numc.compile(Imported(mlir=text), fma=fma)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    want = vectorised.matmul(windows.reshape(200, 81), w.reshape(5, 81).T, fma=fma)
    want = np.maximum(want, 0).reshape(2, 10, 10, 5).transpose(0, 3, 1, 2)
    got = np.asarray(program(x, w, threads=threads))
    assert (found := vectorised.first_mismatch(got, np.ascontiguousarray(want))) is None, found
    report = numc.verify(program, dict(zip((i.name for i in program.inputs), (x, w), strict=True)), samples=200)
    assert (report.mismatches, report.rows[0].fma) == (0, str(numc.numerics.grammar.parse_fma(fma))), report.first
    assert report.checked > 100


def test_a_reduction_that_does_more_is_refused() -> None:
    text = """
    func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>, %c: tensor<f32>) -> tensor<f32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
          iterator_types = ["reduction"]} ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%c : tensor<f32>) {
      ^bb0(%x: f32, %y: f32, %z: f32):
        %n = arith.negf %x : f32
        %p = arith.mulf %n, %y : f32
        %s = arith.addf %p, %z : f32
        linalg.yield %s : f32
      } -> tensor<f32>
      return %r : tensor<f32>
    }"""
    with pytest.raises(NumcError) as error:
        numc.compile(Imported(mlir=text), fma="fmac(e6m9,chunk=8)")
    assert str(error.value).endswith(
        "'fma(a=e6m9,acc=e6m9,chunk=8)' needs reductions whose body is one multiply-add, this one does more: "
        "use 'fma(a=e6m9,acc=e6m9)'"
    )
    assert "\n" not in str(error.value)
