"""Groups with scales in any format: nvfp4, blocks of fp8 and integers with float32 scales, nf4."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc import reference
from numc.numerics.grammar import parse_fma, parse_group_conversion
from numc.support.errors import NumcError
from tiers import one_in

F32 = npt.NDArray[np.float32]
NF4 = np.array([numc.reference.round(v, "nf4") for v in np.linspace(-1, 1, 400, dtype=np.float32)], np.float32)
LISTED = np.unique(NF4)


def cast(kind: type) -> Callable[[F32], F32]:
    largest = np.float32(ml_dtypes.finfo(kind).max)
    return lambda y: np.clip(y, -largest, largest).astype(kind).astype(np.float32)


def nearest_listed(y: F32) -> F32:
    return LISTED[np.abs(np.clip(y, -1, 1)[..., None].astype(np.float64) - LISTED).argmin(axis=-1)]


# How elements are rounded, and the largest one; by the text of the element.
ELEMENTS: dict[str, tuple[Callable[[F32], F32], float]] = {
    "e2m1fn": (cast(ml_dtypes.float4_e2m1fn), 6),
    "e4m3fn": (cast(ml_dtypes.float8_e4m3fn), 448),
    "e5m2": (cast(ml_dtypes.float8_e5m2), 57344),
    "int4": (lambda y: np.clip(np.rint(y), -8, 7) + np.float32(0), 7),
    "int8": (lambda y: np.clip(np.rint(y), -128, 127) + np.float32(0), 127),
    "nf4": (nearest_listed, 1),
}
SCALES = {
    "e4m3fn": (cast(ml_dtypes.float8_e4m3fn), 2.0**-9, 448),
    "fp16": (lambda y: np.clip(y, 0, 65504).astype(np.float16).astype(np.float32), 2.0**-24, 65504),
    "fp32": (lambda y: y, 2.0**-149, 3e38),
}
CASES = [
    *(f"mx({element},{g},scale={scale})" for element in ELEMENTS for scale in SCALES for g in (16, 7, 64)),
    *(f"mx({element},{g},scale=e4m3fn,tensor=fp32)" for element in ELEMENTS for g in (16, 5)),
]


def tensors() -> list[F32]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 70)).astype(np.float32)
    wide = x * np.exp2(rng.integers(-140, 120, (8, 70))).astype(np.float32)
    wide[0, :20], wide[1, 3], wide[2, 5], wide[3, :16] = 0, np.inf, np.nan, -0.0
    tiny = np.zeros((2, 70), np.float32)
    tiny[0, 0], tiny[1, :5] = 1e-44, [1e-42, -1e-43, 3e-44, 1e-40, 1.2e-38]
    return [x, wide, tiny, x[:2] * np.float32(2.0**-10)]


@np.errstate(all="ignore")
def by_the_rule(x: F32, text: str) -> F32:
    """Rule amax, in numpy's float32, with elements and scales of ml_dtypes."""
    element, group, scale, *tensor = text.removeprefix("mx(").removesuffix(")").replace("scale=", "").split(",")
    (to_element, largest), (to_scale, least, most) = ELEMENTS[element], SCALES[scale]
    t = np.float32(1)
    if tensor:
        amax = np.float32(np.abs(x[np.isfinite(x)]).max())
        t = np.maximum(amax / np.float32(most * largest), np.float32(2.0**-149)) if amax else np.float32(0)
    size, groups = int(group), []
    for k in range(0, x.shape[1], size):
        part = x[:, k : k + size]
        amax = np.abs(part).max(axis=1)
        is_nan = ~np.isfinite(amax)
        p = np.where(is_nan, np.float32(1), amax) / np.float32(largest)
        s = to_scale((p / t if tensor else p).astype(np.float32))
        s = np.where(amax == 0, np.float32(0), np.where(s == 0, np.float32(least), s)).astype(np.float32)
        f = (s * t)[:, None]
        y = np.where(f == 0, part * np.float32(0), part / f).astype(np.float32)
        values = to_element(np.where(is_nan[:, None], np.float32(0), y)) * f
        groups.append(np.where(is_nan[:, None], np.float32(np.nan), values))
    return np.concatenate(groups, axis=1)


@pytest.mark.parametrize("text", one_in(5, CASES))
def test_conversions_by_their_rule(text: str) -> None:
    for x in tensors():
        want = by_the_rule(x, text)
        for found in (numc.round(x, text), reference.round_groups(x, text), numc.unpack(numc.pack(x, text))):
            assert (difference := vectorised.first_mismatch(found, want, x)) is None, difference


OTHERS = [
    *("nvfp4", "mx(nf4,16)", "mx(nf4,16,ceil)", "mx(int4,16,rule=nearest)", "mx(e4m3fn,32,rule=amax)"),
    *("mx(e5m2,7,scale=bf16,rule=ceil)", "mx(table(-2,-0.5,0.25,1),5,scale=fp16)", "mx(fixed(3,4),4,scale=fp32)"),
    *("mx(e2m1fn,16,scale=e5m2,rule=floor)", "mx(e4m3fnuz,16,scale=fp32)"),
]
ROUNDED = [f"{text}{rounding}" for text in OTHERS for rounding in ("", ":rtz", ":rup", ":rdn", ":rna", ":odd", ":sr5")]


@pytest.mark.parametrize("text", one_in(6, ROUNDED))
def test_roundings_against_exact_numbers(text: str) -> None:
    for x in tensors():
        found = numc.round(x, text, seed=0) if ":sr" in text else numc.round(x, text)
        want = reference.round_groups(x, text)
        assert (difference := vectorised.first_mismatch(found, want, x)) is None, difference


