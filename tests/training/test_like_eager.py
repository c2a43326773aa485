"""Operators under torch.compile beside eager torch: the same bits, dtypes and strides, forward and backward.

All cases of a table are compiled as one function, which costs less than one for each.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

import numc
from numc.compiler.torch_compile.graphs.decompositions import training_table
from numc.frontends.pytorch.graphs import traced_first

aten = torch.ops.aten
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def integers(dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-9, 9, (2, 3, 4), generator=torch.Generator().manual_seed(0)).to(dtype)


def floats(dtype: torch.dtype) -> torch.Tensor:
    """Special values, each in whole vectors: eager torch's loops of single elements may say something else."""
    ends = [3e38, -3e38] if dtype != torch.float16 else [6e4, -6e4]
    limits = [0.25, -0.25, 0.3, -0.3, 0.2988281, -0.2988281, 0.3007812, -0.3007812, 0.3002, -0.3002]
    numbers = [0.75, -0.75, 1.0, -1.0, 2.0, -2.0, -4.0, -5.5, 12.0, 1e-40, -1e-40]
    values = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, *ends, *limits, *numbers], dtype=torch.float64)
    return values.repeat(64).to(dtype)


def least(a: torch.Tensor) -> torch.Tensor:
    return torch.full_like(a, torch.iinfo(a.dtype).min)


def resized(images: torch.Tensor) -> list[torch.Tensor]:
    return [
        functional.interpolate(images, size, mode=mode, align_corners=corners, antialias=smooth)
        for mode in ("bilinear", "bicubic")
        for corners in (False, True)
        for size, smooth in (((7, 2), False), ((2, 3), True))
    ]


def neighbours(a: torch.Tensor) -> list[torch.Tensor]:
    return [torch.nextafter(a, a.roll(n)) for n in range(4)]


OF_INTEGERS: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "bmm": lambda a: torch.bmm(a, a.mT),
    "addbmm": lambda a: torch.addbmm(torch.ones(3, dtype=a.dtype), a, a.mT, beta=1.7, alpha=2.6),
    "baddbmm": lambda a: torch.baddbmm(torch.ones(3, dtype=a.dtype), a, a.mT, beta=1.7, alpha=2.6),
    "addmm": lambda a: torch.addmm(torch.ones(3, dtype=a.dtype), a[0], a[1].T, beta=0.2, alpha=1.6),
    "addmv": lambda a: torch.addmv(torch.ones(1, dtype=a.dtype), a[0], a[1, 0], beta=0.2, alpha=1.6),
    "cumulative": lambda a: (a.cumsum(1), a.cumsum(0, dtype=a.dtype), a.cumprod(1, dtype=a.dtype), a.cummax(1)),
    "extremes": lambda a: (a.max(), a.min(), a.amax(1), a.min(2)),
    "sorted": lambda a: (a.sort(dim=0, stable=True), a.topk(2, 1)[0], torch.diagonal_copy(a, -1, 0, 2)),
    "as_strided": lambda a: (torch.as_strided_copy(a.sum().to(a.dtype), (), (), 0), a.as_strided((), (), 3) + 1),
    "arange": lambda a: (torch.arange(0, 3.1, dtype=a.dtype) + a[0, 0, 0], torch.arange(8.5, 1.2, -1.5, dtype=a.dtype)),
    "linspace": lambda a: torch.linspace(4.3, 0, 50, dtype=a.dtype) + a[0, 0, 0],
    "divisors": lambda a: (torch.gcd(a, a.flip(1)), torch.lcm(a, a.flip(2)), torch.gcd(least(a), a)),
    "resized": lambda a: resized(a.unsqueeze(0)) if a.dtype == torch.uint8 else (),
}
OF_FLOATS: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "softshrink": lambda a: [functional.softshrink(a, limit) for limit in (0.0, 0.3, 0.5)],
    "hardshrink": lambda a: [functional.hardshrink(a, limit) for limit in (0.0, 0.3, 0.5)],
    "frexp": torch.frexp,
    "nextafter": lambda a: [a + 0, *neighbours(a.detach())] if a.dtype != torch.float16 else a + 0,
}
OF_NARROW: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "rrelu": functional.rrelu,
    "threshold": lambda a: functional.threshold(a, 0.3, 0.1),
    "elu": lambda a: functional.elu(a, 1.3),
    "selu": functional.selu,
    "hardswish": functional.hardswish,
    "hardtanh": lambda a: functional.hardtanh(a, -0.3, 0.7),
    "smooth_l1_loss": lambda a: functional.smooth_l1_loss(a, torch.zeros_like(a), reduction="none", beta=0.5),
    "cube": lambda a: a**3,
    "reciprocal of the square": lambda a: a**-2,
    "reciprocal": lambda a: a**-1,
    "reciprocal of the root": lambda a: a**-0.5,
    "rsqrt": torch.rsqrt,
    "xlogy of a number": lambda a: torch.xlogy(a, 3.7),
    "xlogy with a number": lambda a: torch.xlogy(1.3, a),
    "xlog1py": lambda a: torch.special.xlog1py(a, 2.5),
    "entr": torch.special.entr,
    "sigmoid": torch.sigmoid,
    "glu": functional.glu,
    "logit": lambda a: [torch.logit(a * 0.2, limit) for limit in (None, 0.1)],
    "histc": lambda a: [a + 0, torch.histc(torch.arange(100, dtype=a.dtype) / 10, 100, 0, 10)],
}
OF_MATRICES: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "det": torch.linalg.det,
    "det of a transposed matrix": lambda a: torch.linalg.det(a.mT),
    "slogdet": torch.linalg.slogdet,
    "erfcx": lambda a: [a + 0, torch.special.erfcx(a.detach() * 1.5 * 2.0**123).bfloat16()],
    "std": lambda a: [(a * 2.0**n).std(-1, correction=0) for n in (100, 0, -100)],
}
MATRICES = torch.tensor([[[1.0, 2.0], [4.0, 16.0]], [[0.0, 2.0], [4.0, 8.0]]])
"""All that is computed of them is exact, or rounded to few digits."""
OF_IMAGES: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "grid_sample": lambda a: [
        functional.grid_sample(a, a.permute(0, 2, 3, 1) * 0.7, mode, outside, corners)
        for mode, outside, corners in (("bilinear", "reflection", True), ("nearest", "border", False))
    ],
}
IMAGES = torch.randn((1, 2, 4, 16), generator=torch.Generator().manual_seed(0))
OF_INFINITIES: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "linear": lambda a: functional.interpolate(a.reshape(1, 2, 8), scale_factor=2, mode="linear"),
    "bilinear": lambda a: functional.interpolate(a.reshape(1, 1, 2, 8), scale_factor=2, mode="bilinear"),
    "multi_margin_loss": lambda a: [
        functional.multi_margin_loss(
            a.float().nan_to_num(posinf=2.0, neginf=-2.0).reshape(2, 8), torch.tensor([0, 3]), p=p, reduction=reduction
        )
        for p in (1, 2)
        for reduction in ("none", "sum", "mean")
    ],
    "trilinear": lambda a: functional.interpolate(a.reshape(1, 1, 2, 2, 4), scale_factor=2, mode="trilinear"),
}


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or one.stride() != other.stride():
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    return bool((((one == other) & (one.signbit() == other.signbit())) | (one.isnan() & other.isnan())).all())


