"""Nodes that are not as ONNX defines them: each is refused in a line that says what, before it is converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc

IMAGE = (1, 8, 14, 14)
ALLOWED = "want NOTSET, SAME_UPPER, SAME_LOWER, VALID"
MORE = "it has to have 2 numbers from 0, smaller than"

# The inputs behind x, the attributes, and what is said of the node.
Row = tuple[str, dict[str, np.ndarray], dict[str, Any], str]  # type: ignore[type-arg]


def ones(*shape: int, dtype: type = np.float32) -> np.ndarray:  # type: ignore[type-arg]
    return np.ones(shape, dtype)


W, SWAPPED = {"w": ones(16, 8, 3, 3)}, {"w": ones(8, 16, 3, 3)}
TREE = {"nodes_splits": numpy_helper.from_array(np.float32([1.0])), "nodes_featureids": [0], "tree_roots": [0],
        "nodes_modes": numpy_helper.from_array(np.uint8([0])), "nodes_truenodeids": [0], "nodes_falsenodeids": [1],
        "nodes_trueleafs": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
        "leaf_weights": numpy_helper.from_array(np.float32([1.0, 2.0]))}  # fmt: skip

TURNS = {"c": ones(1, 14, 3), "s": ones(1, 14, 3)}
ROWS: list[Row] = [
    # What schemas say.
    ("Relu", {"w": ones(1)}, {}, "it has 2 inputs, want 1"),
    ("Clip", dict.fromkeys("abc", ones(1)), {}, "it has 4 inputs, want 1 to 3"),
    ("Conv", {"": ones(1)}, {}, "its input 1 (W) is missing"),
    ("Relu", {}, {"outputs": 2}, "it has 2 outputs, want at most 1"),
    ("Elu", {}, {"alhpa": 1.0}, "it has no attribute 'alhpa' (did you mean 'alpha'?)"),
    ("Conv", W, {"strides": 2}, "its attribute strides is of type INT, want INTS"),
    ("MaxPool", {}, {}, "its attribute kernel_shape is missing"),
    ("ReduceMean", {}, {"keepdims": 3}, "its attribute keepdims is 3: want 0 or 1"),
    ("RNN", {"w": ones(1, 4, 3), "r": ones(1, 4, 4)}, {"hidden_size": 4, "layout": -1, "shape": (2, 1, 3)},
     "its attribute layout is -1: want 0 or 1"),
    ("Gelu", {}, {"approximate": "sigmoid"}, "its attribute approximate is 'sigmoid': want none, tanh"),
    ("Cast", {}, {"to": 99}, "its attribute to is type 99: want a type of numbers or bool"),
    ("Cast", {}, {"to": 8}, "its attribute to is type string: want a type of numbers or bool"),
    ("Where", {"a": ones(1), "b": ones(1)}, {}, "its input 0 (condition), 'x', is floats: it has to be bool"),
    ("Gather", {"i": ones(1)}, {}, "its input 1 (indices), 'i', is floats: it has to be integers"),
    ("Pow", {"b": np.array([True])}, {}, "its input 1 (Y), 'b', is bool: it has to be floats or integers"),
    # Windows.
    ("MaxPool", {}, {"kernel_shape": [0, 1]}, "its window has sizes [0, 1]: each has to be 1 or more"),
    ("MaxPool", {}, {"kernel_shape": [2**40, 1], "auto_pad": "SAME_UPPER"},
     "its window has sizes [1099511627776, 1]: each may be 2147483647"),
    ("MaxPool", {}, {"kernel_shape": [3]}, "'x' has 4 dimensions, and a window of 1 needs 3"),
    ("MaxPool", {}, {"kernel_shape": [3, 3], "auto_pad": "SAME"}, f"its auto_pad is 'SAME': {ALLOWED}"),
    ("LpPool", {}, {"kernel_shape": [3, 3], "strides": [1]}, "its attribute strides is [1]: it has to have 2 numbers"),
    ("LpPool", {}, {"kernel_shape": [3, 3], "p": 0}, "its attribute p is 0: it has to be 1 or more"),
    ("AveragePool", {}, {"kernel_shape": [3, 3], "strides": [0, 1]},
     "its attribute strides is [0, 1]: each number has to be 1 or more"),
    ("Conv", W, {"pads": [0, -1, 0, 0]}, "its attribute pads is [0, -1, 0, 0]: each number has to be 0 or more"),
    ("Conv", {"w": ones(16, 8, 15, 3)}, {"strides": [2, 1]},
     "an input is smaller than the window that slides over it: 'x' has sizes [1, 8, 14, 14], 'w' has sizes "
     "[16, 8, 15, 3]"),
    ("Conv", W, {"group": 0}, "its group is 0: it has to be 1 or more"),
    ("Conv", W, {"group": 3}, "its group, 3, does not divide the rows of the weight: 'w' has sizes [16, 8, 3, 3]"),
    ("Conv", W, {"group": 2}, "the image has other channels than the weight with a group of 2: 'x' has sizes "
     "[1, 8, 14, 14], 'w' has sizes [16, 8, 3, 3]"),
    ("Conv", W, {"kernel_shape": [5, 5]}, "'w' has sizes [16, 8, 3, 3]: [?, ?, 5, 5] are needed"),
    ("Conv", {**W, "b": ones(7)}, {}, "'b' has sizes [7]: [16] are needed"),
    ("Conv", {"w": ones(16, 8)}, {}, "'w' has sizes [16, 8]: [?, ?, ?, ?] are needed"),
    ("ConvTranspose", SWAPPED, {"output_padding": [2, 0]}, f"its output_padding is [2, 0]: {MORE} [1, 1]"),
    ("ConvTranspose", SWAPPED, {"output_shape": [3]}, "its output_shape is [3]: it has to have 2 sizes from 1"),
    ("DeformConv", {**W, "o": ones(1, 18, 9, 9)}, {},
     "its offsets 'o' have sizes [18, 9, 9] for an image: [18, 12, 12] are needed"),
    ("DeformConv", {**W, "o": ones(1, 18, 12, 12)}, {"offset_group": 3},
     "its offset_group is 3, which does not divide its 8 channels"),
    ("Col2Im", {"i": np.array([5]), "b": np.array([2, 2])}, {},
     "its image_shape is [5]: it has to have 2 sizes from 1"),
    # Axes.
    ("Softmax", {}, {"axis": 2**40}, "its axis 1099511627776 is none of the 4 of its input"),
    ("LayerNormalization", {"w": ones(14)}, {"axis": 7}, "its axis 7 is none of the 4 of its input"),
    ("Unsqueeze", {"a": np.array([6])}, {}, "its axes [6] are not different ones of 5"),
    ("ReduceMax", {"a": np.array([1, -3])}, {}, "its axes [1, -3] are not different ones of 4"),
    # Sizes that do not fit.
    ("DepthToSpace", {}, {"blocksize": 3},
     "the square of its blocksize, 3, does not divide the channels: 'x' has sizes [1, 8, 14, 14]"),
    ("GatherElements", {"i": np.zeros((1, 9, 1, 1), np.int64)}, {},
     "indices reach beyond dimension 1 of 'x': 'x' has sizes [1, 8, 14, 14], 'i' has sizes [1, 9, 1, 1]"),
    ("GlobalMaxPool", {}, {"shape": (2, 8)}, "'x' has 2 dimensions, and 3 are the least of an image"),
    ("GridSample", {"g": ones(1, 2, 2, 3)}, {}, "'g' has sizes [1, 2, 2, 3]: [1, ?, ?, 2] are needed"),
    ("GroupNormalization", {"s": ones(8), "b": ones(8)}, {"num_groups": 3},
     "its num_groups, 3, does not divide the channels: 'x' has sizes [1, 8, 14, 14]"),
    ("InstanceNormalization", {"s": ones(8), "b": ones(5)}, {}, "'b' has sizes [5]: [8] are needed"),
    ("LRN", {}, {"size": 0}, "its size is 0: it has to be 1 or more"),
    ("LpNormalization", {}, {"p": 5}, "its attribute p is 5: want 1 or 2"),
    ("ReverseSequence", {"n": np.array([1])}, {}, "'n' has sizes [1]: [8] are needed"),
    ("RoiAlign", {"r": ones(2, 3), "b": np.array([0, 0])}, {"sampling_ratio": 1},
     "'r' has sizes [2, 3]: [?, 4] are needed"),
    ("RNN", {"w": ones(1, 4, 3), "r": ones(1, 4, 4)}, {"hidden_size": 5, "shape": (2, 1, 3)},
     "'w' has sizes [1, 4, 3]: [1, 5, 3] are needed"),
    ("LSTM", {"w": ones(1, 16, 3), "r": ones(1, 16, 4)}, {"hidden_size": 4},
     "its hidden_size is 4, and 'x' has sizes [1, 8, 14, 14]: 1 or more, and 3, are needed"),
    ("ScatterElements", {"i": np.zeros((1, 1, 1, 1), np.int64), "u": ones(1, 1, 1, 2)}, {},
     "'u' has sizes [1, 1, 1, 2]: [1, 1, 1, 1] are needed"),
    ("Transpose", {}, {"perm": [0, 1, 2, 2]}, "its perm [0, 1, 2, 2] is no order of 4 axes"),
    ("Compress", {"c": np.array(True)}, {}, "'c' has sizes []: [?] are needed"),
    ("NonMaxSuppression", {"s": ones(1, 1, 8)}, {}, "'x' has sizes [1, 8, 14, 14]: [?, ?, 4] are needed"),
    ("NonMaxSuppression", {"s": ones(1, 1, 7)}, {"shape": (1, 8, 4)}, "'s' has sizes [1, 1, 7]: [1, ?, 8] are needed"),
    ("RotaryEmbedding", TURNS, {"opset": 23, "shape": (2, 6)}, "'x' has 2 dimensions: want 3 or 4"),
    ("RotaryEmbedding", TURNS, {"opset": 23, "shape": (1, 2, 6), "num_heads": 4},
     "its num_heads is 4, which does not divide the 6 elements of a token"),
    ("RotaryEmbedding", TURNS, {"opset": 23, "shape": (1, 2, 6), "num_heads": 2},
     "it turns 3 of the 3 elements of a head: an even number of them is needed"),
    ("RotaryEmbedding", TURNS, {"opset": 23, "rotary_embedding_dim": 16},
     "it turns 16 of the 14 elements of a head: an even number of them is needed"),
    ("RotaryEmbedding", TURNS, {"opset": 23}, "'c' has sizes [1, 14, 3]: [?, ?, 7] are needed"),
    # Others.
    ("Attention", {"k": ones(*IMAGE), "v": ones(*IMAGE)}, {"opset": 23, "softmax_precision": 2},
     "its attribute softmax_precision is type uint8: want bfloat16, double, float, float16"),
    ("LSTM", {"w": ones(1, 16, 3), "r": ones(1, 16, 4)}, {"hidden_size": 4, "input_forget": 1, "shape": (2, 1, 3)},
     "its attribute input_forget is 1: only 0 is available"),
    ("Split", {}, {"num_outputs": 3, "outputs": 2}, "its num_outputs is 3, and it has 2 outputs"),
    ("GatherND", {"i": np.array([[0, 0]])}, {"batch_dims": 2},
     "its batch_dims 2 is not below the ranks of its inputs, 4 and 2"),
    ("GatherND", {"i": np.array([[0] * 5])}, {}, "'i' has 5 numbers for an element: want 1 to 4"),
    ("EyeLike", {}, {}, "its input has 4 dimensions: want 2"),
    ("TreeEnsemble", {}, {"domain": "ai.onnx.ml", **TREE, "tree_roots": [3]},
     "its trees begin at nodes 3 to 3: there are 0 to 2"),
    ("TreeEnsemble", {}, {"domain": "ai.onnx.ml", **TREE, "nodes_falsenodeids": [2]},
     "its decisions lead to nodes 1 to 3: there are 0 to 2"),
    ("TreeEnsemble", {}, {"domain": "ai.onnx.ml", **TREE, "nodes_featureids": [2**40]},
     "its decisions are of features 1099511627776 to 1099511627776: there are 0 to 13"),
    ("TreeEnsemble", {}, {"domain": "ai.onnx.ml", **TREE, "nodes_featureids": [0, 0]},
     "its lists of nodes have different lengths: 4, 3, 3, 3, 3"),
    ("TreeEnsemble", {}, {"domain": "ai.onnx.ml", **TREE, "leaf_targetids": [0, -1]},
     "its leaves are of targets -1 to 0: there are 0 to 0"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "others", "attributes", "why"), ROWS, ids=[f"{r[0]}-{r[3][:40]}" for r in ROWS])
def test_refused(operator: str, others: dict[str, np.ndarray], attributes: dict[str, Any], why: str) -> None:  # type: ignore[type-arg]
    given = dict(attributes)
    shape = given.pop("shape", IMAGE)
    results = [f"y{n}" for n in range(given.pop("outputs", 1))]
    opset = given.pop("opset", 22)
    node = helper.make_node(operator, ["x", *others], results, name="layer", **given)
    constants = [numpy_helper.from_array(value, name) for name, value in others.items() if name]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        constants,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 5)]
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    assert f"1 node cannot be compiled: node 'layer' ({operator}, opset " in str(caught.value)
    assert str(caught.value).endswith(f"): {why}")


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "why"),
    [
        ("CumSum", {"x": (1, [2, 3]), "a": (7, [])}, {}, "its axis 'a' is computed: it has to be a constant"),
        ("GatherND", {"x": (1, [2, 3]), "i": (7, [4, "k"])}, {},
         "the last dimension of 'i' has no fixed size: give shapes={...} or --shape"),
        ("ConvInteger", {"x": (2, [1, 2, 5, 5]), "w": (3, ["m", 2, 3, 3])}, {},
         "it is available for weights of fixed sizes only: give shapes={...} or --shape"),
        ("ConvTranspose", {"x": (1, [1, 2, 5, 5]), "w": (1, [2, "m", 3, 3])}, {"auto_pad": "SAME_UPPER"},
         "padding to a size is available for weights of fixed sizes only: give shapes={...}"),
    ],
)  # fmt: skip
def test_refused_without_constants(
    operator: str, inputs: dict[str, tuple[int, list[int | str]]], attributes: dict[str, Any], why: str
) -> None:
    node = helper.make_node(operator, list(inputs), ["y"], name="layer", **attributes)
    given = [helper.make_tensor_value_info(name, *each) for name, each in inputs.items()]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("y")])
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10))
    assert str(caught.value).endswith(f"1 node cannot be compiled: node 'layer' ({operator}, opset 22): {why}")


def test_padding_that_is_not_said() -> None:
    """An empty auto_pad is none."""
    conv = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="", pads=[1, 0, 1, 0])
    pool = helper.make_node("MaxPool", ["y"], ["z"], auto_pad="", kernel_shape=[2, 2], strides=[2, 2])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE)
    graph = helper.make_graph(
        [conv, pool], "g", [x], [helper.make_empty_tensor_value_info("z")], [numpy_helper.from_array(W["w"], "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    image = ones(*IMAGE)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": image})
    got = np.asarray(numc.compile(model)(image))
    assert got.shape == (1, 16, 7, 6)
    assert np.array_equal(got, want)
