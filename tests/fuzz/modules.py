"""Random torch modules against eager torch, in fp32.

A module is a list of steps, each of them one row of STEPS: name -> a function that makes, for the shape of the value so
far, a callable and the dimension names that it keeps, or raises Unfit.
"""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import numc
from fuzz.differential import Finding, compare
from numc.support.errors import NumcError

Step = Callable[[Any], Any]
Shape = tuple[int, ...]


class Unfit(Exception):  # noqa: N818
    """The step takes no value of this shape."""


def _need(condition: bool) -> None:
    if not condition:
        raise Unfit


def _layers() -> dict[str, Callable[[random.Random, Shape], Step]]:
    import torch
    from torch import nn
    from torch.nn import functional

    def linear(rng: random.Random, shape: Shape) -> Step:
        return nn.Linear(shape[-1], rng.choice([1, 3, 8, 17]), bias=rng.random() < 0.5)

    def conv(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) in (3, 4) and min(shape[2:]) >= 3)
        of = nn.Conv1d if len(shape) == 3 else nn.Conv2d
        groups = rng.choice([g for g in (1, 1, shape[1]) if shape[1] % g == 0])
        return of(shape[1], groups * rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([0, 1]),
                  groups=groups, bias=rng.random() < 0.5)  # fmt: skip

    def conv_transpose(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) == 4 and max(shape[2:]) <= 16)
        stride = rng.choice([1, 2, 3])
        return nn.ConvTranspose2d(shape[1], rng.choice([1, 2, 3]), rng.choice([1, 2, 3]), stride,
                                  output_padding=rng.randrange(stride))  # fmt: skip

    def norm(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) >= 2)
        if len(shape) == 4 and rng.random() < 0.5:
            kinds = [nn.BatchNorm2d(shape[1]), nn.GroupNorm(1, shape[1]), nn.InstanceNorm2d(shape[1], eps=0.1)]
            return rng.choice(kinds)
        return nn.LayerNorm(shape[-1], eps=0.1)

    def activation(rng: random.Random, shape: Shape) -> Step:
        kinds = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Hardswish, nn.LeakyReLU,
                 nn.Mish, nn.Hardtanh, nn.ReLU6, nn.Softsign, nn.LogSigmoid, nn.CELU, nn.Hardsigmoid)  # fmt: skip
        return rng.choice(kinds)()

    def pool(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) == 4 and min(shape[2:]) >= 3)
        k, s, ceil = rng.choice([2, 3]), rng.choice([1, 2, 3]), rng.random() < 0.5
        return rng.choice(
            [
                nn.MaxPool2d(k, s, rng.choice([0, 1]), ceil_mode=ceil),
                nn.AvgPool2d(k, s, rng.choice([0, 1]), ceil_mode=ceil, count_include_pad=rng.random() < 0.5),
                nn.AdaptiveAvgPool2d(rng.choice([1, 2, shape[2]])),
                nn.LPPool2d(2, k, s),
            ]
        )

    def reduction(rng: random.Random, shape: Shape) -> Step:
        dim, keep = rng.randrange(-len(shape), len(shape)), rng.random() < 0.5
        of = rng.choice(["sum", "mean", "amax", "amin", "logsumexp", "norm", "var", "prod"])
        _need(of != "var" or shape[dim] > 1)
        if of == "norm":
            return lambda x: torch.linalg.vector_norm(x, dim=dim, keepdim=keep)
        return lambda x: getattr(x, of)(dim=dim, keepdim=keep)

    def softmax(rng: random.Random, shape: Shape) -> Step:
        dim = rng.randrange(-len(shape), len(shape))
        return rng.choice([lambda x: x.softmax(dim), lambda x: x.log_softmax(dim), lambda x: x.cumsum(dim)])

    def move(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) >= 2)
        a, b = rng.sample(range(len(shape)), 2)
        return rng.choice(
            [
                lambda x: x.transpose(a, b),
                lambda x: x.transpose(a, b).contiguous().flatten(1),
                lambda x: x.flip(a),
                lambda x: x.roll(1, a),
                lambda x: x.unsqueeze(a),
                lambda x: x.movedim(a, b) * 2,
                lambda x: torch.cat([x, x.neg()], dim=b),
                lambda x: torch.stack([x, x + 1], dim=a),
            ]
        )

    def cut(rng: random.Random, shape: Shape) -> Step:
        dim = rng.randrange(len(shape))
        _need(shape[dim] >= 2)
        return rng.choice(
            [
                lambda x: x.narrow(dim, 1, shape[dim] - 1),
                lambda x: x.chunk(2, dim)[0],
                lambda x: x.select(dim, -1),
                lambda x: x.index_select(dim, torch.tensor([1, 0, 1])),
                lambda x: x.split(1, dim)[-1],
                lambda x: x.topk(1, dim).values,
                lambda x: x.sort(dim).values,
            ]
        )

    def elementwise(rng: random.Random, shape: Shape) -> Step:
        number = rng.choice([0.5, 2.0, 3.0])
        other = nn.Parameter(torch.randn(shape[rng.randrange(len(shape)) :]))
        return rng.choice(
            [
                lambda x: x * number + 1,
                lambda x: x + other.detach(),
                lambda x: torch.maximum(x, other.detach()),
                lambda x: torch.where(x > 0, x, x * number),
                lambda x: x.clamp(-1, number),
                lambda x: x.abs().add(1).sqrt(),
                lambda x: x.abs().add(1).log(),
                lambda x: x / (x.abs() + 1),
                lambda x: x.pow(2).mul(0.25),
                lambda x: x.sin() - x.cos(),
                lambda x: x.tanh().exp(),
                lambda x: torch.lerp(x, x * x, 0.25),
                lambda x: torch.addcmul(x, x, x, value=0.5),
                lambda x: (x - x.mean()).clamp(-3, 3),
            ]
        )

    def pad(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) >= 3 and shape[-1] >= 3)
        modes = ["constant", "reflect", "replicate"] if len(shape) == 3 else ["constant"]
        mode = rng.choice(modes)
        return lambda x: functional.pad(x, (1, 2), mode=mode)

    def upsample(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) == 4 and max(shape[2:]) <= 16)
        mode = rng.choice(["nearest", "bilinear", "pixel_shuffle"])
        if mode == "pixel_shuffle":
            _need(shape[1] % 4 == 0)
            return nn.PixelShuffle(2)
        return nn.Upsample(scale_factor=2, mode=mode)

    def attention(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) == 3)
        return lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=rng.random() < 0)

    def recurrent(rng: random.Random, shape: Shape) -> Step:
        _need(len(shape) == 3)
        cell = rng.choice([nn.LSTM, nn.GRU, nn.RNN])(shape[-1], rng.choice([1, 4]), batch_first=rng.random() < 0.5)
        return _First(cell)

    class _First(nn.Module):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    return {f.__name__: f for f in (linear, conv, conv_transpose, norm, activation, pool, reduction, softmax, move, cut,
                                    elementwise, pad, upsample, attention, recurrent)}  # fmt: skip


