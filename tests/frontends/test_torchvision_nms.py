"""Non-maximum suppression of torchvision: the boxes that its kernel keeps, in its order.

The reference is written in numpy from the kernel's definition. torchvision need not be installed.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import numc
from numc.frontends.pytorch.operators import kept_boxes


def greedy(boxes: Any, scores: Any, limit: float) -> list[int]:
    """The kept boxes: shares are computed in the dtype of the boxes, and compared with the limit as doubles."""
    one = boxes.dtype.type
    order = np.argsort(-scores, kind="stable")  # NaN comes last in numpy
    order = [*order[np.isnan(scores[order])], *order[~np.isnan(scores[order])]]
    kept: list[int] = []
    gone = set[int]()
    with np.errstate(all="ignore"):
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for n, i in enumerate(order):
            if i in gone:
                continue
            kept.append(int(i))
            for j in order[n + 1 :]:
                sides = []
                for d in range(2):
                    low = boxes[j, d] if boxes[i, d] < boxes[j, d] else boxes[i, d]
                    high = boxes[j, d + 2] if boxes[j, d + 2] < boxes[i, d + 2] else boxes[i, d + 2]
                    sides.append(high - low if high - low > 0 else one(0))
                common = sides[0] * sides[1]
                share = common / (areas[i] + areas[j] - common)
                assert isinstance(share, one)
                if float(share) > limit:
                    gone.add(j)
    return kept


def kernel(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.tensor(greedy(boxes.numpy(), scores.numpy(), limit), dtype=torch.int64)


def known(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    """What torchvision tells torch: that at least two boxes are kept."""
    return boxes.new_empty([torch.library.get_ctx().new_dynamic_size(min=2)], dtype=torch.int64)


@pytest.fixture(scope="module", autouse=True)
def operator() -> Iterator[None]:
    """torchvision::nms with the reference as its kernel, beside torchvision where that can be imported."""
    with contextlib.suppress(ImportError, RuntimeError):
        importlib.import_module("torchvision")
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        if not hasattr(torch.ops.torchvision, "nms"):
            library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            torch.library.register_fake("torchvision::nms", known, lib=library)
        library.impl("nms", kernel, "CPU", allow_override=True)
        yield


class Suppressed(nn.Module):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.torchvision.nms(boxes, scores, self.limit)
        return found


class Detector(nn.Module):
    """Boxes above a score, of each class apart as torchvision's batched_nms moves them, with what is kept of them."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        good = scores > 0.25
        boxes, scores, classes = boxes[good], scores[good], classes[good]
        moved = boxes + (classes.to(boxes) * 16)[:, None]
        kept = torch.ops.torchvision.nms(moved, scores, 0.5)
        return boxes[kept], scores[kept], classes[kept]


def data(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes on a grid, with equal scores, equal boxes and boxes without area; every third one is anywhere."""
    draw = np.random.default_rng([seed, count])
    low, size = draw.integers(0, 12, (count, 2)) / 4, draw.integers(0, 8, (count, 2)) / 4
    low[::3], size[::3] = draw.random((len(low[::3]), 2)) * 3, draw.random((len(low[::3]), 2)) * 2
    scores = draw.integers(0, 9, count) / 8
    return torch.from_numpy(np.hstack([low, low + size]).astype(np.float32)), torch.from_numpy(
        scores.astype(np.float32)
    )


def check(program: Any, boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> None:
    got = program(boxes, scores)
    assert got.dtype == torch.int64
    assert got.tolist() == greedy(boxes.numpy(), scores.numpy(), limit), (len(scores), limit)


# 3/10 of float32 is above 0.3, and 0.7 above that of float32: torchvision compares doubles.
@pytest.mark.parametrize("limit", [0.3, 0.7])
def test_free_number_of_boxes(limit: float) -> None:
    n = torch.export.Dim("n")
    program = numc.compile(Suppressed(limit), data(40), dynamic_shapes=({0: n}, {0: n}))
    for count in (40, 0, 1, 2, 3, 17, 90):
        for seed in range(3):
            check(program, *data(count, seed), limit)


@pytest.mark.parametrize(("count", "limit"), [(0, 0.5), (1, 0.5), (30, 0.0)])
def test_fixed_number_of_boxes(count: int, limit: float) -> None:
    given = data(count)
    check(numc.compile(Suppressed(limit), given), *given, limit)


@pytest.mark.parametrize(("dtype", "kept"), [(torch.float32, [1]), (torch.float64, [1, 0])])
def test_a_share_is_rounded_but_the_limit_is_not(dtype: torch.dtype, kept: list[int]) -> None:
    boxes = torch.tensor([[0, 0, 6.5, 1], [3.5, 0, 10, 1]], dtype=dtype)  # 3 of 10 are in both
    scores = torch.tensor([0.5, 0.75], dtype=dtype)
    assert numc.compile(Suppressed(0.3), (boxes, scores))(boxes, scores).tolist() == kept


def test_what_is_no_number() -> None:
    boxes, scores = data(24)
    draw = np.random.default_rng(5)
    for value in (np.nan, np.inf, -np.inf):
        boxes[draw.integers(24, size=3), draw.integers(4, size=3)] = value
        scores[draw.integers(24, size=2)] = value
    for limit in (0.5, -1e300):
        check(numc.compile(Suppressed(limit), (boxes, scores)), boxes, scores, limit)
        classes = torch.zeros(24, dtype=torch.int64)
        found = kept_boxes(boxes, torch.tensor(limit, dtype=torch.float64).float(), classes)
        assert found.nonzero().squeeze(1).tolist() == greedy(boxes.numpy(), -np.arange(24.0), limit)


def test_a_detector() -> None:
    """Also where nothing is above the score, and where one box is kept."""
    boxes, scores = data(40)
    classes = torch.from_numpy(np.random.default_rng(1).integers(0, 3, 40))
    program = numc.compile(Detector(), (boxes, scores, classes))
    one = torch.zeros(40)
    one[7] = 1
    for given in (scores, torch.zeros(40), one):
        good = given > 0.25
        moved = boxes[good] + (classes[good].float() * 16)[:, None]
        kept = greedy(moved.numpy(), given[good].numpy(), 0.5)
        for got, every in zip(program(boxes, given, classes).values(), (boxes, given, classes), strict=True):
            assert torch.equal(got, every[good][kept])


def by_class(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor, limit: float) -> list[int]:
    """The boxes that torchvision's batched_nms keeps: up to 1000 boxes, those of each class are moved apart."""
    if len(boxes) <= 1000:
        largest = boxes.max() if len(boxes) else 0
        return greedy((boxes + (classes.float() * (largest + 1))[:, None]).numpy(), scores.numpy(), limit)
    kept: list[int] = []
    for each in classes.unique():
        (places,) = torch.where(classes == each)
        kept += places[greedy(boxes[places].numpy(), scores[places].numpy(), limit)].tolist()
    return sorted(kept, key=lambda place: (-float(scores[place]), place))


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: Any) -> Any:
    """As torchvision's: with a branch on how many boxes there are, and a loop over classes."""
    if boxes.numel() > 4000:
        kept = torch.zeros_like(scores, dtype=torch.bool)
        for each in torch.unique(idxs):
            places = torch.where(idxs == each)[0]
            kept[places[torch.ops.torchvision.nms(boxes[places], scores[places], iou_threshold)]] = True
        places = torch.where(kept)[0]
        return places[scores[places].sort(descending=True)[1]]
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    moved = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
    return torch.ops.torchvision.nms(moved, scores, iou_threshold)


