"""Products of float32 numbers read adjacent pixels where they are, and pack the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import numc
from numc.frontends.pytorch.load import load
from numc.runtime.program import Program
from numc.studies.observe.layer_outputs import layer_outputs
from targets_here import runnable
from tiers import one_in, pairs


class Residual(nn.Module):
    """Two convolutions, the second of which is added to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.other(torch.relu(self.one(x))))


NETWORKS = {
    "lines of one vector": (Residual(), (2, 8, 5, 16)),
    "vectors and rests of lines": (nn.Conv2d(6, 20, 3), (1, 6, 9, 30)),
    "lines one after the other": (nn.Conv2d(24, 17, 1, bias=False), (3, 24, 7, 18)),
    "several blocks of k": (nn.Conv2d(80, 7, 3, padding=1), (1, 80, 4, 20)),
    "a block of more steps than usual": (nn.Conv2d(40, 16, 3, padding=1), (1, 40, 4, 16)),
    "dilation": (nn.Conv2d(4, 12, 3, padding=2, dilation=2), (1, 4, 6, 40)),
    "rows with a stride": (nn.Conv2d(4, 12, 3, padding=1, stride=(2, 1)), (1, 4, 9, 33)),
    "groups": (nn.Conv2d(16, 16, 3, padding=1, groups=4), (2, 16, 4, 24)),
    "signals": (nn.Conv1d(5, 7, 9), (2, 5, 75)),
}


def built(name: str, fma: str = "fp32", target: str = "x86-64-v4") -> tuple[Program, torch.Tensor]:
    torch.manual_seed(0)
    module, shape = NETWORKS[name]
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    x = torch.randn(shape)
    x.view(-1)[::7] = -0.0
    return numc.compile(module.eval(), (x,), fma=fma, target=runnable(target)), x


def is_in_place(module: nn.Module, shape: tuple[int, ...], fma: str, target: str = "x86-64-v4") -> bool:
    plan = str(numc.lower(load(module.eval(), (torch.zeros(shape),)), fma=fma, target=target, to="plan"))
    return 'lanes = "in place where adjacent"' in plan


@pytest.mark.parametrize(("name", "fma"), one_in(3, pairs(list(NETWORKS), ("fp32", "fma(a=fp32,b=bf16,acc=fp32)"))))
def test_bits_are_those_of_packed_lanes(name: str, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = built(name, fma)
    assert is_in_place(*NETWORKS[name], fma)
    monkeypatch.setenv("NUMC_DISABLE", "lanes-in-place")
    other, _ = built(name, fma)
    assert not is_in_place(*NETWORKS[name], fma)
    for threads in (1, 2):
        got, expected = (np.asarray(p(x, threads=threads)) for p in (program, other))
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_observers_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = built("lines of one vector")
    monkeypatch.setenv("NUMC_DISABLE", "lanes-in-place")
    other, _ = built("lines of one vector")
    inputs = {program.inputs[0].name: x.numpy()}
    seen = ([each.values for each in layer_outputs(p, inputs)] for p in (program, other))
    for got, expected in zip(*seen, strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("module", "shape", "fma", "target"),
    [
        (nn.Conv2d(4, 8, 3), (1, 4, 9, 34), "mp", "x86-64-v4"),
        (nn.Conv2d(4, 8, 3), (1, 4, 9, 34), "fp32", "x86-64-v3"),
        (nn.Conv2d(4, 8, 3, stride=2), (1, 4, 9, 69), "fp32", "x86-64-v4"),
        (nn.Conv2d(4, 8, 3), (1, 4, 9, 14), "fp32", "x86-64-v4"),
        (nn.Conv2d(4, 256, 3), (1, 4, 9, 34), "fp32", "x86-64-v4"),
        (nn.Conv2d(80, 16, 3), (1, 80, 4, 34), "fp32", "x86-64-v4"),
    ],
    ids=["converted", "narrow vectors", "every other pixel", "short lines", "many rows", "many steps"],
)
def test_what_is_packed_all_the_same(module: nn.Module, shape: tuple[int, ...], fma: str, target: str) -> None:
    assert not is_in_place(module, shape, fma, target)
