"""Images of few pixels: filters are the lanes of vectors, and tiles are transposed on their way in and out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import numc
from numc.runtime.program import Program
from numc.studies.observe.layer_outputs import layer_outputs
from targets_here import runnable
from tiers import one_in, pairs


class Residual(nn.Module):
    """Two convolutions, the second of which is added to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.other(torch.relu(self.one(x))))


NETWORKS = {
    "residual": (Residual(), (1, 64, 7, 7)),
    "without bias": (nn.Conv2d(300, 126, 1, bias=False), (1, 300, 7, 7)),
    "stride and function": (nn.Sequential(nn.Conv2d(300, 126, 1, stride=2), nn.GELU()), (1, 300, 2, 2)),
    "images": (nn.Conv2d(48, 64, 3, padding=1), (2, 48, 3, 3)),
    "groups": (nn.Conv2d(128, 128, 3, padding=1, groups=2), (1, 128, 7, 7)),
    "one pixel": (nn.Sequential(nn.Conv2d(300, 126, 1), nn.Hardsigmoid()), (1, 300, 1, 1)),
    "nine pixels": (nn.Conv2d(48, 64, 3, padding=1), (1, 48, 3, 3)),
    "half lines": (nn.Conv2d(64, 144, 3, padding=1), (1, 64, 10, 10)),
}


def built(name: str, fma: str, target: str = "x86-64-v4") -> tuple[Program, torch.Tensor]:
    torch.manual_seed(0)
    module, shape = NETWORKS[name]
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    x = torch.randn(shape)
    return numc.compile(module.eval(), (x,), fma=fma, target=runnable(target)), x


def orders(program: Program) -> list[bool]:
    return [each["swap"] for each in program.manifest["contractions"]]


OPERATORS = (
    "bf16_1_1",
    "fp32",
    "highbfp",
    "fmac(e6m9,chunk=8)",
    "fma(a=e4m3,b=e5m2,acc=fp32)",
    "fma(a=e6m9,acc=e6m9:sr8)",
)


@pytest.mark.parametrize(("name", "fma"), one_in(7, pairs(list(NETWORKS), OPERATORS)))
def test_bits_are_those_of_pixels_in_lanes(name: str, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = built(name, fma)
    monkeypatch.setenv("NUMC_DISABLE", "transposed-tiles")
    other, _ = built(name, fma)
    assert all(orders(other))
    assert not any(orders(program))
    for threads in (1, 2):
        got, expected = (np.asarray(p(x, threads=threads, seed=1)) for p in (program, other))
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_narrower_vectors(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = built("nine pixels", "mp", target)
    monkeypatch.setenv("NUMC_DISABLE", "transposed-tiles")
    other, _ = built("nine pixels", "mp", target)
    assert orders(program) != orders(other)
    got, expected = (np.asarray(p(x)) for p in (program, other))
    assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_observers_see_the_order_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = built("residual", "mp")
    monkeypatch.setenv("NUMC_DISABLE", "transposed-tiles")
    other, _ = built("residual", "mp")
    inputs = {program.inputs[0].name: x.numpy()}
    seen = ([each.values for each in layer_outputs(p, inputs)] for p in (program, other))
    for got, expected in zip(*seen, strict=True):
        assert got.shape == expected.shape
        assert np.array_equal(got, expected)


def test_pixels_with_a_stride_stay_in_the_lanes() -> None:
    """As rows they would be packed one by one, in every task."""
    module = nn.Conv2d(300, 126, 1, stride=2).eval()
    assert orders(numc.compile(module, (torch.randn(1, 300, 14, 14),))) == [True]


def test_a_tile_takes_a_part_of_a_line() -> None:
    """Five of ten pixels, which leave registers for three vectors: with eight, tiles would reach into the next line."""
    program, _ = built("half lines", "fp32")
    assert [each["layout"]["count"] for each in program.manifest["contractions"]] == [3]


def test_free_sizes_and_many_pixels_stay_in_the_lanes() -> None:
    module, x = nn.Conv2d(48, 48, 1).eval(), torch.randn(1, 48, 7, 7)
    free = numc.compile(module, (torch.cat([x, x]),), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert orders(free) == [True]
    assert orders(numc.compile(module, (torch.randn(1, 48, 32, 32),))) == [True]
