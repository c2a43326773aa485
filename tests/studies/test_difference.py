"""Differences of arrays: bits, units in the last place, relative errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numc.studies import difference as module
from numc.studies.difference import Differences, difference

FLOATS = st.floats(width=32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=40), st.integers(1, 9))
def test_against_the_definition(pairs: list[tuple[float, float]], block: int) -> None:
    a, b = f32(*(x for x, _ in pairs)), f32(*(y for _, y in pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found = difference(a, b)
    same = [(x == y and math.copysign(1, x) == math.copysign(1, y)) or (x != x and y != y) for x, y in pairs]
    assert (found.elements, found.differ) == (len(pairs), same.count(False))
    if all(same):
        assert (found.largest, found.relative, found.mse, found.ulp, found.ulp_half, found.first) == (
            0,
            0,
            0,
            0,
            0,
            None,
        )
        return
    first = same.index(False)
    assert found.first is not None
    assert found.first.index == (first,)
    assert found.first.a_hex == f"0x{int(a[first : first + 1].view(np.uint32)[0]):08x}"
    assert found.first.b_hex == f"0x{int(b[first : first + 1].view(np.uint32)[0]):08x}"
    steps = sorted(
        0 if equal else 1 << 32 if x != x or y != y else abs(place(x) - place(y))
        for (x, y), equal in zip(pairs, same, strict=True)
    )
    assert found.ulp == steps[-1]
    half = steps[(len(steps) - 1) // 2]
    assert found.ulp_half == (1 << (half - 1).bit_length() if half else 0)
    with np.errstate(all="ignore"):
        errors = np.array([0.0 if e else y - x for (x, y), e in zip(pairs, same, strict=True)])
        np.testing.assert_equal(found.largest, np.abs(errors).max())
        error, norm = (errors**2).sum(), (a.astype(np.float64) ** 2).sum()
        np.testing.assert_allclose(found.mse, error / len(pairs))
        np.testing.assert_allclose(found.relative, error / norm if norm else error * math.inf if error else 0.0)


def place(x: float) -> int:
    """The number of float32 from 0 to x."""
    magnitude = int(f32(abs(x)).view(np.uint32)[0])
    return -magnitude if x < 0 else magnitude


def test_executions_add_up() -> None:
    found = Differences()
    found.add(f32(1, 2), f32(1, 2), 0)
    found.add(f32(3, 4), f32(3, 5), 1)
    result = found.result()
    assert (result.elements, result.differ, result.relative) == (4, 1, 1 / 30)
    assert str(result.first) == "element [1] of 2 of execution 1: 0x40800000 (4) | 0x40a00000 (5)"


def test_a_transposed_array_has_the_order_of_its_indices() -> None:
    a = np.zeros((2, 3), np.float32)
    b = a.copy()
    b[0, 2] = b[1, 0] = 1
    first = difference(a.T, b.T).first
    assert first is not None
    assert (first.index, first.shape) == ((0, 1), (3, 2))


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.float64])
def test_other_types_have_no_ulp(dtype: type) -> None:
    a, b = np.array([0, 1], dtype), np.array([1, 1], dtype)
    found = difference(a, b)
    assert (found.differ, found.largest, found.relative, found.ulp, found.ulp_half) == (1, 1, 1, None, None)


def test_scalars_and_nothing() -> None:
    assert str(difference(np.float32(1).reshape(()), np.float32(2).reshape(())).first).startswith(
        "element [] of a scalar"
    )
    assert difference(f32(), f32()).relative == 0
