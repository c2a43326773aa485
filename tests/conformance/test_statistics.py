"""Counted additions, to the last one, against the exact reference; what tensors hold, against numpy."""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

import arithmetic_vectorised as vectorised
import numc
from numc.frontends.imported import Imported
from numc.numerics.exact.value import POINT, PRODUCT_POINT, Value, bits_of, exact_sum, from_bits
from numc.numerics.formats.rounding import rounder
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.numerics.operators import Fma
from numc.numerics.reference import Draws, dot
from numc.numerics.reference.datapaths import f32_fma, f32_mul
from numc.numerics.reference.operators import _operands
from numc.passes.kernels.abi import TASK_CONTEXT
from numc.runtime.program import Program
from numc.studies.observe.collect import Collector, sampled_steps
from numc.studies.observe.tensor_counts import tensor_statistics
from numc.support.errors import NumcError
from targets_here import HERE
from tiers import by_default, one_in, pairs

F32 = npt.NDArray[np.float32]
OPERATORS = [
    *("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_3_3{6}", "mac(e4m3)", "macs(e5m2)", "fmac(e6m9)"),
    *("fmac(e6m9,chunk=7)", "fma(a=tf32,acc=bf16,datapath=exact)", "fmac(e6m9:sr8)"),
]
DEPTH = 12
EVERYWHERE = ["bf16_1_1", "bf16_2_2{3}", "fma(a=bf16x2,acc=bf16x2,datapath=exact)"]


@cache
def matmul(fma: str, target: str = "host", shapes: tuple[str, str, str] = ("?x?", "?x?", "?x?")) -> Program:
    a, b, c = (f"tensor<{shape}xf32>" for shape in shapes)
    text = f"""
    func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %r : {c}
    }}"""
    return numc.compile(Imported(mlir=text), fma=fma, target=target, statistics=True)


