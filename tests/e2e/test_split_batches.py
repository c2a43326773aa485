"""Products of stacks of matrices: over the dimensions that the stack has, with the bits of one dimension of all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc


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


@pytest.mark.parametrize("fma", ["bf16_1_2", "bfp(4,3,3)", "int8", "fma(a=e4m3:sr8,acc=e6m9:sr8)"])
def test_no_bit_changes(model: Path, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 5, 8)).astype(np.float32)
    found = numc.compile(model, fma=fma)
    split = found(x, seed=1)
    assert numc.verify(found, {"x": x}, seed=1).mismatches == 0
    monkeypatch.setenv("NUMC_DISABLE", "split-batches")
    assert split.tobytes() == numc.compile(model, fma=fma)(x, seed=1).tobytes()
