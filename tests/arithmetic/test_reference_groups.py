"""The reference of grouped formats against the rules said once more, with fractions, and against other people's MX."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc.numerics import reference
from numc.numerics.formats import ROUNDINGS
from numc.numerics.kinds import GROUP_FORMATS, Mx
from tiers import by_default, one_in, pairs

F32 = npt.NDArray[np.float32]


def same(got: npt.ArrayLike, want: npt.ArrayLike, *operands: npt.ArrayLike) -> None:
    difference = vectorised.first_mismatch(got, want, *operands)
    assert difference is None, difference


def choose(x: Fraction, step: Fraction, most: int, rounding: str) -> Fraction:
    """Round x to one of the multiples of `step` from -most to most, by looking at both neighbours."""
    low = x // step * step  # towards minus infinity
    high = low if low == x else low + step
    inward, outward = sorted((low, high), key=abs)
    below = abs(x) - abs(inward)
    odd_inward = bool(inward / step % 2)
    nearest = {"rne": outward if odd_inward else inward, "rna": outward}.get(rounding)
    if rounding in ("rup", "rdn"):
        chosen = high if rounding == "rup" else low
    elif nearest is None:
        chosen = outward if rounding == "odd" and not odd_inward and below else inward
    else:
        chosen = outward if 2 * below > step else inward if 2 * below < step else nearest
    return max(-most * step, min(most * step, chosen))


def f32(x: Fraction, negative: bool) -> float:
    return math.copysign(float(x), -1.0 if negative else 1.0)


def bfp_by_hand(groups: list[list[float]], e: int, m: int, rounding: str) -> list[float]:
    """All the groups of a tensor."""
    tops = [max(math.frexp(v)[1] - 1 for v in group if v) for group in groups if any(group)]
    bottom = max(tops, default=0) - 2**e + 1
    values = []
    for group in groups:
        exponent = max([bottom, *(math.frexp(v)[1] - 1 for v in group if v)])
        step = Fraction(2) ** (exponent - (m - 1))
        values += [
            f32(choose(Fraction(v), step, 2**m - 1, rounding), math.copysign(1, v) < 0) for v in group
        ]  # fmt: skip
    return values


def boundaries(step: float, count: int) -> list[float]:
    """Multiples of a step, half way between them, and their neighbours in binary32, both signs."""
    half = np.arange(0, 2 * count + 1, dtype=np.float32) * np.float32(step / 2)
    near = [half, np.nextafter(half, np.float32(9)), np.nextafter(half, np.float32(-9))]
    return [*sorted({float(v) for v in np.concatenate([*near, *(-n for n in near)])}, key=abs), -0.0]


# One rounding to nearest and one directed one; the others differ in `choose` alone.
@pytest.mark.parametrize("rounding", by_default(one_in(6, ROUNDINGS, "rne", "rtz", "odd"), ["rtz"]))
def test_every_pair_of_a_small_bfp(rounding: str) -> None:
    """bfp(2,2,2), the tensor is one group: values up to 2 in eighths, the halves of the finest step."""
    grid = [v for v in boundaries(0.25, 10) if abs(v) < 2.5]
    pairs = list(itertools.product(grid, grid))
    assert len(pairs) > 10**4
    x = np.array(pairs, np.float32)
    want = np.array([bfp_by_hand([list(p)], 2, 2, rounding) for p in pairs], np.float32)
    got = np.concatenate([reference.round_groups(p, f"bfp(2,2,2):{rounding}") for p in x])
    same(got.reshape(-1, 2), want, x)
    got = np.concatenate([numc.round(p, f"bfp(2,2,2):{rounding}") for p in x])
    same(got.reshape(-1, 2), want, x)


@pytest.mark.parametrize("rounding", by_default(one_in(6, ROUNDINGS, "rne", "rtz", "odd"), ["rne"]))
def test_every_pair_of_a_small_bfp_in_every_place_of_the_window(rounding: str) -> None:
    """The same with a second group of 2, 8, 32: none is raised, some are, all are."""
    grid = [v for v in boundaries(0.5, 4) if abs(v) < 2.5]
    for top in (2.0, 8.0, 32.0):
        x = np.array([[a, b, top, 0] for a in grid for b in grid], np.float32)
        # One call for each row: the window is the tensor's.
        got = np.stack([numc.round(row, f"bfp(2,2,2):{rounding}") for row in x])
        want = [bfp_by_hand([[a, b], [top, 0]], 2, 2, rounding) for a, b, *_ in x.tolist()]
        same(got, np.array(want, np.float32), x)
        same(np.stack([reference.round_groups(row, f"bfp(2,2,2):{rounding}") for row in x[::17]]), want[::17])


def test_what_the_specification_says_of_bfp() -> None:
    nan, inf = math.nan, math.inf
    for text, x, want in [
        # truncation is the default, towards zero; E = 1 here, the step 2^(1-2)
        ("bfp(4,3,3)", [3.0, 0.74, -0.74, 0.3], [3.0, 0.5, -0.5, 0.0]),
        # what would round up to 2^m saturates
        ("bfp(4,3,3):rne", [3.99, -3.99, 1, 0], [3.5, -3.5, 1, 0]),
        ("bfp(4,3,3):rup", [3.99, -3.99, 1, 0], [3.5, -3.5, 1, 0]),
        # a short last group has its own exponent
        ("bfp(4,8,2)", [4.0, 1, 1, 1, 1, 0.5], [4.0, 0, 0, 0, 1, 0.5]),
        # e = 1: exponents 2 and 1; the second group is raised from -1 to 1 and loses its low bits
        ("bfp(2,1,2)", [4.0, 2, 0.75, 0.5], [4.0, 2, 0, 0]),
        ("bfp(2,1,2):rna", [4.0, 2, 0.75, 0.5], [4.0, 2, 1, 1]),
        # all zeros, and signs of zeros
        ("bfp(2,3,2)", [0.0, -0.0, -0.0, 5.0], [0.0, -0.0, -0.0, 4.0]),
        ("bfp(2,3,2)", [0.0, -0.0], [0.0, -0.0]),
        ("bfp(2,3,2)", [-0.01, 5.0], [-0.0, 4.0]),
        # an infinity or a NaN makes its group NaN, and has no say in the window
        ("bfp(2,1,2)", [inf, 1.0, 2.0, 0.5], [nan, nan, 2.0, 0.0]),
        ("bfp(2,1,2)", [1.0, nan, 2.0**-9, 0], [nan, nan, 0, 0]),
        ("bfp(2,1,2)", [1.0, nan], [nan, nan]),
        # groups longer than the axis, and groups of one
        ("bfp(64,3,2)", [1.0, 0.5, 0.25], [1.0, 0.5, 0.0]),
        ("bfp(1,3,2)", [1.0, 0.5, 0.375, 7.0, 0.01], [1.0, 0.5, 0.375, 6.0, 0.0]),
        # subnormal binary32 values; the step is finer than they are
        ("bfp(2,3,4)", [3 * 2.0**-149, -(2.0**-149)], [3 * 2.0**-149, -(2.0**-149)]),
        ("bfp(2,3,1)", [3 * 2.0**-149, -(2.0**-149)], [2 * 2.0**-149, -0.0]),
        # the largest of all
        ("bfp(1,1,23):rne", [3.4028234663852886e38], [float.fromhex("0x1.fffffcp127")]),
    ]:
        given = np.array(x, np.float32)
        same(reference.round_groups(given, text), np.array(want, np.float32), given)
        same(numc.round(given, text), np.array(want, np.float32), given)


def test_what_is_said_of_int() -> None:
    nan = math.nan
    third = np.float32(np.float32(1) / np.float32(7))
    for text, x, want in [
        ("int4", [7.0, 2.5, -3.5, 0.4, -0.4, -0.0], [7.0, 2, -4, 0, 0, 0]),
        ("int4:rtz", [7.0, 2.9, -3.9], [7.0, 2, -3]),
        ("int4:rup", [-7.0, 2.1, -3.9], [-7.0, 3, -3]),
        ("int4:odd", [7.0, 2.1, -4.9], [7.0, 3, -5]),
        # the scale is binary32(1/7), above 1/7: half of the largest value is below 3.5 of it
        ("int4", [1.0, 0.5], [np.float32(7 * third), np.float32(3 * third)]),
        ("int8", [0.0, -0.0], [0, 0]),
        ("int8", [1.0, math.inf, 2], [nan] * 3),
        ("int8", [1.0, nan], [nan] * 2),
        # a scale below the smallest float32 is that one; it may saturate
        ("int4", [2.0**-149, -3 * 2.0**-149], [2.0**-149, -3 * 2.0**-149]),
        ("int4", [2.0**-149, -10 * 2.0**-149], [2.0**-149, -7 * 2.0**-149]),
        # the scale of the largest float32 may round up: no infinity comes of that
        *((f"int{n}", [3.4028234663852886e38], [None]) for n in range(4, 17)),
    ]:
        given = np.array(x, np.float32)
        got = reference.round_groups(given, text)
        if want == [None]:
            assert np.isfinite(got).all()
            assert np.allclose(got, given)
        else:
            same(got, np.array(want, np.float32), given)
        same(numc.round(given, text), got, given)


def test_quotients_next_to_integers_and_half_integers() -> None:
    rng = np.random.default_rng(0)
    for bits in (4, 8, 12, 16):
        for _ in range(6):
            most = np.float32(rng.uniform(0.5, 2))
            scale = float(most / np.float32(2 ** (bits - 1) - 1))
            halves = (rng.integers(0, 2**bits - 2, 100) / 2 * scale).astype(np.float32)
            x = np.concatenate([[most], halves, np.nextafter(halves, most), np.nextafter(halves, -most)])
            x = np.concatenate([x, -x]).astype(np.float32)
            for rounding in ROUNDINGS:
                text = f"int{bits}:{rounding}"
                same(numc.round(x, text), reference.round_groups(x, text), x)


# --- OCP MX against other implementations --------------------------------------------------


MX = ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8"]
PEERS = {
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4_e2m1": ml_dtypes.float4_e2m1fn,
}


def every_code(name: str) -> numc.Packed:
    """Blocks of all codes of the elements, with a scale of one."""
    fmt = GROUP_FORMATS[name]
    assert isinstance(fmt, Mx)
    count = 1 << fmt.element_bits
    bits = ""
    for code in range(count):  # the first field is the lowest of a number
        if code % 32 == 0:
            bits = f"{127:08b}" + bits
        bits = f"{code:0{fmt.element_bits}b}" + bits
    number = int(bits, 2)
    return numc.Packed(number.to_bytes(-(-len(bits) // 8), "little"), (count,), name, 0)


@cache
def element_values(name: str) -> F32:
    return numc.unpack(every_code(name))


@pytest.mark.parametrize("name", PEERS)
def test_every_code_of_mx_elements_against_ml_dtypes(name: str) -> None:
    count = len(element_values(name))
    same(element_values(name), np.arange(count).astype(np.uint8).view(PEERS[name]).astype(np.float32))


@pytest.mark.parametrize("name", MX)
def test_every_code_of_mx_elements_against_gfloat(name: str) -> None:
    element = getattr(gfloat.formats, f"format_info_{name}").etype
    codes = range(len(element_values(name)))
    same(element_values(name), np.array([gfloat.decode_float(element, c).fval for c in codes], np.float32))


@pytest.mark.parametrize("name", PEERS)
def test_mx_against_ml_dtypes(name: str) -> None:
    """Scale as OCP MX v1.0 section 6.3 says, by frexp; elements by ml_dtypes, clamped to their largest value."""
    fmt = GROUP_FORMATS[name]
    assert isinstance(fmt, Mx)
    largest = float(fmt.largest)
    rng = np.random.default_rng(2)
    x = np.abs(vectorised.samples(32 * 400, 3)).reshape(-1, 32)
    x[~np.isfinite(x)] = 0
    x[::2] = np.ldexp(rng.uniform(-2, 2, x[::2].shape), rng.integers(-9, 3, x[::2].shape))
    scale = np.maximum(np.frexp(np.abs(x).max(axis=1))[1] - 1 - fmt.emax, -127)
    scaled = np.ldexp(x.astype(np.float64), -scale[:, None])
    # Through binary32 for ml_dtypes: exact, but for what is far below the elements and rounds to zero in both.
    elements = np.clip(scaled, -largest, largest).astype(np.float32).astype(PEERS[name]).astype(np.float64)
    want = np.ldexp(elements, scale[:, None]).astype(np.float32)
    same(numc.round(x, name), want, x)
    same(reference.round_groups(x[::5], name), want[::5], x[::5])


@pytest.mark.parametrize("name", MX)
def test_mx_against_gfloat(name: str) -> None:
    info = getattr(gfloat.formats, f"format_info_{name}")
    rng = np.random.default_rng(4)
    x = rng.standard_normal((40, 32)) * np.exp2(rng.integers(-12, 3, (40, 32)))
    x = x.astype(np.float32) * np.float32(2) ** rng.integers(-60, 60, (40, 1)).astype(np.float32)
    want = [gfloat.quantize_block(info, row.astype(np.float64), gfloat.compute_scale_amax) for row in x]
    want = np.array(want, np.float32)
    if name == "mxint8":  # integers have no -0, and -2 is left unused (OCP MX v1.0, section 5.3.4)
        want = np.where(want == 0, np.float32(0), want)
        limit = np.float32(fmt_largest(name)) * np.exp2(np.frexp(np.abs(x).max(axis=1))[1] - 1).astype(np.float32)
        want = np.maximum(want, -limit[:, None])
    same(numc.round(x, name), want, x)
    same(reference.round_groups(x, name), want, x)


def fmt_largest(name: str) -> float:
    fmt = GROUP_FORMATS[name]
    assert isinstance(fmt, Mx)
    return float(fmt.largest)


@pytest.mark.parametrize(("rounding", "name"), pairs(ROUNDINGS, MX))
def test_every_element_of_mx_and_half_way_between_them(rounding: str, name: str) -> None:
    """A block whose largest value fixes the scale, and in it every boundary between two elements."""
    fmt = GROUP_FORMATS[name]
    assert isinstance(fmt, Mx)
    values = sorted({Fraction(float(v)) for v in element_values(name) if np.isfinite(v)} | {-fmt.largest, fmt.largest})
    values = [v for v in values if abs(v) <= fmt.largest]
    points = {a + (b - a) * part for a, b in itertools.pairwise(values) for part in (0, Fraction(1, 2))}
    points |= {p + sign * Fraction(1, 2**12) * abs(p) for p in points for sign in (1, -1)}
    x = np.array(sorted(float(p) for p in points), np.float32)
    x = x[np.abs(x) < 2.0 ** (fmt.emax + 1)]
    blocks = [np.append(x[i : i + 31], np.float32(2.0**fmt.emax)) for i in range(0, len(x), 31)]
    for block in blocks:
        want = [element_by_hand(Fraction(float(v)), values, rounding) for v in block]
        negative = np.signbit(block) & (fmt.exponent_bits > 0)
        expected = np.array([f32(abs(w), bool(n)) if w == 0 else float(w) for w, n in zip(want, negative, strict=True)])
        same(numc.round(block, f"{name}:{rounding}"), expected.astype(np.float32), block)
        same(reference.round_groups(block, f"{name}:{rounding}"), expected.astype(np.float32), block)


def element_by_hand(x: Fraction, values: list[Fraction], rounding: str) -> Fraction:
    """Choose among the neighbours in the list of values; its even entries, counted from zero, are the even ones."""
    if x in values or abs(x) > values[-1]:
        return max(values[0], min(values[-1], x))
    low, high = max(v for v in values if v < x), min(v for v in values if v > x)
    inward, outward = sorted((low, high), key=abs)
    odd_inward = bool((values.index(inward) - values.index(Fraction(0))) % 2)
    distance = abs(x - inward) - abs(outward - x)
    up = {
        "rtz": False,
        "rup": outward > x,
        "rdn": outward < x,
        "odd": not odd_inward,
        "rna": distance >= 0,
        "rne": distance > 0 or (distance == 0 and odd_inward),
    }[rounding]
    return outward if up else inward


def test_scales_of_mx_at_their_ends() -> None:
    inf, nan = math.inf, math.nan
    tiny = 2.0**-149
    for text, x, want in [
        ("mxfp4", [inf, 1], [nan, nan]),
        ("mxfp8_e5m2", [nan, 1], [nan, nan]),
        ("mxint8", [-inf, 0], [nan, nan]),
        # E8M0 begins at 2^-127: what is below half of the smallest element of that scale is lost
        ("mxfp4", [2.0**-128, 2.0**-129, -(2.0**-130)], [2.0**-128, 0.0, -0.0]),
        ("mxint8", [tiny, 2.0**-133, -(2.0**-134)], [0.0, 2.0**-133, 0.0]),
        ("mxfp8_e5m2", [tiny, 2.0**-143, 2.0**-144], [0.0, 2.0**-143, 0.0]),
        # the largest scales
        ("mxfp4", [3e38, -3.4e38], [float.fromhex("0x1.8p127"), -float.fromhex("0x1.8p127")]),
        ("mxint8", [3.4028234663852886e38], [float.fromhex("0x1.fcp127")]),
        # zeros
        ("mxfp4", [0.0, -0.0], [0.0, -0.0]),
        ("mxint8", [0.0, -0.0, -0.001, 1.0], [0.0, 0.0, 0.0, 1.0]),
    ]:
        given = np.array(x, np.float32)
        same(reference.round_groups(given, text), np.array(want, np.float32), given)
        same(numc.round(given, text), np.array(want, np.float32), given)