def operands(fma: Fma, rows: int, depth: int, lanes: int) -> tuple[F32, F32, F32]:
    """Numbers of the operator's formats: zeros of both signs, subnormals, infinities and a NaN among them."""
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, lanes), (rows, lanes)))
    a[rng.random(a.shape) < 0.2] = 0
    b[:, 1::7] = np.ldexp(b[:, 1::7], rng.integers(-140, 0, b[:, 1::7].shape))
    a[1] = np.ldexp(a[1], -60)
    b[depth // 2, 2], b[depth // 2, 3], a[2, 1], c[:, 4], c[0, 5] = np.inf, np.nan, 3e38, 0, -0.0
    with np.errstate(over="ignore"):
        return tuple(
            np.asarray(numc.round(x, str(to.settled)), np.float32)
            for x, to in zip((a, b, c), (*fma.singles, fma.acc), strict=True)
        )  # type: ignore[return-value]


def exponent(x: Value, point: int = POINT) -> int | None:
    """floor(log2(abs(x))); None for zeros, infinities and NaN."""
    return abs(x).bit_length() - 1 - point if type(x) is int and x else None


def additions(a: F32, b: F32, c: np.float32, fma: Fma, draws: Draws) -> Iterator[list[tuple[Value, Value]]]:
    """The additions p + c of each step, p as binary32 has it: every accumulator is a reduction of its own."""
    left, right = (_operands(bits_of(x), to.settled, 0) for x, to in zip((a, b), fma.singles, strict=True))
    to_f32, chunk = rounder(parse_fma("fp32").acc, PRODUCT_POINT), fma.datapath.chunk or len(a) + 1
    for k, (x, y) in enumerate(zip(left, right, strict=True)):
        begin = k - k % chunk
        start = c if fma.datapath.chunk is None else np.float32(0)
        before = from_bits(int(bits_of(dot(a[begin:k], b[begin:k], start, fma.step, draws=draws))))
        if fma.datapath.name == "exact":
            yield [(to_f32(exact_sum([(x[i], y[j]) for i, j in fma.terms], -0.0)), before)]
            continue
        (i, j), *rest = fma.terms
        product, found = f32_mul(x[i], y[j]), []
        for i, j in rest:
            found.append((f32_mul(x[i], y[j]), product))
            product = f32_fma(x[i], y[j], product)
        if fma.product is not None:
            product = rounder(fma.product, POINT)(product)
        yield [*found, (product, before)]


def differences(a: F32, b: F32, c: F32, fma: Fma, stream: int) -> Iterator[tuple[int, int]]:
    """The step of each addition of two finite numbers that are not zero, and how far their exponents are apart."""
    for n, (i, j) in enumerate(np.ndindex(c.shape)):
        for k, added in enumerate(additions(a[i], b[:, j], c[i, j], fma, Draws(stream, n))):
            for p, before in added:
                e, f = exponent(p), exponent(before)
                if e is not None and f is not None:
                    yield k, min(abs(e - f), 31)


def sampled(steps: Sequence[tuple[int, int]], depth: int, stride: int) -> list[int]:
    """The histogram, by the definition of what is sampled."""
    counts = Counter(d for k, d in steps if k % stride == (k // stride + min(stride, depth) // 2) % stride)
    return [counts[d] for d in range(32)]


COUNTED = one_in(3, [*((f, "host") for f in OPERATORS), *((f, t) for f in EVERYWHERE for t in HERE)])


@pytest.mark.parametrize(("fma", "target"), by_default(one_in(3, COUNTED), COUNTED[::6]))
def test_every_addition_is_counted(fma: str, target: str) -> None:
    op = parse_fma(fma)
    a, b, c = operands(op, 5 if op.draws else 9, DEPTH, 35)
    program = matmul(fma, target)
    streams = []

    def watch(_: int, address: int, __: int) -> None:
        streams.append(ctypes.c_uint64.from_address(address + 8 * TASK_CONTEXT.word("random")).value)

    with program.observe(watch):
        plain = program(a, b, c, seed=3)
    steps = list(differences(a, b, c, op, streams[0]))
    for stride, threads in ((1, 1), (1, 2), (5, 2)):
        with numc.collect_stats("swamping", sample=Fraction(1, stride)) as collected:
            got = program(a, b, c, seed=3, threads=threads)
        (row,) = collected.statistics.rows
        assert row.swamping is not None
        assert list(row.swamping.counts) == sampled(steps, DEPTH, stride)
        assert row.adds == c.size * sampled_steps(stride, DEPTH) * (len(op.terms) if op.datapath.name == "fp32" else 1)
        assert row.sampled == Fraction(sampled_steps(stride, DEPTH), DEPTH)
        assert (found := vectorised.first_mismatch(np.asarray(got), np.asarray(plain))) is None, found


@pytest.mark.parametrize(("fma", "target"), pairs(["fma(a=bfp(4,8,3),acc=fp32)", "mxfp8_e4m3"], ["host", "x86-64-v3"]))
def test_groups_count_when_they_are_added(fma: str, target: str) -> None:
    op = parse_fma(fma)
    assert op.group is not None
    size, rng = op.group.group or 1, np.random.default_rng(8)
    a, b = (np.ldexp(rng.standard_normal(s), rng.integers(-9, 9, s)).astype(np.float32) for s in ((5, 70), (70, 19)))
    c = rng.standard_normal((5, 19)).astype(np.float32)
    a[0, :size], b[3, 3] = 0, np.nan
    counts: Counter[int] = Counter()
    for i, j in np.ndindex(c.shape):
        for k in range(0, 70, size):
            group = slice(k, k + size)
            p, before = (
                exponent(from_bits(int(bits_of(dot(a[i, part], b[part, j], start, op)))))
                for part, start in ((group, np.float32(0)), (slice(0, k), c[i, j]))
            )
            if p is not None and before is not None:
                counts[min(abs(p - before), 31)] += 1
    for sample in ("1", "1/4"):
        with numc.collect_stats("swamping", sample=sample) as collected:
            matmul(fma, target)(a, b, c)
        (row,) = collected.statistics.rows
        assert row.swamping is not None
        assert list(row.swamping.counts) == [counts[d] for d in range(32)]
        assert (row.adds, row.sampled) == (c.size * -(-70 // size), 1)


@pytest.mark.parametrize("shape", [(33, 600, 70), (1, 300, 100), (6, 40, 1)])
def test_tiles_blocks_and_threads_do_not_matter(shape: tuple[int, int, int]) -> None:
    """Several blocks of k, panels and tasks, and shapes that have tiles of their own."""
    rows, depth, lanes = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, lanes)))
    a[rng.random(a.shape) < 0.3] = 0
    start = np.zeros((rows, lanes), np.float32)
    texts = (f"{rows}x{depth}", f"{depth}x{lanes}", f"{rows}x{lanes}")
    for stride in (1, 3, 16):
        want = in_numpy(a, b, stride)
        for shapes in (("?x?", "?x?", "?x?"), texts):
            with numc.collect_stats("swamping", sample=Fraction(1, stride)) as collected:
                matmul("bf16_1_1", shapes=shapes)(a, b, start, threads=2)
            (row,) = collected.statistics.rows
            assert row.swamping is not None
            assert list(row.swamping.counts) == want


DEPTHWISE = """
func.func @main(%x: tensor<1x16x9x11xf32>, %w: tensor<16x3x3xf32>, %c: tensor<1x16x9x11xf32>) -> tensor<1x16x9x11xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %d: index, %e: index):
    tensor.yield %z : f32
  } : tensor<1x16x9x11xf32> to tensor<1x16x11x13xf32>
  %r = linalg.depthwise_conv_2d_nchw_chw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%p, %w : tensor<1x16x11x13xf32>, tensor<16x3x3xf32>) outs(%c : tensor<1x16x9x11xf32>) -> tensor<1x16x9x11xf32>
  return %r : tensor<1x16x9x11xf32>
}"""


def test_what_is_read_in_place_is_counted_in_tiles() -> None:
    """A depthwise convolution that pads its planes itself: its lanes are packed only while it counts."""
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 9, 11), (16, 3, 3)))
    c = np.zeros((1, 16, 9, 11), np.float32)
    program = numc.compile(Imported(mlir=DEPTHWISE), fma="bf16_1_1", statistics=True)
    assert program.manifest["contractions"][0]["plane"] is not None
    plain = program(x, w, c)
    with numc.collect_stats("swamping,exponents") as collected:
        counted = program(x, w, c)
    (row,) = collected.statistics.rows
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x[0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    want = np.zeros(32, np.int64)
    for channel, filters in zip(windows, w, strict=True):
        want += in_numpy(np.ascontiguousarray(channel).reshape(-1, 9), filters.reshape(9, 1), 1)
    assert np.array_equal(plain, counted)
    assert row.swamping is not None
    assert list(row.swamping.counts) == want.tolist()
    assert row.tensors["a"].exponents == seen(x, -126, np.inf)["exponents"]


def in_numpy(a: F32, b: F32, stride: int) -> list[int]:
    """The histogram of bf16_1_1: its products are exact in binary32."""
    a, b = numc.round(a, "bf16"), numc.round(b, "bf16")
    c, depth = np.zeros((len(a), b.shape[1]), np.float32), a.shape[1]
    counts = np.zeros(32, np.int64)
    for k in range(depth):
        p = a[:, k : k + 1] * b[k : k + 1, :]
        if k % stride == (k // stride + min(stride, depth) // 2) % stride:
            both = (p != 0) & (c != 0)
            d = np.abs(np.frexp(p)[1] - np.frexp(c)[1])[both]
            counts += np.bincount(np.minimum(d, 31), minlength=32)
        c = numc.round((p.astype(np.float64) + c).astype(np.float32), "bf16")
    return [int(n) for n in counts]


def test_calls_that_overlap_count_once_each() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((64, 200), (200, 64)))
    start = np.zeros((64, 64), np.float32)
    program = matmul("bf16_1_1")
    with numc.collect_stats("swamping") as collected, ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: program(a, b, start, threads=2), range(12)))
    (row,) = collected.statistics.rows
    assert row.swamping is not None
    assert (row.executions, row.fmas) == (12, 12 * 64 * 64 * 200)
    assert list(row.swamping.counts) == [12 * n for n in in_numpy(a, b, 1)]


