"""Regions of torchvision: the bits that its kernel computes. torchvision need not be installed.

The reference is a loop over numbers in numpy, written from the kernel's definition.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tiers import pairs

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import numc  # noqa: E402
from numc.frontends.pytorch.rewrites.images.regions import regions as decompositions  # noqa: E402

SCHEMA = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor"
)


def aligned_regions(
    image: Any, regions: Any, scale: float, bins: tuple[int, int], samples: int, aligned: bool
) -> np.ndarray[Any, Any]:
    """Every operation is rounded to the dtype of the image."""
    one = image.dtype.type
    height, width = image.shape[2:]
    found = np.zeros((len(regions), image.shape[1], *bins), image.dtype)
    for k, (number, *ends) in enumerate(regions):
        left, top, right, bottom = (one(end * one(scale)) - one(0.5 if aligned else 0) for end in ends)
        spans = [bottom - top, right - left]
        if not aligned:
            spans = [span if span >= 1 else one(1) for span in spans]
        sizes = [span / one(count) for span, count in zip(spans, bins, strict=True)]
        counts = [samples if samples > 0 else max(math.ceil(size), 0) for size in sizes]
        for row, column in np.ndindex(*bins):
            total = np.zeros(image.shape[1], image.dtype)
            for at in np.ndindex(*counts):
                places = [
                    start + one(place) * size + (one(n) + one(0.5)) * size / one(count)
                    for start, place, size, n, count in zip((top, left), (row, column), sizes, at, counts, strict=True)
                ]
                total = total + sample(image[int(number)], *places, height, width)
            found[k, :, row, column] = total / one(max(counts[0] * counts[1], 1))
    return found


def sample(image: Any, y: Any, x: Any, height: int, width: int) -> Any:
    one = image.dtype.type
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image), image.dtype) * image[:, 0, 0]
    corners = []
    for place, extent in ((y, height), (x, width)):
        place = max(place, one(0))
        low = min(int(place), extent - 1)
        rest = place - one(low) if low < extent - 1 else one(0)
        corners.append(((low, one(1) - rest), (min(low + 1, extent - 1), rest)))
    products = [(a * b) * image[:, row, column] for row, a in corners[0] for column, b in corners[1]]
    return ((products[0] + products[1]) + products[2]) + products[3]


def kernel(image: Any, regions: Any, scale: float, rows: int, columns: int, samples: int, aligned: bool) -> Any:
    return torch.from_numpy(aligned_regions(image.numpy(), regions.numpy(), scale, (rows, columns), samples, aligned))


def empty(image: Any, regions: Any, scale: float, rows: int, columns: int, samples: int, aligned: bool) -> Any:
    return image.new_empty([len(regions) if isinstance(regions.shape[0], int) else regions.shape[0],
                            image.shape[1], rows, columns])  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def operator() -> Iterator[None]:
    """torchvision::roi_align with the reference as its kernel, beside torchvision where that can be imported."""
    with contextlib.suppress(ImportError, RuntimeError):
        importlib.import_module("torchvision")
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        if not hasattr(torch.ops.torchvision, "roi_align"):
            library.define(SCHEMA)
            torch.library.register_fake("torchvision::roi_align", empty, lib=library)
        library.impl("roi_align", kernel, "CPU", allow_override=True)
        yield


class Aligned(nn.Module):
    def __init__(self, scale: float, bins: tuple[int, int], samples: int, aligned: bool) -> None:
        super().__init__()
        self.given = (scale, *bins, samples, aligned)

    def forward(self, image: Any, regions: Any) -> Any:
        return torch.ops.torchvision.roi_align(image, regions, *self.given)


def data(dtype: Any, count: int = 17) -> tuple[Any, Any]:
    """An image, and regions within, across and beyond its borders, also such as end before they begin."""
    draw = np.random.default_rng(count)
    image = torch.from_numpy(draw.standard_normal((2, 3, 7, 9))).to(dtype)
    low = draw.random((count, 2)) * 60 - 20
    ends = np.hstack([draw.integers(0, 2, (count, 1)), low, low + draw.random((count, 2)) * 50 - 5])
    ends[:3, 1:] = ([0, 0, 500, 400], [-4, -4, -4, -4], [0, 0, 36, 28])
    return image, torch.from_numpy(ends).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("samples", "aligned"), pairs([2, 0], [False, True]))
def test_the_bits_of_the_kernel(dtype: Any, samples: int, aligned: bool) -> None:
    image, regions = data(dtype)
    k = torch.export.Dim("k")
    program = numc.compile(Aligned(0.25, (3, 2), samples, aligned), (image, regions), dynamic_shapes=({}, {0: k}))
    for count in (17, 1, 0):
        want = aligned_regions(image.numpy(), regions[:count].numpy(), 0.25, (3, 2), samples, aligned)
        assert np.array_equal(program(image, regions[:count]).numpy(), want)
    function = decompositions()[torch.ops.torchvision.roi_align.default]
    assert np.array_equal(
        function(image, regions, 0.25, 3, 2, samples, aligned).numpy(), want_all(image, regions, samples, aligned)
    )


def want_all(image: Any, regions: Any, samples: int, aligned: bool) -> Any:
    return aligned_regions(image.numpy(), regions.numpy(), 0.25, (3, 2), samples, aligned)


def test_free_images_also_such_as_are_empty() -> None:
    image, regions = data(torch.float32)
    free = {0: torch.export.Dim("n"), 2: torch.export.Dim("h"), 3: torch.export.Dim("w")}
    program = numc.compile(Aligned(0.5, (2, 2), 0, True), (image, regions), dynamic_shapes=(free, {}))
    larger = torch.randn(3, 3, 5, 14)
    want = aligned_regions(larger.numpy(), regions.numpy(), 0.5, (2, 2), 0, True)
    assert np.array_equal(program(larger, regions).numpy(), want)
    assert not program(larger[:, :, :0], regions).any()
    with pytest.raises(numc.NumcError, match=r"^an index is out of range .in 'pooled_regions'.$"):
        program(larger[:1], regions)


def test_what_is_no_number() -> None:
    """Samples at no number count as outside of the image, and numbers of images that are none end the run."""
    image, regions = data(torch.float32)
    program = numc.compile(Aligned(0.25, (3, 2), 2, True), (image, regions))
    regions[0, 1] = torch.nan
    found = program(image, regions).numpy()
    assert not found[0].any()
    assert np.array_equal(found[1:], want_all(image, regions[1:], 2, True))
    for number in (torch.nan, -1.0, 2.0):
        regions[0, 0] = number
        with pytest.raises(numc.NumcError, match="an index is out of range"):
            program(image, regions)


def test_other_dtypes_are_refused() -> None:
    image, regions = data(torch.float32)
    with pytest.raises(numc.NumcError, match=r"torchvision\.roi_align\.default"):
        numc.compile(Aligned(0.25, (3, 2), 2, True), (image.half(), regions.half()))


def test_a_file(tmp_path: Path) -> None:
    """The process that reads it does not import torchvision."""
    given = data(torch.float32)
    torch.export.save(torch.export.export(Aligned(0.25, (3, 2), 2, False), given), tmp_path / "regions.pt2")
    assert np.array_equal(numc.compile(tmp_path / "regions.pt2")(*given).numpy(), want_all(*given, 2, False))


def _multiscale_roi_align(
    x_filtered: Sequence[Any], boxes: Any, output_size: Any, sampling_ratio: Any, scales: Any, mapper: Any
) -> Any:
    """As torchvision's, which asks for the number of boxes as an int."""
    rois = torch.cat([torch.cat([torch.full_like(b[:, :1], n), b], 1) for n, b in enumerate(boxes)])
    found = torch.zeros((len(rois), x_filtered[0].shape[1], *output_size))
    levels = mapper(boxes)
    for level, (feature, scale) in enumerate(zip(x_filtered, scales, strict=True)):
        (where,) = torch.where(levels == level)
        found[where] = torch.ops.torchvision.roi_align(feature, rois[where], scale, *output_size, sampling_ratio, False)
    return found