class Batched(nn.Module):
    """Boxes above a score, at most 1100 of them, of each class apart."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        good = scores > 0.25
        scores, places = scores[good].topk(min(1100, scores[good].size(0)))
        found: torch.Tensor = batched_nms(boxes[good][places], scores, classes[good][places], 0.5)
        return found


@pytest.fixture
def _boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's module of boxes, of which this one has the function that it has."""
    module = ModuleType("torchvision.ops.boxes")
    monkeypatch.setattr(module, "batched_nms", batched_nms, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)


def distinct(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Boxes, scores that differ, and classes; large numbers, which are rounded where classes are moved apart."""
    draw = np.random.default_rng(count)
    boxes, _ = data(count)
    scores = torch.from_numpy(draw.permutation(count).astype(np.float32)) / max(count, 1)
    return boxes * 1000.1, scores, torch.from_numpy(draw.integers(0, 5, count))


@pytest.mark.usefixtures("_boxes")
def test_classes_apart() -> None:
    code = batched_nms.__code__
    program = numc.compile(Batched(), distinct(40), dynamic_shapes=({0: (n := torch.export.Dim("n"))}, {0: n}, {0: n}))
    assert batched_nms.__code__ is code  # it runs numc's code in a trace only
    for count in (40, 0, 1, 2, 1333, 1334, 1400, 1700):  # three quarters of them, of which at most 1100
        boxes, scores, classes = distinct(count)
        places = scores.argsort(descending=True)[: min(1100, int((scores > 0.25).sum()))]
        assert program(boxes, scores, classes).tolist() == by_class(boxes[places], scores[places], classes[places], 0.5)


@pytest.mark.usefixtures("_boxes")
@pytest.mark.parametrize("count", [1000, 1001])
def test_classes_apart_of_a_fixed_number(count: int) -> None:
    class Module(nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return batched_nms(*given, 0.5)

    given = distinct(count)
    assert numc.compile(Module(), given)(*given).tolist() == by_class(*given, 0.5)


@pytest.mark.usefixtures("_boxes")
def test_classes_that_are_no_integers_are_refused() -> None:
    boxes, scores, classes = distinct(8)

    class Module(nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return batched_nms(*given, 0.5)

    with pytest.raises(numc.NumcError, match="cannot be exported: classes of boxes are float32: want integers"):
        numc.compile(Module(), (boxes, scores, classes.float()))


def test_a_file(tmp_path: Path) -> None:
    """The process that reads it does not import torchvision."""
    given = data(30)
    torch.export.save(torch.export.export(Suppressed(0.5), given), tmp_path / "boxes.pt2")
    check(numc.compile(tmp_path / "boxes.pt2"), *given, 0.5)


def test_other_dtypes_are_refused() -> None:
    boxes, scores = data(8)
    with pytest.raises(numc.NumcError, match=r"torchvision\.nms\.default .*: a size or number depends on data"):
        numc.compile(Suppressed(0.5), (boxes.half(), scores.half()))