def test_two_observers_of_one_run() -> None:
    a = np.random.default_rng(7).standard_normal((5, 30)).astype(np.float32)
    program = matmul("bf16_1_1")
    inputs = dict(zip((i.name for i in program.inputs), (a, a.T.copy(), np.zeros((5, 5), np.float32)), strict=True))
    with numc.collect_stats("exponents,rounding") as collected:
        report = numc.verify(program, inputs, samples=25)
    assert report.checked > 0
    assert report.mismatches == 0, report.first
    assert collected.statistics.rows[0].tensors["result"].elements == 25
    with numc.collect_stats("swamping"), pytest.raises(NumcError, match="another block counts swamping already"):
        numc.collect_stats("swamping").__enter__()


def test_an_observer_may_be_done_before_the_next_one() -> None:
    """As in a comparison inside a block: what the first one had, and dropped, is still there for the second."""
    a = np.random.default_rng(7).standard_normal((5, 30)).astype(np.float32)
    program, inputs = matmul("bf16_1_1"), (a, a.T.copy(), np.zeros((5, 5), np.float32))
    kept = []

    def reuse_memory(kernel: int, operands: int, phase: int) -> None:
        if phase == 1:
            kept.extend(np.full((2, 5, 5), np.nan, np.float32) for _ in range(50))

    with numc.collect_stats("exponents") as alone:
        program(*inputs)
    first = Collector(program, ("exponents",), Fraction(1))
    with program.observe(first.observe), program.observe(reuse_memory), numc.collect_stats("exponents") as second:
        program(*inputs)
    assert kept
    assert first.rows() == second.statistics.rows == alone.statistics.rows


