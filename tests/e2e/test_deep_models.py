"""Models of many layers: nothing follows what makes a value by calling itself, layer after layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import numc

LAYERS = 400


def saved(nodes: list[onnx.NodeProto], out: int, constants: dict[str, np.ndarray], folder: Path) -> Path:
    """A model of float32[8,8] `x`; what it returns is of type `out`."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (8, 8))],
        [helper.make_tensor_value_info("y", out, (8, 8))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("ops", ["fp32", "bf16"])
def test_products_with_weights(ops: str, tmp_path: Path) -> None:
    nodes, last = [], "x"
    for n in range(0, LAYERS, 2):
        nodes += [helper.make_node("Neg", [last], [f"n{n}"]), helper.make_node("MatMul", [f"n{n}", "w"], [f"m{n}"])]
        last = f"m{n}"
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    path = saved(nodes, onnx.TensorProto.FLOAT, {"w": np.eye(8, dtype=np.float32)}, tmp_path)
    x = np.arange(64, dtype=np.float32).reshape(8, 8) - 20
    assert np.array_equal(numc.compile(path, ops=ops)(x), np.maximum(x, 0))


def test_a_product_of_integers(tmp_path: Path) -> None:
    """Whether its factors are bytes, and what they depend on, is found through all layers."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["t0"])]
    for n in range(LAYERS):
        nodes.append(helper.make_node("Max" if n % 2 else "Min", [f"t{n}", "c"], [f"t{n + 1}"]))
    last = f"t{LAYERS}"
    nodes += [
        helper.make_node("Transpose", [last], ["turned"], perm=[1, 0]),
        helper.make_node("MatMulInteger", [last, "turned"], ["y"]),
    ]
    constants = {"s": np.float32(1), "z": np.uint8(0), "c": np.full((8, 8), 7, np.uint8)}
    path = saved(nodes, onnx.TensorProto.INT32, constants, tmp_path)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    assert np.array_equal(numc.compile(path)(x), np.full((8, 8), 8 * 49))
