"""Non-maximum suppression of torchvision, if torchvision is imported: numc does not need it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from numc.frontends.pytorch.operators import kept_boxes, size_of

_NMS = "torchvision::nms"
_META = "torchvision._meta_registrations"
_FEW = 1000


def suppressions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operation."""
    return {torch.ops.torchvision.nms.default: _nms} if _is_there() else {}


def _is_there() -> bool:
    return hasattr(torch.ops.torchvision, "nms")


def _nms(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    """torchvision::nms: the places of the boxes that are kept, by falling scores; of equal ones the first first."""
    if boxes.dtype != scores.dtype or boxes.dtype not in (torch.float32, torch.float64):
        return NotImplemented  # nor does torchvision compute them
    return _kept_of(boxes, scores, torch.zeros_like(scores, dtype=torch.int64), limit)


def _kept_of(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor, limit: float) -> torch.Tensor:
    """The places of the boxes that overlap none of their class that has a larger score, by falling scores."""
    order = scores.sort(stable=True, dim=0, descending=True)[1]
    most = torch.full((), _rounded_down(limit, boxes.dtype), dtype=boxes.dtype)
    return order[kept_boxes(boxes.index_select(0, order), most, classes.index_select(0, order))]


def batched(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor, limit: float) -> torch.Tensor:
    """torchvision.ops.batched_nms, without its branches on the number of boxes and its loop over classes.

    Up to _FEW boxes torchvision moves those of each class apart, which rounds them. It compares more of them class by
    class.
    """
    if classes.is_floating_point():
        raise TypeError(f"classes of boxes are {str(classes.dtype).removeprefix('torch.')}: want integers")
    if boxes.dtype != scores.dtype or boxes.dtype not in (torch.float32, torch.float64):
        refused: torch.Tensor = torch.ops.torchvision.nms(boxes, scores, limit)
        return refused
    few = size_of(boxes, 0) <= _FEW
    largest = torch.cat([boxes.reshape(-1), boxes.new_full([1], -torch.inf)]).max()
    moved = boxes + (classes.to(boxes) * (largest + 1))[:, None]
    of_class = torch.where(few, 0, classes.long())
    return _kept_of(torch.where(few, moved, boxes), scores, of_class, limit)


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
    if not _is_there() or _META in sys.modules:  # its own function is replaced: see detectors.py
        yield
        return
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        torch.library.register_fake(_NMS, kept, lib=library)
        yield


def kept(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    """Return a tensor like the result of torchvision::nms, as far as it is known without the boxes."""
    torch._check(boxes.dim() == 2, lambda: f"boxes should be a 2d tensor, got {boxes.dim()}D")
    torch._check(boxes.size(1) == 4, lambda: f"boxes should have 4 elements in dimension 1, got {boxes.size(1)}")
    torch._check(scores.dim() == 1, lambda: f"scores should be a 1d tensor, got {scores.dim()}D")
    torch._check(
        boxes.size(0) == scores.size(0),
        lambda: f"boxes and scores should be as many, got {boxes.size(0)} and {scores.size(0)}",
    )
    most = boxes.size(0) if isinstance(boxes.size(0), int) else None
    return boxes.new_empty([torch.library.get_ctx().new_dynamic_size(max=most)], dtype=torch.int64)
