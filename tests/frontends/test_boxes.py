"""NonMaxSuppression: the rows that its definition chooses, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import numc

Array = npt.NDArray[Any]


def model(path: Path, sizes: tuple[Any, Any, Any], limits: dict[str, Any], **attributes: int) -> Path:
    """A model of one node; `limits` are constants, or None for those that are left out."""
    images, classes, count = sizes
    names = [name if limits[name] is not None else "" for name in ("most", "overlap", "least")]
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", *names], ["chosen"], **attributes)
    inputs = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [images, count, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [images, classes, count]),
    ]
    output = helper.make_tensor_value_info("chosen", TensorProto.INT64, [None, 3])
    constants = [
        helper.make_tensor(n, TensorProto.INT64 if n == "most" else TensorProto.FLOAT, [1], [limits[n]])
        for n in names
        if n
    ]
    graph = helper.make_graph([node], "boxes", inputs, [output], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def chosen(boxes: Array, scores: Array, limits: dict[str, Any], *, centred: bool) -> Array:
    """The definition, in the float32 operations of the program."""
    rows = []
    for b, c in np.ndindex(scores.shape[:2]):
        if centred:
            x, y, width, height = boxes[b].T
            low, high = (np.stack([op(y, height / 2), op(x, width / 2)]) for op in (np.subtract, np.add))
        else:
            pairs = boxes[b].reshape(-1, 2, 2)
            low, high = pairs.min(1).T, pairs.max(1).T
        area = np.prod(high - low, 0)
        kept: list[int] = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            if len(kept) >= (limits["most"] or 0) or (
                limits["least"] is not None and scores[b, c, i] <= limits["least"]
            ):
                break
            sides = np.minimum(high[:, [i]], high[:, kept]) - np.maximum(low[:, [i]], low[:, kept])
            common = np.prod(np.maximum(sides, 0), 0)
            union = area[i] + area[kept] - common
            if not ((common > union * np.float32(limits["overlap"] or 0)) & (common > 0)).any():
                kept.append(i)
        rows += [(b, c, i) for i in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


def data(images: int, classes: int, count: int) -> tuple[Array, Array]:
    """Boxes on a coarse grid: many touch or have no area, many scores are equal."""
    rng = np.random.default_rng(count)
    boxes = rng.integers(0, 12, (images, count, 4)).astype(np.float32)
    return boxes, rng.integers(0, 30, (images, classes, count)).astype(np.float32) / 30


@pytest.mark.parametrize(
    ("sizes", "most", "overlap", "least", "centred"),
    [
        ((2, 3, 60), 10, 0.3, 0.2, 0),
        ((1, 1, 200), 1000, 0.5, None, 1),
        ((1, 2, 30), 5, None, 0.9, 0),
        pytest.param((1, 2, 30), 0, 0.5, None, 0, marks=pytest.mark.all),
        pytest.param((1, 2, 30), None, 0.5, None, 0, marks=pytest.mark.all),
        pytest.param((1, 1, 30), 5, 0.5, 2.0, 0, marks=pytest.mark.all),
    ],
)
def test_rows(sizes: Any, most: Any, overlap: Any, least: Any, centred: int, tmp_path: Path) -> None:
    limits = {"most": most, "overlap": overlap, "least": least}
    feeds = data(*sizes)
    found = numc.compile(model(tmp_path / "boxes.onnx", sizes, limits, center_point_box=centred))(*feeds)
    np.testing.assert_array_equal(found, chosen(*feeds, limits, centred=bool(centred)), strict=True)


def test_free_sizes(tmp_path: Path) -> None:
    limits = {"most": 4, "overlap": 0.4, "least": 0.3}
    program = numc.compile(model(tmp_path / "boxes.onnx", ("images", "classes", "count"), limits))
    for sizes in ((2, 2, 30), (1, 3, 1), (3, 1, 100)):
        feeds = data(*sizes)
        np.testing.assert_array_equal(program(*feeds), chosen(*feeds, limits, centred=False), strict=True)
