"""Divisions that round to integers: of floats with infinities and zeros, and of small integers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402
from tests.shared.torch_modules import Calls  # noqa: E402


def test_floors_and_truncations() -> None:
    def rounded(a: Any, b: Any, small: Any, byte: Any) -> Any:
        return a // b, torch.div(a, b, rounding_mode="trunc"), small // 3, byte // -3

    a = torch.tensor([-1.0, 7.0, float("inf"), -7.5, -0.25, 0.0])[:, None]
    b = torch.tensor([2.0, -2.0, 0.0, -0.0, float("inf"), float("nan")])
    given = (a, b, torch.tensor([-128, -1, 7], dtype=torch.int8), torch.tensor([4, 255], dtype=torch.uint8))
    for found, want in zip(numc.compile(Calls(rounded), given)(*given).values(), rounded(*given), strict=True):
        torch.testing.assert_close(found, want, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(found.signbit() & (found == 0), want.signbit() & (want == 0))
