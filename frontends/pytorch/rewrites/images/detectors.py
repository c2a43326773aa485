"""Models of torchvision: operators that a file names, and functions with branches on the number of boxes.

That number depends on data. In a trace, other functions without branches run instead of those.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from numc.frontends.pytorch.rewrites.images.boxes import kept

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


@functools.cache
def define() -> None:
    """Tell torch what torchvision's operators are, where torchvision is not imported: a file may have them."""
    for text, shape in _DEFINED.items():
        name = text.partition("(")[0]
        if not hasattr(torch.ops.torchvision, name):
            _LIBRARY.define(text)
            torch.library.register_fake(f"torchvision::{name}", shape, lib=_LIBRARY)


def _regions(image: torch.Tensor, regions: torch.Tensor, scale: float, rows: int, columns: int, *_: int) -> Any:
    return image.new_empty([regions.shape[0], image.shape[1], rows, columns])


_DEFINED = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": kept,
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor": _regions,
}


@contextlib.contextmanager
def without_branches() -> Iterator[None]:
    """Let those functions run what numc has for them, under any name by which a model has imported them."""
    codes = [(function, function.__code__, own) for function, own in _there()]
    for function, _, own in codes:
        function.__code__ = own.__code__
    try:
        yield
    finally:
        for function, code, _ in codes:
            function.__code__ = code


def _there() -> Iterator[tuple[FunctionType, FunctionType]]:
    """Those functions that are imported and have the arguments that are known, and what numc has for them."""
    for module, name, own in _FUNCTIONS:
        if module not in sys.modules:
            continue
        function: Any = sys.modules[module]
        for part in name.split("."):
            function = getattr(function, part, None)
        if isinstance(function, FunctionType) and _arguments(function) == _arguments(own):
            yield function, own


def _arguments(function: FunctionType) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


# Their globals are those of torchvision.
def _batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: Any) -> Any:
    from numc.frontends.pytorch.rewrites.images.boxes import batched

    return batched(boxes, scores, idxs, iou_threshold)


def _multiscale_roi_align(
    x_filtered: Any, boxes: Any, output_size: Any, sampling_ratio: Any, scales: Any, mapper: Any
) -> Any:
    from numc.frontends.pytorch.rewrites.images.regions import of_levels

    return of_levels(x_filtered, boxes, output_size, samples=sampling_ratio, scales=scales, mapper=mapper)


def _nms(dets: Any, scores: Any, iou_threshold: Any) -> Any:
    from numc.frontends.pytorch.rewrites.images.boxes import kept

    return kept(dets, scores, iou_threshold)


def _decode(self: Any, rel_codes: Any, boxes: Any) -> Any:
    return self.decode_single(rel_codes, torch.cat(boxes)).unflatten(1, (-1, 4))


_FUNCTIONS: tuple[tuple[str, str, Any], ...] = (
    ("torchvision._meta_registrations", "meta_nms", _nms),
    ("torchvision.ops.boxes", "batched_nms", _batched_nms),
    ("torchvision.models.detection._utils", "BoxCoder.decode", _decode),
    ("torchvision.ops.poolers", "_multiscale_roi_align", _multiscale_roi_align),
)
