"""Padded images in the memory of others, with the borders of these: no bit changes, and fewer borders are filled."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import numc
from tiers import one_in


def conv(n: int = 16, stride: int = 1, **options: int) -> nn.Conv2d:
    return nn.Conv2d(16, n, 3, stride, **{"padding": 1, **options})


class Residual(nn.Module):
    """Blocks of ResNet: what is added to a residual is padded for the next block."""

    def __init__(self, blocks: int = 3, convolutions: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleList(conv() for _ in range(convolutions)) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            y = x
            for layer in block[:-1]:
                y = torch.relu(layer(y))
            x = torch.relu(block[-1](y) + x)
        return x


class Plain(nn.Module):
    """Convolutions one after the other, of which `kept` results are read once more at the end."""

    def __init__(self, kept: int = 0) -> None:
        super().__init__()
        self.layers, self.kept = nn.ModuleList(conv() for _ in range(5)), kept

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            seen.append(x)
        for other in seen[: self.kept]:
            x = x + torch.nn.functional.max_pool2d(other, 3, 1, 1)
        return x


class Branches(nn.Module):
    """Convolutions of one image beside each other, and of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.ModuleList(conv() for _ in range(2)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        a, b = (layer(x) for layer in self.first)
        return self.second[0](torch.relu(a)) + self.second[1](torch.sigmoid(b)) + a


MODULES = {
    "blocks": (Residual(), (2, 16, 12, 20)),
    "blocks of one convolution": (Residual(convolutions=1), (2, 16, 12, 20)),
    "blocks of three": (Residual(convolutions=3), (1, 16, 9, 9)),
    "one after the other": (Plain(), (2, 16, 10, 18)),
    "read again": (Plain(3), (1, 16, 10, 18)),
    "branches": (Branches(), (1, 16, 14, 14)),
    "another size": (nn.Sequential(conv(), conv(stride=2), conv(), conv(), nn.ReLU()), (1, 16, 16, 16)),
    "another border": (nn.Sequential(conv(), conv(dilation=2, padding=2), conv(), conv()), (1, 16, 16, 16)),
    "depthwise": (nn.Sequential(conv(groups=16), nn.ReLU(), conv(groups=16), nn.ReLU(), conv()), (1, 16, 16, 16)),
}


def fills(module: nn.Module, x: Tensor, folder: Path) -> int:
    """How many buffers the plan of a program fills with zeros, or with other constants."""
    folder.mkdir()
    numc.compile(module, (x,), dump_dir=folder)
    return len(re.findall("ins\\(%cst[^)]*: f32\\) outs", (folder / "plan.mlir").read_text()))


@pytest.mark.parametrize(
    ("name", "fma"), one_in(5, [*((name, "fp32") for name in MODULES), ("blocks", "bf16_1_1"), ("blocks", "mxfp8")])
)
def test_no_bit_changes(name: str, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = MODULES[name]
    x = torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))
    found = numc.compile(module.eval(), (x,), fma=fma)
    monkeypatch.setenv("NUMC_DISABLE", "keep-borders")
    plain = numc.compile(module.eval(), (x,), fma=fma)(x.numpy())
    for threads in (1, 3):
        for _ in range(2):  # memory that holds what the run before has left
            np.testing.assert_array_equal(found(x.numpy(), threads=threads).view("u4"), plain.view("u4"))


def test_free_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    module, batch = Residual().eval(), torch.export.Dim("batch")
    found = numc.compile(module, (torch.zeros(2, 16, 8, 20),), dynamic_shapes=({0: batch},))
    monkeypatch.setenv("NUMC_DISABLE", "keep-borders")
    plain = numc.compile(module, (torch.zeros(2, 16, 8, 20),), dynamic_shapes=({0: batch},))
    for n in (5, 1, 3):
        x = np.random.default_rng(n).standard_normal((n, 16, 8, 20), np.float32)
        np.testing.assert_array_equal(found(x).view("u4"), plain(x).view("u4"))


@pytest.mark.parametrize(
    ("name", "with_it", "without"),
    [
        ("blocks", 2, 6),  # an image and the residual that takes its place; what lies between two convolutions
        pytest.param("one after the other", 2, 5, marks=pytest.mark.slow),
        # A depthwise convolution pads in the cache what it alone reads.
        pytest.param("depthwise", 3, 3, marks=pytest.mark.slow),
    ],
)
def test_fewer_borders_are_filled(
    name: str, with_it: int, without: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, shape = MODULES[name]
    assert fills(module.eval(), torch.zeros(shape), tmp_path / "with") == with_it
    monkeypatch.setenv("NUMC_DISABLE", "keep-borders")
    assert fills(module.eval(), torch.zeros(shape), tmp_path / "without") == without