class BoxCoder:
    def decode(self, rel_codes: Any, boxes: Any) -> Any:
        count = sum(b.size(0) for b in boxes)
        if count > 0:
            rel_codes = rel_codes.reshape(count, -1)
        found = self.decode_single(rel_codes, torch.cat(boxes, dim=0))
        return found.reshape(count, -1, 4) if count > 0 else found

    def decode_single(self, rel_codes: Any, boxes: Any) -> Any:
        return (rel_codes.unflatten(1, (-1, 4)) + boxes[:, None]).flatten(1)


class Detector(nn.Module):
    """Regions of boxes above a score, from one of two levels of features, and boxes that are decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 4, 8)
        self.coder = BoxCoder()

    def forward(self, one: Any, other: Any, boxes: Any, scores: Any) -> Any:
        chosen = [boxes[scores > 0.5]]
        pooled = _multiscale_roi_align([one, other], chosen, (2, 2), 2, [1.0, 0.5], lambda b: (b[0][:, 2] > 6).long())
        return pooled, self.coder.decode(self.layer(pooled.flatten(1)), chosen)


def test_a_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, attribute, value in (
        ("torchvision.ops.poolers", "_multiscale_roi_align", _multiscale_roi_align),
        ("torchvision.models.detection._utils", "BoxCoder", BoxCoder),
    ):
        module = ModuleType(name)
        setattr(module, attribute, value)
        monkeypatch.setitem(sys.modules, name, module)
    torch.manual_seed(0)
    one, other = torch.randn(1, 3, 8, 8), torch.randn(1, 3, 4, 4)
    low = torch.rand(20, 2) * 5
    boxes, scores = torch.cat([low, low + torch.rand(20, 2) * 5], 1), torch.rand(20)
    model = Detector().eval()
    program = numc.compile(model, (one, other, boxes, scores))
    for given in (scores, scores * 0, scores * 0 + 1):
        want, (pooled, decoded) = model(one, other, boxes, given), program(one, other, boxes, given).values()
        assert torch.equal(pooled, want[0])
        assert torch.allclose(decoded.flatten(1), want[1].flatten(1), atol=1e-5)
    monkeypatch.undo()
    with pytest.raises(numc.NumcError, match="a size or branch depends on data"):
        numc.compile(model, (one, other, boxes, scores))
