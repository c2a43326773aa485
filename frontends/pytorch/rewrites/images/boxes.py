"""Non-maximum suppression of torchvision, if torchvision is imported: numc does not need it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from numc.frontends.pytorch.operators import kept_boxes

_NMS = "torchvision::nms"


def suppressions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operation."""
    return {torch.ops.torchvision.nms.default: _nms} if _is_there() else {}


def _is_there() -> bool:
    return hasattr(torch.ops.torchvision, "nms")


def _nms(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    """torchvision::nms: the places of the boxes that are kept, by falling scores; of equal ones the first first."""
    if boxes.dtype != scores.dtype or boxes.dtype not in (torch.float32, torch.float64):
        return NotImplemented  # nor does torchvision compute them
    order = scores.sort(stable=True, dim=0, descending=True)[1]
    kept = kept_boxes(
        boxes.index_select(0, order), torch.full((), _rounded_down(limit, boxes.dtype), dtype=boxes.dtype)
    )
    return order[kept]


def _rounded_down(limit: float, dtype: torch.dtype) -> float:
    """The largest number of a dtype up to a limit: what is above one is above the other, which torchvision compares."""
    if dtype == torch.float64:
        return limit
    with np.errstate(over="ignore"):
        nearest = np.float32(limit)
    return float(np.nextafter(nearest, np.float32(-np.inf)) if float(nearest) > limit else nearest)


@contextlib.contextmanager
def any_number_kept() -> Iterator[None]:
    """Let torch trace that any number of boxes may be kept: torchvision tells it that at least two are."""
    if not _is_there():
        yield
        return
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        torch.library.register_fake(_NMS, _kept, lib=library)
        yield


def _kept(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    """What is known of the result of torchvision::nms without the boxes."""
    torch._check(boxes.dim() == 2, lambda: f"boxes should be a 2d tensor, got {boxes.dim()}D")
    torch._check(boxes.size(1) == 4, lambda: f"boxes should have 4 elements in dimension 1, got {boxes.size(1)}")
    torch._check(scores.dim() == 1, lambda: f"scores should be a 1d tensor, got {scores.dim()}D")
    torch._check(
        boxes.size(0) == scores.size(0),
        lambda: f"boxes and scores should be as many, got {boxes.size(0)} and {scores.size(0)}",
    )
    most = boxes.size(0) if isinstance(boxes.size(0), int) else None
    return boxes.new_empty([torch.library.get_ctx().new_dynamic_size(max=most)], dtype=torch.int64)
