"""The accuracy of functions on the path that a user takes, and not on that of the operation that they should become."""

from __future__ import annotations

import mpmath
import numpy as np
import torch

import numc
from torch_modules import Calls


def test_erfc_of_torch() -> None:
    """The nearest float32 of erfc, within what docs/math-functions.md states: 1 - erf would have no digits."""
    rng = np.random.default_rng(0)
    worst = np.array([0x410A79F5, 0x40800000, 0x3F000000, 0x41200000], np.uint32).view(np.float32)
    x = np.concatenate([worst, -worst, rng.uniform(-6, 10.05, 300).astype(np.float32)])
    (found,) = (v.numpy() for v in [numc.compile(Calls(torch.erfc), (torch.from_numpy(x),))(torch.from_numpy(x))])
    with mpmath.workdps(40):
        exact = [mpmath.erfc(mpmath.mpf(float(v))) for v in x]
        for value, got, want in zip(x, found, exact, strict=True):
            ulp = max(np.spacing(np.abs(np.float32(float(want)))), np.float32(2.0**-149))
            assert abs(mpmath.mpf(float(got)) - want) <= 0.500067 * mpmath.mpf(float(ulp)), value.view(np.uint32)
    wide = torch.tensor([0.5, 5.0, -2.0, 20.0], dtype=torch.float64)
    got = numc.compile(Calls(torch.erfc), (wide,))(wide)
    torch.testing.assert_close(got, torch.erfc(wide), rtol=2.0**-49, atol=0)
