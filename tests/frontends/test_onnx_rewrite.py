"""Nodes that torch-mlir would lower to something else than ONNX defines give onnxruntime's results or are refused.

Many of them are one model, because each compilation takes a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import numc
from tiers import by_default

Array = np.ndarray[Any, Any]
CEIL: dict[str, Any] = {"ceil_mode": 1}


def model_of(tmp_path: Path, nodes: list[onnx.NodeProto], feeds: dict[str, Array], *, free: bool = False,
             constants: dict[str, Array] | None = None, opset: int = 18) -> Path:  # fmt: skip
    """A file with a model of which every value that no node reads is an output."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype),
                                      [f"{name}{d}" if free else size for d, size in enumerate(value.shape)])
        for name, value in feeds.items()
    ]  # fmt: skip
    read = {name for node in nodes for name in node.input}
    outputs = [helper.make_empty_tensor_value_info(o) for node in nodes for o in node.output if o and o not in read]
    stored = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def compare(path: Path, feeds: dict[str, Array]) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    wants = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    got = numc.compile(path).by_name(feeds)
    for name, want in wants.items():
        assert got[name].shape == want.shape, name
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=name)


def test_pools(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"s": (1, 2, 2, 2), "l": (1, 2, 7), "m": (2, 1, 4, 3), "o": (1, 1, 5, 6)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    pools = [
        *[("MaxPool", "s", dict(kernel_shape=[3, 3], strides=[2, 2], pads=p, **c))
          for p in ([1] * 4, [0, 0, 1, 1], [1, 1, 0, 0]) for c in ({}, CEIL)],
        ("MaxPool", "s", dict(kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER", **CEIL)),
        ("MaxPool", "m", dict(kernel_shape=[3, 3], strides=[3, 3], pads=[1, 0, 2, 2], **CEIL)),
        ("MaxPool", "l", dict(kernel_shape=[2], strides=[3], dilations=[2], **CEIL)),
        ("AveragePool", "l", dict(kernel_shape=[3], strides=[3], pads=[1, 0], count_include_pad=1, **CEIL)),
        ("AveragePool", "l", dict(kernel_shape=[3], strides=[3], pads=[1, 0], **CEIL)),
        ("AveragePool", "l", dict(kernel_shape=[4], strides=[2], auto_pad="VALID", count_include_pad=1, **CEIL)),
        ("AveragePool", "s", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1, **CEIL)),
        ("AveragePool", "m", dict(kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER", **CEIL)),
    ]  # fmt: skip
    nodes = [helper.make_node(op, [x], [f"y{n}"], **how) for n, (op, x, how) in enumerate(pools)]
    nodes.append(helper.make_node("MaxPool", ["o"], ["most", "where"], kernel_shape=[2, 3]))
    compare(model_of(tmp_path, nodes, feeds), feeds)


def test_depth_to_space(tmp_path: Path) -> None:
    """One channel that is left, as in networks for super-resolution, and several."""
    shapes = {"a": (1, 4, 2, 3), "b": (2, 8, 3, 2)}
    feeds = {name: np.arange(np.prod(s), dtype=np.float32).reshape(s) for name, s in shapes.items()}
    nodes = [
        helper.make_node("DepthToSpace", [name], [f"{name}{mode}"], blocksize=2, mode=mode)
        for name in feeds
        for mode in ("DCR", "CRD")
    ]
    compare(model_of(tmp_path, nodes, feeds), feeds)


def test_factors_of_gemm(tmp_path: Path) -> None:
    feeds = {name: np.random.default_rng(0).standard_normal(s).astype(np.float32) for name, s in
             {"a": (3, 4), "b": (4, 5), "c": (5,)}.items()}  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["a", "b"], ["without"], alpha=0.5, beta=0.25),
        helper.make_node("Gemm", ["a", "b", ""], ["empty"], alpha=0.5),
        helper.make_node("Gemm", ["a", "b", "c"], ["both"], alpha=0.5, beta=0.25),
    ]
    compare(model_of(tmp_path, nodes, feeds), feeds)


def test_free_sizes_and_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    x[0, 0, 0, :3] = np.nan, -0.0, -2.0
    feeds = {"x": x, "z": rng.standard_normal((2, 3, 4)).astype(np.float32),
             "i": np.array([-3, 0, 7]), "f": np.float32([3e9, -3e9, 1e20, np.nan, -1.5, 300.0])}  # fmt: skip
    constants = {"scale": np.float32([1, 2, 3]), "bias": np.float32([3, 2, 1])}
    nodes = [
        helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["images"], epsilon=0.01),
        helper.make_node("InstanceNormalization", ["z", "scale", "bias"], ["rows"]),
        helper.make_node("Sign", ["x"], ["sign"]),
        helper.make_node("Sign", ["i"], ["whole"]),
        helper.make_node("Cast", ["f"], ["i32"], to=TensorProto.INT32),
        helper.make_node("Cast", ["f"], ["i64"], to=TensorProto.INT64),
    ]
    compare(model_of(tmp_path, nodes, feeds, free=True, constants=constants), feeds)


@pytest.mark.all
def test_operators_that_onnx_defines_by_others(tmp_path: Path) -> None:
    """Cases of ONNX's own suite, of operators that torch-mlir does not lower or lowers wrongly."""
    cases = {case.name: case for case in collect_testcases(None)}
    for name in (
        "test_rms_normalization_3d_axis_negative_2_epsilon",
        "test_rotary_embedding_interleaved",
        "test_mvn",
        "test_group_normalization_epsilon",
        "test_sce_mean_weight_ii_3d_log_prob",
        "test_attention_4d_with_qk_matmul_softcap",
    ):
        case = cases[name]
        onnx.save(case.model, tmp_path / "case.onnx")
        ((inputs, outputs),) = case.data_sets
        found = numc.compile(tmp_path / "case.onnx").by_name(
            {i.name: np.asarray(value) for i, value in zip(case.model.graph.input, inputs, strict=True)}
        )
        for output, want in zip(case.model.graph.output, outputs, strict=True):
            np.testing.assert_allclose(found[output.name], want, rtol=1e-3, atol=1e-5, err_msg=name)
    layers = [row["kind"] for row in numc.explain(tmp_path / "case.onnx").layers]
    assert "attention" in layers


def test_the_k_of_a_run(tmp_path: Path) -> None:
    """TopK with k as an input: along the first dimension and the last."""
    x = np.random.default_rng(0).permutation(24).reshape(4, 6).astype(np.float32)
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"], name="rows"),
        helper.make_node("TopK", ["x", "k"], ["w", "j"], name="columns", axis=0, largest=0),
    ]
    feeds = {"x": x, "k": np.array([3], np.int64)}
    compare(model_of(tmp_path, nodes, feeds), feeds)
    program = numc.compile(tmp_path / "m.onnx")
    for k in (7, 5, -1, -3):  # 5: more than the columns have
        with pytest.raises(numc.NumcError, match="a reshape does not keep the number of elements .in "):
            program(x, np.array([k], np.int64))