def test_rows_of_two_levels() -> None:
    """NVIDIA's example of two levels: the largest magnitude of the tensor is a value, and has the largest scale."""
    x = np.zeros((2, 32), np.float32)
    x[0, 0], x[1, 20] = 2688.0, 12.0
    packed = numc.pack(x, "nvfp4")
    assert packed.shared == 1.0
    assert numc.unpack(packed)[0, 0] == 2688.0
    assert packed.data[0] == 0x7E  # the scale 448
    assert len(packed.data) == 4 * (1 + 8)


def test_texts() -> None:
    whole = "mx(e2m1fn,16,scale=e4m3fn,rule=amax,tensor=fp32)"
    assert str(parse_group_conversion(whole)) == "nvfp4"
    texts = (
        "nvfp4:sr8 mx(nf4,64,scale=fp32) mx(int4,128,scale=fp16):rtz mx(e2m1fn,16,scale=e4m3fn) mx(e2m1fn,16,nearest)"
    )
    for text in (*texts.split(), "mx(e4m3fn,32,scale=e8m0fnu,rule=amax)", "mx(fixed(3,4),4,scale=fp32)"):
        assert str(parse_group_conversion(text)) == text
    assert numc.group_formats["nvfp4"].bits_per_value == 4.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mx(e2m1fn,16,scale=e3m0)",
            "format 'mx(e2m1fn,16,scale=e3m0)': scale=e3m0, want e8m0fnu, or eXmY or eXmYfn with a NaN, "
            "such as e4m3fn, fp16 or fp32",
        ),
        (
            "mx(e2m1fn,16,scale=huge)",
            "format 'mx(...)': scale 'huge', want e8m0fnu, or eXmY or eXmYfn with a NaN, such as e4m3fn, fp16 or fp32",
        ),
        (
            "mx(bf16,16,scale=fp32)",
            "format 'mx(bf16,16,scale=fp32)': element 'bf16', want intN, uintN or a signed format of up to 8 "
            "bits that is no posit, such as e2m1fn or nf4",
        ),
        (
            "mx(e2m1fn,16,scale=fp32,tensor=fp32)",
            "format 'mx(e2m1fn,16,scale=fp32,tensor=fp32)': tensor=fp32 is for rule=amax, and for scales "
            "of less range than binary32's",
        ),
        (
            "mx(e2m1fn,16,scale=e4m3fn,tensor=fp16)",
            "format 'mx(...)': tensor='fp16', the scale of a tensor is in fp32: want tensor=fp32",
        ),
        (
            "mx(nf4,0,scale=fp32)",
            "format 'mx(nf4,0,scale=fp32)': groups of 0 values, want 1 or more",
        ),
        (
            "mx(nf4,16,scale=fp32,rule=most)",
            "format 'mx(nf4,16,scale=fp32,rule=most)': rule 'most', want floor, ceil, nearest, amax or inverse",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_group_conversion(text)
    assert str(error.value) == message


OPERATORS = [
    *("nvfp4", "mx(e4m3fn,128,scale=fp32)", "mx(int4,12,scale=fp16)", "mx(nf4,64,scale=fp32)"),
    "fma(a=mx(e5m2,4,scale=bf16):sr4,b=mx(e2m1fn,4,scale=e4m3fn,tensor=fp32),acc=fp32)",
    *("mx(e2m1fn,16,scale=e4m3fn)", "mx(e3m2fn,3,scale=fp32,rule=ceil)"),
]


@pytest.mark.parametrize("text", one_in(7, OPERATORS, *OPERATORS[:2]))
def test_sums_of_elements(text: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((7, 300), np.float32), rng.standard_normal((300, 19), np.float32)
    a[2, 7], b[3], b[:, 5], b[40, :4] = np.inf, b[3] * np.float32(1e-39), 0, [448, -3e38, 3e38, -0.0]
    for target in ("host", "x86-64-v2") if text == "nvfp4" else ("host",):
        found = numc.matmul(a, b, fma=text, target=target, seed=2 if ":sr" in text else None)
        want = reference.matmul(a, b, fma=text, seed=2)
        assert (difference := vectorised.first_mismatch(found, want)) is None, difference


def test_a_sum_of_elements_in_numpy() -> None:
    """The elements of nvfp4 and their scales from its bytes; sums of groups are exact, products are of float32."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 64), np.float32), rng.standard_normal((64, 5), np.float32)
    operands = []
    for x in (a, np.ascontiguousarray(b.T)):
        packed = numc.pack(x, "nvfp4")
        groups = np.frombuffer(packed.data, np.uint8).reshape(len(x), 4, 9)
        scales = groups[..., 0].copy().view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(packed.shared)
        codes = np.stack([groups[..., 1:] & 15, groups[..., 1:] >> 4], axis=-1).reshape(len(x), 4, 16)
        operands.append((codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64), scales))
    (x, of_x), (y, of_y) = operands
    want = np.zeros((3, 5), np.float32)
    for g in range(4):
        exact = (x[:, g] @ y[:, g].T).astype(np.longdouble)
        want = (want + exact * (of_x[:, g, None] * of_y[None, :, g])).astype(np.float32)
    assert np.array_equal(numc.matmul(a, b, fma="nvfp4"), want)


def test_kinds_of_scales_do_not_mix() -> None:
    with pytest.raises(NumcError) as error:
        parse_fma("fma(a=nvfp4,b=mx(e2m1fn,16),acc=fp32)")
    assert str(error.value) == (
        "fma(a=nvfp4,b=mx(e2m1fn,16),acc=fp32): bfp, mx and intN do not mix, nor do scales e8m0fnu and others: "
        "give a and b formats of one kind"
    )
