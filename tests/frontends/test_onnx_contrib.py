"""Operators of the domain com.microsoft give onnxruntime's results, in one model for each group of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import numc
from numc.runtime.library import cpu_features
from tiers import one_in

MS = "com.microsoft"
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def check(folder: Path, nodes: list[onnx.NodeProto], feeds: dict[str, Array], constants: dict[str, Array],
          free: dict[str, list[Any]] | None = None, steps: int = 0) -> None:  # fmt: skip
    """Compare every value that no node reads with onnxruntime's.

    free: shapes of inputs with names of sizes. steps: how far bytes may be away.
    """
    free = free or {}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), free.get(name, a.shape))
        for name, a in feeds.items()
    ]
    read = {name for node in nodes for name in node.input}
    outputs = [onnx.ValueInfoProto(name=o) for node in nodes for o in node.output if o and o not in read]
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants.items()]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    types = {o.name: (o.type, o.shape) for o in session.get_outputs()}
    for value in model.graph.output:
        kind, shape = types[value.name]
        number = {"tensor(float)": 1, "tensor(int32)": 6, "tensor(int64)": 7, "tensor(uint8)": 2}[kind]
        value.CopyFrom(helper.make_tensor_value_info(value.name, number, shape or None))
    wants = dict(zip(types, session.run(None, feeds), strict=True))
    onnx.save(model, folder / "m.onnx")
    got = numc.compile(folder / "m.onnx").by_name(feeds)
    for name, want in wants.items():
        assert got[name].shape == want.shape, name
        rtol, atol = (0.0, steps) if want.dtype == np.uint8 else (2e-4, 2e-5)
        np.testing.assert_allclose(got[name].astype(float), want, rtol=rtol, atol=atol, err_msg=name)


def node(operator: str, inputs: list[str], outputs: list[str], domain: str = MS, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, domain=domain, **attributes)


def test_names_of_other_operators(tmp_path: Path) -> None:
    """Unique gives its values in the order of the first ones, and has three results."""
    x = np.array([3, 1, 3, 2, 1], np.float32)
    feeds = {"x": x, "m": floats(2, 3, 4), "n": floats(2, 5, 4)}
    constants = {"axis": np.int32(-1), "places": np.array([[0, 1], [1, 2]], np.int64)}
    nodes = [
        node("TransposeMatMul", ["m", "n"], ["product"], transB=1, alpha=0.5),
        node("ExpandDims", ["m", "axis"], ["wide"]),
        node("GatherND", ["m", "places"], ["chosen"]),
    ]
    check(tmp_path, nodes, {name: feeds[name] for name in "mn"}, constants)
    given = helper.make_tensor_value_info("x", 1, [5])
    ends = [helper.make_empty_tensor_value_info(name) for name in ("values", "back", "counts")]
    graph = helper.make_graph([node("Unique", ["x"], [end.name for end in ends])], "g", [given], ends)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "u.onnx")
    got = numc.compile(tmp_path / "u.onnx").by_name({"x": x})
    assert [got[end.name].tolist() for end in ends] == [[3, 1, 2], [0, 1, 0, 2, 1], [2, 2, 1]]


def test_activations_normalisations_and_quantised_weights(tmp_path: Path) -> None:
    """Batch and length are free."""
    feeds = {"x": floats(2, 3, 64), "skip": floats(2, 3, 64), "ids": RNG.integers(0, 9, (2, 3)).astype(np.int32)}
    constants = {
        "g": floats(64), "b": floats(64), "h": floats(64), "w": floats(5, 64),
        "q": RNG.integers(0, 256, (8, 2, 16)).astype(np.uint8), "s": floats(16), "z": np.full(8, 0x85, np.uint8),
        "q8": RNG.integers(0, 256, (8, 2, 32)).astype(np.uint8),
        "words": floats(9, 64), "places": floats(4, 64), "kinds": floats(9, 64),
    }  # fmt: skip
    nodes = [
        node("Gelu", ["x"], ["gelu"]),
        node("BiasGelu", ["x", "b"], ["bias_gelu"]),
        node("FastGelu", ["x", "b"], ["fast_gelu"]),
        node("QuickGelu", ["x"], ["quick_gelu"], alpha=1.5),
        node("FusedMatMul", ["x", "w"], ["fused"], transB=1, alpha=0.5),
        node("SkipLayerNormalization", ["x", "skip", "g", "b", "h"], ["skipped", "", "", "sum"], epsilon=1e-5),
        node("SkipSimplifiedLayerNormalization", ["x", "skip", "g"], ["simply_skipped"], epsilon=1e-5),
        node("SimplifiedLayerNormalization", ["x", "g"], ["simple"], domain="", axis=-1),
        node("MatMulNBits", ["x", "q", "s"], ["four"], K=64, N=8, bits=4, block_size=32),
        node("MatMulNBits", ["x", "q", "s", "z"], ["zeros"], K=64, N=8, bits=4, block_size=32),
        node("MatMulNBits", ["x", "q8", "s"], ["eight"], K=64, N=8, bits=8, block_size=32),
        node("EmbedLayerNormalization", ["ids", "ids", "words", "places", "kinds", "g", "b"], ["embedded", "mask"]),
    ]
    free = {"x": ["batch", "length", 64], "skip": ["batch", "length", 64], "ids": ["batch", "length"]}
    check(tmp_path, nodes, feeds, constants, free)


def test_attention(tmp_path: Path) -> None:
    """One matrix for all, several heads, masks and a cache."""
    feeds = {"x": floats(2, 4, 16), "key": floats(2, 5, 16), "past": floats(2, 2, 4, 3, 4),
             "k0": floats(2, 4, 3, 4), "v0": floats(2, 4, 3, 4)}  # fmt: skip
    seen = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    constants = {"w": floats(16, 48), "b": floats(48), "seen": seen, "lengths": np.array([3, 4], np.int32),
                 "extra": floats(1, 4, 4, 8), "padding": np.array([[1, 1, 1, 1, 0], [1] * 5], np.int32)}  # fmt: skip
    nodes = [
        node("Attention", ["x", "w", "b", "seen"], ["masked"], num_heads=4),
        node("Attention", ["x", "w", "b", "lengths"], ["short"], num_heads=4),
        node("Attention", ["x", "w", "b", "", "past"], ["cached", "present"], num_heads=4, unidirectional=1),
        node("MultiHeadAttention", ["x", "key", "key", "b", "padding"], ["cross"], num_heads=4),
        node("MultiHeadAttention", ["x", "key", "key", "", "", "extra", "k0", "v0"], ["more", "k1", "v1"], num_heads=4),
    ]
    check(tmp_path, nodes, feeds, constants)


@pytest.mark.parametrize(("length", "past", "room"), [(4, 0, 0), (1, 3, 0), (1, 3, 8)])
def test_shared_heads_with_a_cache(tmp_path: Path, length: int, past: int, room: int) -> None:
    """A prompt, a cache that grows, and one that has the room; rotations of both kinds and a window."""
    lengths = np.full((2, 1), past + length - 1, np.int32)
    feeds = {"q": floats(2, length, 64), "k": floats(2, length, 32), "v": floats(2, length, 32), "lengths": lengths}
    packed = np.concatenate([feeds["q"], feeds["k"], feeds["v"]], axis=2)
    feeds["packed"] = packed
    caches = ["", ""]
    if past:
        for name in ("k0", "v0"):
            feeds[name] = floats(2, 2, room or past, 16)
            feeds[name][:, :, past:] = 0  # the room is empty
        caches = ["k0", "v0"]
    angles = np.outer(np.arange(16), 0.5 ** np.arange(8)).astype(np.float32)
    constants = {"total": np.array(past + length, np.int32), "cos": np.cos(angles), "sin": np.sin(angles),
                 "places": np.arange(length)[None, :].repeat(2, 0)}  # fmt: skip
    heads = {"num_heads": 4, "kv_num_heads": 2}
    nodes = [
        node("GroupQueryAttention", ["q", "k", "v", *caches, "lengths", "total"], ["y", "k1", "v1"],
             softcap=2.0, **heads),
        node("GroupQueryAttention", ["packed", "", "", *caches, "lengths", "total", "cos", "sin"], ["r", "k2", "v2"],
             do_rotary=1, local_window_size=2, **heads),
        node("RotaryEmbedding", ["q", "places", "cos", "sin"], ["turned"], interleaved=1),
    ]  # fmt: skip
    check(tmp_path, nodes, feeds, constants)


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(numc.NumcError, match="has no such operator here \\(did you mean 'FastGelu'"):
        numc.onnx_backend.run_node(node("FastGelus", ["x"], ["y"]), [floats(2)], opset_version=1)


@pytest.mark.all
def test_quantised_operators(tmp_path: Path) -> None:
    """Results that are quantised may be one step away, where onnxruntime rounds what is not exactly in the middle."""

    def eight(*shape: int, dtype: Any = np.uint8) -> Array:
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape).astype(dtype)

    def weights(*shape: int) -> Array:
        """Of 7 bits where there is no VNNI: there onnxruntime's sums of 16 bits saturate for larger ones."""
        end = 128 if "avx512_vnni" in cpu_features() else 64
        return RNG.integers(-end, end, shape).astype(np.int8)

    feeds = {"a": eight(2, 3, 4, 4), "c": eight(2, 3, 4, 4), "m": eight(5, 8), "f": floats(5, 8), "h": eight(2, 4, 16),
             "ids": np.array([[3, 0], [6, 6]], np.int64), "x": floats(1, 2, 5, 5)}  # fmt: skip
    constants: dict[str, Any] = {
        "sa": np.float32(0.02), "za": np.uint8(120), "sc": np.float32(0.03), "zc": np.uint8(90),
        "sy": np.float32(0.05), "zy": np.uint8(131), "w": weights(8, 6), "sw": np.abs(floats(6)) / 50,
        "zw": np.zeros(6, np.int8), "bias": RNG.integers(-900, 900, 6).astype(np.int32), "fb": floats(6),
        "sw1": np.float32(0.01), "zw1": np.int8(3), "qw": weights(16, 48), "qb": floats(48),
        "k": floats(3, 2, 3, 3), "kb": floats(3), "gw": floats(8, 6), "rows": eight(7, 16), "rs": floats(7, 2),
        "ss": np.float32(1 / 256), "sz": np.uint8(0),
    }  # fmt: skip
    constants = {name: np.asarray(value) for name, value in constants.items()}
    a, c, y = ["a", "sa", "za"], ["c", "sc", "zc"], ["sy", "zy"]
    nodes = [
        node("QLinearAdd", [*a, *c, *y], ["add"]),
        node("QLinearMul", [*a, *c, *y], ["mul"]),
        node("QLinearSigmoid", [*a, "ss", "sz"], ["sigmoid"]),
        node("QLinearLeakyRelu", [*a, *y], ["leaky"], alpha=0.1),
        node("QLinearSoftmax", [*a, "ss", "sz"], ["softmax"], axis=-1, opset=13),
        node("QLinearGlobalAveragePool", [*a, *y], ["pool"]),
        node("QLinearAveragePool", [*a, *y], ["window"], kernel_shape=[2, 2]),
        node(
            "QLinearAveragePool",
            [*a, *y],
            ["whole"],
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[0, 1, 0, 0],
            ceil_mode=1,
            count_include_pad=1,
        ),
        node("QLinearConcat", [*y, *a, *c], ["concat"], axis=1),
        node("QGemm", ["m", "sa", "za", "w", "sw", "zw", "bias", *y], ["gemm"], transB=0),
        node("QGemm", ["m", "sa", "za", "w", "sw", "zw", "bias"], ["gemm_float"], transB=0),
        node("MatMulIntegerToFloat", ["m", "w", "sa", "sw", "za", "zw", "fb"], ["to_float"]),
        node("DynamicQuantizeMatMul", ["f", "w", "sw", "zw", "fb"], ["dynamic"]),
        node("QAttention", ["h", "qw", "qb", "sa", "sw1", "", "za", "zw1"], ["attention"], num_heads=4),
        node("FusedConv", ["x", "k", "kb"], ["conv"], activation="LeakyRelu", activation_params=[0.2]),
        node("FusedGemm", ["f", "gw", "fb"], ["fused"], activation="Relu"),
        node("GatherBlockQuantized", ["rows", "ids", "rs"], ["blocks"], block_size=16, bits=4, quantize_axis=1),
    ]
    check(tmp_path, nodes, feeds, constants, steps=1)