def run(cases: Mapping[str, Callable[..., Any]], inputs: Sequence[torch.Tensor], backend: Any) -> dict[str, Any]:
    """Return the results and, of floats, the gradients by the name of the case and the dtype."""
    torch._dynamo.reset()

    def function(*given: torch.Tensor) -> list[list[torch.Tensor]]:
        each = [case for case in cases.values() for _ in inputs]
        return [tensors(case(a)) for case, a in zip(each, given, strict=True)]

    # Each case has inputs of its own: the product of a gradient that is 0 and an infinity of another case is NaN.
    copies = [x.clone().requires_grad_(x.is_floating_point()) for _ in cases for x in inputs]
    results = (torch.compile(function, backend=backend, dynamic=False) if backend else function)(*copies)
    differentiable = [result for each in results for result in each if result.requires_grad]
    leaves = [x for x in copies if x.requires_grad]
    tangents = [torch.full_like(result, 1.25) for result in differentiable]
    gradients = iter(torch.autograd.grad(differentiable, leaves, tangents, allow_unused=True) if leaves else ())
    names = [f"{name} {x.dtype}" for name in cases for x in inputs]
    return {
        name: [result.detach() for result in each] + ([next(gradients)] if x.requires_grad else [])
        for name, x, each in zip(names, copies, results, strict=True)
    }


@pytest.mark.parametrize(
    ("cases", "inputs"),
    [
        (OF_INTEGERS, [integers(dtype) for dtype in INTEGERS]),
        (OF_FLOATS, [floats(dtype) for dtype in FLOATS]),
        (OF_MATRICES, [MATRICES]),
        (OF_IMAGES, [IMAGES.bfloat16()]),
        (OF_NARROW, [floats(dtype) for dtype in FLOATS[1:]]),
        (OF_INFINITIES, [torch.tensor([1, math.inf, 2, 4, 8, -math.inf, 0, 3] * 2, dtype=dtype) for dtype in FLOATS]),
    ],
    ids=["integers", "floats", "matrices", "images", "narrow", "infinities"],
)
def test_operators_are_those_of_eager_torch(
    cases: Mapping[str, Callable[..., Any]], inputs: Sequence[torch.Tensor]
) -> None:
    want = run(cases, inputs, None)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="numc")  # nothing is left to torch
        got = run(cases, inputs, numc.backend("fp32"))
    wrong = [name for name in want if not all(map(is_same, got[name], want[name]))]
    assert not wrong
    assert len(want) == len(cases) * len(inputs)


def test_what_torch_decomposes_before_it_differentiates_is_known() -> None:
    """Otherwise what numc's table has of it is never read."""
    exceptions = {aten.istft.default, *(getattr(aten, f"upsample_nearest{n}d").vec for n in (1, 2, 3))}  # the same
    first = {
        operation
        for operation, decomposed in training_table().items()
        if traced_first.KEYS & operation.py_kernels.keys() and decomposed.__module__.startswith("numc.")
    }
    assert first - exceptions == {*traced_first.DECOMPOSED, *traced_first.WHOLE}
