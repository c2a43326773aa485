"""Chains of products and loops, as in attention, computed some rows at a time: the same bits in less memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import numc
from numc.runtime.program import Program
from numc.support.errors import NumcError

Feeds = dict[str, npt.NDArray[np.float32]]

# A block is several batches, with rows that no vector divides; parts of one; all rows at once, since packing would not
# repay; one row.
SIZES = ((7, 13, 9, 4, 5), (2, 300, 290, 16, 8), (1, 130, 130, 600, 8), (3, 1, 40, 8, 8))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that writes attention with a mask, of free sizes; `outputs`: what it returns."""

    def write(outputs: tuple[str, ...] = ("y",)) -> Path:
        b, q, k, d, e = "batch", "queries", "keys", "d", "e"
        shapes = {"q": (b, q, d), "k": (b, d, k), "v": (b, k, e), "m": (q, k), "a": (b, q, k), "y": (b, q, e)}
        nodes = [
            helper.make_node("MatMul", ["q", "k"], ["a"]),
            helper.make_node("Add", ["a", "m"], ["s"]),
            helper.make_node("Softmax", ["s"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "v"], ["y"]),
        ]
        values = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()}
        graph = helper.make_graph(nodes, "attention", [values[n] for n in "qkvm"], [values[n] for n in outputs])
        path = tmp_path_factory.mktemp("attention") / "attention.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
        return path

    return write


def feeds(batch: int, queries: int, keys: int, d: int, e: int) -> Feeds:
    rng = np.random.default_rng(queries)
    shapes = {"q": (batch, queries, d), "k": (batch, d, keys), "v": (batch, keys, e), "m": (queries, keys)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def chains(program: Program) -> int:
    return sum(part["kind"] == "chain" for part in program.manifest["parts"])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Program, Program]]:
    """A function that compiles a model by rows, and without that."""

    def both(path: Path, **options: str) -> tuple[Program, Program]:
        found = numc.compile(path, **options)
        monkeypatch.setenv("NUMC_DISABLE", "by-rows")
        plain = numc.compile(path, **options)
        monkeypatch.delenv("NUMC_DISABLE")
        assert (chains(found), chains(plain)) == (1, 0)
        return found, plain

    return both


@pytest.mark.parametrize(
    "options",
    [
        {"fma": "fp32"},
        pytest.param({"fma": "fma(a=e4m3:sr8,acc=e6m9:sr8)", "ops": "bf16:sr8"}, marks=pytest.mark.all),
        pytest.param({"fma": "bf16_1_2"}, marks=pytest.mark.slow),
        pytest.param({"fma": "mxfp8"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_no_bit_changes(model, compiled, options: dict[str, str]) -> None:
    found, plain = compiled(model(), **options)
    for sizes in SIZES:
        x = feeds(*sizes)
        expected = plain(**x, threads=1, seed=1).tobytes()
        for threads in (1, 3):
            assert found(**x, threads=threads, seed=1).tobytes() == expected, sizes
    x = feeds(*SIZES[0])
    assert numc.verify(found, x, samples=50).mismatches == 0  # whoever looks at operands finds all of them


def test_what_is_between_the_products_is_never_in_memory_as_a_whole(
    model, compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, plain = compiled(model(), fma="fp32")
    x = feeds(2, 1024, 1024, 8, 8)
    expected = plain(**x, threads=1)
    monkeypatch.setenv("NUMC_MEMORY", str(7 / 1024))  # 7 MiB; the scores take 8
    assert np.array_equal(found(**x, threads=1), expected)
    with pytest.raises(NumcError, match="out of memory"):
        plain(**x, threads=1)
    monkeypatch.delenv("NUMC_MEMORY")
    profile = found.profile(**x, threads=1, repeat=1, peak=100.0, bandwidth=10.0)
    row = next(row for row in profile.rows if row.kind == "chain")
    assert (row.layer, row.fma, row.fmas) == ("a to y", "fp32", 2 * 2 * 1024 * 1024 * 8)


@pytest.mark.all
def test_what_others_read_is_in_memory(model, compiled) -> None:
    found, plain = compiled(model(("a", "y")), fma="bf16_1_1")
    x = feeds(2, 300, 290, 16, 8)
    got, expected = found(**x), plain(**x)
    assert all(np.array_equal(got[name], expected[name]) for name in ("a", "y"))


class Both(nn.Module):
    """Probabilities of which one product sums the rows, and another one the columns, as a backward pass does."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [b, k, e] and [b, q, e]."""
        p = (q @ k.transpose(1, 2)).softmax(-1)
        return p.transpose(1, 2) @ q, p @ v


def batches(batch: int, queries: int, keys: int, d: int, e: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(batch)
    return torch.randn(batch, queries, d), torch.randn(batch, keys, d), torch.randn(batch, keys, e)


@pytest.mark.parametrize(
    "fma",
    [
        "bf16_1_1",
        *(pytest.param(fma, marks=pytest.mark.slow) for fma in ("fp32", "mxfp8", "fma(a=e4m3:sr8,acc=e6m9:sr8)")),
    ],
)
def test_batches(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for sizes in ((3, 260, 270, 5, 7), (40, 61, 67, 9, 33)):  # a batch at a time; several
        inputs = batches(*sizes)
        found = numc.compile(Both(), inputs, fma=fma)
        monkeypatch.setenv("NUMC_DISABLE", "by-rows")
        plain = numc.compile(Both(), inputs, fma=fma)
        monkeypatch.delenv("NUMC_DISABLE")
        assert (chains(found), chains(plain)) == (1, 0)
        x = [each.numpy() for each in inputs]
        expected = plain(*x, threads=1, seed=1)
        for threads in (1, 2, 5):
            got = found(*x, threads=threads, seed=1)
            assert all(np.array_equal(got[name], expected[name]) for name in expected), (sizes, threads)
        assert numc.verify(found, dict(zip((i.name for i in found.inputs), x, strict=True)), samples=50).mismatches == 0


def test_batches_whose_conversion_sees_all_of_them() -> None:
    program = numc.compile(Both(), batches(3, 260, 270, 5, 7), fma="int8")
    # The products of the probabilities are not in the chain, of which the scores are between the steps.
    assert [part["kind"] for part in program.manifest["parts"]] == ["chain", "contraction", "contraction"]


def test_one_batch_of_each_thread_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = batches(8, 512, 512, 8, 8)
    program, x = numc.compile(Both(), inputs, fma="fp32"), [each.numpy() for each in inputs]
    program(*x, threads=1)
    monkeypatch.setenv("NUMC_MEMORY", str(5 / 1024))  # 5 MiB; the scores take 8
    program(*x, threads=1)
    with pytest.raises(NumcError, match="out of memory"):
        program(*x, threads=9)  # more threads than batches
