"""Formats of single values of every kind: codes and roundings, against other implementations and by their values.

A sweep takes every value of a format, every number half way between two, and their neighbours in binary32.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from operator import ge, le
from statistics import NormalDist
from typing import Any

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc import reference
from numc.numerics.formats import FORMATS, ROUNDINGS, Fixed, Format, Posit, Record, Table
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.numerics.policy.text import parse_policy
from numc.numerics.reference.random import conversion_draws, stream
from numc.support.errors import NumcError
from tiers import one_in

F32 = npt.NDArray[np.float32]
MODES = {
    "rne": gfloat.RoundMode.TiesToEven,
    "rtz": gfloat.RoundMode.TowardZero,
    "rna": gfloat.RoundMode.TiesToAway,
    "rup": gfloat.RoundMode.TowardPositive,
    "rdn": gfloat.RoundMode.TowardNegative,
}


def finite_values(fmt: Format) -> list[Fraction]:
    """All of them, in ascending order."""
    decoded = map(fmt.decode, range(1 << fmt.bits))
    return sorted({Fraction(value) for value in decoded if math.isfinite(value)})


def points(fmt: Format, *, specials: bool = True) -> F32:
    """The points of a sweep, as float32."""
    values = finite_values(fmt)
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    outside = [values[-1] * 2 - values[-2], 2 * values[-1], values[0] * 2, Fraction(1, 1 << 149)]
    x = np.array([float(v) for v in (*values, *middles, *outside) if abs(v) < 1 << 128], np.float64).astype(np.float32)
    x = np.concatenate([x, -x, np.float32([3.4e38, -3.4e38])])
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    return np.concatenate([x, np.float32([0.0, -0.0, np.inf, -np.inf, np.nan])]) if specials else x[np.isfinite(x)]


def same(got: Any, want: Any, *operands: Any) -> None:
    difference = vectorised.first_mismatch(got, want, *operands)
    assert difference is None, difference


def fits(k: int, p: int, *, signed: bool) -> bool:
    """Whether the normal values of a format of P3109 are binary32 numbers."""
    bias = 1 << k - p - signed if k - p - signed >= 0 else 0
    return p <= (k - signed) and bias <= 128


P3109 = [
    (k, p, signed, finite)
    for k in (3, 4, 5, 6, 8)
    for signed in (True, False)
    for finite in (True, False)
    for p in range(1, k + 1)
    if fits(k, p, signed=signed) and (k, p, finite) != (3, 3, False)
]
WIDE = [(k, p, signed, False) for k in (7, *range(9, 17)) for signed in (True, False) for p in range(1, 25)]
WIDE = [each for each in WIDE if fits(*each[:2], signed=each[2])]


def p3109(k: int, p: int, signed: bool, finite: bool) -> tuple[str, Any]:
    """The text of a format of P3109, and what gfloat knows of it."""
    domain = gfloat.Domain.Finite if finite else gfloat.Domain.Extended
    signs = gfloat.Signedness.Signed if signed else gfloat.Signedness.Unsigned
    return f"binary{k}p{p}{'s' if signed else 'u'}{'f' if finite else 'e'}", gfloat.formats.format_info_p3109(
        k, p, signs, domain
    )


def check_codes(fmt: Format, info: Any) -> None:
    """Every code has gfloat's value, and values have the codes that they come from."""
    for code in range(1 << fmt.bits):
        theirs, ours = gfloat.decode_float(info, code).fval, fmt.decode(code)
        assert ours == theirs or (ours != ours and theirs != theirs), f"{fmt.name} {code:#x}: {ours}, not {theirs}"
        if ours == ours:
            assert fmt.encode(ours) == code
    codes = np.arange(1 << fmt.bits)
    decoded = fmt.decode_array(codes)
    same(decoded, np.array([fmt.decode(int(code)) for code in codes], np.float32))
    back = fmt.encode_array(decoded)
    assert (back == np.where(np.isnan(decoded), fmt.encode(math.nan) if fmt.has_nan else 0, codes)).all()


