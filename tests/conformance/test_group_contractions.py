"""Contractions of formats with groups: by hand, exhaustively where formats are small, and the generated code."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import arithmetic_vectorised as vectorised
import numc
from numc.compiler.arrays.arrays import matmul
from numc.frontends.imported import Argument, Imported
from numc.numerics import reference
from numc.numerics.grammar import parse_fma
from numc.support.errors import NumcError
from targets_here import HERE, some_variants, variants
from tiers import one_in, pairs

F32 = npt.NDArray[np.float32]
OPERATORS = (
    *("lowbfp", "highbfp", "msfp12", "bfp(1,2,3)", "bfp(7,3,5)", "bfp(8,8,7)", "bfp(4,1,1)", "bfp(48,4,6)"),
    "fma(a=bfp(16,3,4),b=bfp(16,3,2),acc=fp32)",
    "fma(a=bfp(16,8,23),b=bfp(16,5,20),acc=fp32)",  # sums of up to 47 bits
    *(f"fma(a=bfp(8,3,4):{a},b=bfp(8,2,5):{b},acc=fp32)" for a, b in (("rne", "rna"), ("rup", "rdn"), ("odd", "rtz"))),
    *("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8"),
    *(f"fma(a={a},b={b},acc=fp32)" for a, b in (("mxfp8:rup", "mxfp4:odd"), ("mxint8:rdn", "mxfp8_e5m2:rna"))),
    *("int4", "int8", "int9", "int10", "int16", "fma(a=int8:rup,b=int4:rtz,acc=fp32)"),
    *("fma(a=int8:channel,acc=fp32)", "fma(a=int12,b=int8:rtz:channel,acc=fp32)"),
)
FMAC2 = (
    *("fma(a=bfp(16,3,4),acc=fp32,datapath=fmac2)", "fma(a=bfp(7,3,5),b=bfp(7,3,2):rup,acc=fp32,datapath=fmac2)"),
    *("fma(a=bfp(8,8,20),acc=fp32,datapath=fmac2)", "fma(a=bfp(4,8,1),acc=fp32,datapath=fmac2)"),
)
# The default tier takes these: each kind of group, and each datapath.
USUAL = (
    *("lowbfp", "highbfp", "bfp(48,4,6)", "fma(a=bfp(16,8,23),b=bfp(16,5,20),acc=fp32)"),
    *("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "mxint8", "fma(a=mxint8:rdn,b=mxfp8_e5m2:rna,acc=fp32)"),
    *("int8", "int16", "fma(a=int8:channel,acc=fp32)", "fma(a=int12,b=int8:rtz:channel,acc=fp32)", FMAC2[1]),
)
OTHERS = [fma for fma in OPERATORS + FMAC2 if fma not in USUAL]
CHANNELS = "fma(a=int8:channel,b=int12:channel,acc=fp32)"
KINDS = ("plain", "wide", "special", "one huge value", "tiny", "subnormal", "huge", "minus zero")


def same(got: npt.ArrayLike, want: npt.ArrayLike, note: str = "") -> None:
    found = vectorised.first_mismatch(got, want)
    assert found is None, f"{note}: {found}"


def operands(kind: str, m: int, depth: int, n: int) -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(m * 1000 + depth * 10 + n)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, depth), (depth, n), (m, n)))
    if kind == "wide":
        a *= np.exp2(rng.integers(-120, 120, a.shape)).astype(np.float32)
        b *= np.exp2(rng.integers(-20, 20, b.shape)).astype(np.float32)
    elif kind == "special":
        for x in (a, b, c):
            places = rng.integers(0, max(x.size, 1), 1 + x.size // 100) if x.size else []
            x.reshape(-1)[places] = rng.choice(np.array([np.inf, np.nan, -0.0, 1e-42, 3e38], np.float32), len(places))
    elif kind == "one huge value" and depth:
        a[-1, depth // 2] = b[depth // 3, 0] = 2.0**30
    elif kind == "tiny":
        a, b, c = a * np.float32(2.0**-100), b * np.float32(2.0**-48), c * np.float32(2.0**-145)
    elif kind == "subnormal":  # units below the normal numbers, whose products are too small for binary32
        a, b, c = a * np.float32(2.0**-143), b * np.float32(2.0**-4), c * np.float32(2.0**-145)
    elif kind == "huge":
        a, b = a * np.float32(2.0**62), b * np.float32(2.0**63.5)
    elif kind == "minus zero":
        a, c = np.copysign(np.float32(0), a), np.full_like(c, -0.0)
    return a, b, c


def both(a: npt.ArrayLike, b: npt.ArrayLike, c: float, fma: str) -> float:
    """One dot product by the reference, by the one in numpy and by the generated code, which must agree."""
    x, y = np.asarray(a, np.float32), np.asarray(b, np.float32)
    start = np.array([[c]], np.float32)
    want = reference.dot(x, y, np.float32(c), fma)
    same(vectorised.matmul(x[None, :], y[:, None], start, fma), np.array([[want]]), fma)
    same(numc.matmul(x[None, :], y[:, None], start, fma=fma), np.array([[want]]), fma)
    return float(want)


# --- the definition --------------------------------------------------


def test_a_group_of_bfp_is_one_exact_sum() -> None:
    """4 bits at exponent 3 leave integers; the sums 2^24 and 1 meet in one group, and not in two."""
    assert both([8.9, 1.9, -1.9, 0.9], [1, 1, 1, 1], 0, "bfp(4,8,4)") == 8
    a, b = [4096, 1], [4096, 1]
    assert both(a, b, -(2.0**24), "bfp(2,8,13)") == 0  # 2^24 + 1 rounds to 2^24, a tie to even
    assert both(a, b, -(2.0**24), "bfp(1,8,13)") == 1  # one add each: 0, then 1


def test_operands_may_differ_in_bits() -> None:
    assert both([7, 5], [7, 5], 0, "fma(a=bfp(2,3,3),b=bfp(2,3,1),acc=fp32)") == 7 * 4 + 5 * 4
    assert both([7, 5], [7, 5], 0, "fma(a=bfp(2,3,1),b=bfp(2,3,3),acc=fp32)") == 4 * 7 + 4 * 5


def test_the_window_of_exponents_is_that_of_the_whole_operand() -> None:
    """e=1: a group at 2^0 next to one at 2^4 is raised to 2^3, where 3 bits are multiples of 2."""
    assert both([16, 1], [1, 1], 0, "bfp(1,1,3)") == 16
    assert both([16, 2], [1, 1], 0, "bfp(1,1,3)") == 18
    a, b = np.array([[16], [1]], np.float32), np.array([[1]], np.float32)
    assert numc.matmul(a, b, fma="bfp(1,1,3)").tolist() == [[16], [0]]
    assert numc.matmul(a[1:], b, fma="bfp(1,1,3)").tolist() == [[1]]
    # Infinities and NaN do not count, but they take their group with them; its other values do count.
    a = np.array([[np.inf, 16], [0, 1]], np.float32)
    assert str(numc.matmul(a, np.ones((2, 1), np.float32), fma="bfp(2,1,3)").tolist()) == "[[nan], [0.0]]"


def test_finite_values_beside_a_nan_count_in_the_window_of_exponents_everywhere() -> None:
    """e=1: next to 2^4, in whatever group, 2^0 is below the window: arrays, bytes and contractions agree."""
    for special in (np.nan, np.inf):
        x = np.array([[special, 16, 1, 0]], np.float32)
        want = [[np.nan, np.nan, 0, 0]]
        np.testing.assert_array_equal(numc.round(x, "bfp(2,1,3)"), want)
        np.testing.assert_array_equal(reference.round_groups(x, "bfp(2,1,3)"), want)
        packed = numc.pack(x, "bfp(2,1,3)")
        assert packed.shared == 4
        np.testing.assert_array_equal(numc.unpack(packed), want)
        rows = x.reshape(2, 2)
        product = numc.matmul(rows, np.ones((2, 1), np.float32), fma="bfp(2,1,3)")
        np.testing.assert_array_equal(product, [[np.nan], [0]])


@pytest.mark.parametrize(
    ("size", "want"),
    [(3e38, [np.inf, np.nan, -np.inf]), (1e-22, [2, 2, 2]), (1e-20, None), (2e21, None), (1e-42, [2, 2, 2])],
)
def test_a_product_of_scales_beyond_float32_follows_ieee(size: float, want: list[float] | None) -> None:
    """An infinity, of which an integer sum of 0 makes a NaN; or a subnormal or zero. None: not known beforehand."""
    a, b = np.array([[size, -size / 3, 0]], np.float32), np.array([[1, 0, -1], [0.5, 0, 0], [1, 0, 0]], np.float32)
    c = np.full((1, 3), 2, np.float32)
    for fma in ("int8", "int16"):
        got = numc.matmul(a, b * np.float32(size), c, fma=fma)
        np.testing.assert_array_equal(got, reference.matmul(a, b * np.float32(size), c, fma))
        if want is not None:
            np.testing.assert_array_equal(got, [want])


def test_mx_is_a_chain_of_fmas() -> None:
    """448 * 448 and 2^-9 * 2^-9 are 36 bits apart; in one block the small product is lost, however often it comes."""
    a = np.full(32, 2.0**-9)
    a[0] = 448
    assert both(a, a, 0, "mxfp8") == 448**2
    a[0], a[1] = 1, 2**-6
    sixes = [6.0] * 64
    assert both(sixes, sixes, 1, "mxfp4") == 36 * 64 + 1


def test_integers_are_summed_exactly_then_scaled_once() -> None:
    a, b = [127.0, 1.0, -64.0], [12.7, 0.1, 0.1]
    scale = np.float32(12.7) / np.float32(127)
    want = np.float32(np.float64(127 * 127 + 1 - 64) * np.float64(scale) + 0.25)
    assert both(a, b, 0.25, "int8") == want
    assert both([0, 0], [1, 2], 3, "int8") == 3
    assert math.isnan(both([0, math.inf], [1, 2], 3, "int8"))
    assert both([], [], -0.0, "int8") == 0


def test_what_is_not_finite() -> None:
    for fma in ("bfp(2,3,4)", "mxfp4", "int8"):
        assert math.isnan(both([math.inf, 1], [0, 0], 0, fma))
        assert math.isnan(both([math.nan, 1], [1, 1], 0, fma))
        assert both([1, 1], [1, 1], math.inf, fma) == math.inf
    assert both([2.0**127], [2.0**127], 0, "bfp(1,1,1)") == math.inf
    assert both([2.0**127], [2.0**127], 0, "int8") == math.inf


def test_signs_of_zeros() -> None:
    """The sum of a group starts at +0; without a group there is nothing to add."""
    for fma in ("bfp(2,3,4)", "mxfp4", "int8"):
        assert math.copysign(1, both([-1.0], [0.0], -0.0, fma)) == 1
        assert math.copysign(1, both([], [], -0.0, fma)) == -1
    assert math.copysign(1, both([2.0**-100], [-(2.0**-100)], -0.0, "bfp(2,3,4)")) == -1  # rounds to -0


@pytest.mark.parametrize("g", [1, 2, 3, 5, 40])
def test_against_exact_rationals(g: int) -> None:
    rng = np.random.default_rng(g)
    for depth in (1, 4, 5, 6, 17):
        a, b = (rng.standard_normal(depth).astype(np.float32) for _ in range(2))
        fma, size = f"bfp({g},8,3)", g

        def converted(x: F32, size: int = size) -> list[Fraction]:
            values: list[Fraction] = []
            for start in range(0, len(x), size):
                group = [Fraction(float(v)) for v in x[start : start + size]]
                step = Fraction(2) ** (math.frexp(float(max(map(abs, group))))[1] - 3)
                values += [Fraction(int(v / step)) * step for v in group]  # int() truncates
            return values

        def rounded(x: Fraction) -> Fraction:
            return Fraction(float(reference.round_real(x, "fp32")))

        total = Fraction(1)
        x, y = converted(a), converted(b)
        for start in range(0, depth, g):
            part = sum((v * w for v, w in zip(x[start : start + g], y[start : start + g], strict=True)), Fraction(0))
            total = rounded(total + rounded(part))
        assert both(a, b, 1, fma) == float(total)


# --- exhaustive where formats are small ----------------------------------


def codes(name: str) -> F32:
    """Every finite value of an element format, at the scale 1 (the largest one brings that)."""
    fmt = numc.group_formats[name]
    bits = range(1 << fmt.element_bits - 1)
    bias = 1 - fmt.emin
    values = [
        math.ldexp(f + (1 << fmt.significand_bits if e else 0), max(e, 1) - bias - fmt.significand_bits)
        for e, f in (divmod(code, 1 << fmt.significand_bits) for code in bits)
    ]
    positive = [v for v in values if v <= fmt.largest]
    return np.array([*positive, *(-v for v in positive)], np.float32)


ELEMENTS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1")


@pytest.mark.parametrize(("name", "target"), pairs(ELEMENTS, ["host", *HERE[:-1]]))
@pytest.mark.all
def test_every_pair_of_elements(name: str, target: str) -> None:
    """The largest value next to them, times 0, makes the scale 1 in both operands."""
    values = codes(name)
    assert set(values.tolist()) >= {0, 1, float(numc.group_formats[name].largest)}
    zero, largest = np.zeros_like(values), np.full_like(values, float(numc.group_formats[name].largest))
    a, b = np.stack([values, largest, zero], axis=1), np.stack([values, zero, largest])
    want = np.outer(values.astype(np.float64), values).astype(np.float32) + np.float32(0)  # no -0
    same(matmul(a, b, fma=name, target=target), want)
    some = np.random.default_rng(0).integers(0, len(values), 8)
    same(reference.matmul(a[some], b, fma=name), want[some])


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_pair_of_elements_in_a_block_of_one(name: str) -> None:
    """Alone in its block, a value has the largest exponent of the elements, where significands stop at the largest."""
    values = codes(name)
    most, _ = math.frexp(numc.group_formats[name].largest)
    significands, exponents = np.frexp(values.astype(np.float64))
    kept = np.ldexp(np.clip(significands, -most, most), exponents)
    assert (kept != values).any() == (name == "mxfp8_e4m3")
    want = np.outer(kept, kept).astype(np.float32) + np.float32(0)
    same(numc.matmul(values[:, None], values[None, :], fma=name), want)


@pytest.mark.parametrize("m", [1, 2])
def test_every_pair_of_groups_of_small_bfp(m: int) -> None:
    """All groups of two values with m-bit magnitudes, and exponents on both sides of the window's bottom."""
    units = range(-(2**m) + 1, 2**m)
    groups = [(x * 2.0**e, y * 2.0**e) for x, y in itertools.product(units, units) for e in (0, 1, 3)]
    a = np.array([*groups, (2.0 ** (m + 1), 0)], np.float32)
    fma = f"bfp(2,2,{m})"
    want = reference.matmul(a, a.T, fma=fma)
    for fast in (True, False):
        same(matmul(a, np.ascontiguousarray(a.T), fma=fma, fast=fast), want)


