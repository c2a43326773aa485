"""All 2^32 inputs of every unary function: half a minute each."""

from __future__ import annotations

import numpy as np
import pytest

from math_exhaustive import LIBRARY, largest_error_of
from math_harness import V3_ONLY, WITH_CHECKS, Compiled, apply, loop_text, with_checks


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_every_float(name: str) -> None:
    error = largest_error_of(name)
    print(f"{name}: {error:.6f} ulp")
    assert error <= 0.501


@pytest.mark.slow
@pytest.mark.parametrize(("isa", "name"), WITH_CHECKS)
def test_every_float_has_the_same_bits_with_and_without_a_check(isa: str, name: str) -> None:
    checked = with_checks(isa, name)
    plain = Compiled(loop_text(name, 1), V3_ONLY, "x86-64-v3")
    for block in range(256):
        x = (np.arange(1 << 24, dtype=np.uint32) + np.uint32(block << 24)).view(np.float32)
        a, b = apply(checked, x), apply(plain, x)
        assert ((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all()