def test_resizing_before_it_had_attributes(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) ** 2
    nodes = [
        helper.make_node("Upsample", ["x", "s"], ["linear"], mode="linear"),
        helper.make_node("Upsample", ["x", "s"], ["nearest"], mode="nearest"),
    ]
    file = model_of(tmp_path, nodes, {"x": x}, constants={"s": np.float32([1, 1, 2, 1.5])}, opset=9)
    compare(file, {"x": x})


def test_refused_nodes_are_all_listed(tmp_path: Path) -> None:
    x = {name: np.ones(shape, np.float32) for name, shape in {"a": (2, 1, 4), "b": (1, 2, 2, 2)}.items()}
    nodes = [
        helper.make_node("MaxPool", ["a"], ["p", "q"], name="places", kernel_shape=[2]),
        helper.make_node("MaxPool", ["a"], ["c"], name="up", kernel_shape=[2], **CEIL),
        helper.make_node("GridSample", ["b", "b"], ["g"], name="grid", mode="cube"),
        helper.make_node("ArgMin", ["a"], ["l"], name="last", select_last_index=1),
        helper.make_node("Bernoulli", ["a"], ["r"], name="coin"),
        helper.make_node("RNN", ["a", "w", "w"], ["h"], name="bound", hidden_size=4, clip=1.0),
        helper.make_node("RNN", ["a", "w", "w"], ["k"], name="leaky", hidden_size=4, activations=["LeakyRelu"]),
        helper.make_node("LSTM", ["a", "v", "v", "", "", "", "", "u"], ["m"], name="peep", hidden_size=4),
        helper.make_node("Split", ["a", "parts"], ["s"], name="far", axis=7),
        helper.make_node("Split", ["a", "parts"], ["y"], name="words", axis="last"),
        *(helper.make_node("Cast", [name], [name * 2], to=TensorProto.FLOAT) for name in "sy"),
    ]
    constants = {"w": np.ones((1, 4, 4), np.float32), "v": np.ones((1, 16, 4), np.float32),
                 "u": np.ones((1, 12), np.float32), "parts": np.array([1, 3])}  # fmt: skip
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(model_of(tmp_path, nodes, x, free=True, constants=constants))
    reasons = {
        "'places' (MaxPool": "it is available for images of fixed sizes only: give shapes={...} or --shape",
        "'up' (MaxPool": "ceil_mode is available for images of fixed sizes only: give shapes={...} or --shape",
        "'grid' (GridSample": "its mode 'cube' with padding_mode 'zeros' is none that ONNX has",
        "'last' (ArgMin": "select_last_index is available along dimensions of fixed size only",
        "'coin' (Bernoulli": "draws random numbers: give them to the model as an input",
        "'bound' (RNN": "its attribute clip is not available",
        "'leaky' (RNN": "the activation LeakyRelu is not available, only Relu, Sigmoid, Tanh",
        "'peep' (LSTM": "its peephole weights P are not available",
        "'far' (Split": "its axis 7 is none of the 3 of its input",
        "'words' (Split": "its attribute axis is of another type than ONNX defines",
    }
    listed = "; ".join(f"node {node}, opset 18): {reason}" for node, reason in reasons.items())
    assert str(caught.value).endswith(f": 10 nodes cannot be compiled: {listed}")


