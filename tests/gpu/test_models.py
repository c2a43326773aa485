"""Whole models on emulated GPUs: the bits of this processor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import numc
from emulated_gpu import NEEDS, both, difference
from numc.runtime.gpu import host_numbers

pytest.importorskip("triton", reason=NEEDS)
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "fma", "ops"),
    [
        ("digits/cnn", "bf16_1_2", "fp32"),
        pytest.param("models/transformer", "bf16_1_1", "bf16", marks=pytest.mark.slow),
        pytest.param("models/lstm", "hopper_bf16", "fp32", marks=pytest.mark.slow),
    ],
)
def test_models(name: str, fma: str, ops: str) -> None:
    """Two batches each: sizes that are free until a run."""
    path = EXAMPLES / f"{name}.onnx"
    emulated, here = (numc.compile(path, fma=fma, ops=ops, target=target) for target in ("cuda", "host"))
    emulated = emulated.to("cpu")
    rng = np.random.default_rng(0)
    for batch in (1, 3):
        shapes = [[batch if size is None else size for size in each.shape] for each in emulated.inputs]
        inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        results = emulated(*inputs), here(*inputs)
        gpu, cpu = (list(r.values()) if isinstance(r, dict) else [r] for r in results)
        assert [difference(np.asarray(a), np.asarray(b)) for a, b in zip(gpu, cpu, strict=True)] == [""] * len(gpu)


class Indexed(torch.nn.Module):
    """Operations that choose, sort, scatter and count."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            *x.topk(3),
            x.sort(descending=True).values,
            x.cumsum(-1),
            torch.zeros(6, 9).index_add(0, i, x),
            torch.zeros(6, 9).scatter(0, i[:, None].expand(5, 9), x),
            x[:, i],
            x.argmax(-1),
            (x > 0).nonzero(),
            torch.nn.functional.one_hot(i, 6),
        )


class Elementary(torch.nn.Module):
    """Functions and reductions."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            *(f(x) for f in (torch.exp, torch.tanh, torch.erf, torch.sin, torch.floor, torch.ceil, torch.round)),
            *(f(x) for f in (torch.trunc, torch.abs, torch.neg, torch.sign, torch.sqrt, torch.rsqrt, torch.log)),
            *(x.amax(-1), x.amin(0), x.var(), x.softmax(-1), x.mean(), torch.layer_norm(x, (9,)), x.prod(-1)),
            *(torch.fmod(x, 0.3), torch.remainder(x, 0.7), x**2.5, torch.maximum(x, -x), torch.clamp(x, -1, 1)),
            *(x.double().sum(), (x.double() * 3).float(), x.half() * 2, x.bfloat16() + 1, (x * 50).to(torch.int8)),
            *(i // 2, i % 3, i << 2, i >> 1, i & 3, i ^ 5, -i, i.float() / 3, (i > 2) | (i == 0), ~(i > 2)),
        )


@pytest.mark.parametrize("model", [Indexed(), pytest.param(Elementary(), marks=pytest.mark.all)])
def test_operations(model: torch.nn.Module) -> None:
    x = torch.randn(5, 9) * 2
    x[0, :4] = torch.tensor([0.0, -0.0, float("inf"), 1e-42])
    assert both(model, (x, torch.tensor([0, 1, 2, 3, 1]))) == []


def test_random_bits() -> None:
    """Conversions and sums of elementwise operations draw what they draw elsewhere, run by run."""
    emulated = numc.compile(torch.nn.Softmax(-1), (torch.randn(4, 8),), ops="bf16:sr8", target="cuda").to("cpu")
    here = numc.compile(torch.nn.Softmax(-1), (torch.randn(4, 8),), ops="bf16:sr8")
    x = torch.randn(4, 8)
    for seed in (0, 5, None, None):
        assert difference(emulated(x, seed=seed).numpy(), here(x, seed=seed).numpy()) == ""


def test_open_widths() -> None:
    """A run chooses the widths of operands by numbers; by ratios it does not."""
    linear, x = torch.nn.Linear(16, 4), torch.randn(2, 16)
    emulated, here = (
        numc.compile(linear, (x,), fma="fma(a=e4..8m2..7,b=bf16,acc=fp32)", target=target)
        for target in ("cuda", "host")
    )
    emulated = emulated.to("cpu")
    for widths in (None, (5, 2), (8, 3)):
        assert difference(emulated(x, widths=widths).numpy(), here(x, widths=widths).detach().numpy()) == ""
    with pytest.raises(
        numc.NumcError, match="widths: layer '.*': target 'cuda' finds no widths itself: give numbers, or"
    ):
        emulated(x, widths=numc.WidthByRatio(0.5))


class Step(torch.nn.Module):
    """A training step: a loss, its gradients, and updated parameters."""

    def forward(self, x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            w, v = w.detach().requires_grad_(), v.detach().requires_grad_()
            hidden = torch.relu(torch.nn.functional.conv2d(x, w, padding=1)).flatten(1)
            loss = (hidden @ v).log_softmax(-1)[:, 0].neg().mean()
            gradients = torch.autograd.grad(loss, (w, v))
        return loss.detach(), *(p.detach() - 0.1 * g for p, g in zip((w, v), gradients, strict=True))


@pytest.mark.all
def test_ten_training_steps() -> None:
    """Forward and backward of a convolution and a product: ten steps leave the same parameters."""
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.manual_seed(0)
    x = torch.randn(3, 1, 6, 6)
    start = torch.randn(4, 1, 3, 3) * 0.3, torch.randn(144, 5) * 0.1
    graph = make_fx(Step())(x, *start)
    ends = []
    for target in ("cuda", "host"):
        program = numc.compile(graph, (x, *start), fma="bf16_1_1", ops="bf16", target=target)
        program = program.to("cpu") if target == "cuda" else program
        w, v = start
        for _ in range(10):
            _, w, v = program(x, w, v).values()
        ends.append((w, v))
    assert [difference(a.numpy(), b.numpy()) for a, b in zip(*ends, strict=True)] == ["", ""]


class Counted(torch.nn.Module):
    """Results that depend on a free size, in binary32 and in binary64."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean = torch.nn.functional.batch_norm(x, None, None, training=True)
        return x.mean(0), x.var(0), mean, (x * x.shape[0]).sum(), x / (x.shape[0] + 1)