def test_what_cannot_be_counted_says_so() -> None:
    a = np.ones((3, 32), np.float32)
    for fma in ("int8", "amx_bf16"):
        with numc.collect_stats(["swamping", "fmas"]) as collected:
            numc.matmul(a, a.T.copy(), fma=fma)
        (row,) = collected.statistics.rows
        assert row.swamping is None
        assert row.note == f"swamping: additions of '{parse_fma(fma)}' are not counted"
        with pytest.raises(NumcError, match="swamping was not counted: swamping: additions"):
            row.without_swamping(7)
        assert collected.statistics.fma_mix() == {str(parse_fma(fma)): 1.0}


# --- tensors ---------------------------------------------------------


def seen(values: F32, emin: int, largest: float) -> dict[str, Any]:
    flat = values.reshape(-1)
    finite = flat[np.isfinite(flat) & (flat != 0)]
    low, counts = 0, ()
    if finite.size:
        exponents = np.frexp(finite.astype(np.float64))[1] - 1
        low = int(exponents.min())
        counts = tuple(int(n) for n in np.bincount(exponents - low))
    return {
        "elements": flat.size,
        "zeros": int((flat == 0).sum()),
        "subnormals": int((np.abs(finite).astype(np.float64) < 2.0**emin).sum()),
        "infinities": int(np.isinf(flat).sum()),
        "nans": int(np.isnan(flat).sum()),
        "overflows": int((np.abs(finite).astype(np.float64) > largest).sum()),
        "exponents": numc.Histogram(low, counts),
    }


def test_tensors_are_counted_once() -> None:
    rng = np.random.default_rng(1)
    a = np.ldexp(rng.standard_normal((20, 70)), rng.integers(-148, 30, (20, 70))).astype(np.float32)
    b = np.ldexp(rng.standard_normal((70, 9)), rng.integers(-30, 30, (70, 9))).astype(np.float32)
    a[0, :3], b[5, 5], b[6, 6] = 0, np.inf, -np.nan
    for fma, emin, largest in (("fmac(e5m10)", -14, 65504.0), ("bf16_1_1", -126, 3.3895313892515355e38)):
        with numc.collect_stats("exponents,denormals") as collected, np.errstate(over="ignore"):
            result = numc.matmul(a, b, fma=fma)
        (row,) = collected.statistics.rows
        for name, values in (("a", a), ("b", b), ("result", result)):
            found = row.tensors[name]
            assert {key: getattr(found, key) for key in seen(values, emin, largest)} == seen(values, emin, largest)
        assert row.tensors["a"].most["zeros"] == np.mean(a == 0)


def test_denormals_are_counted_after_rounding_and_flushes_apart() -> None:
    x = np.ldexp(np.float32([1, 1, 1, 1, 0, 1, -3, 1]), [-31, -39, -40, -41, 0, 0, -40, -30])[:, None]
    for fma, after, flushed in (("fmac(e6m9)", 3, 2), ("fmac(e6m9n)", 0, 5)):
        with numc.collect_stats("denormals") as collected:
            numc.matmul(x, np.ones((1, 1), np.float32), fma=fma)
        found = collected.statistics.rows[0].tensors["a"]
        assert (found.fraction("rounded_subnormals"), found.fraction("flushed")) == (after / 8, flushed / 8)
        assert found.subnormal_fraction == 5 / 8
        assert (found.most["rounded_subnormals"], found.most["flushed"]) == (after / 8, flushed / 8)