@pytest.mark.parametrize("operator", by_default(["LSTM", "GRU", "RNN"], ["RNN"]))
def test_lengths_of_sequences(tmp_path: Path, operator: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((5, 2, 3)).astype(np.float32)}
    constants = {"w": rng.standard_normal((1, 4 * gates, 3)).astype(np.float32),
                 "r": rng.standard_normal((1, 4 * gates, 4)).astype(np.float32), "n": np.int32([5, 5])}  # fmt: skip
    node = helper.make_node(operator, ["x", "w", "r", "", "n"], ["y"], name="cells", hidden_size=4)
    compare(model_of(tmp_path, [node], feeds, constants=constants), feeds)
    short = model_of(tmp_path, [node], feeds, constants={**constants, "n": np.int32([5, 3])})
    with pytest.raises(numc.NumcError, match="sequence_lens is available only as a constant that equals the full"):
        numc.compile(short)


def test_rewritten_nodes_take_free_sizes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"x": (2, 3, 5, 4), "g": (2, 3, 3, 2), "t": (6, 2, 3), "m": (2, 3, 4), "v": (4,), "s": (2, 8, 1)}
    feeds: dict[str, Array] = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    constants = {
        "w": rng.standard_normal((2, 16, 3)).astype(np.float32),
        "r": rng.standard_normal((2, 16, 4)).astype(np.float32),
        "minus": np.array([-1]), "before": np.array([-(2**63)]), "last": np.array([2]), "axis": np.array(-2),
    }  # fmt: skip
    nodes = [
        *[helper.make_node("GridSample", ["x", "g"], [f"{mode}_{padding}{aligned}"], mode=mode, padding_mode=padding,
                           align_corners=aligned)
          for mode, padding, aligned in (("linear", "zeros", 0), ("cubic", "border", 1), ("nearest", "reflection", 0))],
        helper.make_node("Slice", ["m", "minus", "before", "last", "minus"], ["backwards"]),
        helper.make_node("LSTM", ["t", "w", "r"], ["both"], hidden_size=4, direction="bidirectional"),
        helper.make_node("MatMul", ["m", "v"], ["product"]),
        helper.make_node("LpNormalization", ["m"], ["unit"], axis=1),
    ]  # fmt: skip
    free = {"x": ["n", 3, "h", "w"], "g": ["n", "p", "q", 2], "t": ["l", 2, 3], "m": ["n", 3, "k"], "v": ["k"]}
    file = model_of(tmp_path, nodes, {name: feeds[name] for name in free}, constants=constants, opset=20)
    model = onnx.load(file)
    for value in model.graph.input:
        sizes = free[value.name]
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, sizes))
    onnx.save(model, file)
    compare(file, {name: feeds[name] for name in free})
