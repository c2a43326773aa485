"""MatMulNBits against onnxruntime: the identity times the weight is the weight, to the bit where both round once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc

onnxruntime = pytest.importorskip("onnxruntime")
COLUMNS = 9
CASES = list(itertools.product((2, 4, 8), (16, 32, 64, 128, 256), ("", "bytes", "floats"), (False, True)))


def _node(number: int, k: int, bits: int, block: int, zeros: str, reordered: bool) -> tuple[Any, list[Any]]:
    random, blocks = np.random.default_rng(number), -(-k // block)
    values = {
        "q": random.integers(0, 256, (COLUMNS, blocks, block * bits // 8)).astype(np.uint8),
        "s": random.uniform(0.01, 0.1, COLUMNS * blocks).astype(np.float32),
        "z": {
            "bytes": random.integers(0, 256, COLUMNS * -(-blocks * bits // 8)).astype(np.uint8),
            "floats": random.uniform(0, 2**bits, COLUMNS * blocks).astype(np.float32),
        }.get(zeros),
        "g": random.integers(0, blocks, k).astype(np.int32) if reordered else None,
    }
    tensors = [numpy_helper.from_array(value, f"{name}{number}") for name, value in values.items() if value is not None]
    inputs = [f"{name}{number}" if value is not None else "" for name, value in values.items()]
    attributes = {"K": k, "N": COLUMNS, "bits": bits, "block_size": block, "domain": "com.microsoft"}
    return helper.make_node("MatMulNBits", ["x", *inputs], [f"y{number}"], name=f"n{number}", **attributes), tensors


def _model(k: int, nodes: list[Any], tensors: list[Any]) -> onnx.ModelProto:
    outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [k, COLUMNS]) for node in nodes]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [k, k])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors), opset_imports=opsets, ir_version=10
    )


def _check(k: int, cases: list[Any], at_least: int) -> None:
    onnxruntime.set_default_logger_severity(4)
    identity, expected, nodes, tensors = np.eye(k, dtype=np.float32), [], [], []
    for number, case in enumerate(cases):
        node, own = _node(number, k, *case)
        try:
            session = onnxruntime.InferenceSession(_model(k, [node], own).SerializeToString())
            expected.append((case, session.run(None, {"x": identity})[0]))
        except Exception:
            continue
        nodes.append(node)
        tensors += own
    found = numc.compile(_model(k, nodes, tensors))(identity)
    for (case, theirs), mine in zip(expected, found.values(), strict=True):
        bits, _, zeros, reordered = case
        if reordered and (zeros or bits == 2):  # it takes 8 for every zero point, and 2 bits for 4
            continue
        if reordered or zeros == "floats":  # it subtracts scale times zero, which rounds twice
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6, err_msg=str(case))
        else:
            np.testing.assert_array_equal(mine.view(np.uint32), theirs.view(np.uint32), err_msg=str(case))
    assert len(expected) >= at_least


@pytest.mark.all
def test_weights() -> None:
    """The last block has fewer rows than the others."""
    _check(70, [case for case in CASES if case[1] in (16, 128)], 24)


@pytest.mark.slow
@pytest.mark.parametrize("k", [64, 70, 256, 300])
def test_all_weights(k: int) -> None:
    _check(k, CASES, 60)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_reordered_rows_by_definition(bits) -> None:
    """Row r has the scale and the zero point of block g_idx[r]."""
    node, tensors = _node(0, 64, bits, 32, "bytes", True)
    packed, scales, zeros, order = (numpy_helper.to_array(tensor) for tensor in tensors)

    def numbers(data: Any, count: int) -> Any:
        each = (data.reshape(COLUMNS, -1, 1) >> np.arange(0, 8, bits)) & (2**bits - 1)
        return each.reshape(COLUMNS, -1)[:, :count].astype(np.float64)

    exact = (numbers(packed, 64) - numbers(zeros, 2)[:, order]) * scales.reshape(COLUMNS, -1)[:, order]
    found = numc.compile(_model(64, [node], tensors))(np.eye(64, dtype=np.float32))
    np.testing.assert_array_equal(found, exact.T.astype(np.float32))


def test_a_reordering_that_is_refused() -> None:
    node, tensors = _node(0, 64, 4, 32, "", True)
    tensors[-1] = numpy_helper.from_array(np.full(64, 2, np.int32), "g0")
    with pytest.raises(numc.NumcError, match="g_idx does not name a block for each row: want 64 numbers from 0 to 1"):
        numc.compile(_model(64, [node], tensors))