def check_against_gfloat(text: str, info: Any, x: F32) -> int:
    """Every rounding, with every overflow that there is, where gfloat's definition says something."""
    fmt = parse_conversion(text).format
    if not fmt.signed:
        x = x[~(x < 0)]
    overflows = ["", "nan"] if fmt.can_overflow_to_nan else ["", "sat"]
    for rounding, mode in MODES.items():
        for overflow in overflows:
            if overflow == "nan" and rounding not in ("rne", "rna"):
                continue  # gfloat does not overflow to NaN when it rounds towards zero
            saturates = parse_conversion(f"{text}:{rounding}{overflow and ':' + overflow}").saturates
            want = np.array([gfloat.round_float(info, float(v), mode, saturates) for v in x], np.float32)
            same(reference.round(x, f"{text}:{rounding}{overflow and ':' + overflow}"), want, x)
    return len(x)


@pytest.mark.parametrize("sizes", P3109[::23], ids=lambda s: p3109(*s)[0])
def test_p3109_against_gfloat(sizes: tuple[int, int, bool, bool]) -> None:
    text, info = p3109(*sizes)
    fmt = parse_conversion(text).format
    check_codes(fmt, info)
    check_against_gfloat(text, info, points(fmt)[::3])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [*P3109, *WIDE], ids=lambda s: p3109(*s)[0])
def test_all_of_p3109_against_gfloat(sizes: tuple[int, int, bool, bool]) -> None:
    text, info = p3109(*sizes)
    fmt = parse_conversion(text).format
    check_codes(fmt, info)
    x = points(fmt)
    assert check_against_gfloat(text, info, x[:: 1 if fmt.bits <= 10 else len(x) // 4000]) > 20


OCP = {
    "fp8_e4m3": gfloat.formats.format_info_ocp_e4m3,
    "fp8_e5m2": gfloat.formats.format_info_ocp_e5m2,
    "fp6_e3m2": gfloat.formats.format_info_ocp_e3m2,
    "fp6_e2m3": gfloat.formats.format_info_ocp_e2m3,
    "fp4_e2m1": gfloat.formats.format_info_ocp_e2m1,
}


@pytest.mark.parametrize("text", OCP)
def test_ocp_against_gfloat(text: str) -> None:
    fmt, info = FORMATS[text], OCP[text]
    if fmt.has_nan:
        codes = [code for code in range(1 << fmt.bits) if fmt.decode(code) == fmt.decode(code)]
        assert [fmt.decode(code) for code in codes] == [gfloat.decode_float(info, code).fval for code in codes]
    else:
        check_codes(fmt, info)
    x = points(fmt, specials=fmt.has_nan)
    for rounding, mode in MODES.items():
        saturates = f"{text}:{rounding}{':sat' if fmt.has_infinities else ''}"
        want = np.array([gfloat.round_float(info, float(v), mode, sat=True) for v in x], np.float32)
        same(reference.round(x, saturates), want, x)


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("e4m3fnuz:nan", ml_dtypes.float8_e4m3fnuz),
        ("e5m2fnuz:nan", ml_dtypes.float8_e5m2fnuz),
        ("e4m3b11fnuz:nan", ml_dtypes.float8_e4m3b11fnuz),
        ("e8m0fnu:nan", ml_dtypes.float8_e8m0fnu),
        ("fp4_e2m1", ml_dtypes.float4_e2m1fn),
        ("fp6_e3m2", ml_dtypes.float6_e3m2fn),
        ("fp6_e2m3", ml_dtypes.float6_e2m3fn),
    ],
)
def test_against_ml_dtypes(text: str, peer: type) -> None:
    """All codes, and numbers with every upper half of a binary32, by the definition and by machine code."""
    fmt = parse_conversion(text).format
    codes = np.arange(1 << fmt.bits, dtype=np.uint8)
    values = codes.view(peer).astype(np.float32)
    same(fmt.decode_array(codes.astype(np.int64)), values)
    low = np.array([0, 1, 0x8000, 0xFFFF], np.uint32)
    x = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | low).ravel().view(np.float32)
    if not fmt.has_nan:
        x = x[np.isfinite(x)]
    if not fmt.signed:  # the peer rounds some of the numbers up that are next to 2^-127
        x = x[~((x > 2.0**-127) & (x < 1.5 * 2.0**-127))]
    with np.errstate(all="ignore"):
        theirs = x.astype(peer)
    same(numc.round(x, text), theirs.astype(np.float32), x)
    same(reference.round(x[::97], text), theirs[::97].astype(np.float32), x[::97])
    assert (fmt.encode_array(numc.round(x, text)) == theirs.view(np.uint8)).all()