# --- boundaries of groups ------------------------------------------------

VALUES = st.one_of(
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, -(2.0**-126), 2.0**127, 1.0, 1.0 + 2.0**-23]),
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(VALUES, VALUES), max_size=40),
    VALUES,
    st.sampled_from(["bfp(3,1,4)", "bfp(16,3,4)", "bfp(64,8,2):rne", "mxfp4", "mxfp8_e5m2", "int8", "int16"]),
)
@pytest.mark.all
def test_any_values(terms: list[tuple[float, float]], c: float, text: str) -> None:
    fma = f"fma(a={text},acc=fp32)"
    both([x for x, _ in terms], [y for _, y in terms], c, fma)


def check_variants(fma: str, kind: str, chosen: list[tuple[str, bool]]) -> None:
    a, b, c = operands(kind, 7, 70, 5)
    want = reference.matmul(a, b, c, fma)
    same(vectorised.matmul(a, b, c, fma), want, "numpy")
    for target, fast in chosen:
        same(matmul(a, b, c, fma=fma, target=target, fast=fast), want, f"{target}, fast={fast}")


@pytest.mark.parametrize(
    ("fma", "kind"),
    pairs(
        USUAL,
        KINDS,
        lambda fma, _: fma.startswith("mxfp8"),
        lambda fma, kind: fma.startswith(("int8", "mxint8", "fma(a=int8")) and kind in ("plain", "tiny", "subnormal"),
    ),
)
def test_any_operator(fma: str, kind: str) -> None:
    check_variants(fma, kind, some_variants(fma, USUAL.index(fma)))


