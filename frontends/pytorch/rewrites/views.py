"""Operations that only move elements: views by strides, their copies, and writes through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten


def view(value: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """aten.view, also where a decomposition before it left its tensor with other strides than torch's own operation."""
    if is_contiguous_or_false(value):
        return NotImplemented
    return value.clone(memory_format=torch.contiguous_format).view(size)


def as_strided(
    value: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    """aten.as_strided of an input or of a view of one, as an index into its elements.

    Of other values too if it changes only the strides of dimensions of size 1, as pooling to one element does.
    """
    if value.dim() == len(size):
        kept = [n for n, length in enumerate(size) if not statically_known_true(length == 1)]
        same = [a == b for a, b in zip(value.shape, size, strict=True)] + [value.stride(n) == stride[n] for n in kept]
        if all(map(statically_known_true, same)) and storage_offset in (None, value.storage_offset()):
            return aten.alias(value)
    offset = value.storage_offset() if storage_offset is None else storage_offset
    base = value if value._base is None else value._base
    numbers = [offset, *size, *stride, *base.shape]
    if not all(isinstance(n, int) for n in numbers) or not base.is_contiguous() or not _is_input(base):
        return NotImplemented
    place = torch.full((), offset)
    for n, (length, step) in enumerate(zip(size, stride, strict=True)):
        place = place + (torch.arange(length) * step).reshape([-1, *[1] * (len(size) - 1 - n)])
    return base.reshape([-1])[place]


def _is_input(value: torch.Tensor) -> bool:
    """Whether a value is traced to an input of the graph, which has the strides that eager torch sees."""
    mode = get_proxy_mode()
    traced = None if mode is None else get_proxy_slot(value, mode.tracer, None)
    return traced is not None and traced.proxy.node.op == "placeholder" and value.storage_offset() == 0


def diagonal_scatter(
    value: torch.Tensor, new: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """aten.diagonal_scatter."""
    moved = value.movedim((dim1, dim2), (-2, -1))
    rows, columns = torch.arange(moved.shape[-2]).unsqueeze(-1), torch.arange(moved.shape[-1])
    place = (rows + min(0, offset)).clamp(0, max(0, new.shape[-1] - 1)).squeeze(-1)
    spread = new.index_select(-1, place).unsqueeze(-1)
    found = torch.where(columns - rows == offset, spread, moved)
    return found.movedim((-2, -1), (dim1, dim2))


def empty_strided(size: Sequence[int], stride: Sequence[int], **options: Any) -> torch.Tensor:
    """aten.empty_strided, but dense."""
    return aten.empty.memory_format(size, dtype=options.get("dtype"))


def copies() -> dict[Any, Callable[..., Any]]:
    """Return decompositions of the views that copy, such as aten.view_copy."""
    table = {}
    for name in ("view", "permute", "transpose", "unbind", "expand", "diagonal", "narrow", "as_strided", "unfold"):
        made, copied = getattr(aten, name), getattr(aten, f"{name}_copy")
        for overload in copied.overloads():
            if overload != "out" and not overload.endswith("_out") and overload in made.overloads():
                table[getattr(copied, overload)] = _copied(getattr(made, overload))
    return table


def _copied(operation: Any) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        found = operation(*args, **kwargs)
        return [each.clone() for each in found] if isinstance(found, (list, tuple)) else found.clone()

    return decomposed
