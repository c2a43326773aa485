"""Vectors whose lanes are three or four elements apart in memory, as pixels of convolutions of such a stride."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import numc
from numc.passes.kernels.setting import Adjacency
from targets_here import WITHOUT_GROUPS
from tiers import one_in, pairs

# Lines of pixels that fill vectors, some of which end within one, and lines that are a part of one.
CONVOLUTIONS = {
    "patches": (nn.Conv2d(3, 9, 4, stride=4), (2, 3, 132, 68)),
    "overlapping": (nn.Conv2d(2, 9, 7, stride=4, padding=3), (1, 2, 61, 90)),
    "thirds": (nn.Conv2d(3, 9, 5, stride=3, padding=1), (2, 3, 50, 64)),
    "one pixel": (nn.Conv2d(17, 9, 1, stride=4), (2, 17, 29, 77)),
    "short lines": (nn.Conv2d(3, 9, 3, stride=4), (2, 3, 27, 19)),
    "very short lines": (nn.Conv2d(3, 9, 3, stride=3), (2, 3, 40, 9)),
    "lines of the image apart": (nn.Conv2d(3, 9, (3, 1), stride=(1, 4)), (1, 3, 8, 100)),
}
OPERATORS = ["fp32", "bf16_2_2{3}", "fmac(e6m9)", "int8", "highbfp", "fma(a=bf16,acc=bf16:sr8)", "mxfp8"]


@pytest.mark.parametrize(("name", "fma"), one_in(7, pairs(list(CONVOLUTIONS), OPERATORS, lambda _, fma: fma == "fp32")))
def test_convolutions(name: str, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strides, stride_of = [], Adjacency.stride.fget

    def seen(adjacency: Adjacency) -> int:
        strides.append(stride_of(adjacency))
        return strides[-1]

    monkeypatch.setattr(Adjacency, "stride", property(seen))
    module, shape = CONVOLUTIONS[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    program = numc.compile(module, (torch.from_numpy(x),), fma=fma, cache=False)
    assert max(strides) == (3 if "thirds" in name or module.stride == (3, 3) else 4)
    report = numc.verify(program, {program.inputs[0].name: x}, samples=500)
    assert report.mismatches == 0, report.first


@pytest.mark.parametrize(("target", "name"), one_in(2, pairs(WITHOUT_GROUPS, ["overlapping", "short lines"])))
def test_targets(target: str, name: str) -> None:
    module, shape = CONVOLUTIONS[name]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    program = numc.compile(module, (torch.from_numpy(x),), fma="bf16_1_2", target=target)
    report = numc.verify(program, {program.inputs[0].name: x}, samples=200)
    assert report.mismatches == 0, report.first


class Part(nn.Module):
    """A product with every n-th number of a row, and one with the transpose of that."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n, self.weight = n, nn.Parameter(torch.randn(37, 21, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        part = x[:, :: self.n]
        return part @ self.weight, self.weight.mT @ part.mT


@pytest.mark.parametrize(("fma", "n"), one_in(2, pairs(["fp32", "highbfp", "amx_bf16"], [3, 4])))
def test_rows(fma: str, n: int) -> None:
    x = np.random.default_rng(0).standard_normal((19, 37 * n)).astype(np.float32)
    program = numc.compile(Part(n), (torch.from_numpy(x),), fma=fma)
    report = numc.verify(program, {program.inputs[0].name: x}, samples=500)
    assert report.mismatches == 0, report.first


def test_no_element_behind_an_image_is_read() -> None:
    """The last vector ends with the last element of a page, behind which there is no memory."""
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    memory = mmap.mmap(-1, 4 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(ctypes.c_void_p(start + 3 * page), ctypes.c_size_t(page), 0) == 0
    rows, columns = 4, 61
    size = rows * columns
    x = np.frombuffer(memory, np.float32, size, 3 * page - 4 * size).reshape(1, 1, rows, columns)
    x.flags.writeable = True
    x[...] = np.random.default_rng(0).standard_normal(x.shape)
    program = numc.compile(nn.Conv2d(1, 8, 1, stride=4), (torch.from_numpy(x.copy()),))
    want = program(x.copy())
    assert np.array_equal(program(x), want)


class Repeated(nn.Module):
    """Products with the same numbers, which are packed once."""

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.relu(x @ w[:, ::4])
        return x


@pytest.mark.parametrize("fma", ["fp32", "mp"])
def test_lanes_that_are_packed_once(fma: str) -> None:
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((7, 37), np.float32), "w": rng.standard_normal((37, 4 * 37), np.float32)}
    program = numc.compile(Repeated(), tuple(map(torch.from_numpy, feeds.values())), fma=fma)
    assert [part["kind"] for part in program.manifest["parts"]].count("packing") == 1
    report = numc.verify(program, feeds, samples=500)
    assert report.mismatches == 0, report.first
