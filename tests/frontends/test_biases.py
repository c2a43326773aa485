"""Where a bias is added (docs/arithmetic.md): before the products, as the accumulator's start, or to the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import numc

FMA = "fmac(e5m4)"
X, W, BIAS = (np.random.default_rng(0).standard_normal(n).astype(np.float32) for n in ((8, 16), (16, 4), 4))
FIRST, LAST = "first", "last"


def when(result: object) -> str:
    """Return when the bias was added to make this result."""
    got = np.asarray(result).reshape(8, 4)
    first = numc.matmul(X, W, BIAS + np.zeros((8, 1), np.float32), fma=FMA)
    last = numc.matmul(X, W, fma=FMA) + BIAS
    assert (first != last).any()
    return FIRST if np.array_equal(got, first) else LAST if np.array_equal(got, last) else "neither"


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        ([("Gemm", "x w b", "y")], LAST),
        ([("MatMul", "x w", "t"), ("Add", "t b", "y")], LAST),
        ([("Conv", "image kernel b", "y")], FIRST),
    ],
    ids=["gemm", "matmul", "conv"],
)
def test_onnx(nodes: list[tuple[str, str, str]], want: str, tmp_path: Path) -> None:
    weights = {"w": W, "b": BIAS, "kernel": np.ascontiguousarray(W.T)[:, :, None]}
    name, x = ("image", X[:, :, None]) if nodes[0][0] == "Conv" else ("x", X)
    made = [helper.make_node(op, inputs.split(), [output]) for op, inputs, output in nodes]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(value, key)
            for key, value in weights.items()
            if any(key in n[1].split() for n in nodes)
        ],
    )
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    assert when(numc.compile(file, fma=FMA)(x)) == want


@pytest.mark.parametrize("want", [FIRST, LAST])
def test_torch_compile(want: str) -> None:
    layer: torch.nn.Module = torch.nn.Conv1d(16, 4, 1) if want == FIRST else torch.nn.Linear(16, 4)
    weight = torch.tensor(np.ascontiguousarray(W.T))
    layer.load_state_dict({"weight": weight[:, :, None] if want == FIRST else weight, "bias": torch.tensor(BIAS)})
    x = torch.tensor(X)[:, :, None] if want == FIRST else torch.tensor(X)
    assert when(torch.compile(layer, backend=numc.backend(fma=FMA))(x).detach().numpy()) == want
