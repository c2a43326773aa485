"""Activations in the bytes of their format change where a program's numbers are, not one bit of its results."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import numc
from numc.runtime import Program
from numc.studies.observe.verify import verify
from numc.support.errors import NumcError
from targets_here import runnable
from tiers import by_default, one_in, pairs

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = [
    *("mp", "bf16_1_1", "bf16_1_2", "bf16_1_3", "fma(a=bf16,b=e4m3fn,acc=fp32)", "fma(a=bf16:rtz,b=bf16,acc=e8m9)"),
    *("fma(a=bf16:sr8,b=bf16,acc=fp32)", "fma(a=bf16,b=bf16,acc=bf16:sr16)", "fma(a=bf16,b=fp16,acc=fp32,chunk=64)"),
]
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e-45, 3.4e38, 1.0039062], np.float32)


class Images(nn.Module):
    """Convolutions with padding, strides, groups and a concatenation; depthwise ones read padded planes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.halved = nn.Conv2d(32, 32, 5, stride=2, padding=2, groups=32)
        self.left, self.right = nn.Conv2d(32, 24, 1), nn.Conv2d(32, 9, 3, padding=1)
        self.last, self.out = nn.Conv2d(33, 17, 3, padding=1), nn.Linear(17, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.nn.functional.relu6(self.halved(torch.relu(self.wide(x))))
        x = torch.cat([torch.relu(self.left(x)), self.right(x)], 1)
        return self.out(torch.relu(self.last(x)).mean((2, 3)))


class Attention(nn.Module):
    """Attention and GELU between normalisations, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.again = nn.LayerNorm(48), nn.LayerNorm(48)
        self.parts, self.out = nn.Linear(48, 144), nn.Linear(48, 48)
        self.up, self.down = nn.Linear(48, 96), nn.Linear(96, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.parts(self.norm(x)).unflatten(-1, (3, 4, 12)).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) / 12**0.5
        mixed = torch.softmax(scores, -1) @ parts[2]
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.again(x))))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "images": (Images, (2, 3, 21, 19)),
    "attention": (Attention, (2, 37, 48)),
}


def exported(network: str) -> torch.export.ExportedProgram:
    """A network with any number of images or sentences."""
    make, shape = NETWORKS[network]
    torch.manual_seed(0)
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    return torch.export.export(make().eval(), (torch.randn(shape),), dynamic_shapes=(batch,))


def both(model: object, monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[Program, Program]:
    """A program with narrow operands, and one that holds all in float32."""
    found = numc.compile(model, pack_weights=True, **options)
    monkeypatch.setenv("NUMC_DISABLE", "narrow-operands")
    wide = numc.compile(model, pack_weights=True, **options)
    monkeypatch.delenv("NUMC_DISABLE")
    assert any(row["narrow"] for row in found.manifest["contractions"])
    assert not any(row["narrow"] for row in wide.manifest["contractions"])
    return found, wide


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether all bits are the same; all NaNs count as one."""
    return bool(np.all((got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))))


@pytest.mark.parametrize(
    ("fma", "network"),
    by_default(one_in(20, pairs(OPERATORS, list(NETWORKS)), ("mp", "images")), [("mp", "images")]),
)
def test_the_same_bits(fma: str, network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = both(exported(network), monkeypatch, fma=fma)
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, *NETWORKS[network][1][1:])).astype(np.float32)
        for given in (x, np.where(np.arange(x.size).reshape(x.shape) % 97 == 5, SPECIAL[batch % len(SPECIAL)], x)):
            want = wide(given, threads=1, seed=1)
            assert all(same(narrow(given, threads=threads, seed=1), want) for threads in (1, 2))


