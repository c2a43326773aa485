"""Support vector machines, and the encoders of features beside them, give onnxruntime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import numc
from tests.shared.tiers import one_in

ML = "ai.onnx.ml"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)).astype(np.float32)
GRID = [(kernel, one_class) for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID") for one_class in (0, 1)]


def model(operator: str, feeds: dict[str, Any], outputs: dict[str, int], **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(operator, list(feeds), list(outputs), name="node", domain=ML, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    graph = helper.make_graph([node], "g", inputs, made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(operator: str, feeds: dict[str, Any], outputs: dict[str, int], **attributes: Any) -> None:
    made = model(operator, feeds, outputs, **attributes)
    wants = onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)
    got = numc.compile(made).by_name(feeds)
    for name, want in zip(outputs, wants, strict=True):
        assert (got[name].shape, got[name].dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=name)


def machine(vectors: int, rows: int, pairs: int, kernel: str = "RBF") -> dict[str, Any]:
    return {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 3.0],
        "support_vectors": RNG.standard_normal(3 * vectors).tolist(),
        "coefficients": RNG.standard_normal(rows * vectors).tolist(),
        "rho": RNG.standard_normal(pairs).tolist(),
    }


@pytest.mark.parametrize(("kernel", "one_class"), one_in(99, GRID, ("RBF", 0)))
def test_regressions(kernel: str, one_class: int) -> None:
    check("SVMRegressor", {"x": X}, {"y": 1}, n_supports=5, one_class=one_class, **machine(5, 1, 1, kernel))


def test_a_regression_without_support_vectors() -> None:
    check(
        "SVMRegressor",
        {"x": X},
        {"y": 1},
        coefficients=[0.5, -1.0, 2.0],
        rho=[0.25],
        kernel_type="LINEAR",
        kernel_params=[0.0] * 3,
    )


CLASSIFIERS = [
    *((classes, kernel, "NONE", False) for classes, kernel in ((2, "POLY"), (3, "RBF"), (4, "SIGMOID"))),
    *((classes, "LINEAR", post, False) for classes, post in ((2, "LOGISTIC"), (3, "SOFTMAX"))),
    *((classes, "RBF", "NONE", True) for classes in (2, 3)),
]


@pytest.mark.parametrize(("classes", "kernel", "post", "probable"), one_in(99, CLASSIFIERS, CLASSIFIERS[-2]))
def test_classes(classes: int, kernel: str, post: str, probable: bool) -> None:
    pairs = classes * (classes - 1) // 2
    counts = [2, 3, 1, 4][:classes]
    numbers = machine(sum(counts), classes - 1, pairs, kernel)
    if probable:
        numbers |= {"prob_a": (-2 + RNG.random(pairs)).tolist(), "prob_b": RNG.standard_normal(pairs).tolist()}
    check("SVMClassifier", {"x": X}, {"label": 7, "scores": 1}, vectors_per_class=counts, post_transform=post,
          classlabels_ints=[7, 3, 5, 11][:classes], **numbers)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_categories_and_vectors_of_features(dtype: Any) -> None:
    numbers = RNG.integers(0, 5, (6, 2)).astype(dtype)
    check("OneHotEncoder", {"x": numbers}, {"y": 1}, cats_int64s=[3, 0, 1])
    feeds = {"x": numbers, "v": RNG.integers(0, 5, (6, 3)).astype(dtype)}
    check("FeatureVectorizer", feeds, {"y": 1}, inputdimensions=[2, 3])


@pytest.mark.parametrize(
    ("operator", "attributes", "text"),
    [
        ("SVMRegressor", {**machine(5, 1, 1), "n_supports": 4}, "its attribute support_vectors has 15 numbers, which"),
        ("SVMRegressor", {"n_supports": 1, "support_vectors": [1.0] * 3, "coefficients": [1.0]},
         "its attribute rho has 0 numbers: 1 are needed"),
        ("SVMRegressor", {**machine(5, 2, 1), "n_supports": 5}, "its attribute coefficients has 10 numbers: 5 are"),
        ("SVMRegressor", {**machine(5, 1, 1, "COSINE"), "n_supports": 5}, "its kernel_type is COSINE with 3"),
        ("SVMClassifier", {"classlabels_ints": [1, 2], "vectors_per_class": [3], **machine(3, 1, 1)},
         "it has 2 labels, and vectors_per_class is [3]: one for each of two or more"),
        ("SVMClassifier", {"classlabels_ints": [1, 2], "vectors_per_class": [3, 1], **machine(4, 2, 1)},
         "its attribute coefficients has 8 numbers: 4 are needed"),
        ("SVMClassifier", {"classlabels_ints": [1, 2], "vectors_per_class": [3, 1], "post_transform": "SOFTMAX",
                           **machine(4, 1, 1)}, "its post_transform SOFTMAX of one score for two classes is other"),
        ("SVMClassifier", {"classlabels_ints": [1, 2], "coefficients": [1.0] * 6}, "it has no support vectors"),
        ("SVMClassifier", {"classlabels_ints": [1, 2], "vectors_per_class": [1, 1], "coefficients": [1.0] * 2},
         "none of its coefficients is below 0"),
        ("SVMClassifier", {"classlabels_strings": ["a", "b"], **machine(3, 1, 1)}, "its labels are strings: only"),
        ("OneHotEncoder", {"cats_strings": ["a", "b"]}, "its categories are strings: only integers, cats_int64s, are"),
        ("OneHotEncoder", {"cats_int64s": [1], "zeros": 0}, "its attribute zeros is 0: a run would have to fail for a"),
        ("FeatureVectorizer", {"inputdimensions": [3, 1]}, "it has 1 inputs, and 2 inputdimensions: one for each"),
        ("FeatureVectorizer", {"inputdimensions": [4]}, "'x' has 3 numbers in a row, and its inputdimensions say 4"),
        ("CategoryMapper", {"cats_int64s": [1], "cats_strings": ["a"]}, "it maps strings: only tensors of numbers are"),
        ("DictVectorizer", {"int64_vocabulary": [1]}, "it reads a dictionary: only tensors are available"),
    ],
)  # fmt: skip
def test_what_is_refused(operator: str, attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(model(operator, {"x": X}, {"y": TensorProto.FLOAT}, **attributes))
    assert text in str(caught.value)


def test_probabilities_of_many_classes_are_refused() -> None:
    numbers = {**machine(11, 10, 55), "prob_a": [-1.0] * 55, "prob_b": [0.0] * 55}
    made = model("SVMClassifier", {"x": X}, {"y": 7, "z": 1}, classlabels_ints=list(range(11)),
                 vectors_per_class=[1] * 11, **numbers)  # fmt: skip
    with pytest.raises(numc.NumcError, match="probabilities of 11 classes are not available: of 10 at most"):
        numc.compile(made)
