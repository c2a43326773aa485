"""Table 6.5 of the thesis: what the published shares and seconds give, beside what it prints."""

from __future__ import annotations

import pytest

import numc
from numc.train import speed_up

RESNET50 = {"fp32": 23.80, "mp": 22.15, "bf16": 17.11}
SEQ2SEQ = {"fp32": 45.73, "mp": 41.17, "bf16": 34.40}


@pytest.mark.parametrize(
    ("share", "seconds", "high", "want"),
    [
        (0.964, RESNET50, "fp32", 1.3717),
        (0.964, RESNET50, "mp", 1.3764),
        (0.66, SEQ2SEQ, "fp32", 1.1955),
        (0.66, SEQ2SEQ, "mp", 1.2460),
        (1.0, RESNET50, "mp", 1.3910),  # the printed 1.39 is that of BF16 alone
    ],
)
def test_of_published_shares(share: float, seconds: dict[str, float], high: str, want: float) -> None:
    assert speed_up({"bf16": share, high: 1 - share}, seconds) == pytest.approx(want, abs=5e-5)


@pytest.mark.parametrize(
    ("shares", "seconds", "message"),
    [
        ({"bf16": 0.9}, RESNET50, "shares: their sum is 0.9, want 1"),
        ({"bf16": -1}, RESNET50, "shares of 'bf16': got -1, want a number, 0 or more"),
        ({"bf16": float("nan")}, RESNET50, "shares of 'bf16': got nan, want a number, 0 or more"),
        ({"bf16": 1.0}, {"bf16": 0, "fp32": 1}, "seconds of 'bf16': got 0, want a number, more than 0"),
        ({"bf17": 1.0}, RESNET50, "seconds: none for 'bf17' (did you mean 'bf16'?): give those of a step in it"),
        ({"bf16": 1.0}, {"bf16": 1}, "seconds: none for 'fp32'"),
        ([1.0], RESNET50, "shares: got list, want a mapping from arithmetics to numbers"),
    ],
)
def test_refused(shares: object, seconds: dict[str, float], message: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        speed_up(shares, seconds)  # type: ignore[arg-type]
    assert message in str(caught.value)
