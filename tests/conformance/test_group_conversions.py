"""numc.round, pack and unpack of formats with groups against the exact reference, bit for bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import arithmetic_vectorised as vectorised
import numc
from numc.numerics import reference
from numc.numerics.formats import ROUNDINGS
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds import GROUP_FORMATS, Bfp, Int
from tiers import by_default

F32 = npt.NDArray[np.float32]

pytestmark = pytest.mark.filterwarnings("error")

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-126), 3.4028234663852886e38, -(2.0**127), 1.0]
MIXED = st.one_of(
    st.floats(width=32),
    st.sampled_from(SPECIAL),
    # near each other, with few bits: ties, and exponents around those of a window
    st.builds(
        lambda units, exponent: units * 2.0**exponent,
        *(st.integers(-64, 64), st.integers(-12, 12)),
    ),
)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9)
FORMATS = st.one_of(
    st.builds(Bfp, st.sampled_from([1, 2, 3, 4, 16, 1000]), st.sampled_from([1, 2, 3, 8]), st.integers(1, 23)),
    st.sampled_from([fmt for fmt in GROUP_FORMATS.values() if not isinstance(fmt, Bfp)]),
    st.builds(Int, st.integers(4, 16)),
)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[F32, int]:
    """A tensor and an axis; long ones too, for blocks of 32."""
    shape = draw(st.one_of(SHAPES, st.sampled_from([(33,), (2, 70), (64, 3)])))
    x = draw(arrays.arrays(np.float32, shape, elements=MIXED, fill=st.sampled_from([0.0, -0.0, 1.0])))
    return x, draw(st.integers(-x.ndim, x.ndim - 1))


def same(got: F32, want: F32, x: F32, what: str) -> None:
    difference = vectorised.first_mismatch(got, want, x)
    assert difference is None, f"{what}: {difference}"


def check(x: F32, axis: int, text: str, per_tensor: bool) -> None:
    want = reference.round_groups(x, text, axis)
    given_axis = None if per_tensor else axis
    same(numc.round(x, text, axis=given_axis), want, x, text)
    packed = numc.pack(x, text, axis=given_axis)
    same(numc.unpack(packed), want, x, f"{text} packed")
    assert (packed.shape, packed.axis) == (x.shape, None if per_tensor else axis % x.ndim)


@given(tensors(), FORMATS, st.sampled_from(ROUNDINGS))
@example((np.array([1, np.inf, 0, 0, 2.0**-9, -0.0, 3], np.float32), 0), Bfp(2, 1, 2), "rtz")
@example((np.zeros((3, 0), np.float32), 0), Bfp(2, 1, 2), "rtz")
@example((np.full(5, np.nan, np.float32), 0), Bfp(2, 8, 3), "rne")
def test_against_the_reference(tensor: tuple[F32, int], fmt: Bfp, rounding: str) -> None:
    x, axis = tensor
    check(x, axis, str(GroupConversion(fmt, rounding)), isinstance(fmt, Int))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", ["bfp(7,2,5)", "bfp(16,3,4)", "msfp12", "mxfp8_e4m3", "mxfp6_e3m2", "mxint8", "int12"])
def test_hard_operands(name: str, rounding: str) -> None:
    """Ties, thresholds of formats, subnormals; groups of near exponents, and the whole range."""
    x = vectorised.samples(96 * 40, 1).reshape(96, 40)
    x[::3] = np.nan_to_num(x[::3], posinf=3e38, neginf=-3e38)
    with np.errstate(over="ignore"):
        x[1::3] = np.random.default_rng(1).standard_normal((32, 40)).astype(np.float32)
    for axis in (0, 1):
        check(x, axis, f"{name}:{rounding}", name == "int12")
    check(x[1::3], 1, f"{name}:{rounding}", name == "int12")


def test_any_memory_order_and_no_axes() -> None:
    x = np.random.default_rng(3).standard_normal((6, 5, 7)).astype(np.float32)
    for axis in (0, 1, 2):
        want = reference.round_groups(x, "bfp(4,2,3)", axis)
        for view in (np.asfortranarray(x), x[::-1][::-1], np.moveaxis(np.moveaxis(x, 1, 0).copy(), 0, 1)):
            same(numc.round(view, "bfp(4,2,3)", axis=axis), want, x, "a view")
    for text in ("bfp(4,2,3)", "mxfp4", "int8"):
        one = np.asarray(np.float32(3))
        assert numc.round(one, text).shape == numc.unpack(numc.pack(one, text)).shape == ()
        assert numc.round(one, text) == 3
    assert np.array_equal(numc.round(x, "bfp(4,2,3)"), numc.round(x, "bfp(4,2,3)", axis=-1))


def test_the_argument_is_not_changed() -> None:
    x = np.array([[1, np.nan, 0.3]], np.float32)
    before = x.copy()
    for text in ("bfp(2,2,2)", "mxfp4", "int8"):
        numc.round(x, text)
        numc.pack(x, text)
    assert np.array_equal(x, before, equal_nan=True)


@pytest.mark.parametrize(
    ("to", "axis", "message"),
    [
        ("bf16", 0, "axis=0: 'bf16' rounds every value by itself, leave axis out"),
        ("int8", 0, "axis=0: 'int8' has one scale for the whole tensor, leave axis out"),
        ("mxfp4", 2, "axis=2: x has shape (2, 3), want -2 to 1"),
        ("bfp(16,3,4)", -3, "axis=-3: x has shape (2, 3), want -2 to 1"),
    ],
)
def test_axes_that_are_none(to: str, axis: int, message: str) -> None:
    x = np.zeros((2, 3), np.float32)
    for function in (numc.round, numc.pack):
        with pytest.raises(numc.NumcError) as error:
            function(x, to, axis=axis)
        assert str(error.value) == message


def test_an_axis_of_a_scalar() -> None:
    with pytest.raises(numc.NumcError) as error:
        numc.round(np.float32(1), "mxfp4", axis=0)
    assert str(error.value) == "axis=0: x is a scalar, leave axis out"


@pytest.mark.parametrize("place", by_default([0, 70_000, 99_999], [99_999]))
def test_the_scale_of_a_long_tensor(place: int) -> None:
    x = np.random.default_rng(5).standard_normal(100_000).astype(np.float32)
    x[place] = -100
    want = reference.round_groups(x, "int8")
    same(numc.round(x, "int8"), want, x, "int8")
    same(numc.unpack(numc.pack(x, "int8")), want, x, "int8 packed")
    x[place] = np.nan
    assert np.isnan(numc.round(x, "int8")).all()