@pytest.mark.all
def test_features_linear_models_and_trees(tmp_path: Path) -> None:
    modes = ["BRANCH_LEQ", "BRANCH_GT", *["LEAF"] * 3, "BRANCH_LT", *["LEAF"] * 2]
    trees = {
        "nodes_treeids": [0] * 5 + [1] * 3, "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2], "nodes_modes": modes,
        "nodes_featureids": [2, 0, 0, 0, 0, 1, 0, 0], "nodes_values": [0.1, -0.2, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
        "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0], "target_treeids": [0, 0, 0, 0, 0, 0, 1, 1, 1, 1],
        "target_nodeids": [2, 2, 3, 3, 4, 4, 1, 1, 2, 2], "target_ids": [0, 1] * 5,
        "target_weights": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
    }  # fmt: skip
    x, ids = floats(40, 4), RNG.integers(0, 6, 7)
    gaps = x.copy()
    gaps[0, 2] = np.nan
    nodes = [
        node("Scaler", ["x"], ["scaled"], "ai.onnx.ml", offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5] * 4),
        *(node("Normalizer", ["x"], [f"norm{n}"], "ai.onnx.ml", norm=n) for n in ("MAX", "L1", "L2")),
        node("Imputer", ["gaps"], ["filled"], "ai.onnx.ml", replaced_value_float=float("nan"),
             imputed_value_floats=[9.0]),
        node("Binarizer", ["filled"], ["above"], "ai.onnx.ml", threshold=0.2),
        node("LinearRegressor", ["x"], ["line"], "ai.onnx.ml", coefficients=list(map(float, range(8))), targets=2,
             intercepts=[1.0, 2.0]),
        node("LabelEncoder", ["ids"], ["labels"], "ai.onnx.ml", keys_int64s=[1, 4, 3], values_floats=[0.5, 2.0, 1.0],
             default_float=-3.0),
        node("ArrayFeatureExtractor", ["x", "places"], ["some"], "ai.onnx.ml"),
        node("TreeEnsembleRegressor", ["gaps"], ["sum"], "ai.onnx.ml", n_targets=2, base_values=[0.5, -0.5], **trees),
        node("TreeEnsembleRegressor", ["gaps"], ["mean"], "ai.onnx.ml", n_targets=2, aggregate_function="AVERAGE",
             **trees),
    ]  # fmt: skip
    nodes.append(helper.make_node("Identity", ["filled"], ["filled_out"]))
    check(tmp_path, nodes, {"x": x, "gaps": gaps, "ids": ids}, {"places": np.array([2, 0])})