@pytest.mark.parametrize("target", one_in(3, ["x86-64-v3", "x86-64-v2", "x86-64-v4"]))
def test_on_every_target(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = both(exported("images"), monkeypatch, fma="bf16_1_1", target=runnable(target))
    x = np.random.default_rng(0).standard_normal((2, 3, 21, 19)).astype(np.float32)
    assert same(narrow(x), wide(x))


@pytest.mark.parametrize("off", ["fuse-last", "stage-padding", "parallel-loops", "by-rows", "pack-weights"])
@pytest.mark.slow
def test_without_what_it_relies_on(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for network, (_, shape) in NETWORKS.items():
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = numc.compile(exported(network), fma="mp", pack_weights=True)(x)
        monkeypatch.setenv("NUMC_DISABLE", off)
        assert same(numc.compile(exported(network), fma="mp", pack_weights=True)(x), want)
        monkeypatch.delenv("NUMC_DISABLE")


def test_a_loop_of_a_recurrent_network(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = both(ROOT / "examples/models/lstm.onnx", monkeypatch, fma="bf16_1_2")
    x = np.random.default_rng(0).standard_normal((3, *narrow.inputs[0].shape[1:])).astype(np.float32)
    assert same(narrow(x), wide(x))


@pytest.mark.slow
def test_the_manifest_says_how_activations_are_held() -> None:
    rows = numc.compile(exported("images"), fma="mp", pack_weights=True).manifest["activations"]
    assert [row["held"] for row in rows] == ["bf16"] * 6
    rows = numc.compile(exported("attention"), fma="mp", pack_weights=True).manifest["activations"]
    assert sum(row["held"] == "bf16" for row in rows) == 6


@pytest.mark.parametrize(
    ("fma", "why"),
    [
        ("fma(a=e4m3fn,acc=fp32)", "codes of e4m3fn would take longer"),
        ("fma(a=e4..8m3,b=bf16,acc=fp32)", "a run chooses its widths"),
        ("highbfp", "converted in groups by "),
        ("fp32", "fp32 has as many bits"),
    ],
)
def test_why_activations_are_float32(fma: str, why: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    (row,) = numc.compile(model, torch.randn(4, 8), fma=fma, pack_weights=True).manifest["activations"]
    assert row["held"].startswith(f"float32: {why}")


def test_operands_of_several_formats_are_float32() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(x)
            return y @ y

    (row,) = numc.compile(
        Product(), torch.randn(8, 8), fma="fma(a=bf16,b=bf16:rtz,acc=fp32)", pack_weights=True
    ).manifest["activations"]
    assert row["held"] == "float32: rounded to several formats: bf16, bf16:rtz"


def test_what_something_else_reads_is_float32() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.first(x))
            return x + self.second(x)

    (row,) = numc.compile(Twice(), torch.randn(4, 8), fma="mp", pack_weights=True).manifest["activations"]
    assert re.fullmatch(r"float32: read as float32 by \S+", row["held"])
    assert row["bytes"] == 4 * 4 * 8


def test_observers_read_narrow_operands() -> None:
    program = numc.compile(exported("images"), fma="bf16_1_1", pack_weights=True)
    x = np.random.default_rng(0).standard_normal((2, 3, 21, 19)).astype(np.float32)
    assert not verify(program, {program.inputs[0].name: x}, samples=100).mismatches
    attention = numc.compile(exported("attention"), fma="mp", pack_weights=True)
    y = np.random.default_rng(0).standard_normal((2, 37, 48)).astype(np.float32)
    assert not verify(attention, {attention.inputs[0].name: y}, samples=100).mismatches


@pytest.mark.slow
def test_statistics_of_what_is_rounded_want_a_program_for_it() -> None:
    x = np.random.default_rng(0).standard_normal((2, 37, 48)).astype(np.float32)
    program = numc.compile(exported("attention"), fma="mp", pack_weights=True)
    wanted = "exponents: the program was compiled with --pack-weights, operands of '.*' are rounded before they are in "
    with numc.collect_stats("exponents"), pytest.raises(NumcError, match=wanted):
        program(x)
    counting = numc.compile(exported("attention"), fma="mp", pack_weights=True, statistics=True)
    assert not any(row["narrow"] for row in counting.manifest["contractions"])
    assert same(counting(x), program(x))
    with numc.collect_stats("exponents") as collected:
        counting(x)
    assert collected.statistics.rows[0].tensors["a"].elements
