"""ONNX's own node suite runs through numc.onnx_backend. The cases that are not right are a list that holds exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import numc
from tools import onnx_suite

KNOWN: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "data" / "onnx_known_failures.json").read_text())


def check(chosen: list[str]) -> None:
    """Run cases and compare what is not right with the list: for each case the kind of its result, and why."""
    cases = onnx_suite.cases()
    found = onnx_suite.run_all([cases[name] for name in chosen], note=lambda name, result: None)
    kinds = {name: (kind, why) for name, (kind, why) in found.items() if kind != "right"}
    listed = {name: KNOWN[name][0] for name in chosen if name in KNOWN}
    assert {name: kind for name, (kind, _) in kinds.items()} == listed, kinds


def test_no_crash_is_listed() -> None:
    assert {kind for kind, _ in KNOWN.values()} == {"refused", "wrong"}
    assert [name for name, (kind, _) in KNOWN.items() if kind == "wrong"] == [
        "test_dft_inverse_opset19",
        "test_dft_inverse",
    ]


@pytest.mark.all
def test_spread_cases() -> None:
    check(list(onnx_suite.cases())[7::120])


@pytest.mark.slow
def test_all_cases() -> None:
    names = list(onnx_suite.cases())
    assert set(KNOWN) <= set(names)
    check(names)


def test_backend() -> None:
    """Inputs that shapes depend on have a program for each of their values; options reach the compiler."""
    reduce = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 3]), helper.make_tensor_value_info("axes", 7, [1])]
    graph = helper.make_graph([reduce], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    prepared = numc.onnx_backend.prepare(model, fma="fp32")
    for axis in (0, 1, 0):
        axes = np.array([axis])
        np.testing.assert_array_equal(prepared.run([x, axes])[0], x.sum(axis))
        np.testing.assert_array_equal(prepared.run({"axes": axes, "x": x})[0], x.sum(axis))
    for wrong, message in (
        ([x], r"inputs: got 1, want 2 \('x', 'axes'\)"),
        ({"x": x, "axis": np.array([0])}, r"inputs: got 'x', 'axis', want 'x', 'axes'"),
        ([x, object()], "input 'axes'"),
    ):
        with pytest.raises(numc.NumcError, match=message):
            prepared.run(wrong)
    relu = helper.make_node("Relu", ["x"], ["y"])
    np.testing.assert_array_equal(numc.onnx_backend.run_node(relu, [x - 2])[0], np.maximum(x - 2, 0))
    with pytest.raises(numc.NumcError, match=r"inputs: got 2, want 1 \('x'\)"):
        numc.onnx_backend.run_node(relu, [x, x])
    with pytest.raises(numc.NumcError, match="device: got CUDA, want CPU"):
        numc.onnx_backend.prepare(model, "CUDA")
    with pytest.raises(numc.NumcError, match="model: got str, want an onnx.ModelProto"):
        numc.onnx_backend.prepare("model.onnx")
    with pytest.raises(numc.NumcError, match="fp33"):
        numc.onnx_backend.run_model(model, [x, np.array([0])], fma="fp33")
    assert not numc.onnx_backend.supports_device("CUDA")
    assert onnx.backend.base.Backend in numc.onnx_backend.Backend.__mro__