ML = "ai.onnx.ml"
ROOT = {
    "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_featureids": [0] * 3, "nodes_values": [0.1, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "nodes_hitrates": [1.0] * 3, "nodes_missing_value_tracks_true": [0] * 3,
}  # fmt: skip


@pytest.mark.parametrize("post", one_in(3, ["LOGISTIC", "NONE", "SOFTMAX"]))
def test_classifiers(tmp_path: Path, post: str) -> None:
    """Linear models and trees, with a score for each class or for one of two."""
    nodes: list[onnx.NodeProto] = []
    three = [0.4, 0.2, -0.4, -0.2, 0.1, 0.1]
    for rows, labels in ((1, [3, 4]), (2, [3, 4]), (3, [3, 4, 9])):
        results = [f"line{rows}", f"lines{rows}"]
        nodes.append(node("LinearClassifier", ["x"], results, ML, coefficients=three[: 2 * rows], post_transform=post,
                          intercepts=[0.1, -0.1, 0.0][:rows], classlabels_ints=labels))  # fmt: skip
    trees = [([n, n], weights, [0, 1], []) for n in (0, 1) for weights in ([0.2, 0.8], [-0.3, 0.7])]
    trees += [([0, 0], [-0.3, 0.7], [0, 1], [0.1]), ([0, 2, 1, 2], [-0.3, 0.7, 0.2, 0.1], [5, 6, 7], [0.0, 0.5, 0.25])]
    for n, (ids, weights, labels, start) in enumerate(trees):
        leaves = [1, 2] if len(ids) == 2 else [1, 1, 2, 2]
        nodes.append(node("TreeEnsembleClassifier", ["x"], [f"tree{n}", f"trees{n}"], ML, class_treeids=[0] * len(ids),
                          class_nodeids=leaves, class_ids=ids, class_weights=weights, classlabels_int64s=labels,
                          post_transform=post, **({"base_values": start} if start else {}), **ROOT))  # fmt: skip
    check(tmp_path, nodes, {"x": floats(20, 2)}, {}, {"x": ["batch", 2]})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"classlabels_strings": ["a", "b"]}, "its labels are strings: only integers are available"),
        ({"classlabels_int64s": None}, "it has no labels: classlabels_int64s has to list one for each class"),
        ({"base_values": [0.5]}, "its base_values are not available where leaves give the score of one of two classes"),
        ({"classlabels_int64s": [1, 2, 3], "base_values": [0.5]}, "it has 1 base_values for 3 classes: one for each"),
        ({"post_transform": "PROBIT"}, "its post_transform is PROBIT: NONE, LOGISTIC, SOFTMAX are available"),
    ],
)
def test_refused_trees_of_classes(given: dict[str, Any], why: str) -> None:
    labels = {} if "classlabels_strings" in given else {"classlabels_int64s": [0, 1]}
    given = {"class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [1, 1], "class_weights": [0.2, 0.8],
             **labels, **ROOT, **given}  # fmt: skip
    refused(node("TreeEnsembleClassifier", ["x"], ["y", "z"], ML, **given), why)


