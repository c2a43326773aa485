"""Support vector machines of the domain ai.onnx.ml, as ONNX's reference and onnxruntime compute them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from numc.frontends.onnx.rewrites.domains.learned import as_float, labels_of, transformed
from numc.frontends.onnx.rewrites.node import Node, RefusedError

Array = npt.NDArray[Any]
Pairs = list[tuple[int, int]]
_ROUNDS = 5
"""How often probabilities of pairs are put together: all of 2 to 10 classes are within the bound then."""
_MOST_CLASSES = 10
_SURE = 1e-7
"""How far probabilities of pairs are from 0 and 1."""


def svm_regressor(node: Node) -> None:
    """SVMRegressor, also for one class: whether a row belongs to it."""
    node.refuse_attribute("post_transform", "NONE")
    count = node.attribute("n_supports", 0)
    value = _kernels(node, count) if count else as_float(node, node.input(0))
    factors = _floats(node, "coefficients", count or None)
    score = node.op("Add", node.op("MatMul", value, node.constant(factors[:, None], np.float32)), _offset(node, 1))
    if node.attribute("one_class", 0):
        inside = node.op("Greater", score, node.constant(0, np.float32))
        score = node.op("Where", inside, *(node.constant(sign, np.float32) for sign in (1, -1)))
    node.op("Identity", score, to=node.output(0))


def svm_classifier(node: Node) -> None:
    """SVMClassifier: each two classes have a score, and the class is the one that most of them choose."""
    labels, counts = labels_of(node, "ints"), list(node.attribute("vectors_per_class", []))
    post_transform, classes = node.attribute("post_transform", "NONE"), len(labels)
    if not sum(counts):
        raise RefusedError("it has no support vectors: convert it as a LinearClassifier")
    if (_floats(node, "coefficients") >= 0).all():
        raise RefusedError("none of its coefficients is below 0: of its two classes, no row is in the second")
    pairs = list(combinations(range(classes), 2))
    scores = _scores_of_pairs(node, counts, classes, pairs)
    chosen = node.op("ArgMax", _votes(node, scores, pairs, classes), axis=1, keepdims=0)
    if len(node.attribute("prob_a", [])):
        scores = _probabilities(node, scores, pairs, classes)
    elif classes == 2:
        if post_transform == "SOFTMAX":
            raise RefusedError("its post_transform SOFTMAX of one score for two classes is other numbers in "
                               "onnxruntime than in ONNX: NONE and LOGISTIC are available")  # fmt: skip
        scores = node.op("Concat", node.op("Neg", scores), scores, axis=1)
    transformed(node, scores, post_transform)
    node.op("Gather", node.constant(labels, np.int64), chosen, to=node.output(0))


def _floats(node: Node, name: str, length: int | None = None) -> Array:
    """An attribute that is a list of floats. Raises RefusedError for one of another length."""
    floats = np.array(node.attribute(name, []), np.float32)
    if length is not None and len(floats) != length:
        raise RefusedError(f"its attribute {name} has {len(floats)} numbers: {length} are needed")
    return floats


def _matrix(node: Node, name: str, rows: int) -> Array:
    """An attribute that is the rows of a matrix. Raises RefusedError if its length is no multiple of them."""
    floats = _floats(node, name)
    if not rows or not len(floats) or len(floats) % rows:
        raise RefusedError(f"its attribute {name} has {len(floats)} numbers, which are no {rows} rows")
    return floats.reshape(rows, -1)


def _offset(node: Node, count: int) -> str:
    """The name of the first numbers of rho."""
    floats = _floats(node, "rho")
    if len(floats) < count:
        raise RefusedError(f"its attribute rho has {len(floats)} numbers: {count} are needed")
    return node.constant(floats[:count], np.float32)


def _kernels(node: Node, count: int) -> str:
    """The kernel of each row with each support vector."""
    op, value, vectors = node.op, as_float(node, node.input(0)), _matrix(node, "support_vectors", count)
    kernel, numbers = node.attribute("kernel_type", "LINEAR"), list(node.attribute("kernel_params", [])) or [0.0] * 3
    if kernel not in ("LINEAR", "POLY", "RBF", "SIGMOID") or len(numbers) != 3:
        raise RefusedError(
            f"its kernel_type is {kernel} with {len(numbers)} kernel_params: LINEAR, POLY, RBF and SIGMOID have 3"
        )
    gamma, offset, degree = numbers
    if kernel == "RBF":
        far = op("Sub", op("Unsqueeze", value, node.ints(1)), node.constant(vectors, np.float32))
        distance = op("ReduceSum", op("Mul", far, far), node.ints(2), keepdims=0)
        return op("Exp", op("Mul", distance, node.constant(-gamma, np.float32)))
    product = op("MatMul", value, node.constant(vectors.T, np.float32))
    if kernel == "LINEAR":
        return product
    moved = op("Add", op("Mul", product, node.constant(gamma, np.float32)), node.constant(offset, np.float32))
    return op("Tanh", moved) if kernel == "SIGMOID" else op("Pow", moved, node.constant(int(degree), np.float32))


def _scores_of_pairs(node: Node, counts: list[int], classes: int, pairs: Pairs) -> str:
    """The score of each two classes: above 0 for the first."""
    if len(counts) != classes or min(counts) < 0 or classes < 2:
        raise RefusedError(f"it has {classes} labels, and vectors_per_class is {counts}: one for each of two or more")
    factors = _matrix(node, "coefficients", classes - 1)
    if factors.shape[1] != sum(counts):
        raise RefusedError(f"its attribute coefficients has {factors.size} numbers: {(classes - 1) * sum(counts)} are "
                           "needed")  # fmt: skip
    ends = np.cumsum(counts)
    weights = np.zeros((sum(counts), len(pairs)), np.float32)
    for n, (first, second) in enumerate(pairs):
        for row, of in ((second - 1, first), (first, second)):
            own = slice(ends[of] - counts[of], ends[of])
            weights[own, n] = factors[row, own]
    product = node.op("MatMul", _kernels(node, sum(counts)), node.constant(weights, np.float32))
    return node.op("Add", product, _offset(node, len(pairs)))


def _votes(node: Node, scores: str, pairs: Pairs, classes: int) -> str:
    first = node.op("Greater", scores, node.constant(0, np.float32))
    sides = (node.cast(first, TensorProto.FLOAT), node.cast(node.op("Not", first), TensorProto.FLOAT))
    counts = []
    for side, votes in enumerate(sides):
        chosen = np.zeros((len(pairs), classes), np.float32)
        chosen[np.arange(len(pairs)), [pair[side] for pair in pairs]] = 1
        # A sum and no product of matrices: no arithmetic may round votes.
        each = node.op("Mul", node.op("Unsqueeze", votes, node.ints(2)), node.constant(chosen, np.float32))
        counts.append(node.op("ReduceSum", each, node.ints(1), keepdims=0))
    return node.op("Add", *counts)


def _probabilities(node: Node, scores: str, pairs: Pairs, classes: int) -> str:
    """The probabilities of classes that fit those of pairs, by the steps of libsvm."""
    if classes > _MOST_CLASSES:
        raise RefusedError(f"probabilities of {classes} classes are not available: of {_MOST_CLASSES} at most")
    op, count = node.op, len(pairs)

    def number(value: float) -> str:
        return node.constant(value, np.float32)

    slopes = (node.constant(_floats(node, name, count), np.float32) for name in ("prob_a", "prob_b"))
    probability = op("Sub", number(1), op("Sigmoid", op("Add", op("Mul", scores, next(slopes)), next(slopes))))
    probability = op("Clip", probability, number(_SURE), number(1 - _SURE))
    # Where the probability of each two classes is among those of the pairs, of the other sides, and a 0.
    places = np.full((classes, classes), 2 * count)
    for n, (first, second) in enumerate(pairs):
        places[first, second], places[second, first] = n, count + n
    none = op("Mul", node.cut(probability, 1, 0, 1), number(0))
    listed = op("Concat", probability, op("Sub", number(1), probability), none, axis=1)
    rows = op("Gather", listed, node.constant(places, np.int64), axis=1)
    columns = op("Transpose", rows, perm=[0, 2, 1])
    diagonal = op("ReduceSum", op("Mul", columns, columns), node.ints(2))
    others = op("Neg", op("Mul", rows, columns))
    form = op("Add", others, op("Mul", diagonal, node.constant(np.eye(classes), np.float32)))
    estimate = op("Add", none, node.constant(np.full(classes, 1 / classes), np.float32))
    for _ in range(_ROUNDS):
        estimate = _round(node, form, estimate, classes)
    return estimate


def _round(node: Node, form: str, given: str, classes: int) -> str:
    """One round of coordinate steps to the smallest value of a quadratic form, where `given` is not near it yet."""
    op, one = node.op, node.constant(1, np.float32)
    slope = op("ReduceSum", op("Mul", form, op("Unsqueeze", given, node.ints(1))), node.ints(2), keepdims=0)
    value = op("ReduceSum", op("Mul", given, slope), node.ints(1))
    error = op("ReduceMax", op("Abs", op("Sub", slope, value)), node.ints(1))
    near, estimate = op("Less", error, node.constant(0.005 / classes, np.float32)), given
    for n in range(classes):
        row = op("Squeeze", node.cut(form, 1, n, n + 1), node.ints(1))
        own, at = node.cut(row, 1, n, n + 1), node.cut(slope, 1, n, n + 1)
        step = op("Div", op("Sub", value, at), own)
        whole = op("Add", one, step)
        estimate = op("Add", estimate, op("Mul", step, node.constant(np.arange(classes) == n, np.float32)))
        estimate = op("Div", estimate, whole)
        more = op("Add", op("Mul", step, own), op("Mul", at, node.constant(2, np.float32)))
        value = op("Div", op("Add", value, op("Mul", step, more)), op("Mul", whole, whole))
        slope = op("Div", op("Add", slope, op("Mul", step, row)), whole)
    return op("Where", near, given, estimate)


RULES = {"SVMClassifier": svm_classifier, "SVMRegressor": svm_regressor}
