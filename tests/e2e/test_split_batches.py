"""Products of stacks of matrices: over the dimensions that the stack has, with the bits of one dimension of all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc
from tiers import one_in


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer of a weight that all batches share, and products of activations, of four dimensions."""
    rng = np.random.default_rng(0)
    arrays = {"w": rng.standard_normal((8, 12)), "c": rng.standard_normal(12), "s": np.array(0.3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["l"]),
        helper.make_node("Add", ["l", "c"], ["h"]),
        helper.make_node("Transpose", ["h"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["h", "t"], ["a"]),
        helper.make_node("Mul", ["a", "s"], ["m"]),
        helper.make_node("MatMul", ["m", "h"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3, 5, k)) for n, k in (("x", 8), ("y", 12))]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "stacks", values[:1], values[1:], weights)
    path = tmp_path_factory.mktemp("stacks") / "stacks.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer on windows of an image: these are one dimension for it, and several for what makes them."""
    rng = np.random.default_rng(0)
    arrays = {"w": rng.standard_normal((8, 12)), "c": rng.standard_normal(12)}
    nodes = [
        helper.make_node("Reshape", ["x", "parts"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 1, 3, 2, 4, 5]),
        helper.make_node("Reshape", ["t", "windows"], ["v"]),
        helper.make_node("MatMul", ["v", "w"], ["l"]),
        helper.make_node("Add", ["l", "c"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4, 6, 8)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (8, 2, 3, 12)),
    ]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    weights += [
        numpy_helper.from_array(np.array(shape), name)
        for name, shape in (("parts", (2, 2, 2, 2, 3, 8)), ("windows", (8, 2, 3, 8)))
    ]
    graph = helper.make_graph(nodes, "windows", values[:1], values[1:], weights)
    path = tmp_path_factory.mktemp("windows") / "windows.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_matrices_are_multiplied_by_themselves() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("MatMul", ["r", "r"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3, 4, 4)) for name in "xy"]
    graph = helper.make_graph(nodes, "squares", values[:1], values[1:])
    program = numc.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    x = np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4)  # whose sums are exact
    np.testing.assert_array_equal(program(x), x @ x)


def test_a_layer_on_windows_is_one_product(windows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((2, 4, 6, 8)).astype(np.float32)
    found = numc.compile(windows, fma="bf16_1_2")
    kinds = [part["kind"] for part in found.manifest["parts"]]
    assert "broadcast" not in kinds
    assert numc.verify(found, {"x": x}).mismatches == 0
    monkeypatch.setenv("NUMC_DISABLE", "split-batches")
    repeated = numc.compile(windows, fma="bf16_1_2")
    assert "broadcast" in [part["kind"] for part in repeated.manifest["parts"]]
    assert found(x).tobytes() == repeated(x).tobytes()


@pytest.mark.parametrize("fma", one_in(3, ["bf16_1_2", "bfp(4,3,3)", "int8", "fma(a=e4m3:sr8,acc=e6m9:sr8)"]))
def test_no_bit_changes(model: Path, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 5, 8)).astype(np.float32)
    found = numc.compile(model, fma=fma)
    split = found(x, seed=1)
    assert numc.verify(found, {"x": x}, seed=1).mismatches == 0
    monkeypatch.setenv("NUMC_DISABLE", "split-batches")
    assert split.tobytes() == numc.compile(model, fma=fma)(x, seed=1).tobytes()
