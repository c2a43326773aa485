"""Decompositions of what only graphs of torch.compile have, beside those of frontends/pytorch/decompositions.py.

Random numbers stay separate operations, which torch's generator runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decompositions as torch_rnn

from numc.frontends.pytorch.decompositions import add, decomposition_table, rounded_once
from numc.frontends.pytorch.rewrites import elementwise, moments

aten = torch.ops.aten


def rnn(
    value: torch.Tensor,
    hidden: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer: Callable[..., Any],
) -> tuple[torch.Tensor, list[Any]]:
    """Return all layers of a recurrent network, with the dropout between them that torch's decomposition leaves out."""
    value = value.transpose(0, 1) if batch_first else value
    last = []
    for n in range(num_layers):
        ours, state, theirs, back = torch_rnn.params_hiddens(params, hidden, n, bidirectional)
        outputs, end = layer(value, state, ours, has_biases)
        last.append(end)
        if bidirectional:
            reverse, end = layer(value, back, theirs, has_biases, reverse=True)
            last.append(end)
            outputs = torch.cat([outputs, reverse], outputs.dim() - 1)
        value = torch.dropout(outputs, dropout, train) if dropout and train and n + 1 < num_layers else outputs
    return value.transpose(0, 1) if batch_first else value, last


def native_dropout(value: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.native_dropout, whose mask stays with torch's generator, so that it is the mask of eager torch."""
    if train is False or p in (0.0, 1.0):
        kept: tuple[torch.Tensor, torch.Tensor] = elementwise.native_dropout(value, p, train)
        return kept
    # Drawn in the order of memory as in eager torch. It does not depend on `value`, so that it need not wait for it.
    strides = torch.empty_like(value).stride()
    order = sorted(range(value.dim()), key=lambda d: (-strides[d], d))
    template = aten.empty.memory_format([value.shape[d] for d in order], dtype=torch.float32)
    mask = aten.bernoulli.p(template, 1.0 - p).permute([order.index(d) for d in range(value.dim())])
    return value * (mask * (1.0 / (1.0 - p))).to(value.dtype), mask != 0


def _of_bytes(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *args: decomposition(value, *args) if value.dtype == torch.uint8 else NotImplemented


def _foreach(packet: Any) -> Callable[..., list[Any]]:
    """Return a function that applies an operation to each element of lists."""

    def decomposed(*args: Any, **kwargs: Any) -> list[Any]:
        count = next(len(a) for a in args if isinstance(a, (list, tuple)))
        return [packet(*(a[n] if isinstance(a, (list, tuple)) else a for a in args), **kwargs) for n in range(count)]

    return decomposed


def _foreach_with_value(packet: Any) -> Callable[..., list[Any]]:
    """Return addcmul or addcdiv over lists, with the `value` that is a keyword for single tensors."""
    many = _foreach(lambda a, b, c, value: packet(a, b, c, value=value))
    return lambda a, b, c, value=1: many(a, b, c, value)


# Of each is an operation of the same name and arguments for single tensors.
_FOREACH = (
    *(
        "abs",
        "acos",
        "add",
        "asin",
        "atan",
        "ceil",
        "clamp_max",
        "clamp_min",
        "clone",
        "copy",
        "cos",
        "cosh",
        "div",
        "erf",
    ),
    *("erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "max", "maximum"),
    *("minimum", "mm", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt"),
    *("sub", "tan", "tanh", "trunc"),
)


def _norm(x: torch.Tensor, ord: float = 2, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


def training_table() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of the graphs that torch.compile traces."""
    table = decomposition_table()
    del table[aten.empty_strided.default]  # torch makes it without writing to it
    for name in ("bilinear", "bicubic"):  # their weights are of float64, which stays with torch, but those of bytes
        operation = getattr(aten, f"_upsample_{name}2d_aa").default
        table[operation] = _of_bytes(table[operation])
    table[aten.std.correction] = rounded_once(moments.std_in_float32)
    for operation, function in (
        (aten.special_erfcx, elementwise.erfcx),
        (aten.erfinv, elementwise.erfinv),
        (aten.lgamma, elementwise.lgamma),
        (aten.digamma, elementwise.digamma),
    ):
        table[operation.default] = rounded_once(elementwise.in_float32(function))
    for name in _FOREACH:
        many = getattr(aten, f"_foreach_{name}")
        table |= {getattr(many, overload): _foreach(getattr(aten, name)) for overload in many.overloads()}
    for name, bound in (("maximum", aten.clamp_min), ("minimum", aten.clamp_max)):  # of tensors and numbers
        many = getattr(aten, f"_foreach_{name}")
        table |= dict.fromkeys((many.Scalar, many.ScalarList), _foreach(bound))
    table |= {aten._foreach_norm.Scalar: _foreach(_norm), aten._foreach_zero.default: _foreach(torch.zeros_like)}
    for name in ("addcmul", "addcdiv"):
        many = getattr(aten, f"_foreach_{name}")
        table |= {overload: _foreach_with_value(getattr(aten, name)) for overload in (many.Scalar, many.ScalarList)}
    table |= {
        aten.native_dropout.default: native_dropout,
        # This is how Dynamo writes addcmul; b may be a number.
        torch.ops.prims.fma.default: rounded_once(
            lambda a, b, c: a * b + c if isinstance(b, torch.Tensor) else add(c, a, b)
        ),
    }
    return table