@pytest.mark.all
@pytest.mark.parametrize("fma", one_in(5, OTHERS))
def test_any_other_operator(fma: str) -> None:
    for kind in KINDS:
        check_variants(fma, kind, [("host", True)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fma", OPERATORS + FMAC2)
def test_any_operator_on_every_target(fma: str, kind: str) -> None:
    check_variants(fma, kind, variants(fma))


@pytest.mark.parametrize(
    ("fma", "depth"),
    pairs(["lowbfp", "bfp(7,3,5)", "bfp(300,3,4)", "mxfp8", "int8", "int16"], [0, 1, 15, 16, 17, 255, 256, 257, 530]),
)
@pytest.mark.all
def test_any_depth(fma: str, depth: int) -> None:
    """Blocks of k are about 256."""
    for kind in ("plain", "special"):
        a, b, c = operands(kind, 11, depth, 37)
        want = vectorised.matmul(a, b, c, fma)
        for fast in (True, False):
            for threads in (1, 3):
                same(matmul(a, b, c, fma=fma, fast=fast, threads=threads), want, f"{kind}, fast={fast}")


@pytest.mark.parametrize(
    ("fma", "shape"),
    pairs(
        ["highbfp", "mxfp4", "int8", CHANNELS],
        [(1, 40, 70), (1, 600, 5), (3, 600, 1), (70, 520, 90), (0, 5, 3), (2, 5, 0)],
    ),
)
def test_any_shape(fma: str, shape: tuple[int, int, int]) -> None:
    a, b, c = operands("plain", *shape)
    for threads in (1, 3):
        same(numc.matmul(a, b, c, fma=fma, threads=threads), vectorised.matmul(a, b, c, fma))


ALONG_ROWS = (
    *("highbfp", "bfp(8,8,7)", "bfp(48,4,6)", "bfp(7,3,5)", "fma(a=bfp(16,8,7):rna,acc=fp32)", "mxfp4", "mxfp8"),
    *("int8", "int16", CHANNELS, "fma(a=bfp(16,8,7):sr8,acc=fp32)", FMAC2[0]),
)


@pytest.mark.parametrize("fma", one_in(20, ALONG_ROWS, "int8"))
def test_rows_are_converted_from_where_they_are(fma: str) -> None:
    """Whole tiles of rows whose blocks of k are whole vectors: as if the steps of k were not adjacent."""
    shape = 37, 256 + 48, 20
    for kind in ("plain", "special", "wide"):
        a, b, _ = operands(kind, *shape)
        there, packed = (_product(shape, fma, columns=columns) for columns in (False, True))
        results = there(a, b, seed=1), packed(np.ascontiguousarray(a.T), b, seed=1)
        same(*results, kind)
        if "sr8" not in fma:
            same(results[0], vectorised.matmul(a, b, np.zeros((37, 20), np.float32), fma), kind)


def _product(shape: tuple[int, int, int], fma: str, *, columns: bool) -> numc.Program:
    """A matrix product, of the columns of its first operand if that is said."""

    class Product(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.einsum("km,kn->mn" if columns else "mk,kn->mn", a, b)

    m, k, n = shape
    return numc.compile(Product(), (torch.zeros((k, m) if columns else (m, k)), torch.zeros(k, n)), fma=fma)


GUARDED = ["highbfp", "mxfp8", "int8"]


@pytest.mark.parametrize(("fma", "target"), pairs(GUARDED, HERE, lambda _, target: target == HERE[-1]))
def test_a_guard_that_fails_in_some_tiles_only(fma: str, target: str) -> None:
    """Products of some rows and columns leave the range of binary32 on the way, others do not."""
    a, b, c = operands("plain", 40, 300, 90)
    a[3] *= np.float32(2.0**80)
    b[:, 70] *= np.float32(2.0**60)
    a[20], b[:, 33] = a[20] * np.float32(2.0**-100), b[:, 33] * np.float32(2.0**-40)
    want = vectorised.matmul(a, b, c, fma)
    same(matmul(a, b, c, fma=fma, target=target), want, target)


@pytest.mark.parametrize("fma", ["highbfp", "fma(a=int8,b=int16,acc=fp32)"])
def test_large_operands_are_scanned_on_all_threads(fma: str) -> None:
    """The largest value is the last one; and one beyond the part that a transposed view reads must not count."""
    a, b, c = operands("plain", 300, 400, 20)
    a[-1, -1] = 100
    want = vectorised.matmul(a, b, c, fma)
    for threads in (1, 2, 5):
        same(matmul(a, b, c, fma=fma, threads=threads), want)


def test_fmac2_goes_over_a_group_once_for_every_pair_of_chunks() -> None:
    """The same bits as in one pass; how many passes there are is in the program's description."""
    a, b, c = operands("plain", 20, 70, 40)
    for m_a, m_b, passes in ((2, 2, 1), (4, 2, 2), (4, 4, 4), (3, 5, 6)):
        text = f"fma(a=bfp(16,3,{m_a}),b=bfp(16,3,{m_b}),acc=fp32"
        assert parse_fma(f"{text},datapath=fmac2)").passes == passes
        assert parse_fma(f"{text})").passes == 1
    for m_a, m_b in ((2, 2), (3, 5)):
        text = f"fma(a=bfp(16,3,{m_a}),b=bfp(16,3,{m_b}),acc=fp32"
        same(numc.matmul(a, b, c, fma=f"{text},datapath=fmac2)"), numc.matmul(a, b, c, fma=f"{text})"), text)
    program = numc.compile(Imported(mlir=convolution("2x9x12x12", "5x9x3x3", "2x5x5x5")), fma=FMAC2[0])
    assert program.manifest["contractions"][0]["passes"] == 4
    report = numc.verify(program, {i.name: np.ones(i.shape, np.float32) for i in program.inputs}, samples=10)  # type: ignore[arg-type]
    assert report.rows[0].passes == 4


def test_a_channel_has_a_scale_of_its_own() -> None:
    """A small row keeps its bits next to a large one, and a NaN stays in its row."""
    a, b = np.array([[1000, 10], [3, -7], [math.nan, 1]], np.float32), np.eye(2, dtype=np.float32)
    near, one = (numc.matmul(a[:2], b, fma=f"fma(a=int8{channel},b=int8,acc=fp32)") for channel in (":channel", ""))
    np.testing.assert_allclose(near[1], [3, -7], rtol=0.01)
    np.testing.assert_allclose(one[1], [0, -1000 / 127], rtol=1e-6)
    got = numc.matmul(a, b, fma="fma(a=int8:channel,b=int8,acc=fp32)")
    assert np.isnan(got).tolist() == [[False] * 2, [False] * 2, [True] * 2]


# --- models --------------------------------------------------------------


def convolution(x: str, w: str, y: str) -> str:
    id_ = "affine_map<(n, c, h, w) -> (n, c, h, w)>"
    image, kernel, result = f"tensor<{x}xf32>", f"tensor<{w}xf32>", f"tensor<{y}xf32>"
    return f"""
    func.func @main(%a: {image}, %b: {kernel}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {result}
      %s = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.conv_2d_nchw_fchw {{strides = dense<2> : vector<2xi64>}}
        ins(%a, %b : {image}, {kernel}) outs(%s : {result}) -> {result}
      %y = linalg.generic {{indexing_maps = [{id_}, {id_}],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%r : {result}) outs(%e : {result}) {{
      ^bb0(%v: f32, %o: f32):
        %m = arith.maximumf %v, %zero : f32
        linalg.yield %m : f32
      }} -> {result}
      return %y : {result}
    }}"""


@pytest.mark.parametrize(
    ("weight", "fma"),
    pairs([True, False], ["highbfp", "bfp(7,2,5)", "mxfp8", "int8", CHANNELS], lambda w, fma: w and fma == CHANNELS),
)
def test_convolution(weight: bool, fma: str) -> None:
    """Groups run over channels and window together, whether a weight is known or not; the operand is the whole tensor.

    Stride 2 leaves the last row and column of the image out, where the largest value is.
    """
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 9, 12, 12), (5, 9, 3, 3)))
    x[1, 3, 11, 11] = 1000
    text = convolution("2x9x12x12", "5x9x3x3", "2x5x5x5")
    arguments = Argument("x", "float32", x.shape), Argument("w", "float32", w.shape)
    source = Imported(text, arguments[: 1 if weight else 2], (Argument("y", "float32", (2, 5, 5, 5)),))
    if weight:
        source = Imported(text, arguments[:1], (Argument("y", "float32", (2, 5, 5, 5)),), {1: ("w", w)})
    program = numc.compile(source, fma=fma)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].transpose(
        0, 2, 3, 1, 4, 5
    )
    rows = windows.reshape(50, 81)
    # One more row makes the left out value a part of the operand.
    rows = np.concatenate([rows, np.full((1, 81), 1000, np.float32)])
    want = vectorised.matmul(rows, w.reshape(5, 81).T, fma=fma)[:50]
    want = np.maximum(want, 0).reshape(2, 5, 5, 5).transpose(0, 3, 1, 2)
    feeds = {"x": x} if weight else {"x": x, "w": w}
    for threads in (1, 3):
        same(np.asarray(program(feeds, threads=threads)), np.ascontiguousarray(want))
    report = numc.verify(program, feeds, samples=200)
    assert (report.mismatches, report.rows[0].fma) == (0, str(parse_fma(fma))), report.first
    assert report.checked > 100