@pytest.mark.parametrize("to", ["e6m9", "e6m9n:rtz", "e5m2:rup", "e4m3fn:rdn", "bf16x2", "e5m10:odd", "e3m4:sr8"])
def test_what_a_conversion_makes_of_numbers_on_both_sides_of_every_limit(to: str) -> None:
    conversion = parse_conversion(to)
    fmt = conversion.format
    powers = np.arange(max(-149, fmt.emin - fmt.significand_bits - 3), fmt.emin + 2)
    x = np.ldexp(np.float32(1), powers)[:, None] * np.float32([1, 1.25, 1.5, 1.75, 1.9995117])
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))]).reshape(-1)
    x = np.concatenate([x, -x, np.float32([0, -0.0, np.inf, -np.inf, np.nan, 3e38])])
    found = tensor_statistics(x.ctypes.data, [None] * 3, [x.size, 1, 1], 0, conversion)
    with np.errstate(over="ignore"):
        y = np.abs(np.asarray(numc.round(x, str(conversion.settled)), np.float64))
    assert found.rounded_subnormals == np.count_nonzero((y > 0) & (y < 2.0**fmt.emin))
    assert found.flushed == np.count_nonzero((y == 0) & (x != 0))
    assert found.rounded_subnormals + found.flushed > 0
    assert (found.elements, found.zeros, found.infinities, found.nans) == (x.size, 2, 2, 1)


def test_both_denominators_of_swamping() -> None:
    def found(*products: float) -> numc.LayerStatistics:
        """Statistics of products that are added to 1, one after another."""
        a, program = np.float32([products]), matmul("mp")
        with numc.collect_stats("swamping") as collected:
            program(a, np.ones((len(products), 1), np.float32), np.ones((1, 1), np.float32))
        return collected.statistics.rows[0]

    for nonzero in (False, True):
        assert found(2**-9).without_swamping(8, nonzero=nonzero) == 0
        assert found(2**-9).without_swamping(9, nonzero=nonzero) == 1
    assert found(2**-9, 0).without_swamping(8) == 0.5
    assert found(2**-9, 0).without_swamping(8, nonzero=True) == 0
    assert found(0).without_swamping(8, nonzero=True) == 1


CONV = """
func.func @main(%x: tensor<2x3x11x13xf32>, %w: tensor<4x3x2x2xf32>, %c: tensor<2x4xSIZExf32>) -> tensor<2x4xSIZExf32> {
  %r = linalg.conv_2d_nchw_fchw {strides = dense<STRIDE> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<2x3x11x13xf32>, tensor<4x3x2x2xf32>) outs(%c : tensor<2x4xSIZExf32>) -> tensor<2x4xSIZExf32>
  return %r : tensor<2x4xSIZExf32>
}"""


@pytest.mark.parametrize("stride", [1, 3])
def test_windows_that_overlap_or_leave_gaps(stride: int) -> None:
    height, width = (11 - 2) // stride + 1, (13 - 2) // stride + 1
    text = CONV.replace("SIZE", f"{height}x{width}").replace("STRIDE", str(stride))
    program = numc.compile(Imported(mlir=text), fma="mp")
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 11, 13), (4, 3, 2, 2)))
    read = np.zeros(x.shape, bool)
    for i in range(2):
        for j in range(2):
            read[:, :, i : i + stride * (height - 1) + 1 : stride, j : j + stride * (width - 1) + 1 : stride] = True
    with numc.collect_stats("exponents,fmas") as collected:
        program(x, w, np.zeros((2, 4, height, width), np.float32))
    (row,) = collected.statistics.rows
    held = {row.tensors["a"].exponents, row.tensors["b"].exponents}
    assert held == {seen(v, -126, np.inf)["exponents"] for v in (x[read], w)}
    assert row.fmas == 2 * 4 * height * width * 12


@pytest.mark.parametrize("fma", ["mp", "bf16_2_2{3}"])
def test_weights_that_lie_packed_in_the_program(fma: str) -> None:
    path = Path(__file__).parents[2] / "examples" / "digits" / "mlp.onnx"
    program = numc.compile(path, fma=fma)
    weights = [numpy_helper.to_array(w) for w in onnx.load(path).graph.initializer if len(w.dims) == 2]
    assert all(c["packed"] for c in program.manifest["contractions"])
    with numc.collect_stats("exponents") as collected:
        program(np.ones((2, 64), np.float32))
    found = [row.tensors["b"] for row in collected.statistics.rows]
    assert len(found) == len(weights)
    for weight, tensor in zip(weights, found, strict=True):
        want = seen(numc.round(weight, str(parse_fma(fma).b)), -126, np.inf)
        assert {key: getattr(tensor, key) for key in want} == want


def test_rounding_is_against_fp32_sums_of_the_same_operands() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((4, 50), (50, 12)))
    with numc.collect_stats("rounding") as collected:
        got = numc.matmul(a, b, fma="bf16_1_1")
    (row,) = collected.statistics.rows
    want = numc.matmul(numc.round(a, "bf16"), numc.round(b, "bf16")).astype(np.float64)
    assert row.rounding == (float(np.sum((got - want).reshape(-1) ** 2)), float(np.sum(want.reshape(-1) ** 2)))
    assert row.relative_error == row.rounding[0] / row.rounding[1] > 0


