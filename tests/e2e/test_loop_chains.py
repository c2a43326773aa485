"""Loops and copies that follow each other, as padding and pooling, computed some planes at a time: the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn

import numc
from numc.runtime.program import Program
from numc.support.errors import NumcError

Array = npt.NDArray[np.float32]


def chains(program: Program) -> list[str]:
    return [part["layer"] for part in program.manifest["parts"] if part["kind"] == "chain"]


def both(monkeypatch: pytest.MonkeyPatch, module: nn.Module, x: Array, **options: object) -> tuple[Program, Program]:
    """A module compiled by rows, and without that."""
    found = numc.compile(module.eval(), (torch.from_numpy(x),), **options)
    with monkeypatch.context() as patch:
        patch.setenv("NUMC_DISABLE", "by-rows")
        plain = numc.compile(module.eval(), (torch.from_numpy(x),), **options)
    assert not chains(plain)
    return found, plain


def image(*shape: int) -> Array:
    """Random numbers, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape).astype(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    return np.where(rng.random(shape) < 0.01, rng.choice(special, shape), x)


POOLS: dict[str, Callable[..., nn.Module]] = {
    "max": lambda k, s, p: nn.MaxPool2d(k, s, p),
    "average": lambda k, s, p: nn.AvgPool2d(k, s, p),
    "relu, max": lambda k, s, p: nn.Sequential(nn.ReLU(), nn.MaxPool2d(k, s, p), nn.ReLU()),
}


@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    kind=st.sampled_from(sorted(POOLS)),
    planes=st.sampled_from([(1, 64), (3, 21), (67, 1)]),
    size=st.tuples(st.integers(46, 62), st.integers(46, 62)),
    window=st.sampled_from([(3, 2, 1), (3, 1, 1), (2, 1, 1), (5, 2, 2)]),
)
def test_pooling_by_planes_is_that_of_whole_images(kind, planes, size, window) -> None:
    x = image(*planes, *size)
    module = POOLS[kind](*window)
    with pytest.MonkeyPatch.context() as monkeypatch:
        found, plain = both(monkeypatch, module, x)
    assert len(chains(found)) == 1
    expected = plain(x, threads=1)
    for threads in (1, 3):
        assert np.array_equal(found(x, threads=threads), expected, equal_nan=True)
    assert np.array_equal(np.signbit(found(x))[expected == 0], np.signbit(expected)[expected == 0])
    if kind != "average":
        with torch.no_grad():
            assert np.array_equal(expected, module(torch.from_numpy(x)).numpy(), equal_nan=True)


def test_one_chain_follows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pooled = nn.functional.avg_pool2d(x, 3, 1, 1), nn.functional.max_pool2d(x, 3, 1, 1)
            return torch.cat(pooled, 1)

    x = image(2, 32, 40, 40)
    found, plain = both(monkeypatch, Branches(), x, ops="bf16")
    assert len(chains(found)) == 2
    assert np.array_equal(found(x, threads=2), plain(x, threads=1), equal_nan=True)


def test_batches_and_sizes_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    found, plain = both(monkeypatch, nn.MaxPool2d(3, 2, 1), image(2, 16, 40, 40), dynamic_shapes=(sizes,))
    assert len(chains(found)) == 1
    for shape in ((2, 16, 40, 40), (3, 16, 11, 40), (31, 16, 64, 40)):
        x = image(*shape)
        for threads in (1, 2):
            assert np.array_equal(found(x, threads=threads), plain(x, threads=1), equal_nan=True), shape


def test_images_are_padded_a_plane_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = image(1, 32, 256, 256)  # 8 MiB; padded, as much again; a quarter of it after pooling
    found, plain = both(monkeypatch, nn.MaxPool2d(3, 2, 1), x)
    expected = plain(x, threads=1)
    monkeypatch.setenv("NUMC_MEMORY", str(8 / 1024))
    assert np.array_equal(found(x, threads=1), expected, equal_nan=True)
    with pytest.raises(NumcError, match="out of memory"):
        plain(x, threads=1)
    monkeypatch.delenv("NUMC_MEMORY")
    rows = found.profile(x, threads=1, repeat=1, peak=100.0, bandwidth=10.0).rows
    assert [(row.layer, row.fma) for row in rows if row.kind == "chain"] == [("max_pool2d_with_indices", "")]


def test_small_images_and_short_rows_are_no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((1, 4, 40, 40), (1, 2048, 6, 6)):
        assert not chains(both(monkeypatch, nn.MaxPool2d(3, 2, 1), image(*shape))[0])
