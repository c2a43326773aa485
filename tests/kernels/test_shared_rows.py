"""Rows that are packed once, for the tasks of all lanes, are those that every task would pack."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import numc
from tiers import pairs

OPERATORS = ["fp32", "bf16_1_1", "bf16_2_2{3}", "highbfp", "int8", "mxfp8", "avx512_bf16", "fma(a=bf16,acc=bf16:sr8)"]
LAYERS = {
    "few pixels, blocks of k": (nn.Conv2d(300, 300, 1), (2, 300, 5, 7)),
    "few pixels, windows": (nn.Conv2d(40, 200, 3, padding=1), (1, 40, 7, 7)),
    "two groups": (nn.Conv2d(64, 256, 1, groups=2), (1, 64, 6, 6)),
    "rows of a matrix": (nn.Linear(70, 400), (37, 70)),
    "too large to be kept": (nn.Linear(300, 80), (1000, 300)),
}


@pytest.mark.parametrize(("layer", "fma"), pairs(list(LAYERS), OPERATORS))
def test_threads_that_share_packed_rows(layer: str, fma: str) -> None:
    """One thread may pack for itself; more of them have tasks of fewer lanes."""
    torch.manual_seed(0)
    module, shape = LAYERS[layer]
    x = torch.randn(shape)
    program = numc.compile(module.eval(), (x,), fma=fma)
    alone, *others = (np.asarray(program(x.numpy(), threads=threads, seed=1)) for threads in (1, 2, 5))
    assert all(np.array_equal(alone.view(np.uint32), other.view(np.uint32)) for other in others)
    report = numc.verify(program, {program.inputs[0].name: x.numpy()}, samples=100)
    assert report.mismatches == 0, report.first
