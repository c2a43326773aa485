"""Sparse weights are dense tensors for every operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import numc

X = np.arange(8, dtype=np.float32).reshape(2, 4)
DENSE = np.zeros((4, 3), np.float32)
DENSE.flat[[0, 5, 11]] = 1.5, -2, 3


def sparse(places: Any, values: Any = (1.5, -2, 3), dims: Any = (4, 3)) -> Any:
    parts = numpy_helper.from_array(np.array(values, np.float32), "w"), numpy_helper.from_array(np.array(places), "i")
    return helper.make_sparse_tensor(*parts, dims)


def model(weight: Any, *, constant: bool = False, inside: bool = False) -> ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=weight))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]
    if inside:
        branch = helper.make_graph(nodes, "branch", [], outputs)
        nodes = [
            helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
            helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch),
        ]
        outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, sparse_initializer=[] if constant else [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("places", [[0, 5, 11], [[0, 0], [1, 2], [3, 2]]])
@pytest.mark.parametrize("where", [{}, {"constant": True}, {"constant": True, "inside": True}])
def test_a_sparse_weight_is_what_it_is_dense(places: Any, where: Any) -> None:
    assert np.array_equal(numc.compile(model(sparse(places), **where))(X), X @ DENSE)


@pytest.mark.parametrize(
    ("places", "dims", "text"),
    [
        ([0, 5, 12], (4, 3), "sparse initialiser 'w' has indices 0 to 12: its shape [4, 3] has 0 to 11"),
        ([0, 5, 5], (4, 3), "sparse initialiser 'w' has two values for one place"),
        ([[0, 0], [1, 3], [3, 2]], (4, 3), "sparse initialiser 'w' has indices outside of its shape [4, 3]"),
        (
            [0, 5],
            (4, 3),
            "sparse initialiser 'w' has [3] values and indices of int64[2]: it needs a list of values",
        ),
        ([0, 1, 2], (4, -3), "sparse initialiser 'w' has a negative size in its shape [4, -3]"),
        ([0, 1, 2], (2**20, 2**20), "sparse initialiser 'w' has shape [1048576, 1048576]: "),
    ],
)
def test_what_is_no_sparse_weight_is_refused(places: Any, dims: Any, text: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(model(sparse(places, dims=dims)))
    assert text in str(caught.value)


def test_a_weight_that_is_given_twice_is_refused() -> None:
    twice = model(sparse([0, 5, 11]))
    twice.graph.initializer.append(numpy_helper.from_array(DENSE, "w"))
    with pytest.raises(numc.NumcError, match="'w' is defined twice, as initialisers"):
        numc.compile(twice)
