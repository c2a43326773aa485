"""Operators of the domain ai.onnx.ml on numbers: features, linear models and trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from numc.frontends.onnx.rewrites.node import Node, RefusedError

Array = npt.NDArray[Any]
MAX_DEPTH = 64
"""The largest depth of a tree."""


def extract(node: Node) -> None:
    """ArrayFeatureExtractor: some elements of the last axis."""
    indices = node.reshape(node.input(1), [-1])
    rank = node.rank(node.input(0))
    gathered = node.op("Gather", node.input(0), indices, axis=-1, to="" if rank == 1 else node.output(0))
    if rank == 1:
        node.op("Unsqueeze", gathered, node.ints(0), to=node.output(0))


def binarizer(node: Node) -> None:
    """Binarizer: whether numbers are above a threshold."""
    source, dtype = node.input(0), node.dtype(node.input(0))
    if not dtype:
        raise RefusedError(f"the type of '{source}' is not known")
    above = node.op("Greater", source, node.like(node.attribute("threshold", 0.0), source))
    node.cast(above, dtype, to=node.output(0))


def scaler(node: Node) -> None:
    """Scaler: an offset off, times a scale."""
    value = as_float(node, node.input(0))
    offset, scale = (node.constant(node.attribute(name, [default]), np.float32)
                     for name, default in (("offset", 0.0), ("scale", 1.0)))  # fmt: skip
    node.op("Mul", node.op("Sub", value, offset), scale, to=node.output(0))


def normalizer(node: Node) -> None:
    """Normalizer: rows over their largest number, or over the sum of their magnitudes or squares."""
    value, norm = as_float(node, node.input(0)), node.attribute("norm", "MAX")
    kinds = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
    if norm not in kinds:
        raise RefusedError(f"its norm is '{norm}': MAX, L1 and L2 are what ONNX has")
    size = node.op(kinds[norm], value, node.ints(-1))
    whole = node.op("Where", node.op("Equal", size, node.constant(0, np.float32)), node.constant(1, np.float32), size)
    node.op("Div", value, whole, to=node.output(0))


def imputer(node: Node) -> None:
    """Imputer: numbers in the places of one."""
    source = node.input(0)
    type_name = "float" if node.is_float(source) else "int64"
    replaced = node.attribute(f"replaced_value_{type_name}", 0.0 if type_name == "float" else 0)
    others = node.attribute(f"imputed_value_{type_name}s", [])
    dtype = np.float32 if type_name == "float" else np.int64
    missing = (
        node.op("IsNaN", source) if replaced != replaced else node.op("Equal", source, node.constant(replaced, dtype))
    )
    values = node.constant(others if len(others) > 1 else others[0], dtype)
    node.op("Where", missing, values, source, to=node.output(0))


def one_hot_encoder(node: Node) -> None:
    """OneHotEncoder: for each number, 1 at its place among the categories, and 0 elsewhere."""
    categories = list(node.attribute("cats_int64s", []))
    if not categories:
        raise RefusedError("its categories are strings: only integers, cats_int64s, are available")
    source = node.input(0)
    source = source if node.dtype(source) == TensorProto.INT64 else node.cast(source, TensorProto.INT64)
    same = node.op("Equal", node.op("Unsqueeze", source, node.ints(-1)), node.constant(categories, np.int64))
    if not node.attribute("zeros", 1):
        raise RefusedError("its attribute zeros is 0: a run would have to fail for a number that is no category")
    node.cast(same, TensorProto.FLOAT, to=node.output(0))


def feature_vectorizer(node: Node) -> None:
    """FeatureVectorizer: rows one behind the other."""
    sizes = node.attribute("inputdimensions", [])
    if len(sizes) != len(node.proto.input):
        raise RefusedError(f"it has {len(node.proto.input)} inputs, and {len(sizes)} inputdimensions: one for each")
    parts = []
    for name, size in zip(node.proto.input, sizes, strict=True):
        value = as_float(node, name)
        value = value if node.rank(name) > 1 else node.op("Unsqueeze", value, node.ints(0))
        if (last := node.shape(name)[-1]) not in (None, size):
            raise RefusedError(f"'{name}' has {last} numbers in a row, and its inputdimensions say {size}")
        parts.append(value)
    node.op("Concat", *parts, axis=1, to=node.output(0))


def label_encoder(node: Node) -> None:
    """LabelEncoder: numbers for numbers."""
    dtypes = {"float": np.float32, "int64": np.int64}
    keys, values = (
        next((np.array(node.attribute(f"{what}_{type_name}s", []), dtype) for type_name, dtype in dtypes.items()
              if len(node.attribute(f"{what}_{type_name}s", []))), None) for what in ("keys", "values")
    )  # fmt: skip
    if keys is None or values is None or len(keys) != len(values):
        raise RefusedError("only keys and values that are lists of numbers are available, as many as each other")
    other = node.attribute("default_float", -0.0) if values.dtype == np.float32 else node.attribute("default_int64", -1)
    source = node.op("Unsqueeze", node.input(0), node.ints(-1))
    same = node.op("Equal", source, node.constant(keys, keys.dtype))
    if keys.dtype == np.float32 and np.isnan(keys).any():
        undefined = node.op("And", node.op("IsNaN", source), node.constant(np.isnan(keys), np.bool_))
        same = node.op("Or", same, undefined)
    hits = node.cast(same, TensorProto.INT64)
    encoded = node.op("Gather", node.constant(values, values.dtype), node.op("ArgMax", hits, axis=-1, keepdims=0))
    known = node.op("Equal", node.op("ReduceMax", hits, node.ints(-1), keepdims=0), node.constant(1, np.int64))
    node.op("Where", known, encoded, node.constant(other, values.dtype), to=node.output(0))


def linear_regressor(node: Node) -> None:
    """LinearRegressor."""
    node.refuse_attribute("post_transform", "NONE")
    targets = node.attribute("targets", 1)
    factors = np.array(node.attribute("coefficients", [0.0]), np.float32).reshape(targets, -1)
    start = node.attribute("intercepts", [])
    product = node.op("MatMul", as_float(node, node.input(0)), node.constant(factors.T, np.float32),
                      to="" if len(start) else node.output(0))  # fmt: skip
    if len(start):
        node.op("Add", product, node.constant(start, np.float32), to=node.output(0))


def linear_classifier(node: Node) -> None:
    """LinearClassifier."""
    rows = np.array(node.attribute("coefficients", []), np.float32)
    start = np.array(node.attribute("intercepts", []), np.float32)
    labels = labels_of(node, "ints")
    count = len(start) or len(labels)
    if len(labels) != count and (count, len(labels)) != (1, 2):
        raise RefusedError(f"it has {len(labels)} labels for {count} intercepts: one for each is available")
    product = node.op("MatMul", as_float(node, node.input(0)), node.constant(rows.reshape(count, -1).T, np.float32))
    scores = node.op("Add", product, node.constant(start, np.float32)) if len(start) else product
    if count == 1 and len(labels) == 2:
        _write_two_classes(node, scores, labels, 0.0, certain=True)
    else:
        _write_classes(node, scores, labels)


def labels_of(node: Node, kind: str) -> list[int]:
    """The labels of classes. Raises RefusedError for texts, and if there are none."""
    if len(node.attribute("classlabels_strings", [])):
        raise RefusedError("its labels are strings: only integers are available, which stand for them by their place")
    if not (labels := list(node.attribute(f"classlabels_{kind}", []))):
        raise RefusedError(f"it has no labels: classlabels_{kind} has to list one for each class")
    return labels


def _write_classes(node: Node, scores: str, labels: list[int]) -> None:
    """Emit the label of the largest score, and what post_transform makes of the scores."""
    transformed(node, scores, node.attribute("post_transform", "NONE"))
    index = node.op("ArgMax", scores, axis=1, keepdims=0)
    node.op("Gather", node.constant(labels, np.int64), index, to=node.output(0))


def _write_two_classes(node: Node, score: str, labels: list[int], limit: float, *, certain: bool) -> None:
    """Emit the second label for a score above a limit, and the scores of both, of which one is given.

    certain: the score is a probability. onnxruntime makes the other one so, and ignores SOFTMAX.
    """
    op, post_transform = node.op, node.attribute("post_transform", "NONE")
    is_logistic = post_transform == "LOGISTIC"
    other = op("Sub", node.constant(1, np.float32), score) if certain and not is_logistic else op("Neg", score)
    both = op("Concat", other, score, axis=1)
    transformed(node, both, "NONE" if post_transform == "SOFTMAX" else post_transform)
    _write_label_above(node, score, labels, limit)


def _write_label_above(node: Node, score: str, labels: list[int], limit: float) -> None:
    above = node.op("Squeeze", node.op("Greater", score, node.constant(limit, np.float32)), node.ints(1))
    node.op("Where", above, *(node.constant(label, np.int64) for label in reversed(labels)), to=node.output(0))


def transformed(node: Node, scores: str, kind: str) -> None:
    """Emit the scores of classes after a post_transform as the second output."""
    operators = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
    if kind not in operators:
        raise RefusedError(f"its post_transform is {kind}: {', '.join(operators)} are available")
    to = node.output(1) or node.fresh()
    node.op(operators[kind], scores, to=to, axis=1 if kind == "SOFTMAX" else None)


@dataclass(frozen=True)
class _Trees:
    """Nodes of trees, leaves among them, by their numbers.

    features, splits, modes: of a decision. yes, no: the numbers of the next ones; of a leaf its own. missing: whether
    NaN goes to yes. results: of each, by target. sets: the members of MEMBER, with NaN behind. roots: of the trees.
    """

    features: Array
    splits: Array
    modes: list[str]
    yes: Array
    no: Array
    missing: Array
    results: Array
    sets: Array
    roots: Array

    @property
    def depth(self) -> int:
        """The largest number of decisions. Raises RefusedError for a tree that has no end."""
        reached, steps = np.unique(self.roots), 0
        while any(self.modes[n] != "LEAF" for n in reached):
            reached = np.unique(np.concatenate([self.yes[reached], self.no[reached]]))
            steps += 1
            if steps > MAX_DEPTH:
                raise RefusedError(f"a tree has more than {MAX_DEPTH} decisions one after the other")
        return steps


def _check(node: Node, trees: _Trees) -> None:
    """Raise RefusedError unless all numbers of nodes and of features are of some that there are."""
    count, shape = len(trees.modes), node.known_shape(node.input(0))
    decisions = [n for n, mode in enumerate(trees.modes) if mode != "LEAF"]
    lists = (trees.features, trees.splits, trees.yes, trees.no, trees.missing)
    if {len(each) for each in lists} != {count}:
        raise RefusedError(f"its lists of nodes have different lengths: {', '.join(str(len(each)) for each in lists)}")
    for what, numbers, limit in (
        ("trees begin at nodes", trees.roots, count),
        ("decisions lead to nodes", np.concatenate([trees.yes[decisions], trees.no[decisions]]), count),
        ("decisions are of features", trees.features[decisions], shape[-1] if shape else None),
    ):
        if limit is not None:
            _check_numbers(what, numbers, limit)


def _check_numbers(what: str, numbers: Array, limit: int) -> None:
    """Raise RefusedError unless all numbers are below a limit and none is negative."""
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < limit:
        raise RefusedError(f"its {what} {numbers.min()} to {numbers.max()}: there are 0 to {limit - 1}")


_COMPARISONS = {"LEQ": "LessOrEqual", "LT": "Less", "GTE": "GreaterOrEqual", "GT": "Greater", "EQ": "Equal"}


def _decide(node: Node, trees: _Trees, to: str, aggregate: str, start: Array | None = None) -> None:
    """Emit the walk through all trees at once, and the sums of what their leaves give."""
    _check(node, trees)
    op, source, dtype = node.op, node.input(0), trees.splits.dtype
    number = int(helper.np_dtype_to_tensor_dtype(dtype))
    source = source if node.dtype(source) == number else node.cast(source, number)
    batch = node.size(source, 0)
    roots = node.constant(trees.roots[None, :], np.int64)
    position = op("Expand", roots, node.list_of([batch, len(trees.roots)]))
    tables = {
        name: node.constant(value, kind)
        for name, value, kind in (
            ("features", trees.features, np.int64),
            ("splits", trees.splits, dtype),
            ("yes", trees.yes, np.int64),
            ("no", trees.no, np.int64),
        )
    }
    kinds = sorted(set(trees.modes) - {"LEAF"})
    for _ in range(trees.depth):
        value = op("GatherElements", source, op("Gather", tables["features"], position), axis=1)
        limit = op("Gather", tables["splits"], position)
        holds = ""
        for kind in kinds:
            if kind == "MEMBER":
                members = op("Gather", node.constant(trees.sets, dtype), position, axis=0)
                same = node.cast(op("Equal", op("Unsqueeze", value, node.ints(-1)), members), TensorProto.INT64)
                is_in_set = op("ReduceMax", same, node.ints(-1), keepdims=0)
                comparison = op("Equal", is_in_set, node.constant(1, np.int64))
            elif kind == "NEQ":
                comparison = op("Not", op("Equal", value, limit))
            else:
                comparison = op(_COMPARISONS[kind], value, limit)
            if not holds:
                holds = comparison
            else:
                chosen = op("Gather", node.constant([m == kind for m in trees.modes], np.bool_), position)
                holds = op("Where", chosen, comparison, holds)
        if trees.missing.any():
            lost = op("And", op("Gather", node.constant(trees.missing, np.bool_), position), op("IsNaN", value))
            holds = op("Or", holds, lost)
        position = op("Where", holds, op("Gather", tables["yes"], position), op("Gather", tables["no"], position))
    results = op("Gather", node.constant(trees.results, dtype), position, axis=0)
    operator = {"SUM": "ReduceSum", "AVERAGE": "ReduceSum", "MIN": "ReduceMin", "MAX": "ReduceMax"}.get(aggregate)
    if operator is None or (operator != "ReduceSum" and trees.results.shape[1] > 1):
        raise RefusedError(f"its aggregate function {aggregate} is not available for {trees.results.shape[1]} targets")
    total = op(operator, results, node.ints(1), keepdims=0)
    if aggregate == "AVERAGE":
        total = op("Div", total, node.constant(len(trees.roots), dtype))
    if start is not None and start.any():
        total = op("Add", total, node.constant(start, dtype))
    op("Identity", total, to=to)


def tree_ensemble(node: Node) -> None:
    """TreeEnsemble."""
    if node.attribute("post_transform", 0):
        raise RefusedError("its post_transform is not available: only 0 (none)")

    def numbers(name: str) -> Array:
        return np.array(node.attribute(name, []), np.int64)

    def tensor(name: str) -> Array:
        value = node.attribute(name, None)
        return np.zeros(0) if value is None else numpy_helper.to_array(value)

    splits, weights = tensor("nodes_splits"), tensor("leaf_weights")
    if splits.dtype not in (np.float32, np.float64):
        raise RefusedError(f"its splits are {splits.dtype}: float32 and float64 are available")
    count, leaves = len(splits), len(weights)
    names = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER"]
    modes = [names[int(mode)] for mode in tensor("nodes_modes")] + ["LEAF"] * leaves
    own = np.arange(count, count + leaves)
    ends = []
    for where in ("true", "false"):
        target, is_leaf = numbers(f"nodes_{where}nodeids"), numbers(f"nodes_{where}leafs")
        ends.append(np.concatenate([np.where(is_leaf != 0, target + count, target), own]))
    results = np.zeros((count + leaves, node.attribute("n_targets", 1)), splits.dtype)
    targets = numbers("leaf_targetids")
    _check_numbers("leaves are of targets", targets, results.shape[1])
    results[own, targets] = weights
    # The members of all sets one after the other, with NaN behind each set.
    members, sets = tensor("membership_values"), []
    for part in np.split(members, np.flatnonzero(np.isnan(members)) + 1)[:-1] if len(members) else []:
        sets.append(part[:-1])
    width = max(map(len, sets), default=1)
    table = np.full((count + leaves, width), np.nan, splits.dtype)
    for n, part in zip((n for n, mode in enumerate(modes) if mode == "MEMBER"), sets, strict=True):
        table[n, : len(part)] = part
    missing = numbers("nodes_missing_value_tracks_true")
    trees = _Trees(
        features=np.concatenate([numbers("nodes_featureids"), np.zeros(leaves, np.int64)]),
        splits=np.concatenate([splits, np.zeros(leaves, splits.dtype)]),
        modes=modes,
        yes=ends[0],
        no=ends[1],
        missing=np.concatenate([missing if len(missing) else np.zeros(count), np.zeros(leaves)]).astype(bool),
        results=results,
        sets=table,
        roots=numbers("tree_roots"),
    )
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[node.attribute("aggregate_function", 1)]
    _decide(node, trees, node.output(0), aggregate)


def tree_ensemble_regressor(node: Node) -> None:
    """TreeEnsembleRegressor."""
    node.refuse_attribute("post_transform", "NONE")
    trees = _older_trees(node, "target", node.attribute("n_targets", 1))
    start = np.array(node.attribute("base_values", [0.0]), np.float32)
    _decide(node, trees, node.output(0), node.attribute("aggregate_function", "SUM"), start)


def tree_ensemble_classifier(node: Node) -> None:
    """TreeEnsembleClassifier. Of two classes, leaves may give the score of one only."""
    labels, scores = labels_of(node, "int64s"), node.fresh()
    used = set(node.attribute("class_ids", []))
    start = np.array(node.attribute("base_values", []), np.float32)
    if len(labels) != 2 or len(used) != 1:
        if len(start) not in (0, len(labels)):
            raise RefusedError(f"it has {len(start)} base_values for {len(labels)} classes: one for each is available")
        _decide(node, _older_trees(node, "class", len(labels)), scores, "SUM", start)
        _write_classes(node, scores, labels)
        return
    if len(start) and (len(start) > 1 or used == {1}):
        raise RefusedError("its base_values are not available where leaves give the score of one of two classes")
    limit = 0.5 if (certain := min(node.attribute("class_weights", [])) >= 0) else 0.0
    _decide(
        node, _older_trees(node, "class", 2), scores, "SUM", np.array([*start, 0], np.float32) if len(start) else None
    )
    score = node.cut(scores, 1, *((0, 1) if used == {0} else (1, 2)))
    if used == {0}:
        _write_two_classes(node, score, labels, limit, certain=certain)
    else:
        transformed(node, scores, node.attribute("post_transform", "NONE"))
        _write_label_above(node, score, labels, limit)


def _older_trees(node: Node, what: str, count: int) -> _Trees:
    """The trees of a node with lists of properties. what: it calls what leaves are for, of which there are `count`."""
    if any(attribute.name.endswith("_as_tensor") for attribute in node.proto.attribute):
        raise RefusedError("its numbers are float64: only float32 is available")

    def numbers(name: str) -> Array:
        return np.array(node.attribute(name, []), np.int64)

    keys = list(zip(numbers("nodes_treeids").tolist(), numbers("nodes_nodeids").tolist(), strict=True))
    where = {key: n for n, key in enumerate(keys)}
    modes = [m.decode().removeprefix("BRANCH_") for m in node.attribute("nodes_modes", [])]
    ends = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        targets = numbers(name)
        ends.append(
            np.array([n if modes[n] == "LEAF" else where[keys[n][0], int(targets[n])] for n in range(len(keys))])
        )
    results = np.zeros((len(keys), count), np.float32)
    _check_numbers("leaves are of targets", numbers(f"{what}_ids"), count)
    for tree, leaf, target, weight in zip(*(node.attribute(f"{what}_{name}", []) for name in
                                            ("treeids", "nodeids", "ids", "weights")), strict=True):  # fmt: skip
        results[where[tree, leaf], target] += np.float32(weight)
    missing = numbers("nodes_missing_value_tracks_true")
    return _Trees(
        features=numbers("nodes_featureids"),
        splits=np.array(node.attribute("nodes_values", []), np.float32),
        modes=modes,
        yes=ends[0],
        no=ends[1],
        missing=missing.astype(bool) if len(missing) else np.zeros(len(keys), bool),
        results=results,
        sets=np.full((len(keys), 1), np.nan, np.float32),
        roots=np.array(
            [where[key] for key in dict(zip((k[0] for k in reversed(keys)), reversed(keys), strict=True)).values()][
                ::-1
            ]
        ),
    )


def as_float(node: Node, name: str) -> str:
    """The name of a value in float32."""
    return name if node.dtype(name) == TensorProto.FLOAT else node.cast(name, TensorProto.FLOAT)


RULES = {
    "ArrayFeatureExtractor": extract,
    "Binarizer": binarizer,
    "Imputer": imputer,
    "FeatureVectorizer": feature_vectorizer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
}
