"""Formats of single values: limits, codes, and the same codes in ml_dtypes and numpy."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from numc.numerics.formats import FORMATS, RECORDS, Conversion, Record
from numc.numerics.grammar import parse_conversion
from numc.support.errors import NumcError
from tiers import by_default

# arithmetic.md section 2 and the standards it names: (name, emin, emax, largest, smallest positive)
LIMITS = [
    ("fp32", -126, 127, (2 - 2**-23) * 2.0**127, 2.0**-149),
    ("tf32", -126, 127, (2 - 2**-10) * 2.0**127, 2.0**-136),
    ("bf16", -126, 127, (2 - 2**-7) * 2.0**127, 2.0**-133),
    ("fp16", -14, 15, 65504.0, 2.0**-24),
    ("fp8_e5m2", -14, 15, 57344.0, 2.0**-16),
    ("fp8_e4m3", -6, 8, 448.0, 2.0**-9),
    ("hfp8_fwd", -6, 7, 240.0, 2.0**-9),
    ("hfp8_bwd", -14, 15, 57344.0, 2.0**-16),
    ("dlfloat16", -30, 31, (2 - 2**-9) * 2.0**31, 2.0**-30),
    ("e2m2fn", 0, 2, 6.0, 0.25),
    ("fp6_e3m2", -2, 4, 28.0, 0.0625),
    ("fp6_e2m3", 0, 2, 7.5, 0.125),
    ("fp4_e2m1", 0, 2, 6.0, 0.5),
    ("e5m2fnuz", -15, 15, 57344.0, 2.0**-17),
    ("e4m3fnuz", -7, 7, 240.0, 2.0**-10),
    ("e4m3b11fnuz", -10, 4, 30.0, 2.0**-13),
    ("e2m0fn", 0, 1, 2.0, 1.0),
    ("e3m0", -2, 3, 8.0, 0.25),
    ("bf16x2", -126, 127, float.fromhex("0x1.ffp127"), 2.0**-133),
    ("bf16x3", -126, 127, float.fromhex("0x1.ffp127"), 2.0**-133),
    ("fp16x2", -14, 15, float.fromhex("0x1.ffep15"), 2.0**-24),
]

SIMPLE = [name for name, fmt in RECORDS.items() if fmt.parts == 1 and fmt.is_usual]
SMALL = [n for n in SIMPLE if FORMATS[n].bits <= 16] + ["e2m0", "e2m1fn", "e2m0fn", "e3m2", "e3m4fn", "e7m0fn", "e8m3"]


@pytest.mark.parametrize(("name", "emin", "emax", "largest", "smallest"), LIMITS)
def test_limits(name: str, emin: int, emax: int, largest: float, smallest: float) -> None:
    fmt = parse_conversion(name).format
    assert (fmt.emin, fmt.emax) == (emin, emax)
    assert (fmt.max_finite, fmt.min_subnormal) == (Fraction(largest), Fraction(smallest))
    assert fmt.min_normal == Fraction(2) ** emin


@pytest.mark.parametrize("name", SIMPLE)
def test_limits_are_those_of_the_codes(name: str) -> None:
    """What `Format` derives from its sizes, of a name without a row above too."""
    fmt = FORMATS[name]
    positive = range(1 << (fmt.bits - 1))  # the finite codes come first
    finite = bisect.bisect_left(positive, True, key=lambda code: not math.isfinite(fmt.decode(code)))
    largest = fmt.decode(finite - 1)
    first_normal = 1 << fmt.significand_bits
    smallest = fmt.decode(1) if fmt.subnormals else fmt.decode(first_normal)
    assert (fmt.max_finite, fmt.min_subnormal) == (Fraction(largest), Fraction(smallest))
    assert fmt.min_normal == Fraction(fmt.decode(first_normal)) == Fraction(2) ** fmt.emin
    assert fmt.emax == math.frexp(largest)[1] - 1


@pytest.mark.parametrize(
    ("name", "bits"), [("fp32", 32), ("tf32", 19), ("dlfloat16", 16), ("bf16x2", 32), ("bf16x3", 48)]
)
def test_bits(name: str, bits: int) -> None:
    assert FORMATS[name].bits == bits


@pytest.mark.parametrize("name", by_default(SMALL, [n for n in SMALL if n not in ("bf16", "fp16")]))
def test_every_code_decodes_in_order_and_encodes_back(name: str) -> None:
    fmt = parse_conversion(name).format
    half = 1 << (fmt.bits - 1)
    positive = [fmt.decode(code) for code in range(half)]
    finite = [x for x in positive if math.isfinite(x)]
    assert max(finite) == fmt.max_finite
    assert min(x for x in finite if x > 0) == fmt.min_subnormal
    nans = sum(map(math.isnan, positive))
    assert nans == ((fmt.nan == "ones") if fmt.finite else (1 << fmt.significand_bits) - 1)
    assert positive.count(math.inf) == (0 if fmt.finite else 1)
    assert finite == sorted(finite)
    for code, value in enumerate(positive):
        negative = fmt.decode(half | code)
        if math.isnan(value):
            assert math.isnan(negative)
            assert math.isnan(fmt.decode(fmt.encode(value)))
            continue
        assert math.copysign(1, negative) == -1
        assert negative == -value
        if value or code == 0:  # the codes of absent subnormals are zeros too
            assert fmt.encode(value) == code
            assert fmt.encode(negative) == half | code
        if math.isfinite(value):
            assert fmt.encode(Fraction(value)) == fmt.encode(value)


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("fp16", np.float16),
        ("fp8_e5m2", ml_dtypes.float8_e5m2),
        ("fp8_e4m3", ml_dtypes.float8_e4m3fn),
        ("hfp8_fwd", ml_dtypes.float8_e4m3),
        ("e3m4", ml_dtypes.float8_e3m4),
    ],
)
def test_codes_of_other_implementations(name: str, peer: type) -> None:
    fmt = parse_conversion(name).format
    unsigned = np.uint16 if fmt.bits == 16 else np.uint8
    theirs = np.arange(1 << fmt.bits).astype(unsigned).view(peer).astype(np.float32)
    ours = np.array([fmt.decode(code) for code in range(1 << fmt.bits)], np.float32)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours[~np.isnan(ours)]), np.signbit(theirs[~np.isnan(ours)]))


@pytest.mark.parametrize(
    ("name", "value"),
    [("fp16", 65505.0), ("fp16", 2.0**-25), ("bf16", 1 + 2.0**-8), ("fp8_e4m3", 480.0), ("dlfloat16", 2.0**-31)],
)
def test_encode_does_not_round(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="is not a value of"):
        FORMATS[name].encode(value)


@pytest.mark.parametrize(("name", "value"), [("fp8_e4m3", math.inf), ("e3m0", math.nan)])
def test_encode_knows_what_a_format_lacks(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"has no {value}"):
        parse_conversion(name).format.encode(value)


def test_codes_out_of_range_and_of_compounds() -> None:
    with pytest.raises(ValueError, match="code 0x10000 does not fit 16 bits of 'bf16'"):
        FORMATS["bf16"].decode(0x10000)
    with pytest.raises(ValueError, match="'bf16x2' has no encoding of its own"):
        FORMATS["bf16x2"].decode(0)
    with pytest.raises(ValueError, match="'bf16x2' has no encoding of its own"):
        FORMATS["bf16x2"].encode(1.0)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 3), "format 'x': 0 exponent bits, want 1 to 8"),
        ((9, 3), "format 'x': 9 exponent bits, want 1 to 8"),
        ((8, 3, True, True), "format 'x': 8 exponent bits, want 1 to 7 where there are no infinities"),
        ((5, 24), "format 'x': 24 significand bits, want 0 to 23"),
        ((8, 7, True, False, 4), "format 'x': 4 parts, want 1 to 3 of 8 significant bits"),
        ((8, 12, True, False, 3), "format 'x': 3 parts, want 1 to 2 of 13 significant bits"),
        ((8, 23, True, False, 2), "format 'x': 2 parts, want 1 of 24 significant bits"),
        ((6, 9, False, False, 2), "format 'x': parts have a sign, subnormals and infinities, want parts in eXmY"),
        ((5, -1), "format 'x': -1 significand bits, want 0 to 23"),
    ],
)
def test_sizes_out_of_range(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(NumcError) as error:
        Record("x", *sizes)  # type: ignore[arg-type]
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bf16", "up"), "rounding 'up' of 'bf16': want rne, rtz, rna, rup, rdn, odd, srN"),
        (("fp8_e4m3", "rne", "inf"), "overflow 'inf' of 'e4m3fn': want nan or sat"),
        (("fp16", "rne", "nan"), "'fp16:nan': only formats without infinities (eXmYfn) take ':nan'"),
        (("fp4_e2m1", "rne", "nan"), "'e2m1fn:nan': the format has no NaN to overflow to, leave ':nan' out"),
        (("nf4", "rne", "nan"), "'nf4:nan': the format has no NaN to overflow to, leave ':nan' out"),
        (
            ("fp8_e4m3", "rne", "sat"),
            "'e4m3fn:sat': only formats of one part with infinities take ':sat', leave it out",
        ),
        (("bf16x2", "rtz"), "'bf16x2:rtz': the parts of a number round to nearest even, use rne or srN"),
    ],
)
def test_conversions_that_mean_nothing(arguments: tuple[str, ...], message: str) -> None:
    name, *others = arguments
    with pytest.raises(NumcError) as error:
        Conversion(FORMATS[name], *others)
    assert str(error.value) == message


def test_equal_values_are_equal_formats_of_one_printed_name() -> None:
    assert Record("mine", 8, 7) == FORMATS["bf16"]
    assert hash(Record("mine", 8, 7)) == hash(FORMATS["bf16"])
    assert FORMATS["hfp8_bwd"] == FORMATS["fp8_e5m2"] != FORMATS["fp16"]
    for name, fmt in FORMATS.items():
        assert parse_conversion(fmt.name).format == fmt, name
        assert {other.name for other in FORMATS.values() if other == fmt} == {fmt.name}
