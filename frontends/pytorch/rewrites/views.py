"""Operations that only move elements: views by strides or dtype, their copies, and writes through them."""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch._prims_common import infer_size, is_contiguous_or_false
from torch._subclasses.fake_impls import _compute_stride
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import statically_known_true

from numc.frontends.pytorch.operators import bits

aten = torch.ops.aten
_BITS_OF = frozenset({(torch.float32, torch.int32), (torch.float64, torch.int64)})


def view(value: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """aten.view, also where a decomposition before it left its tensor with other strides than torch's own operation."""
    if is_contiguous_or_false(value) or _is_view(value, size):
        return NotImplemented
    return value.clone(memory_format=torch.contiguous_format).view(size)


def _is_view(value: torch.Tensor, size: Sequence[int]) -> bool:
    """Whether the strides of a tensor allow another shape: the result has to keep them for a later as_strided."""
    if not all(isinstance(n, int) for n in (*value.shape, *value.stride(), *size)):
        return False
    # Not torch's own view of such a tensor: while a graph is decomposed, what makes it is decomposed, too.
    return _compute_stride(value.shape, value.stride(), infer_size(size, value.numel())) is not None


def view_dtype(value: torch.Tensor, dtype: torch.dtype) -> Any:
    """aten.view.dtype of floats as the integers whose bits they have, and of such integers as floats."""
    if value.dtype == dtype:
        return value.clone()
    known = (value.dtype, dtype) in _BITS_OF or (dtype, value.dtype) in _BITS_OF
    return bits(value) if known else NotImplemented


def as_strided(
    value: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    """aten.as_strided, as an index into the elements of what its tensor is a view of.

    If it changes only the strides of dimensions of size 1, as pooling to one element does, there is nothing to do. If a
    tensor that has no gaps becomes another one of as many elements, as in the norm of groups, it is a reshape.
    """
    if value.dim() == len(size):
        kept = [n for n, length in enumerate(size) if not statically_known_true(length == 1)]
        same = [a == b for a, b in zip(value.shape, size, strict=True)] + [value.stride(n) == stride[n] for n in kept]
        if all(map(statically_known_true, same)) and storage_offset in (None, value.storage_offset()):
            return aten.alias(value)
    if storage_offset in (None, value.storage_offset()) and _is_reshape(value, size, stride):
        return value.reshape(size)
    base = value if value._base is None else value._base
    flat = _memory(base)
    offset = value.storage_offset() if storage_offset is None else storage_offset
    positions = None if flat is None else _places(offset, size, stride)
    return NotImplemented if flat is None or positions is None else aten.index.Tensor(flat, [positions])


def _is_reshape(value: torch.Tensor, size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a tensor and one with these sizes and strides both have all of the same elements in their order."""
    if not is_contiguous_or_false(value):
        return False
    steps = accumulate(reversed(size[1:]), operator.mul, initial=1)  # one, even if there are no sizes
    dense = [statically_known_true(a == b) for a, b in zip(reversed(stride), steps, strict=False)]
    return all(dense) and statically_known_true(math.prod(size) == value.numel())


def slice_tensor(value: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> torch.Tensor:
    """aten.slice.Tensor with bounds that follow from free sizes, but are the same number for all of them."""
    known = [_only(bound) for bound in (start, end)]
    same = all(a is b for a, b in zip(known, (start, end), strict=True))
    return NotImplemented if same else aten.slice.Tensor(value, dim, *known, step)


def _only(number: Any) -> Any:
    """Return the only value that a number can have, or the number."""
    if not isinstance(number, torch.SymInt):
        return number
    limits = number.node.shape_env.bound_sympy(number.node.expr)
    return int(limits.lower) if limits.lower == limits.upper else number


def as_strided_scatter(
    value: torch.Tensor,
    new: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    """aten.as_strided_scatter of a tensor that is no view, as writes to its elements."""
    flat = None if value._base is not None else _memory(value)
    positions = None if flat is None else _places(storage_offset or 0, size, stride)
    if flat is None or positions is None:
        return NotImplemented
    order = order_of(value)
    written = flat.index_put([positions], new).reshape([value.shape[n] for n in order])
    return written.permute([order.index(n) for n in range(len(order))])


def _memory(value: torch.Tensor) -> torch.Tensor | None:
    """Return the elements of a tensor in the order of memory; None if that is not known, or has gaps.

    Of an input it is as eager torch sees it; of others their strides are those that torch has found for the graph.
    """
    mode = get_proxy_mode()
    traced = None if mode is None else get_proxy_slot(value, mode.tracer, None)
    if traced is None or value.storage_offset() != 0 or not all(isinstance(n, int) for n in value.shape):
        return None
    order = order_of(value)
    ordered = value.permute(order)
    return ordered.reshape([-1]) if ordered.is_contiguous() else None


def order_of(value: torch.Tensor) -> list[int]:
    """Return the dimensions of a tensor, those with the largest strides first."""
    return sorted(range(value.dim()), key=lambda n: -value.stride(n))


def _places(offset: int, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor | None:
    """Return where the elements of a view by strides are in memory; None if sizes are free."""
    if not all(isinstance(n, int) for n in (offset, *size, *stride)):
        return None
    positions = torch.full((), offset)
    for n, (length, step) in enumerate(zip(size, stride, strict=True)):
        positions = positions + (torch.arange(length) * step).reshape([-1, *[1] * (len(size) - 1 - n)])
    return positions


def diagonal_scatter(
    value: torch.Tensor, new: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """aten.diagonal_scatter."""
    moved = value.movedim((dim1, dim2), (-2, -1))
    rows, columns = torch.arange(moved.shape[-2]).unsqueeze(-1), torch.arange(moved.shape[-1])
    positions = (rows + min(0, offset)).clamp(0, max(0, new.shape[-1] - 1)).squeeze(-1)
    spread = new.index_select(-1, positions).unsqueeze(-1)
    written = torch.where(columns - rows == offset, spread, moved)
    return written.movedim((-2, -1), (dim1, dim2)).contiguous()


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
        viewed = operation(*args, **kwargs)
        if isinstance(viewed, (list, tuple)):
            return [each.clone(memory_format=torch.contiguous_format) for each in viewed]
        return viewed.clone(memory_format=torch.contiguous_format)

    return decomposed


def split_with_sizes(value: torch.Tensor, split_sizes: Sequence[Any], dim: int = 0) -> Any:
    """aten.split_with_sizes into sizes that follow from free ones, for which torch-mlir has constants only."""
    if all(isinstance(size, int) for size in split_sizes):
        return NotImplemented
    starts = accumulate(split_sizes[:-1], initial=0)
    return [value.narrow(dim, start, size) for start, size in zip(starts, split_sizes, strict=True)]


def tensor_split(value: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    """aten.tensor_split into a number of parts, the first of which have one element more if it does not divide."""
    size = value.shape[dim]
    return list(value.split_with_sizes([(size + sections - 1 - n) // sections for n in range(sections)], dim))


@contextlib.contextmanager
def any_size_split() -> Iterator[None]:
    """Let torch trace a split of a free size for all sizes: torch itself decides how many parts are longer."""
    with torch.library._scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was there before
        library.impl("tensor_split.sections", tensor_split, "CompositeImplicitAutograd", allow_override=True)
        yield
