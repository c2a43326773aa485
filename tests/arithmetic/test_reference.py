"""The exact reference: against definitions written out, MPFR, and the second implementation in numpy."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arithmetic_vectorised as vectorised
from numc.numerics import reference
from numc.numerics.datapaths import Own, Steps
from numc.numerics.formats import RECORDS, ROUNDINGS
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.numerics.operators import FMAS

F32 = vectorised.F32
OPERATORS = [*FMAS, *vectorised.SOME_FMAS]
CHAINS = {str(f) for f in map(parse_fma, OPERATORS) if isinstance(f.order, Steps)}


def same(got: Any, want: Any, *operands: Any) -> None:
    difference = vectorised.first_mismatch(got, want, *operands)
    assert difference is None, difference


def f32(text: str) -> np.float32:
    value: np.float32 = np.float32(float.fromhex(text))
    return value


# --- the definition, once more: choose among the values a format has --------------------------------------------------


@cache
def values_of(name: str) -> list[Fraction]:
    """All values from zero up, and the one that would follow if the exponents went on."""
    fmt = parse_conversion(name).format
    codes = map(fmt.decode, range(1 << (fmt.bits - 1)))
    values = sorted({Fraction(v) for v in codes if math.isfinite(v)})
    inside_binade = (
        fmt.finite and fmt.significand_bits > 0 and fmt.nan == "ones"
    )  # only the all-ones code is missing there
    return [*values, 2 * values[-1] - values[-2] if inside_binade else Fraction(2) ** (fmt.emax + 1)]


def by_neighbours(x: Fraction, name: str, rounding: str) -> float:
    """Round a positive number by choosing among the values of a format."""
    to = parse_conversion(name)
    fmt, values = to.format, values_of(name)
    place = bisect.bisect_left(values, x)
    if not fmt.subnormals and x < fmt.min_normal:
        chosen = Fraction(0)
    elif place == len(values):
        chosen = values[-1]
    elif values[place] == x:
        chosen = x
    else:
        low, high = values[place - 1 : place + 1]
        low_is_odd = bool(low / (high - low) % 2)
        above_half, tie = x > (low + high) / 2, x == (low + high) / 2
        up = {
            "rtz": False,
            "rdn": False,
            "rup": True,
            "rna": above_half or tie,
            "rne": above_half or (tie and low_is_odd),
            "odd": not low_is_odd,
        }[rounding]
        chosen = high if up else low
    if chosen <= fmt.max_finite:
        return float(chosen)
    if fmt.finite:
        return math.nan if to.overflow else float(fmt.max_finite)
    return math.inf if rounding in ("rne", "rna", "rup") else float(fmt.max_finite)


SMALL = [
    "e1m1",
    "e1m3",
    "e1m2fn",
    "e2m0",
    "e2m1",
    "e2m2n",
    "e2m3fn",
    "e2m0fn",
    "e3m0",
    "e3m2",
    "e3m1fn",
    "e4m3",
    "e4m3fn",
    "e4m3fn:nan",
    "e3m2n",
]
MIRROR = {"rup": "rdn", "rdn": "rup"}


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", SMALL)
def test_small_formats_against_their_list_of_values(name: str, rounding: str) -> None:
    base, _, nan = name.partition(":")
    text, mirrored = (f"{base}:{r}{nan and ':nan'}" for r in (rounding, MIRROR.get(rounding, rounding)))
    values = [*values_of(name), 4 * values_of(name)[-1]]
    tiny = Fraction(1, 10**30)
    thirds = (0, Fraction(1, 3), Fraction(1, 2), Fraction(2, 3))
    points = {low + (high - low) * part for low, high in pairwise(values) for part in thirds}
    points |= {p + tiny for p in points} | {p - tiny for p in points}
    for point in points:
        if point > 0:
            got = reference.round_real(point, text), -reference.round_real(-point, mirrored)
            want = by_neighbours(point, name, rounding)
            assert got == (want, want) or (math.isnan(want) and all(map(math.isnan, got))), f"{text} {float(point)}"


# --- other people's roundings --------------------------------------------------


def dense() -> F32:
    """Every upper half of a binary32, with lower halves around a tie."""
    low = np.array([0, 1, 0x8000, 0xFFFF], np.uint32)
    return (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | low).ravel().view(np.float32)


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("fp16", np.float16),
        ("fp8_e5m2", ml_dtypes.float8_e5m2),
        ("fp8_e4m3:nan", ml_dtypes.float8_e4m3fn),
        ("hfp8_fwd", ml_dtypes.float8_e4m3),
        ("e3m4", ml_dtypes.float8_e3m4),
    ],
)
def test_against_ml_dtypes_and_numpy(text: str, peer: type) -> None:
    x = dense()
    with np.errstate(all="ignore"):
        same(vectorised.round(x, text), x.astype(peer).astype(np.float32), x)
        same(reference.round(x[::7], text), x[::7].astype(peer).astype(np.float32), x[::7])


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("e2m3fn", ml_dtypes.float6_e2m3fn),
        ("e3m2fn", ml_dtypes.float6_e3m2fn),
        ("e2m1fn", ml_dtypes.float4_e2m1fn),
        ("fp8_e4m3", ml_dtypes.float8_e4m3fn),
    ],
)
def test_finite_formats_against_ml_dtypes(text: str, peer: type) -> None:
    """The peers saturate, but for infinities and NaN, or overflow to NaN: equal up to the largest value."""
    largest = float(parse_conversion(text).format.max_finite)
    x = dense()
    assert largest == float(ml_dtypes.finfo(peer).max)
    x = x[np.abs(x) <= largest]
    assert len(x) > 10**5
    same(vectorised.round(x, text), x.astype(peer).astype(np.float32), x)
    same(reference.round(x[::7], text), x[::7].astype(peer).astype(np.float32), x[::7])
    for beyond in (largest * 1.01, largest * 1.5, math.inf):
        assert reference.round_real(beyond, text) == largest
        assert reference.round_real(-beyond, text) == -largest


@pytest.mark.parametrize("text", ["bf16", "fp16", "e6m9", "e4m3", "e4m3fn", "e3m4fn:nan", "e2m1", "e8m1", "e7m20"])
def test_against_gfloat(text: str) -> None:
    gfloat = pytest.importorskip("gfloat")
    fmt = parse_conversion(text).format
    info = gfloat.FormatInfo(
        text,
        fmt.bits,
        fmt.precision,
        bias=fmt.bias,
        is_signed=True,
        domain=gfloat.Domain.Finite if fmt.finite else gfloat.Domain.Extended,
        has_nz=True,
        num_high_nans=1 if fmt.finite else (1 << fmt.significand_bits) - 1,
        has_subnormals=True,
        is_twos_complement=False,
    )
    modes = {
        "rne": "TiesToEven",
        "rtz": "TowardZero",
        "rna": "TiesToAway",
        "rup": "TowardPositive",
        "rdn": "TowardNegative",
    }
    x = vectorised.samples(1500, 5)
    base, _, nan = text.partition(":")
    for rounding, mode in modes.items():
        if nan and rounding not in ("rne", "rna"):
            continue  # gfloat does not overflow to NaN when it rounds towards zero
        saturate = fmt.finite and not nan
        want = [gfloat.round_float(info, float(v), getattr(gfloat.RoundMode, mode), saturate) for v in x]
        same(reference.round(x, f"{base}:{rounding}{nan and ':nan'}"), np.array(want, np.float32), x)


def mpfr(text: str) -> Any:
    """An MPFR context that is an eXmY format."""
    gmpy2 = pytest.importorskip("gmpy2")
    to = parse_conversion(text)
    modes = {"rne": "RoundToNearest", "rtz": "RoundToZero", "rup": "RoundUp", "rdn": "RoundDown"}
    return gmpy2.context(
        precision=to.format.precision,
        emin=to.format.emin - to.format.significand_bits + 1,  # MPFR significands are in [1/2, 1)
        emax=to.format.emax + 1,
        subnormalize=True,
        round=getattr(gmpy2, modes[to.rounding]),
    )


MPFR_FORMATS = ["fp32", "tf32", "bf16", "fp16", "e6m9", "e3m0", "e8m0", "e2m1", "e7m23", "e4m3", "e5m2"]


@pytest.mark.parametrize("rounding", ["rne", "rtz", "rup", "rdn"])
@pytest.mark.parametrize("name", MPFR_FORMATS)
def test_against_mpfr(name: str, rounding: str) -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    x = vectorised.samples(1500, 6)
    wide = gmpy2.context(precision=53)
    exact = [gmpy2.mpfr(float(v), 53, context=wide) for v in x]
    context = mpfr(f"{name}:{rounding}")
    same(reference.round(x, f"{name}:{rounding}"), np.array([float(context.plus(v)) for v in exact], np.float32), x)


@pytest.mark.parametrize("acc", [f"{n}:{r}" for n in ("fp32", "bf16", "e6m9", "e8m0") for r in ("rne", "rtz", "rup")])
def test_exact_fma_against_mpfr(acc: str) -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    a, b, c = vectorised.operands(2000, 7)
    c = reference.round(c, acc)
    context, wide = mpfr(acc), gmpy2.context(precision=53)
    numbers = [[gmpy2.mpfr(float(v), 53, context=wide) for v in x] for x in (a, b, c)]
    want = np.array([float(context.fma(*abc)) for abc in zip(*numbers, strict=True)], np.float32)
    same(reference.fma(a, b, c, f"fma(a=fp32,acc={acc},datapath=exact)"), want, a, b, c)
    if acc == "fp32:rne":
        same(reference.fma(a, b, c, "fp32"), want, a, b, c)


# --- compound formats --------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_compound_by_the_formula(count: int) -> None:
    """x0 = BF(x), x1 = BF(x - x0), x2 = BF(x - x0 - x1) in binary32, with another bf16."""
    x = np.concatenate([vectorised.samples(20000, 8), vectorised.thresholds().view(np.float32)])
    with np.errstate(all="ignore"):
        parts = [x.astype(ml_dtypes.bfloat16).astype(np.float32)]
        rest = x
        for _ in range(count - 1):
            rest = rest - parts[-1]
            parts.append(rest.astype(ml_dtypes.bfloat16).astype(np.float32))
        total = np.copysign(sum(parts[1:], parts[0]), x)
    same(reference.round(x, f"bf16x{count}"), np.where(np.isfinite(parts[0]), total, parts[0]), x)


def test_bf16x3_is_fp32_from_2_to_the_minus_110() -> None:
    x = vectorised.samples(50000, 9)
    x = x[(np.abs(x) >= 2.0**-110) & (np.abs(x) < float.fromhex("0x1.ffp127"))]
    assert len(x) > 10**4
    same(reference.round(x, "bf16x3"), x)


def test_compounds_overflow_where_bf16_does_and_have_no_nan_for_infinity() -> None:
    below, above = f32("0x1.fefffep127"), f32("0x1.ffp127")
    for text in ("bf16x2", "bf16x3"):
        assert reference.round_real(math.inf, text) == math.inf
        assert reference.round(above, text) == math.inf == -reference.round(-above, text)
        assert np.isfinite(reference.round(below, text))
    assert reference.round(below, "bf16x3") == below


def test_compound_of_a_real_number_is_one_rounding() -> None:
    """Exact datapath: bf16x3 of a real in range is its binary32; the last part never sees a rounded rest."""
    third = Fraction(1, 3)
    for sign in (1, -1):
        for exponent in (-100, -20, 0, 1, 60, 120):
            x = sign * third * Fraction(2) ** exponent
            assert reference.round_real(x, "bf16x3") == np.float32(float(x))
    tie = 1 + Fraction(1, 2**9) + Fraction(1, 2**17)
    assert reference.round_real(tie, "bf16x2") == 1 + 2.0**-9
    assert reference.round_real(tie + Fraction(1, 10**50), "bf16x2") == 1 + 2.0**-9 + 2.0**-16


# --- the second implementation --------------------------------------------------


@pytest.mark.parametrize("text", vectorised.conversions())
def test_round_against_the_vectorised_one(text: str) -> None:
    x = np.concatenate([vectorised.thresholds().view(np.float32), vectorised.samples(2000, 1)])
    same(vectorised.round(x, text), reference.round(x, text), x)


@pytest.mark.parametrize("text", OPERATORS)
def test_fma_against_the_vectorised_one(text: str) -> None:
    a, b, c = vectorised.operands(3000, 2)
    same(vectorised.fma(a, b, c, text), reference.fma(a, b, c, text), a, b, c)


@pytest.mark.parametrize("text", OPERATORS)
def test_matmul_against_the_vectorised_one(text: str) -> None:
    c = vectorised.samples(6, 4).reshape(3, 2)
    for k in (0, 1, 2, 31, 32, 33, 70):
        rng = np.random.default_rng(k)
        a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, k), (k, 2)))
        same(vectorised.matmul(a, b, c, text), reference.matmul(a, b, c, text))
        same(vectorised.matmul(a, b, fma=text), reference.matmul(a, b, fma=text))


# --- what the specification says --------------------------------------------------


def test_the_double_rounding_of_section_3() -> None:
    c = a = np.float32(1 + 2**-9)
    b = np.float32((1 - 2**-9) * 2**-10)
    assert reference.fma(a, b, c, "fmac(e6m9)") == 1.00390625
    assert reference.fma(a, b, c, "fma(a=e6m9,acc=e6m9,datapath=exact)") == 1.001953125


def test_without_subnormals_the_value_is_flushed_before_it_is_rounded() -> None:
    below = np.nextafter(np.float32(2.0**-30), np.float32(0))
    assert reference.round(below, "e6m9") == 2.0**-30
    same(reference.round(np.array([below, -below]), "e6m9n"), np.array([0.0, -0.0], np.float32))
    assert reference.round(np.float32(2.0**-30), "e6m9n") == 2.0**-30
    # on the exact datapath it is the exact sum that is compared with 2^emin, not its binary32
    assert reference.fma(np.float32(1 - 2.0**-24), np.float32(2.0**-30), 0, "fma(a=fp32,acc=e6m9n,datapath=exact)") == 0
    assert reference.round_real(Fraction(2) ** -30 - Fraction(1, 10**50), "e6m9n") == 0


def test_overflow() -> None:
    huge = np.array([1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    m, inf, nan = 65504.0, math.inf, math.nan
    for text, want in {
        "fp16": [inf, -inf, inf, -inf, nan],
        "fp16:rna": [inf, -inf, inf, -inf, nan],
        "fp16:rtz": [m, -m, inf, -inf, nan],
        "fp16:odd": [m, -m, inf, -inf, nan],
        "fp16:rup": [inf, -m, inf, -inf, nan],
        "fp16:rdn": [m, -inf, inf, -inf, nan],
        "fp8_e4m3": [448, -448, 448, -448, nan],
        "fp8_e4m3:rtz": [448, -448, 448, -448, nan],
        "fp8_e4m3:nan": [nan] * 5,
        "fp8_e4m3:rtz:nan": [nan] * 5,
    }.items():
        same(reference.round(huge, text), np.array(want, np.float32), huge)


def test_one_bit_of_precision_ties_to_the_even_multiple() -> None:
    """IEEE-754 section 4.3.1: where neither neighbour is even, the larger."""
    x = np.array([1.5, 3.0, -0.75, 2.0**-4, 3 * 2.0**-4], np.float32)  # half of the least value ties to zero
    same(reference.round(x, "e4m0"), np.array([2, 4, -1, 0.0625, 0.25], np.float32), x)
    assert reference.round(np.float32(2.0**-7), "e4m0") == 0.0
    assert reference.round(np.float32(1.5), "e4m0:odd") == 1.0


def test_signed_zeros() -> None:
    for name in vectorised.SOME_FORMATS:
        same(reference.round(np.array([-0.0, 0.0], np.float32), name), np.array([-0.0, 0.0], np.float32))
    minus = np.float32(-0.0)
    for text in OPERATORS:
        if isinstance(parse_fma(text).order, Own):
            continue  # +0 operands fill the rest of the instruction
        # The lower parts of -0 are +0, and so are their products with 1: the sum of a -0 and a +0 is +0.
        parts = parse_fma(text).a.format.parts
        same(reference.fma(minus, np.float32(1), minus, text), minus if parts == 1 else np.float32(0))
        same(reference.fma(np.float32(0), np.float32(1), minus, text), np.float32(0))
        same(reference.fma(np.float32(1), np.float32(-1), np.float32(1), text), np.float32(0))


@given(st.sampled_from(vectorised.conversions()), st.floats(width=32), st.floats(width=32))
def test_rounding_is_idempotent_monotonic_and_odd(text: str, x: float, y: float) -> None:
    to = parse_conversion(text)
    rx, ry = (float(reference.round(np.float32(v), text)) for v in (x, y))
    if to.format.parts == 1 or abs(rx) < to.format.max_finite:
        # The sum 2^127 * (2 - 2^-8) of two parts is the one value that its own first part rounds to infinity.
        same(reference.round(np.float32(rx), text), np.float32(rx))
    if to.overflow == "" and not math.isnan(x) and not math.isnan(y):
        assert rx <= ry if x <= y else rx >= ry
    mirrored = ":".join(MIRROR.get(word, word) for word in text.split(":"))
    same(reference.round(np.float32(-x), mirrored), np.float32(-rx))


@given(st.fractions(), st.sampled_from([t for t in vectorised.conversions() if "bf16x" not in t]))
def test_a_real_lies_where_its_binary64_neighbours_do(x: Fraction, text: str) -> None:
    """Between two doubles nothing is decided but by the side: as for binary64 rounded to odd."""
    near = float(x)
    if Fraction(near) != x and np.float64(near).view(np.int64) % 2 == 0:
        near = math.nextafter(near, math.inf if Fraction(near) < x else -math.inf)
    same(np.float32(reference.round_real(near, text)), np.float32(reference.round_real(x, text)))


# --- contractions --------------------------------------------------


@pytest.mark.parametrize("text", [t for t in OPERATORS if str(parse_fma(t)) in CHAINS])
def test_dot_is_a_chain_of_fmas_in_ascending_order(text: str) -> None:
    a, b = np.random.default_rng(11).standard_normal((2, 40)).astype(np.float32)
    c = start = np.float32(1.2345678)
    for x, y in zip(a, b, strict=True):
        c = reference.fma(x, y, c, text)[()]
    assert not np.isnan(c)
    same(reference.dot(a, b, start, text), c)


def test_no_step_leaves_the_converted_start() -> None:
    start = np.float32(1.2345678)
    for text in OPERATORS:
        same(reference.dot([], [], start, text), reference.round(start, parse_fma(text).acc))


def test_matmul_is_dot() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 5)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    got = reference.matmul(a, b, bias, "bf16_1_2")
    for i in range(2):
        for j in range(3):
            same(got[i, j], reference.dot(a[i], b[:, j], bias[j], "bf16_1_2"))


def test_avx512_takes_the_odd_element_of_a_pair_first() -> None:
    big, small = np.float32(2.0**24), np.float32(1)
    ones = np.ones(2, np.float32)
    # odd first: (-2^24 + 1 rounds to -2^24 + 1) + 2^24; even first would lose the 1 in 2^24 + 1
    assert reference.dot(np.array([big, small]), ones, -big, "avx512_bf16") == 1
    assert reference.dot(np.array([small, big]), ones, small, "avx512_bf16") == 2.0**24
    assert reference.dot(np.array([big, small]), ones, small, "avx512_bf16") == 2.0**24 + 2


def test_amx_adds_the_chains_of_even_and_odd_elements_of_32() -> None:
    a = np.zeros(34, np.float32)
    ones = np.ones(34, np.float32)
    a[[0, 1, 2]] = 2.0**24, 1, -(2.0**24)
    assert reference.dot(a, ones, np.float32(0), "amx_bf16") == 1  # ascending order would lose the 1
    a[:] = 0
    a[[0, 2]] = 1, 1
    assert reference.dot(a, ones, np.float32(2.0**24), "amx_bf16") == 2.0**24 + 2  # summed before C is added
    a[:] = 0
    a[[0, 32]] = 1, 1
    assert reference.dot(a, ones, np.float32(2.0**24), "amx_bf16") == 2.0**24  # the next 32 start anew


def test_instructions_flush_subnormals_and_decide_after_rounding() -> None:
    tiny, one = np.float32(2.0**-130), np.float32(1)
    for text in ("amx_bf16", "avx512_bf16"):
        assert reference.fma(tiny, np.float32(2.0**100), np.float32(0), text) == 0  # operand
        assert reference.fma(one, one, tiny, text) == 1
        assert reference.fma(np.float32(0), one, tiny, text) == 0  # accumulator
        assert reference.fma(np.float32(2.0**-70), np.float32(2.0**-70), np.float32(0), text) == 0  # result
    # 2^-126 - 2^-151 is a tie that 24 bits round up to the smallest normal number: it is not tiny.
    least = np.float32(2.0**-126)
    assert reference.fma(np.float32(2.0**-75), np.float32(-(2.0**-76)), least, "avx512_bf16") == least
    assert reference.fma(np.float32(2.0**-75), np.float32(-(2.0**-75)), least, "avx512_bf16") == 0


# --- the functions themselves --------------------------------------------------


def test_shapes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert reference.round(x, "bf16").shape == (2, 3)
    assert reference.round(x, "bf16").dtype == np.float32
    assert reference.round(1.5, "bf16").shape == ()
    assert reference.fma(x, x[:, :1], 0, "mp").shape == (2, 3)
    assert isinstance(reference.dot(x[0], x[1]), np.float32)
    assert reference.round(x.T, parse_conversion("bf16")).tolist() == x.T.tolist()


@pytest.mark.parametrize("x", [np.array([0.1]), 0.1, [1, 2**25 + 1]])
def test_only_binary32_goes_in(x: Any) -> None:
    with pytest.raises(TypeError, match="the reference takes float32, not (float64|int64): convert first"):
        reference.round(x, "bf16")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reference.dot([1], [1, 2]), r"dot of shapes \(1,\) and \(2,\) from \(\): needs \(K,\), \(K,\), \(\)"),
        (lambda: reference.dot([1], [1], [1]), r"from \(1,\): needs"),
        (
            lambda: reference.matmul([[1]], [[1], [2]]),
            r"matmul of shapes \(1, 1\) and \(2, 1\): needs \(M,K\) and \(K,N\)",
        ),
    ],
)
def test_shapes_that_do_not_fit(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_first_mismatch_shows_bits_and_knows_nan_and_minus_zero() -> None:
    x = np.array([1, np.nan, 0], np.float32)
    assert vectorised.first_mismatch(x, np.array([1, -np.nan, 0], np.float32)) is None
    assert (
        vectorised.first_mismatch(x, np.array([1, np.nan, -0.0], np.float32), np.float32(2))
        == "1 of 3 differ, first at [2]: got 0x00000000 (0.0), expected 0x80000000 (-0.0) for 0x40000000 (2.0)"
    )
    assert vectorised.first_mismatch(x, x[:2]) == "shape (3,), expected (2,)"


def test_every_format_is_tested() -> None:
    assert {name for name, fmt in RECORDS.items() if fmt.is_usual} <= set(vectorised.SOME_FORMATS)
