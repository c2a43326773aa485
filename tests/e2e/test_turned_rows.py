"""Rows that are adjacent in memory, as those of a weight's gradient, are packed a few steps of k at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import numc
from targets_here import HERE
from tiers import one_in, pairs

# Fewer rows than a panel has, several panels, and a rest; steps of one slice, of several, and of several blocks of k.
SIZES = [(1, 5, 33), (5, 31, 16), (23, 33, 70), (49, 300, 17), (200, 1061, 40)]
OPERATORS = ["fp32", "bf16_1_1", "bf16_2_2{3}", "fmac(e6m9)", "amx_bf16", "highbfp", "fma(a=bf16,acc=bf16:sr8)"]


class Gradient(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.transpose(-1, -2) @ y


class Product(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y


@pytest.mark.parametrize(("size", "fma"), one_in(6, pairs(SIZES, OPERATORS)))
@pytest.mark.parametrize("target", one_in(2, HERE, HERE[-1]))
def test_the_bits_of_rows_that_lie_apart(size: tuple[int, int, int], fma: str, target: str) -> None:
    """The same product of a copy in which steps of k are adjacent; a large and a small number change the guards."""
    (m, k, n), rng = size, np.random.default_rng(sum(size))
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, k, m), (2, k, n)))
    x[1, k // 2, m // 2], x[0, k - 1, m - 1] = 3e30, 1e-38
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    options = {"fma": fma, "target": target}
    gradient = numc.compile(Gradient(), (torch.from_numpy(x), torch.from_numpy(y)), **options)
    product = numc.compile(Product(), (torch.from_numpy(turned), torch.from_numpy(y)), **options)
    want = product(turned, y, threads=1, seed=1)
    for threads in (1, 2):
        got = gradient(x, y, threads=threads, seed=1)
        wrong = np.argwhere(got.view(np.uint32) != want.view(np.uint32))
        assert not len(wrong), f"{wrong[0]}: {got[tuple(wrong[0])].view(np.uint32):#x}"