def test_refused_lines_of_classes() -> None:
    numbers = {"coefficients": [1.0, 2.0, 3.0, 4.0], "intercepts": [0.0, 1.0]}
    for labels, why in (([5, 6, 7], "it has 3 labels for 2 intercepts: one for each"), (None, "it has no labels")):
        refused(node("LinearClassifier", ["x"], ["y", "z"], ML, classlabels_ints=labels, **numbers), why)


def refused(
    one: onnx.NodeProto, why: str, kind: int = 1, shape: tuple[int, ...] = (4, 2), **constants: np.generic
) -> None:
    """Expect the reason why a node whose input x has this type and shape is refused."""
    given = helper.make_tensor_value_info("x", kind, shape)
    results = [helper.make_tensor_value_info(name, 1, None) for name in one.output]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([one], "g", [given], results, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(one.domain, 3 if one.domain == ML else 1)]
    with pytest.raises(numc.NumcError, match=why):
        numc.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8))


@pytest.mark.parametrize(
    ("operator", "domain", "why"),
    [
        ("ZipMap", ML, "it makes a dictionary of each row: convert the model without it .zipmap=False., or remove it"),
        ("ReorderOutput", f"{MS}.nchwc", "is of one processor: save the model with ORT_ENABLE_EXTENDED or less"),
    ],
)
def test_operators_that_files_need_not_have(operator: str, domain: str, why: str) -> None:
    refused(node(operator, ["x"], ["y"], domain), why, shape=(1, 2))


