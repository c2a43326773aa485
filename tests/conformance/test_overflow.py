"""What overflows, and the formats without significand bits: numc.round of float32 and float64 against the reference."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import numc
from numc.numerics import reference
from numc.numerics.grammar import parse_conversion
from numc.support.errors import NumcError

NAN, INF = math.nan, math.inf


def check(to: str, values: dict[float, float]) -> None:
    """Check float32 and float64 in generated code, and both definitions."""
    x = np.array(list(values), np.float64)
    want = np.array(list(values.values()), np.float32)
    for got in (
        numc.round(x.astype(np.float32), to),
        numc.round(x, to),
        reference.round(x.astype(np.float32), to),
        np.array([reference.round_real(Fraction(v) if math.isfinite(v) else v, to) for v in x.tolist()], np.float32),
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("rounding", "positive", "negative"),
    [
        # what lies between 448 and 480, the next number with the same precision, and what reaches 480
        ("rne", [448, 448, NAN, NAN, NAN], [448, 448, NAN, NAN, NAN]),
        ("rna", [448, NAN, NAN, NAN, NAN], [448, NAN, NAN, NAN, NAN]),
        ("rtz", [448, 448, 448, NAN, NAN], [448, 448, 448, NAN, NAN]),
        ("odd", [NAN, NAN, NAN, NAN, NAN], [NAN, NAN, NAN, NAN, NAN]),
        ("rup", [NAN, NAN, NAN, NAN, NAN], [448, 448, 448, NAN, NAN]),
        ("rdn", [448, 448, 448, NAN, NAN], [NAN, NAN, NAN, NAN, NAN]),
    ],
)
def test_an_overflow_is_seen_after_rounding(rounding: str, positive: list[float], negative: list[float]) -> None:
    sizes = [449.0, 464.0, 479.0, 480.0, INF]
    values = dict(zip(sizes, positive, strict=True))
    values |= {-x: -y for x, y in zip(sizes, negative, strict=True)}
    check(f"e4m3fn:{rounding}:nan", {448.0: 448.0, **values, -448.0: -448.0, NAN: NAN})


@pytest.mark.parametrize(
    ("rounding", "want"),
    [
        # of 0.12, 0.125, 0.13, 0.375, 1.5, 3, 11, 12, 16, where 0.25 is the least number, and 8 the largest
        ("rne", [0, 0, 0.25, 0.5, 2, 4, 8, INF, INF]),
        ("rna", [0, 0.25, 0.25, 0.5, 2, 4, 8, INF, INF]),
        ("odd", [0.25, 0.25, 0.25, 0.25, 1, 2, 8, 8, 8]),
    ],
)
def test_powers_of_two_alone(rounding: str, want: list[float]) -> None:
    """IEEE-754 section 4.3.1: of two numbers of one digit that are equally near, the larger one."""
    sizes = [0.12, 0.125, 0.13, 0.375, 1.5, 3.0, 11.0, 12.0, 16.0]
    values = dict(zip(sizes, want, strict=True))
    check(f"e3m0:{rounding}", {**values, **{-x: -y for x, y in values.items()}, INF: INF, -INF: -INF, NAN: NAN})


def test_powers_of_two_have_no_code_for_nan() -> None:
    x = np.array([1, NAN, INF], np.float32)
    with pytest.raises(NumcError, match="x has a NaN, which 'e3m0' has no encoding for: use a format with significand"):
        parse_conversion("e3m0").format.encode_array(x)
    assert parse_conversion("e3m0").format.encode_array(x[[0, 2]]).tolist() == [3, 7]
    assert parse_conversion("e3m0fn").format.encode_array(x[:2]).tolist() == [3, 7]
