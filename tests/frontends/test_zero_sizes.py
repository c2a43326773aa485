"""Sizes that are 0 when a program runs: an empty cache, an empty batch, nothing selected; as onnxruntime and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from torch.nn.functional import conv2d, layer_norm, max_pool2d, scaled_dot_product_attention

import numc
from tiers import by_default, one_in

INT = TensorProto.INT64

#: Name: the nodes of a model and its inputs, of which the sizes called n are 0. Other free ones are 4.
MODELS: dict[str, tuple[list[str], dict[str, list[Any]]]] = {
    "cache": (["Concat p,k -> c", "Transpose c -> t", "MatMul k,t -> m", "Softmax m -> s", "MatMul s,c -> y"],
              {"p": ["n", 4], "k": [2, 4]}),
    "no terms": (["MatMul a,b -> m", "Add m,c -> y"], {"a": [3, "n"], "b": ["n", 5], "c": [5]}),
    "no terms, transposed": (["Gemm a,b -> y"], {"a": ["k", "n"], "b": ["m", "n"]}),
    "channels": (["DepthToSpace x -> y"], {"x": ["n", "k", "m", 4]}),
    "no rows": (["MatMul a,b -> m", "Relu m -> r", "ReduceSum r -> y"], {"a": ["n", 4], "b": [4, 5]}),
    "no batch": (["Conv x,w -> c", "MaxPool c -> y"], {"x": ["n", 3, 8, 8], "w": [4, 3, 3, 3]}),
    "largest": (["ReduceMax x -> y"], {"x": ["n", 3]}),
    "mean": (["ReduceMean x -> y"], {"x": ["n", 3]}),
    "tile": (["Tile x,r -> y"], {"x": ["n", 3], "r": [2]}),
    "space": (["SpaceToDepth x -> y"], {"x": [2, 3, "n", 4]}),
    "nonzero": (["NonZero x -> y"], {"x": ["n", 3]}),
    "scatter": (["ScatterND x,i,u -> y"], {"x": [4, 3], "i": ["n", 1], "u": ["n", 3]}),
    "gather": (["Gather x,i -> y"], {"x": [4, 3], "i": ["n"]}),
    "sort": (["TopK x,r -> v,y"], {"x": ["n", 3], "r": [1]}),
    "steps": (["GRU x,w,q -> a,y"], {"x": ["n", 2, 3], "w": [1, 12, 3], "q": [1, 12, 4]}),
}  # fmt: skip
SIZES = {"n": 0, "k": 4, "m": 4}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Concat": {"axis": 0}, "MaxPool": {"kernel_shape": [2, 2]}, "ReduceMax": {"keepdims": 0}, "GRU": {"hidden_size": 4},
    "SpaceToDepth": {"blocksize": 2}, "DepthToSpace": {"blocksize": 2}, "Gemm": {"transB": 1},
}  # fmt: skip

#: What onnxruntime has otherwise: it aborts for no steps, whose last state is the first one, and gives 0 for
#: the mean of nothing, which ONNX leaves undefined, and which is NaN in torch and numpy.
DIFFERENT = {"steps": np.zeros((1, 2, 4), np.float32), "mean": np.full((1, 1), np.nan, np.float32)}


def model(name: str) -> onnx.ModelProto:
    nodes, inputs = MODELS[name]
    made = []
    for text in nodes:
        kind, rest = text.split(" ", 1)
        taken, given = (part.split(",") for part in rest.split(" -> "))
        made.append(helper.make_node(kind, taken, given, name=given[-1], **ATTRIBUTES.get(kind, {})))
    declared = [helper.make_tensor_value_info(n, INT if n in "ri" else TensorProto.FLOAT, s) for n, s in inputs.items()]
    graph = helper.make_graph(made, "g", declared, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", by_default(MODELS, ["cache", "tile"]))
@pytest.mark.parametrize("threads", [1, 3])
def test_zero_sizes_of_onnx(name: str, threads: int) -> None:
    proto = model(name)
    rng = np.random.default_rng(0)
    shapes = {n: [SIZES.get(d, d) for d in sizes] for n, sizes in MODELS[name][1].items()}
    given = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    given |= {n: np.full(shape, 2, np.int64) for n, shape in shapes.items() if n in "ri"}
    want = DIFFERENT.get(name)
    if want is None:
        want = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)[0]
    got = numc.compile(proto).by_name(given, threads=threads)["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


#: Name: a function of x and y, their sizes, and the dimensions of both that are 0.
FUNCTIONS: dict[str, Any] = {
    "product": (lambda x, y: x @ y, (2, 3), (3, 5), (1, 0)),
    "attention": (scaled_dot_product_attention, (1, 2, 3, 4), (1, 2, 5, 4), (2, None)),
    "convolution": (lambda x, y: max_pool2d(conv2d(x, y), 2), (3, 4, 7, 7), (2, 4, 2, 2), (0, None)),
    "norm": (lambda x, y: layer_norm(x, (4,)) + y, (3, 4), (4,), (0, None)),
    "sum": (lambda x, y: (x * y).sum(0), (3, 4), (4,), (0, None)),
    "flatten": (lambda x, y: (x + y).flatten(1), (3, 4, 5), (4, 5), (0, None)),
}  # fmt: skip


@pytest.mark.parametrize("name", by_default(one_in(2, FUNCTIONS), ["flatten"]))
@pytest.mark.parametrize("dim", [torch.export.Dim.DYNAMIC, torch.export.Dim("n")], ids=["dynamic", "named"])
def test_zero_sizes_of_torch(name: str, dim: Any) -> None:
    function, *shapes, zero = FUNCTIONS[name]
    if name == "attention":
        function = lambda x, y: scaled_dot_product_attention(x, y, y)  # noqa: E731
    free = tuple({} if at is None else {at: dim} for at in zero)
    exported = torch.export.export(Module(function), tuple(map(torch.ones, shapes)), dynamic_shapes=free)
    given = [torch.randn([0 if d == at else n for d, n in enumerate(shape)])
             for shape, at in zip(shapes, zero, strict=True)]  # fmt: skip
    want, got = function(*given).numpy(), numc.compile(exported)(*(one.numpy() for one in given))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