# --- the object ------------------------------------------------------


def example() -> numc.Statistics:
    tensor = numc.TensorStatistics(
        elements=10,
        zeros=1,
        subnormals=2,
        infinities=0,
        nans=1,
        exponents=numc.Histogram(-3, (1, 0, 5)),
        format="bf16",
        overflows=1,
        most={"zeros": 0.1},
    )
    row = numc.LayerStatistics(
        *("fc", "wgrad", 3, "bf16_2_2{3}", 100, 2),
        swamping=numc.Histogram(0, (5, 3, 1)),
        sampled=Fraction(1, 5),
        tensors={"a": tensor},
        rounding=(1e-3, 2.0),
        adds=60,
    )
    return numc.Statistics((row, replace(row, layer="out", fma="mp", fmas=300)), sample=Fraction(1, 16))


def test_json_and_back() -> None:
    given = example()
    assert numc.Statistics.from_json(json.loads(json.dumps(given.to_json()))) == given
    assert numc.Statistics.from_json(json.dumps(given.to_json())) == given
    with pytest.raises(NumcError, match="not the JSON of statistics .*: want what Statistics.to_json returns"):
        numc.Statistics.from_json("{}")


def test_what_is_read_off() -> None:
    given = example()
    row = given.rows[0]
    assert row.without_swamping(0) == 1 - 4 / 60
    assert row.without_swamping(2) == 1.0
    assert row.tensors["a"].subnormal_fraction == 0.2
    assert (row.tensors["a"].ranges_used, row.tensors["a"].bits_used) == (2, 1)
    both = row.tensors["a"] + replace(row.tensors["a"], exponents=numc.Histogram(-4, (2,)), most={"zeros": 0.3})
    assert (both.elements, both.exponents, both.most) == (20, numc.Histogram(-4, (2, 1, 0, 5)), {"zeros": 0.3})
    assert given.fma_mix() == {"bf16_2_2{3}": 0.25, "mp": 0.75}
    assert given.instruction_mix() == {
        "bf16 x bf16 multiplications": 600,
        "fp32 additions": 600,
        "roundings to bf16x2": 100,
    }
    for bits in (-1, 31):
        with pytest.raises(NumcError, match="want a number of bits from 0 to 30"):
            row.without_swamping(bits)


@pytest.mark.all
def test_tensorboard(tmp_path: Any) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    example().write_tensorboard(tmp_path / "runs", step=7)
    events = EventAccumulator(str(tmp_path / "runs")).Reload()
    (scalar,) = events.Scalars("relative error/fc")
    assert (scalar.step, scalar.value) == (7, pytest.approx(5e-4))
    (histogram,) = events.Histograms("exponent difference/fc")
    assert histogram.histogram_value.bucket == [5, 3, 1]
    (tmp_path / "file").write_text("")
    with pytest.raises(NumcError, match="cannot write there"):
        example().write_tensorboard(tmp_path / "file" / "runs")


def test_tensorboard_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numc.compiler.arrays.statistics.find_spec", lambda _: None)
    with pytest.raises(NumcError, match="not installed: pip install tensorboard torch"):
        example().write_tensorboard("runs")


def test_texts_of_errors() -> None:
    with pytest.raises(NumcError, match=r"unknown statistic 'swampin' \(did you mean 'swamping'\?\): want some of"):
        numc.collect_stats("swampin").__enter__()
    with pytest.raises(NumcError, match="no statistic is named"):
        numc.collect_stats("").__enter__()
    with pytest.raises(NumcError, match="sample '3/4': want 1 or a fraction 1/n"):
        numc.collect_stats(sample="3/4").__enter__()
    with numc.collect_stats() as nothing:
        pass
    with pytest.raises(NumcError, match="no statistics: no program of numc with a contraction ran"):
        _ = nothing.statistics
    a = "tensor<4x4xf32>"
    text = f"""func.func @main(%a: {a}) -> {a} {{
      %r = linalg.matmul ins(%a, %a : {a}, {a}) outs(%a : {a}) -> {a}
      return %r : {a}
    }}"""
    plain = numc.compile(Imported(mlir=text))
    with numc.collect_stats("swamping"), pytest.raises(NumcError, match="the program was compiled without statistics"):
        plain(np.ones((4, 4), np.float32))
    assert plain(np.ones((4, 4), np.float32)).shape == (4, 4)  # the block has ended
