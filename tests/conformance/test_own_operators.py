"""Operators that users define: kernels compute what the functions say, and what built-in operators do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import definitions
import numc
from numc import reference
from numc.numerics.circuits import Real, minimum, rounded, scaled, select
from numc.numerics.defined import served_by
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import DEFINED
from targets_here import runnable
from tiers import one_in

pytestmark = pytest.mark.usefixtures("own")
F32 = npt.NDArray[np.float32]
KINDS = ("normal", "wide", "special")
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-39, 3e38, -3e38, 1e-20], np.float32)
#: Operators that numc has, too.
SAME = {
    "own_1_1": "bf16_1_1",
    "own_twice": "bf16_1_1",
    "fma(a=fp16,acc=e5m7:rtz,datapath=own_twice)": "fma(a=fp16,acc=e5m7:rtz)",
    "fma(a=bf16,acc=bf16:sr8,datapath=own_twice)": "fma(a=bf16,acc=bf16:sr8)",
    "own_exact": "fma(a=e4m3,acc=fp16,datapath=exact)",
    "own_either": "fma(a=bf16,acc=e6m9:odd,datapath=exact)",
    "fma(a=bf16,acc=bf16,datapath=own_exact,chunk=8)": "fma(a=bf16,acc=bf16,datapath=exact,chunk=8)",
    "fma(a=bf16,acc=bf16,datapath=own_either,chunk=8)": "fma(a=bf16,acc=bf16,datapath=exact,chunk=8)",
    "own_posit": "fma(a=posit8,acc=posit8,datapath=exact)",
    "own_fused": "ampere_bf16",
}
OTHERS = [
    *("mitchell", "fma(a=bf16,acc=fp32,datapath=mitchell(correction=7))", "by_table", "logarithmic"),
    *("kulisch", "kulisch_bf16", "saturating", "fma(a=fp8_e5m2,b=fp8_e4m3,acc=fp16,datapath=saturating(l=7))"),
    *("fma(a=lns8,acc=fp32)", "fma(a=lns8,b=bf16,acc=lns8:rtz)", "fma(a=lns8,acc=lns8:sr4)"),
    "fma(a=bf16,b=mxint8,acc=fp32,datapath=own_exact)",
]

FIRST = ("own_1_1", "own_fused", "by_table", "logarithmic", "kulisch_bf16")
SHAPES = [(1, 300, 5), (7, 1, 33), (3, 0, 4), (2, 257, 3), (13, 9, 17)]


@pytest.fixture(scope="module")
def own() -> Iterator[ModuleType]:
    with definitions.own_operators() as module:
        yield module


def operands(kind: str, rows: int = 5, depth: int = 37, columns: int = 19) -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(KINDS.index(kind))
    made = []
    for shape in ((rows, depth), (depth, columns), (rows, columns)):
        x = rng.standard_normal(shape)
        if kind == "wide":
            x = np.ldexp(x, rng.integers(-40, 40, shape))
        x = x.astype(np.float32)
        if kind == "special":
            places = rng.random(shape) < 0.15
            x[places] = rng.choice(SPECIAL, int(places.sum()))
        made.append(x)
    return made[0], made[1], made[2]


def compare(found: F32, want: F32) -> None:
    assert (difference := vectorised.first_mismatch(found, want)) is None, difference


def test_every_operator_of_the_file_is_compared() -> None:
    assert {name for name in DEFINED if any(name in text for text in (*SAME, *OTHERS))} == set(DEFINED)


@pytest.mark.parametrize("text", one_in(20, [*SAME, *OTHERS], *FIRST))
def test_kernels_compute_what_the_function_says(text: str) -> None:
    for kind in KINDS:
        a, b, c = operands(kind)
        found = numc.matmul(a, b, c, fma=text, seed=0)
        compare(found, reference.matmul(a, b, c, fma=text))
        if text in SAME:
            compare(found, numc.matmul(a, b, c, fma=SAME[text], seed=0))


@pytest.mark.parametrize("text", one_in(5, ["mitchell", "own_fused", "kulisch", "saturating", "by_table"], "kulisch"))
def test_one_step_is_a_reduction_of_one(text: str) -> None:
    a, b, c = operands("special", 1, 150, 1)
    x, y, z = a.ravel(), b.ravel(), np.resize(c, 150)
    compare(numc.fma(x, y, z, fma=text), reference.fma(x, y, z, fma=text))


@pytest.mark.parametrize("target", one_in(2, ["portable", "x86-64-v3", "x86-64-v4"]))
@pytest.mark.parametrize("text", one_in(4, ["saturating", "own_fused", "kulisch", "mitchell"]))
def test_bits_are_the_same_in_every_shape_and_target(text: str, target: str) -> None:
    runnable(target)
    for shape in SHAPES:
        a, b, c = operands("special", *shape)
        found = numc.matmul(a, b, c, fma=text, target=target)
        compare(found, numc.matmul(a, b, c, fma=text, target=target, fast=False, threads=1))
        compare(found, reference.matmul(a, b, c, fma=text))


@pytest.mark.parametrize("text", one_in(2, ["own_fused", "mitchell"], "own_fused"))
def test_accumulators_that_are_not_finite_or_become_so(text: str) -> None:
    """Operands are finite in each: of usual size, too large for that, and so large that sums overflow on the way."""
    rng, large = np.random.default_rng(7), np.float32(2.0**61)
    a, b, c = operands("normal", 6, 40, 70)
    starts = c.copy()
    starts[rng.random(c.shape) < 0.2] = np.inf
    starts[rng.random(c.shape) < 0.1] = np.nan
    starts[rng.random(c.shape) < 0.2] = np.float32(-3.3e38)
    for x, y, z in ((a, b, starts), (a * 2 * large, b, c), (a * large, b * large / 8, c), (a * large, b * large, c)):
        compare(numc.matmul(x, y, z, fma=text), reference.matmul(x, y, z, fma=text))


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_products_of_whole_numbers_of_fifteen_bits_and_more(target: str) -> None:
    """Which have an instruction of their own, and which have not."""
    runnable(target)

    @numc.operator(a="fp16", acc="fp32:rtz", name="products")
    def products(a: Real, b: Real, c: Real) -> Real:
        n = ((a.significand << 4) * (b.significand << 4)) ^ ((a.significand << 5) * b.significand)
        return scaled(n + minimum(a.significand * b.exponent, 2000), a.exponent)

    x = np.linspace(1, 2, 40, endpoint=False).astype(np.float16).astype(np.float32)
    found = numc.matmul(x[:, None], x[None], fma="products", target=target)
    compare(found, reference.matmul(x[:, None], x[None], fma="products"))


@pytest.mark.parametrize("most", one_in(2, [300, 100]))
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_scaled_numbers_are_cut_at_every_exponent(target: str, most: int) -> None:
    """To binary32, from 2^-230 to 2^230: subnormal results, and those that are beyond all numbers."""
    runnable(target)

    @numc.operator(a="fp32", acc="fp32:rtz", name="cuts")
    def cuts(a: Real, b: Real, c: Real) -> Real:
        n = (a.significand << 6) + (b.significand & 63)
        return scaled(select(a.sign, -n, n), minimum(a.exponent + b.exponent, most))

    rng = np.random.default_rng(3)
    ends = ((-126, 127), (-149, 127))
    x, y = (np.ldexp(rng.uniform(1, 1.9, 48), np.linspace(*each, 48).astype(int)).astype(np.float32) for each in ends)
    x[::2] *= -1
    y[::9] = 0
    found = numc.matmul(x[:, None], y[None], fma="cuts", target=target)
    compare(found, reference.matmul(x[:, None], y[None], fma="cuts"))
    compare(np.diag(found), numc.fma(x, y, np.zeros_like(x), fma="cuts"))


def taking(part: str) -> Callable[[Real, Real, Real], Real]:
    return lambda a, b, c: rounded(scaled(getattr(a, part), 0), "fp32")


@pytest.mark.parametrize("fmt", one_in(3, ["bf16", "e4m3", "fp32", "lns8", "e5m2"]))
def test_parts_of_numbers(fmt: str) -> None:
    """Each part, as the reference has it, of numbers of every class."""
    for part in ("sign", "exponent", "significand", "code", "is_nan", "is_infinite", "is_zero"):
        numc.operator(a=fmt, acc="fp32", name=f"part_{part}")(taking(part))
        others = np.array([0xFFC00000, 0x7FC12345, 0x7F800001], np.uint32).view(np.float32)  # NaN of other codes
        x = np.concatenate([SPECIAL, others, operands("wide")[0].ravel()[:50]])
        found = numc.fma(x, np.ones_like(x), np.zeros_like(x), fma=f"part_{part}")
        compare(found, reference.fma(x, np.ones_like(x), np.zeros_like(x), fma=f"part_{part}"))


def test_what_numc_has_is_computed_by_its_kernels() -> None:
    """A sum of the accumulator and one product is a datapath; what only computes the same is not."""
    for text in ("own_1_1", "own_exact", "own_posit", "fma(a=bf16,acc=bf16,datapath=own_exact,chunk=8)"):
        assert str(served_by(parse_fma(text))) == str(parse_fma(SAME[text])), text
    for text in ("own_twice", "own_either", "own_fused", "mitchell", "kulisch", "bf16_1_1", "ampere_bf16"):
        operator = parse_fma(text)
        assert served_by(operator) == operator, text


def test_a_kulisch_accumulator_has_the_exact_sum() -> None:
    """The sum of all products in fractions, rounded once."""
    a, b, _ = operands("normal", 3, 600, 4)
    x, y = (numc.round(each, "fp8_e4m3").astype(np.float64) for each in (a, b))
    exact = [[sum(Fraction(p) * Fraction(q) for p, q in zip(row, column, strict=True)) for column in y.T] for row in x]
    want = np.array([[float(value) for value in row] for row in exact]).astype(np.float32)
    compare(numc.matmul(a, b, fma="kulisch"), want)


def test_a_table_is_the_multiplier(own: ModuleType) -> None:
    """All pairs of significands of bf16, between 1 and 2."""
    ones = np.arange(128, 256, dtype=np.float32) / 128
    x, y = (each.ravel() for each in np.meshgrid(ones, ones))
    products = [own.TRUNCATED[int(p * 128) << 8 | int(q * 128)] for p, q in zip(x, y, strict=True)]
    want = np.array(products, np.float32) / 2**14
    compare(numc.fma(x, y, np.zeros_like(x), fma="by_table"), want)
