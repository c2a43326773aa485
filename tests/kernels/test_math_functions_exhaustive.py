"""All 2^32 inputs of every unary function: half a minute each."""

from __future__ import annotations

import pytest

from math_exhaustive import LIBRARY, largest_error_of


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_every_float(name: str) -> None:
    error = largest_error_of(name)
    print(f"{name}: {error:.6f} ulp")
    assert error <= 0.501