@pytest.mark.parametrize(
    ("fma", "side"),
    pairs(
        ["highbfp", FMAC2[1], "fma(a=mxfp8,b=mxfp4,acc=fp32)", "fma(a=int8,b=int5,acc=fp32)", "int12", CHANNELS], [1, 0]
    ),
)
@pytest.mark.all
def test_weights_are_converted_at_compile_time(fma: str, side: int) -> None:
    a, b, _ = operands("plain", 19, 70, 37)
    a[3, 5], b[60, 7] = 40, -50
    texts = [f"tensor<{m}x{n}xf32>" for m, n in ((19, 70), (70, 37))]
    names = ("%w, %x", "%x, %w")[side]
    text = f"""
    func.func @main(%x: {texts[1 - side]}, %w: {texts[side]}) -> tensor<19x37xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<19x37xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<19x37xf32>) -> tensor<19x37xf32>
      %r = linalg.matmul ins({names} : {texts[0]}, {texts[1]}) outs(%f : tensor<19x37xf32>) -> tensor<19x37xf32>
      return %r : tensor<19x37xf32>
    }}"""
    given = Argument("x", "float32", (a, b)[1 - side].shape)
    source = Imported(text, (given,), (Argument("y", "float32", (19, 37)),), {1: ("w", (a, b)[side])})
    program = numc.compile(source, fma=fma)
    assert any("packed" in weight.name for weight in program.contents.abi.weights)
    same(np.asarray(program((a, b)[1 - side])), vectorised.matmul(a, b, fma=fma))
    report = numc.verify(program, {"x": (a, b)[1 - side]}, samples=100)
    assert report.mismatches == 0, report.first