@pytest.mark.parametrize(
    ("strides", "why"),
    [
        ([2, 3], "may begin behind the image; use ceil_mode=0"),
        ([2], r"its attribute strides is \[2\]: it has to have 2 numbers"),
    ],
)
def test_refused_pooling_of_bytes(strides: list[int], why: str) -> None:
    pool = node("QLinearAveragePool", ["x", "s", "z", "s", "z"], ["y"], kernel_shape=[2, 2], strides=strides,
                ceil_mode=1, count_include_pad=1)  # fmt: skip
    refused(pool, why, kind=3, shape=(1, 1, 5, 5), s=np.float32(0.1), z=np.int8(0))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_layers_of_bytes(tmp_path: Path, direction: str) -> None:
    """DynamicQuantizeLSTM is the LSTM of quantised weights and of a quantised input, also for free steps.

    The weights have seven bits: onnxruntime adds products of bytes in pairs of 16 bits, which saturate, on processors
    without an instruction for four of them.
    """
    count, steps, width, hidden = (2 if direction == "bidirectional" else 1), 5, 6, 4
    x, rng = floats(steps, 1, width), np.random.default_rng(5)
    stored = {
        "w": rng.integers(-63, 64, (count, width, 4 * hidden)).astype(np.int8),
        "r": rng.integers(-63, 64, (count, hidden, 4 * hidden)).astype(np.int8),
        "b": floats(count, 8 * hidden),
        "ws": np.full(count, 0.008, np.float32), "rs": np.full(count, 0.01, np.float32),
        "wz": np.zeros(count, np.int8), "rz": np.zeros(count, np.int8),
    }  # fmt: skip
    given = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    made = node("DynamicQuantizeLSTM", given, ["y", "h"], hidden_size=hidden, direction=direction)
    kinds = [helper.make_tensor_value_info("x", 1, ["t", 1, width])]
    outputs = [helper.make_empty_tensor_value_info(name) for name in "yh"]
    constants = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    graph = helper.make_graph([made], "g", kinds, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "q.onnx")
    # The same by onnxruntime in float32, on what the quantised numbers stand for.
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = np.float32((np.float32(high) - np.float32(low)) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    seen = ((np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale).astype(np.float32)
    real = {
        n: stored[n].transpose(0, 2, 1) * factor for n, factor in (("w", np.float32(0.008)), ("r", np.float32(0.01)))
    }
    real["b"] = stored["b"]
    plain = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h"], hidden_size=hidden, direction=direction)
    graph = helper.make_graph([plain], "g", kinds, outputs, [numpy_helper.from_array(v, n) for n, v in real.items()])
    reference = helper.make_model(graph, opset_imports=opsets[:1], ir_version=8)
    wants = onnxruntime.InferenceSession(reference.SerializeToString()).run(None, {"x": seen})
    got = numc.compile(tmp_path / "q.onnx").by_name({"x": x})
    for name, want in zip("yh", wants, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=name)
    # onnxruntime quantises the state, too: a step of 1/127.
    theirs = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, {"x": x})
    np.testing.assert_allclose(got["y"], theirs[0], atol=0.03)
