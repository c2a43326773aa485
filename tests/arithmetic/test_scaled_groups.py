"""Blocks of any element and length with a power of two, by its rule: mx(element,g) and mx(element,g,ceil)."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc import reference
from numc.numerics.grammar import parse_group_conversion
from numc.support.errors import NumcError
from tiers import one_in

F32 = npt.NDArray[np.float32]
ELEMENTS = {
    "e2m1fn": ml_dtypes.float4_e2m1fn,
    "e3m2fn": ml_dtypes.float6_e3m2fn,
    "e2m3fn": ml_dtypes.float6_e2m3fn,
    "e4m3": ml_dtypes.float8_e4m3,
}
CASES = [(e, g, rule) for e in ELEMENTS for g in (1, 5, 16, 64) for rule in ("floor", "ceil", "nearest")]


def text_of(element: str, group: int, rule: str) -> str:
    return f"mx({element},{group}{'' if rule == 'floor' else ',' + rule})"


def rows() -> F32:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((24, 70)).astype(np.float32) * np.exp2(rng.integers(-140, 120, (24, 70))).astype(np.float32)
    x[:12] = rng.standard_normal((12, 70)) * np.exp2(rng.integers(-3, 3, (12, 1)))
    x[2, :20], x[3, 3], x[4, 7], x[5, :16] = 0, np.inf, np.nan, 6.0 * np.exp2(np.arange(16) - 9.0)
    x[6, :6], x[7, :6] = [6, 7, 6.000001, 3, -12, -0.0], [1e-40, 2e-39, -3e-45, 0, 1.1754944e-38, -1e-39]
    return x


def by_the_rule(group: F32, element: str, rule: str) -> F32:
    """One block, in exact numbers but for the element, which ml_dtypes rounds."""
    if not np.isfinite(group).all():
        return np.full_like(group, np.nan)
    peer = ELEMENTS[element]
    largest, amax = Fraction(float(ml_dtypes.finfo(peer).max)), Fraction(float(np.abs(group).max()))
    if not amax:
        return group
    if rule == "nearest":  # torchao's EVEN
        bits = np.array([float(amax)], np.float32).view(np.uint32)
        if amax >= Fraction(2) ** -126:
            up = bits + np.uint32(1 << 22 - ml_dtypes.finfo(peer).nmant) & np.uint32(0xFF800000)
            amax = Fraction(float(up.view(np.float32)[0]))
    exponent = math.frexp(float(amax))[1] - math.frexp(float(largest))[1]
    if rule == "ceil":
        exponent = next(k for k in range(exponent - 2, exponent + 3) if amax <= largest * Fraction(2) ** k)
    exponent = max(exponent, -127)
    scaled = np.ldexp(group.astype(np.float64), -exponent)
    rounded = np.clip(scaled, -float(largest), float(largest)).astype(peer).astype(np.float64)
    return np.ldexp(rounded, exponent).astype(np.float32)


@pytest.mark.parametrize(("element", "group", "rule"), one_in(5, CASES))
def test_conversions_by_their_rule(element: str, group: int, rule: str) -> None:
    x, text = rows(), text_of(element, group, rule)
    want = np.concatenate(
        [np.stack([by_the_rule(row[k : k + group], element, rule) for row in x]) for k in range(0, x.shape[1], group)],
        axis=1,
    )
    for found in (numc.round(x, text), reference.round_groups(x, text), numc.unpack(numc.pack(x, text))):
        assert (difference := vectorised.first_mismatch(found, want, x)) is None, difference


@pytest.mark.parametrize("rounding", one_in(2, ["odd", "rtz", "sr4", "rup"]))
def test_roundings(rounding: str) -> None:
    x, text = rows(), f"mx(e2m1fn,16,ceil):{rounding}"
    found = numc.round(x, text, seed=0) if rounding == "sr4" else numc.round(x, text)
    assert (difference := vectorised.first_mismatch(found, reference.round_groups(x, text), x)) is None, difference


OPERATORS = [
    *("mx(e2m1fn,16)", "mx(e2m1fn,16,ceil)", "fma(a=mx(e4m3fn,16,ceil),b=mx(e2m1fn,16),acc=fp32)", "mx(e3m4,7)"),
    "fma(a=mx(e5m2,64):sr4,b=mx(e2m1fn,64,ceil),acc=fp32)",
]


@pytest.mark.parametrize("text", one_in(2, OPERATORS, OPERATORS[1]))
def test_contractions(text: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rows()[:7], rng.standard_normal((70, 9), np.float32)
    for target in ("host", "x86-64-v2") if text == OPERATORS[1] else ("host",):
        found = numc.matmul(a, b, fma=text, target=target, seed=2 if ":sr" in text else None)
        want = reference.matmul(a, b, fma=text, seed=2)
        assert (difference := vectorised.first_mismatch(found, want)) is None, difference


def test_texts() -> None:
    assert str(parse_group_conversion("mx(e2m1fn,32)")) == "mxfp4_e2m1"
    assert str(parse_group_conversion("mx(fp8_e4m3,32)")) == "mxfp8_e4m3"
    for text in ("mx(e2m1fn,16)", "mx(e2m1fn,32,ceil)", "mx(e4m3,16,ceil):rtz"):
        assert str(parse_group_conversion(text)) == text
    assert numc.pack(np.zeros(64, np.float32), "mx(e2m1fn,16)").data == bytes(4 * (1 + 8))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mx(16)",
            "format 'mx(...)': want mx(element,g,rule=floor,scale=e8m0fnu): a format such as e2m1fn, the "
            "size of a group, row or tensor, a rule (floor, ceil, nearest, amax, inverse), the format of scales, "
            "rows=n for a scale of n rows, and tensor=fp32 for a scale of the tensor, too",
        ),
        (
            "mx(posit8,16)",
            "format 'mx(posit8,16,scale=e8m0fnu)': element 'posit8', want intN, uintN or a signed format of up "
            "to 8 bits that is no posit, such as e2m1fn or nf4",
        ),
        (
            "mx(e2m1fn,0)",
            "format 'mx(e2m1fn,0)': groups of 0 values, want 1 or more",
        ),
        (
            "mx(e2m1fn,16,max)",
            "format 'mx(e2m1fn,16,scale=e8m0fnu,rule=max)': rule 'max', want floor, ceil, nearest, amax or inverse",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_group_conversion(text)
    assert str(error.value) == message