def module_of(number: int) -> tuple[Any, Any, list[str]]:
    """The module of a case of the kind `modules`, its example input, and the names of its steps."""
    import torch
    from torch import nn

    rng = random.Random(f"modules {number}")
    torch.manual_seed(number)
    rank = rng.choice([2, 3, 4])
    x = torch.randn([rng.choice([1, 2, 3, 4, 5, 8, 16]) for _ in range(rank)])
    steps: list[Any] = []
    names: list[str] = []
    value = x
    table = _layers()
    for _ in range(12):
        if len(steps) >= rng.choice([1, 2, 3, 4, 5]):
            break
        name = rng.choice(list(table))
        try:
            step = table[name](rng, tuple(value.shape))
            if isinstance(step, nn.Module):
                step.eval()
            with torch.no_grad():
                after = step(value)
        except (Unfit, IndexError, RuntimeError, ValueError):
            continue
        if after.numel() in range(1, 1 << 16) and after.ndim in range(1, 6) and bool(after.isfinite().all()):
            steps.append(step)
            names.append(name)
            value = after

    class Chain(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.ModuleList(s for s in steps if isinstance(s, nn.Module))

        def forward(self, given: Any) -> Any:
            for step in steps:
                given = step(given)
            return given + 0

    return Chain().eval(), x, names


def check_module(number: int) -> str:
    """Compile the module of a case, every second one with a free first dimension, and compare it with eager torch."""
    import torch

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    module, x, names = module_of(number)
    free = number % 2 == 1 and x.shape[0] > 1
    shapes = {"given": {0: torch.export.Dim("n", min=2, max=64)}} if free else None
    what = f"a module of {names} on {list(x.shape)}{' with a free first dimension' if free else ''}"
    try:
        program = numc.compile(module, (x,), dynamic_shapes=shapes)
    except NumcError as error:
        if "\n" in str(error):
            raise Finding(f"an error of several lines: {error} from {what}") from None
        return "refused"
    except Exception as error:
        raise Finding(f"{type(error).__name__}: {error} from {what}") from error
    for rows in (x.shape[0], 5) if free else (x.shape[0],):
        given = torch.randn(rows, *x.shape[1:], generator=torch.Generator().manual_seed(rows))
        try:
            with torch.no_grad():
                want = module(given).numpy()
        except (RuntimeError, IndexError):
            continue
        try:
            compare("result", np.asarray(program(given.numpy())), want)
        except (NumcError, Finding) as error:
            raise Finding(f"{error}, {rows} rows, from {what}") from None
    return "ran"
