"""Convolutions of groups in three dimensions, depthwise ones among them, give onnxruntime's results."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import numc
from tests.shared.tiers import one_in

CASES = [(4, 4, False), (4, 8, False), (2, 4, True)]


@pytest.mark.parametrize(("groups", "outputs", "free"), one_in(99, CASES, CASES[-1]))
def test_groups_in_three_dimensions(groups: int, outputs: int, free: bool) -> None:
    rng = np.random.default_rng(0)
    sizes = {"x": (2, 4, 5, 6, 7), "w": (outputs, 4 // groups, 3, 3, 3), "b": (outputs,)}
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in sizes.values())
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=groups, pads=[1, 0, 1, 1, 2, 1], strides=[1, 2, 1])
    image = helper.make_tensor_value_info("x", 1, ["n", 4, "d", 6, 7] if free else x.shape)
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph([node], "g", [image], [helper.make_tensor_value_info("y", 1, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    got = np.asarray(numc.compile(model)(x))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