# --- posits, tables, fixed point ---------------------------------------------------


def posit_value(code: int, n: int, es: int) -> Fraction:
    """The value of a positive code, by the bits of the standard, section 3.3."""
    text = f"{code:0{n - 1}b}"
    run = len(text) - len(text.lstrip(text[0]))
    regime = run - 1 if text[0] == "1" else -run
    rest = text[run + 1 :]
    exponent, fraction = rest[:es].ljust(es, "0"), rest[es:]
    power = regime * (1 << es) + int(exponent or "0", 2)
    return Fraction(2) ** power * (1 + Fraction(int(fraction or "0", 2), 1 << len(fraction)))


@cache
def posit_values(n: int, es: int) -> list[Fraction]:
    """The positive ones."""
    return [posit_value(code, n, es) for code in range(1, 1 << n - 1)]


def posit_rounded(x: Fraction, n: int, es: int) -> Fraction:
    """Section 4.1 of the Posit Standard (2022): a tie is the code of one bit more, and goes to the even code."""
    if x < 0:
        return -posit_rounded(-x, n, es)
    values = posit_values(n, es)
    if x == 0:
        return x
    if x <= values[0] or x >= values[-1]:
        return values[0] if x <= values[0] else values[-1]
    low = bisect.bisect_right(values, x)  # the code of the value at or below x
    u, w = values[low - 1 : low + 1]
    if x in (u, w):
        return x
    v = posit_value(low << 1 | 1, n + 1, es)
    return u if x < v or (x == v and low % 2 == 0) else w


POSITS = [(8, 2), (8, 0), (5, 1), (6, 3), (7, 2)]


@pytest.mark.parametrize(("n", "es"), POSITS)
def test_posits_by_the_standard(n: int, es: int) -> None:
    fmt = Posit(n, es)
    positive = [fmt.decode(code) for code in range(1, 1 << n - 1)]
    assert positive == posit_values(n, es) == sorted(positive)
    for code in range(1 << n):
        value = fmt.decode(code)
        assert fmt.encode(value) == code
        assert value != value if code == 1 << n - 1 else value == -fmt.decode((1 << n) - code & (1 << n) - 1)
    middles = [posit_value(code, n + 1, es) for code in range(1, 1 << n)]
    x = np.array([float(v) for v in middles], np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0))])
    x = np.concatenate([x, -x, points(fmt, specials=False)])[:: 11 if n > 7 else 3 if n > 6 else 1]
    want = np.array([float(posit_rounded(Fraction(float(v)), n, es)) for v in x], np.float32)
    same(reference.round(x, fmt.name), want, x)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    same(reference.round(special, fmt.name), np.array([0.0, 0.0, np.nan, np.nan, np.nan], np.float32))


def test_infinities_become_the_largest_posit_by_request() -> None:
    """Maxima begin with minus infinity, which is to be no NaN where `ops` are posits."""
    x = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
    want = np.array([2.0**24, -(2.0**24), np.nan, 1.0], np.float32)
    for found in (
        numc.round(x, "posit8:sat"),
        numc.round(x.astype(np.float64), "posit8:sat"),
        reference.round(x, "posit8:sat"),
    ):
        same(found, want)


def test_codes_of_posit16() -> None:
    codes = np.arange(1 << 16)
    values = FORMATS["posit16"].decode_array(codes)
    assert (values[1 : 1 << 15 : 31] == [float(posit_value(code, 16, 2)) for code in range(1, 1 << 15, 31)]).all()
    assert (np.diff(values[1 : 1 << 15]) > 0).all()
    assert (values[(1 << 15) + 1 :] == -values[1 : 1 << 15][::-1]).all()
    assert (FORMATS["posit16"].encode_array(values) == codes).all()


