"""All 2^32 inputs of every unary function: half a minute each."""

from __future__ import annotations

import numpy as np
import pytest

from math_exhaustive import LIBRARY, largest_error_of
from math_harness import V3_ONLY, V4, Compiled, apply, loop_text, vector_text
from numc.passes.buffers.lower_math import CHECKED
from numc.passes.kernels.isa.avx512 import AVX512


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_every_float(name: str) -> None:
    error = largest_error_of(name)
    print(f"{name}: {error:.6f} ulp")
    assert error <= 0.501


@pytest.mark.slow
@pytest.mark.parametrize("name", [n.removeprefix("math.") for n in CHECKED])
def test_every_float_has_the_same_bits_with_and_without_a_check(name: str) -> None:
    checked = Compiled(vector_text(name, 16), V4, "x86-64-v4", AVX512)
    plain = Compiled(loop_text(name, 1), V3_ONLY, "x86-64-v3")
    for block in range(256):
        x = (np.arange(1 << 24, dtype=np.uint32) + np.uint32(block << 24)).view(np.float32)
        a, b = apply(checked, x), apply(plain, x)
        assert ((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all()
