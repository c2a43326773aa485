"""Windows whose elements are taken as slices, and extremes along one dimension after the other: no bit changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

import numc
from tiers import one_in

POOLS = {
    "stride 1": (nn.MaxPool2d(3, 1, 1), (1, 5, 14, 19)),
    "stride 2": (nn.MaxPool2d(3, 2, 1), (2, 3, 33, 41)),
    "5 x 4, stride 3 x 2": (nn.MaxPool2d((5, 4), (3, 2), (2, 1)), (1, 4, 40, 70)),
    "many parts at the edges": (nn.MaxPool2d(5, 1, 2), (2, 3, 14, 19)),
    "border on some sides": (
        nn.Sequential(nn.ConstantPad2d((0, 1, 2, 0), -np.inf), nn.MaxPool2d(3, 2)),
        (1, 4, 21, 22),
    ),
    "border of zeros": (nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(3, 2)), (1, 4, 21, 22)),
    "dilated": (nn.MaxPool2d(3, 2, 1, dilation=2), (1, 4, 21, 23)),
    "partial windows": (nn.MaxPool2d(3, 2, ceil_mode=True), (1, 4, 20, 22)),
    "wide lines": (nn.MaxPool2d(3, 1), (3, 9, 300)),
    "volumes": (nn.MaxPool3d((2, 3, 3), (1, 2, 2), (0, 1, 1)), (1, 3, 5, 18, 17)),
    "far apart": (nn.MaxPool2d(2, 3), (1, 4, 20, 22)),
    "of one row, stride 2": (nn.MaxPool2d((1, 3), 2, (0, 1)), (1, 4, 20, 22)),
    "of one column": (nn.MaxPool2d((3, 1), 1), (1, 4, 20, 22)),
    "one element of each": (nn.MaxPool2d(1, 2), (1, 4, 20, 22)),
    "one window": (nn.AvgPool2d(4), (2, 5, 4, 4)),
    "average": (nn.AvgPool2d(3, 1, 1), (2, 3, 14, 19)),
    "average of what is there": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 33, 41)),
    "average of lines": (nn.Sequential(nn.AvgPool1d(4, 2), nn.Sigmoid()), (2, 3, 41)),
    "after a convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(3, 2)), (1, 3, 20, 23)),
}


def image(*shape: int) -> npt.NDArray[np.float32]:
    """Random numbers, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(len(shape))
    special = np.array([0.0, -0.0, 0.0, -0.0, -np.inf, -np.inf, np.inf, np.nan], np.float32)
    return np.where(rng.random(shape) < 0.6, special[rng.integers(0, 8, shape)], rng.standard_normal(shape, np.float32))


def bits(values: npt.NDArray[np.float32]) -> bytes:
    """The bits, those of all NaNs alike."""
    return np.where(np.isnan(values), np.float32(np.nan), values).tobytes()


@pytest.mark.parametrize(
    ("name", "target"),
    one_in(9, [*((name, "host") for name in POOLS), ("stride 2", "x86-64-v3"), ("average", "x86-64-v2")]),
)
def test_no_bit_changes(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = POOLS[name]
    x = image(*shape)
    if name == "after a convolution":
        x = np.nan_to_num(x, nan=0.0, posinf=9.0, neginf=-9.0)
    found = numc.compile(module.eval(), (torch.from_numpy(x),), target=target)
    monkeypatch.setenv("NUMC_DISABLE", "unroll-windows")
    whole = numc.compile(module.eval(), (torch.from_numpy(x),), target=target)(x)
    for threads in (1, 3):
        assert bits(found(x, threads=threads)) == bits(whole)
    if name not in ("after a convolution", "average of lines"):
        assert np.array_equal(whole, module(torch.from_numpy(x)).numpy(), equal_nan=True)