@pytest.mark.slow
def test_posits_against_softposit() -> None:
    """A package in C++, which is not a requirement: 32-bit codes, of which the first are those of the posit."""
    softposit = pytest.importorskip("softposit")
    tried = 0
    for text, n in (("posit8", 8), ("posit16", 16), ("posit12", 12)):
        x = points(FORMATS.get(text, Posit(n)), specials=False)
        x = x[:: max(1, len(x) // 60000)]
        want = [softposit.convertPX2ToDouble(softposit.convertDoubleToPX2(float(v), n)) for v in x]
        same(reference.round(x, text), np.array(want, np.float32), x)
        same(numc.round(x, text), np.array(want, np.float32), x)
        tried += len(x)
    assert tried > 10**5


def test_nf4_is_the_nearest_of_its_values() -> None:
    """The values of QLoRA: the quantiles of a normal distribution, by the code of its appendix."""
    positive, negative = (list(map(NormalDist().inv_cdf, np.linspace(0.9677083, 0.5, count)[:-1])) for count in (9, 8))
    values = np.sort([*positive, 0.0, *(-v for v in negative)])
    fmt = FORMATS["nf4"]
    ours = np.array([fmt.decode(code) for code in range(16)])
    np.testing.assert_allclose(ours, values / values.max(), atol=3e-7)
    x = points(fmt, specials=False)
    x = x[np.abs(x) < 4]
    nearest = ours[np.abs(x[:, None].astype(np.float64) - ours).argmin(axis=1)]
    middle = np.isin(x.astype(np.float64), (ours[1:] + ours[:-1]) / 2)
    same(numc.round(x[~middle], "nf4"), nearest[~middle].astype(np.float32), x[~middle])


def by_values(x: Fraction, fmt: Table | Fixed, rounding: str) -> Fraction:
    """Round among all values, by what arithmetic.md says of tables; fixed point has as many ties."""
    coded = {Fraction(fmt.decode(code)): code for code in range(1 << fmt.bits) if not math.isnan(fmt.decode(code))}
    values = sorted(coded)
    if x <= values[0] or x >= values[-1] or x in coded:
        return min(max(x, values[0]), values[-1])
    low, high = next((a, b) for a, b in pairwise(values) if a < x < b)
    even = [v for v in (low, high) if coded[v] % 2 == 0]
    inward = min((low, high), key=abs) if low * high >= 0 else None
    nearest = low if x - low < high - x else high if x - low > high - x else None
    tie = even[0] if len(even) == 1 else min((low, high), key=coded.__getitem__)
    odd = {low, high} - set(even)
    return {
        "rup": high,
        "rdn": low,
        "rtz": inward if inward is not None else nearest if nearest is not None else tie,
        "rna": nearest if nearest is not None else high if x >= 0 else low,
        "rne": nearest if nearest is not None else tie,
        "odd": odd.pop() if len(odd) == 1 else inward if inward is not None else nearest or tie,
    }[rounding]


TABLES = [
    "nf4",
    "table(-1,0.5,3,1e-3,0.25)",
    "table(1,2,4,-1)",
    "table(2,1)",
    "fixed(2,2)",
    "ufixed(1,3)",
    "fixed(0,4)",
]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("text", TABLES)
def test_tables_and_fixed_point_by_their_values(text: str, rounding: str) -> None:
    fmt = parse_conversion(text).format
    assert isinstance(fmt, Table | Fixed)
    x = points(fmt, specials=False)
    x = np.concatenate([x, np.float32([0.0, -0.0])])
    want = np.array([float(by_values(Fraction(float(v)), fmt, rounding)) for v in x], np.float32)
    same(reference.round(x, f"{text}:{rounding}"), want + np.float32(0), x)
    if rounding == "rne" or text.startswith("table(-1"):
        same(numc.round(x, f"{text}:{rounding}"), want + np.float32(0), x)
    ends = [float(v) for v in (finite_values(fmt)[-1], finite_values(fmt)[0])]
    same(reference.round(np.float32([np.inf, -np.inf]), text), np.array(ends, np.float32))


# --- machine code, packing, random bits -------------------------------------------

OTHERS = [
    *("e4m3fnuz", "e5m2fnuz:nan", "e8m0fnu", "e8m0fnu:nan", "fp4_e2m1", "e5m2:sat", "e4m3b11fnuz", "e5m4b12n"),
    *("binary8p3", "binary8p1", "binary8p1ue", "binary8p4uf", "binary8p8uf", "binary8p7sf", "binary8p3:sat"),
    *("posit8", "posit(8,0)", "posit(6,3)", "fixed(3,4)", "ufixed(3,4)", "fixed(0,8)", "nf4", "table(1,2,4,-1)"),
    *(
        "float(3,2,bias=9,infinities=0,nan=none)",
        "float(4,2,signed=0)",
        "e1m3",
        "e1m6fn:nan",
        "float(4,1,bias=4,subnormals=0,largest=27)",
    ),
]


def with_rounding(text: str, rounding: str) -> str:
    base, _, overflow = text.partition(":")
    return f"{base}:{rounding}{overflow and ':' + overflow}"


@pytest.mark.parametrize("text", OTHERS[::5])
def test_machine_code_is_the_definition(text: str) -> None:
    fmt = parse_conversion(text).format
    x = points(fmt)[:: 1 if fmt.bits < 8 else 5]
    for rounding in ("rne", "odd"):
        same(numc.round(x, with_rounding(text, rounding)), reference.round(x, with_rounding(text, rounding)), x)
    if text == "posit8" or ":" in text:  # from binary64, where the exact datapath has its sums
        wide = x[np.isfinite(x)][::7].astype(np.float64) * (1 + 2.0**-40)
        want = np.array([reference.round_real(float(v), text) for v in wide], np.float32)
        same(numc.round(wide, text), want, wide)
    drawn = with_rounding(text, "sr5")
    same(numc.round(x, drawn, seed=3), reference.round(x, drawn, stream=stream(3, 0)), x)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", [*ROUNDINGS, "sr1", "sr8", "sr24"])
@pytest.mark.parametrize("text", [*OTHERS, "posit16", "posit(16,1)", "binary16p8", "binary12p6ue", "fixed(7,8)"])
def test_machine_code_is_the_definition_for_all_values(text: str, rounding: str) -> None:
    try:
        to = parse_conversion(with_rounding(text, rounding))
    except NumcError:
        assert rounding == "sr24"
        assert text.startswith("table")
        return
    x = points(to.format)
    x = x[:: max(1, len(x) // 50000)]
    if to.noise is None:
        same(numc.round(x, str(to)), reference.round(x, to), x)
    else:
        same(numc.round(x, str(to), seed=3), reference.round(x, to, stream=stream(3, 0)), x)


@pytest.mark.parametrize("text", [text for text in OTHERS if ":" not in text][::5])
def test_packing_keeps_every_value(text: str) -> None:
    fmt = parse_conversion(text).format
    x = points(fmt)
    x = x if fmt.has_nan else x[~np.isnan(reference.round(x, text))]
    packed = numc.pack(x, text)
    assert len(packed.data) == -(-len(x) * fmt.bits // 8)
    same(numc.unpack(packed), numc.round(x, text), x)
    if not fmt.has_nan:
        with pytest.raises(NumcError, match="x has a NaN, which .* has no encoding for"):
            numc.pack(np.float32([np.nan]), text)


def test_posits_of_many_bits_are_not_packed() -> None:
    x = np.float32([1.1])
    same(numc.round(x, "posit20"), reference.round(x, "posit20"), x)
    with pytest.raises(NumcError, match="format 'posit20': codes of 20 bits, want at most 16"):
        numc.pack(x, "posit20")


@pytest.mark.parametrize("text", ["posit8", "fixed(2,4)", "nf4", "table(1,2,4,-1)", "e4m3fnuz", "binary8p1"])
def test_stochastic_rounding_has_the_two_neighbours_in_their_parts(text: str) -> None:
    """Of 2^N draws so many go away from zero as the definition counts; posits count in their codes."""
    fmt, bits = parse_conversion(text).format, 4
    to = parse_conversion(f"{text}:sr{bits}")
    for low, high in pairwise([v for v in finite_values(fmt) if abs(v) < 8][-40::3]):
        x = low + (high - low) * Fraction(5, 16)
        low, high = (pick(v for v in finite_values(fmt) if beside(v, x)) for pick, beside in ((max, le), (min, ge)))
        found = [Fraction(reference.round_real(x, to, noise)) for noise in range(1 << bits)]
        assert set(found) <= {low, high}
        if isinstance(fmt, Posit):
            continue
        part = (high - x if x < 0 else x - low) / (high - low)
        away = low if x < 0 else high
        assert found.count(away) == math.floor(part * (1 << bits)), (text, low, high)
    assert len(set(conversion_draws(stream(0, 0), 100, to.noise))) > 10


OPERATORS = [
    *("fmac(posit16)", "mac(posit16:sr8)", "fmac(posit16,datapath=exact)", "fma(a=posit8,acc=posit16)"),
    *(
        "fma(a=bf16,b=nf4,acc=bf16)",
        "fmac(nf4,datapath=exact)",
        "fmac(fixed(7,8):sr8)",
        "mac(ufixed(4,4),datapath=exact)",
    ),
    *("fma(a=e8m0fnu,b=bf16,acc=fp32)", "fmac(binary8p3,chunk=8)", "fmac(e5m2:sat)", "fma(a=binary8p4,acc=binary16p8)"),
    *("fmac(e1m7)", "fma(a=e1m3,acc=e1m9fn,chunk=4)", "mac(e1m9,datapath=exact)"),
    *("fma(a=fp4_e2m1,acc=e4m3fnuz:rtz)", "fma(a=posit8,acc=e6m9n)", "fmac(e4m3fnuz:sr8)"),
    *("fma(a=e4m3fnuz,b=posit8,acc=bf16,product=e5m2fnuz)", "fma(a=table(-3,0.1,2),acc=fp16,datapath=exact)"),
]


@pytest.mark.parametrize("text", one_in(5, OPERATORS))
def test_operators(text: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) * 3 for shape in ((3, 21), (21, 9)))
    a[0, :3], c = [0.0, -0.0, 1e-40], rng.standard_normal((3, 9), np.float32)
    for target in ("host",) if ":sr" in text else ("host", "x86-64-v2"):
        found = numc.matmul(a, b, c, fma=text, target=target, seed=1 if ":sr" in text else None)
        same(found, reference.matmul(a, b, c, fma=text, seed=1))


def test_policies_take_their_texts() -> None:
    fma = "fma(a=table(-1,-.25,0,3e-2,2.5),b=posit(8,1),acc=e5m2:sat)"
    assert str(parse_fma(fma)) == "fma(a=table(-1,-0.25,0,0.03,2.5),b=posit(8,1),acc=e5m2:sat)"
    assert fma in str(parse_policy(f"default {fma}"))


@pytest.mark.all
def test_products_with_inserted_zeros_keep_the_products_of_formats_without_a_zero() -> None:
    """A zero becomes 2^-127, or a value of a table, and takes part."""
    torch = pytest.importorskip("torch")
    transposed, plain = (
        layer(2, 2, 3, stride=stride, bias=False)
        for layer, stride in ((torch.nn.ConvTranspose1d, 2), (torch.nn.Conv1d, 1))
    )
    plain.weight.data = transposed.weight.data.flip(2).transpose(0, 1).contiguous()
    x, spread = torch.randn(1, 2, 5), torch.zeros(1, 2, 13)
    spread[:, :, 2:-2:2] = x
    for fma in ("fma(a=table(0.5,1,2),b=fp32,acc=fp32)", "fma(a=bf16,acc=fp32)"):
        found, want = (numc.compile(layer, (y,), fma=fma)(y) for layer, y in ((transposed, x), (plain, spread)))
        same(found, want)


# --- what is refused ---------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("binary8p9", "format 'binary8p9se': want 3 to 32 bits, of which 1 to 7 are its precision"),
        ("binary16p4", "format 'binary16p4se': 12 exponent bits, want 0 to 9"),
        ("posit32", "format 'posit32': want 3 to 24 bits, and 0 to 4 bits of exponent"),
        (
            "posit(16,4)",
            "format 'posit(16,4)': values up to 2^224 with up to 10 significant bits, want at most 2^126 and 23, "
            "because float32 holds them",
        ),
        ("posit(8,1,1)", "format 'posit(...)': want posit(n,es), the width and the exponent bits"),
        ("fixed(20,4)", "format 'fixed(20,4)': 20 integer and 4 fraction bits, want 1 to 23 together"),
        ("ufixed(3)", "format 'ufixed(...)': want ufixed(i,f), integer and fraction bits"),
        ("table(1)", "format 'table(1)': 1 values, want 2 to 256"),
        ("table(1,1.0)", "format 'table(1,1)': the value 1.0 is there twice, keep one of them"),
        ("table(1,1e39)", "format 'table(1,inf)': inf is no finite float32 number: want those, and nan"),
        ("table(1,bf16)", "format 'table(...)': want table(v,w,...), numbers separated by commas, in the order of "
         "codes"),
        ("e4m3fnu", "format 'e4m3fnu': a format without a sign and a zero has powers of two, want "
         "e8m0fnu or float(...)"),
        ("e9m3fnuz", "format 'e9m3fnuz': want 1 to 8 exponent bits and 0 to 23 significand bits"),
        ("e8m3b140", "format 'e8m3b140': the smallest normal value is 2^-139, want 2^-127 and more"),
        ("e8m3b120", "format 'e8m3b120': values up to 2^134, but float32 ends below 2^128"),
        ("float(4,3,nan=odd)", "format 'float(4,3,nan=odd)': nan=odd, want ieee, ones, zero, none"),
        ("float(4,3,zero=2)", "format 'float(...)': signed, subnormals, zero, even and infinities are 0 or 1"),
        ("float(4,3,largest=120)", "format 'float(4,3,largest=120)': largest code 120, want 1 to 119"),
        ("float(4,3,signed=0,nan=zero)", "format 'float(4,3,signed=0,nan=zero)': nan=zero is the code of -0, which "
         "needs a sign and a zero"),
        ("float(1,0)", "format 'float(1,0)': 1 exponent bits, which leave no finite number but 0"),
        ("float(4,3,infinities=0,nan=ieee)", "format 'float(4,3,infinities=0,nan=ieee)': nan=ieee are the codes above "
         "the infinity, which there is none of"),
        (
            "float(4,3,bits=8)",
            "format 'float(...)': want float(X,Y,bias=B,signed=0,subnormals=0,zero=0,infinities=0,nan=ones|zero|none,"
            "even=1,largest=CODE), what is not written is as in IEEE-754",
        ),
        (
            "table(1e-30,1):sr4",
            "'table(1e-30,1):sr4': 1.0000000031710769e-30 and 1.0 are too far apart, want neighbours with 48 "
            "bits between the ends of both",
        ),
        ("nf4:sat", "'nf4:sat': only formats of one part with infinities take ':sat', leave it out"),
        ("posit8:nan", "'posit8:nan': the format has no NaN to overflow to, leave ':nan' out"),
        ("fixed", "format 'fixed' needs its sizes: want fixed(i,f), ufixed(i,f), as in fixed(3,4)"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_conversion(text)
    assert str(error.value) == message


@pytest.mark.parametrize("text", [*OTHERS, *OPERATORS[:0], "float(4,3,bias=7)", "e4m3b7", "binary5p2", "posit(8,2)"])
def test_texts_parse_back(text: str) -> None:
    to = parse_conversion(text)
    assert parse_conversion(str(to)) == to


def test_texts_of_the_same_values_are_one_format() -> None:
    assert str(parse_conversion("float(4,3,bias=7)")) == str(parse_conversion("e4m3b7")) == "e4m3"
    assert str(parse_conversion("posit(8,2)")) == "posit8"
    assert isinstance(FORMATS["e8m0fnu"], Record)
    made: Callable[[str], Format] = lambda text: parse_conversion(text).format  # noqa: E731
    assert made("float(4,3,bias=8,infinities=0,nan=zero)") == made("e4m3fnuz")