@pytest.mark.parametrize("fma", ["bfp(5,2,4)", "mxfp4", "int8", CHANNELS])
def test_the_parts_of_a_batch_share_what_a_tensor_shares(fma: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 5, 7), (3, 7, 6)))
    a[2] *= 1000
    kinds = ["tensor<3x5x7xf32>", "tensor<3x7x6xf32>", "tensor<3x5x6xf32>"]
    text = f"""
    func.func @main(%a: {kinds[0]}, %b: {kinds[1]}, %c: {kinds[2]}) -> {kinds[2]} {{
      %r = linalg.batch_matmul ins(%a, %b : {kinds[0]}, {kinds[1]}) outs(%c : {kinds[2]}) -> {kinds[2]}
      return %r : {kinds[2]}
    }}"""
    got = np.asarray(numc.compile(Imported(mlir=text), fma=fma)(a, b, np.zeros((3, 5, 6), np.float32)))
    # All rows against all columns: the parts are the blocks of the diagonal.
    whole = vectorised.matmul(a.reshape(15, 7), b.transpose(1, 0, 2).reshape(7, 18), fma=fma)
    same(got, np.stack([whole[5 * n : 5 * n + 5, 6 * n : 6 * n + 6] for n in range(3)]))


def test_products_with_parts_of_a_weight_stay_apart() -> None:
    """The largest value of one part must not reach the other one."""
    a, b, _ = operands("plain", 4, 16, 6)
    b[:, :3] *= 1000
    text = """
    func.func @main(%a: tensor<4x16xf32>, %b: tensor<16x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<4x3xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
      %x = tensor.extract_slice %b[0, 0] [16, 3] [1, 1] : tensor<16x6xf32> to tensor<16x3xf32>
      %y = tensor.extract_slice %b[0, 3] [16, 3] [1, 1] : tensor<16x6xf32> to tensor<16x3xf32>
      %p = linalg.matmul ins(%a, %x : tensor<4x16xf32>, tensor<16x3xf32>) outs(%f : tensor<4x3xf32>) -> tensor<4x3xf32>
      %q = linalg.matmul ins(%a, %y : tensor<4x16xf32>, tensor<16x3xf32>) outs(%f : tensor<4x3xf32>) -> tensor<4x3xf32>
      return %p, %q : tensor<4x3xf32>, tensor<4x3xf32>
    }"""
    for fma, count in (("bfp(4,2,4)", 2), ("int8", 2), ("mxfp4", 1)):
        program = numc.compile(Imported(mlir=text), fma=fma)
        assert len(program.manifest["contractions"]) == count
        got = program(a, b)
        assert isinstance(got, dict)
        for part, result in zip((b[:, :3], b[:, 3:]), got.values(), strict=True):
            same(result, vectorised.matmul(a, part, fma=fma), fma)


def test_outside_of_a_reduction_it_is_the_fp32_fma() -> None:
    a, b, c = vectorised.operands(1 << 12, 5)
    for fma in ("highbfp", "mxfp4", "int8"):
        for got in (f(a, b, c, fma) for f in (numc.fma, reference.fma, vectorised.fma)):
            same(got, vectorised.fma(a, b, c, "fp32"))


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
        numc.compile(Imported(mlir=text), fma="highbfp")
    assert str(error.value).endswith(
        "'fma(a=bfp(16,3,4),acc=fp32)' needs reductions whose body is one multiply-add, this one does more: use 'fp32'"
    )
    assert "\n" not in str(error.value)