@pytest.mark.all
def test_numbers_of_the_host() -> None:
    """A size that is known in a run becomes a number of the host, and of kernels."""
    sizes, example = {"x": {0: torch.export.Dim("batch", min=1, max=50)}}, (torch.randn(5, 3),)
    emulated, here = (
        numc.compile(Counted(), example, dynamic_shapes=sizes, target=target) for target in ("cuda", "host")
    )
    emulated = emulated.to("cpu")
    for batch in (1, 2, 7):
        x = torch.randn(batch, 3)
        pairs = zip(emulated(x).values(), here(x).values(), strict=True)
        assert [difference(a.numpy(), b.numpy()) for a, b in pairs] == [""] * 5


def test_comparisons_of_the_host() -> None:
    """Each of the 16 predicates as MLIR numbers them."""
    names = (
        "false",
        "oeq",
        "ogt",
        "oge",
        "olt",
        "ole",
        "one",
        "ord",
        "ueq",
        "ugt",
        "uge",
        "ult",
        "ule",
        "une",
        "uno",
        "true",
    )
    for a in (-1.0, 0.0, 2.0, float("nan")):
        for b in (0.0, 2.0, float("nan")):
            unordered = a != a or b != b
            signs = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": a != b}
            for number, name in enumerate(names):
                kept = {"false": False, "true": True, "ord": not unordered, "uno": unordered}
                holds = name[0] == "u" if unordered else signs.get(name[1:])
                want = kept.get(name, holds)
                assert host_numbers.compared(number, a, b) == want, (name, a, b)


def test_integers_and_zeros_of_the_host() -> None:
    assert [host_numbers.quotient(a, b) for a, b in ((7, 2), (-7, 2), (7, -2))] == [3, -3, -3]
    assert [host_numbers.remainder(a, b) for a, b in ((7, 2), (-7, 2), (7, -2))] == [1, -1, 1]
    assert (host_numbers.ceiling(7, 2), host_numbers.wrapped(2**63, 64)) == (4, -(2**63))
    assert str(host_numbers.maximum(-0.0, 0.0)) == "0.0"
    assert str(host_numbers.minimum(0.0, -0.0)) == "-0.0"
    assert host_numbers.divided(1.0, 0.0) == float("inf")
    assert host_numbers.float32(1e39) == float("inf")
