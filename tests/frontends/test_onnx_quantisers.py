"""Models as onnxruntime's quantisers write them: bits are those of onnxruntime's graph without its fusions.

Where a network ends in sums or functions of floats, it is quantised at its end, or the comparison says how far off.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc

onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
Array = np.ndarray[Any, Any]
Made = tuple[onnx.ModelProto, dict[str, Array]]
node = helper.make_node


def _normal(*shape: int) -> Array:
    random = np.random.default_rng(sum(shape) + len(shape))
    return (random.standard_normal(shape) / max(1, np.sqrt(np.prod(shape[1:])))).astype(np.float32)


def _model(nodes: list[Any], weights: dict[str, Array], x: Array, shape: list[int]) -> onnx.ModelProto:
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", number, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def cnn() -> Made:
    """Convolutions of several kinds, pools, joins, a gate, and a classifier."""
    weights = {"w1": _normal(8, 3, 3, 3), "b1": _normal(8), "w2": _normal(8, 1, 3, 3), "b2": _normal(8),
               "w3": _normal(8, 8, 1, 1), "w4": _normal(10, 16), "b4": _normal(10)}  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4, strides=[2, 2]), node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1] * 4, group=8), node("LeakyRelu", ["c2"], ["r2"], alpha=0.1),
        node("Conv", ["r2", "w3"], ["c3"]), node("Add", ["c3", "r1"], ["a"]),
        node("MaxPool", ["a"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["m", "p"], ["j"], axis=1), node("Sigmoid", ["j"], ["s"]), node("Mul", ["j", "s"], ["g"]),
        node("GlobalAveragePool", ["g"], ["q"]), node("Flatten", ["q"], ["f"]),
        node("Gemm", ["f", "w4", "b4"], ["y"], transB=1),
    ]  # fmt: skip
    x = _normal(4, 3, 16, 16) * 25
    return _model(nodes, weights, x, [4, 10]), {"x": x}


def mlp() -> Made:
    """Products of matrices with and without biases."""
    weights = {
        "w1": _normal(32, 16),
        "b1": _normal(32),
        "w2": _normal(32, 24),
        "w3": _normal(10, 24),
        "b3": _normal(10),
    }
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["g"], transB=1), node("Relu", ["g"], ["r"]),
        node("MatMul", ["r", "w2"], ["m"]), node("Relu", ["m"], ["t"]),
        node("Gemm", ["t", "w3", "b3"], ["y"], transB=1),
    ]  # fmt: skip
    x = _normal(5, 16) * 4
    return _model(nodes, weights, x, [5, 10]), {"x": x}


def lstm() -> Made:
    """An LSTM in both directions and a product behind it."""
    weights = {"w": _normal(2, 32, 6), "r": _normal(2, 32, 8), "b": _normal(2, 64), "v": _normal(16, 5),
               "c": _normal(5), "sizes": np.array([7, 3, 16])}  # fmt: skip
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["h"], hidden_size=8, direction="bidirectional"),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]), node("Reshape", ["t", "sizes"], ["s"]),
        node("MatMul", ["s", "v"], ["m"]), node("Add", ["m", "c"], ["y"]),
    ]  # fmt: skip
    x = _normal(7, 3, 6) * 4
    return _model(nodes, weights, x, [7, 3, 5]), {"x": x}


def transformer() -> Made:
    """An encoder's block with four heads."""
    width, heads = 32, 4
    weights = {"e": _normal(20, width) * 5, **{f"w{n}": _normal(width, width) for n in "qkvo"}, "bo": _normal(width),
               "g": np.ones(width, np.float32), "z": _normal(width) / 10, "w1": _normal(width, 64), "b1": _normal(64),
               "w2": _normal(64, width), "head": _normal(width, 20), "split": np.array([2, 6, heads, width // heads]),
               "join": np.array([2, 6, width]), "scale": np.float32(8**-0.5)}  # fmt: skip
    nodes = [node("Gather", ["e", "x"], ["h"]), node("LayerNormalization", ["h", "g", "z"], ["n"], axis=-1)]
    for name in "qkv":
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [node("MatMul", ["n", f"w{name}"], [f"p{name}"]), node("Reshape", [f"p{name}", "split"], [f"s{name}"]),
                  node("Transpose", [f"s{name}"], [f"t{name}"], perm=order)]  # fmt: skip
    nodes += [
        node("MatMul", ["tq", "tk"], ["d"]), node("Mul", ["d", "scale"], ["ds"]),
        node("Softmax", ["ds"], ["p"], axis=-1),
        node("MatMul", ["p", "tv"], ["c"]), node("Transpose", ["c"], ["ct"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ct", "join"], ["cr"]), node("MatMul", ["cr", "wo"], ["o"]), node("Add", ["o", "bo"], ["ob"]),
        node("Add", ["ob", "h"], ["h1"]), node("MatMul", ["h1", "w1"], ["f"]), node("Add", ["f", "b1"], ["fb"]),
        node("Gelu", ["fb"], ["u"]), node("MatMul", ["u", "w2"], ["f2"]), node("Add", ["f2", "h1"], ["h2"]),
        node("MatMul", ["h2", "head"], ["y"]),
    ]  # fmt: skip
    return _model(nodes, weights, np.zeros((2, 6), np.int64), [2, 6, 20]), {
        "x": np.random.default_rng(0).integers(0, 20, (2, 6))
    }


NETWORKS: dict[str, Callable[[], Made]] = {"cnn": cnn, "mlp": mlp, "lstm": lstm, "transformer": transformer}
Scheme = tuple[str, str, str, bool, bool, tuple[tuple[str, Any], ...]]
STATIC: list[Scheme] = [
    *itertools.product(("QDQ", "QOperator"), ("QUInt8",), ("QInt8", "QUInt8"), (False, True), (False,), ((),)),
    *itertools.product(("QDQ", "QOperator"), ("QInt8",), ("QInt8",), (False, True), (False,), ((),)),
    *itertools.product(("QDQ",), ("QUInt16", "QInt16", "QUInt8"), ("QInt4", "QUInt4"), (True,), (False,), ((),)),
    *itertools.product(("QDQ",), ("QUInt16", "QInt16"), ("QInt8", "QInt16"), (False, True), (False,), ((),)),
    *itertools.product(("QDQ", "QOperator"), ("QUInt8",), ("QInt8",), (True,), (True,), ((),)),
    *(
        ("QDQ", "QInt8", "QInt8", False, False, options)
        for options in (
            (("ActivationSymmetric", True),),
            (("ActivationSymmetric", True), ("WeightSymmetric", False)),
            (("UseQDQContribOps", True),),
            (("DedicatedQDQPair", True), ("QDQOpTypePerChannelSupportToAxis", {"MatMul": 1})),
            (("AddQDQPairToWeight", True),),
            (("QuantizeBias", False),),
        )
    ),
]
"""Format, type of activations and of weights, whether by channel, whether of 7 bits, options."""


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: dict[str, Array]) -> None:
        self.feeds = iter([feeds])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def _static(folder: Path, name: str, scheme: Scheme) -> tuple[Path, dict[str, Array]]:
    form, activations, weights, by_channel, reduced, options = scheme
    model, feeds = NETWORKS[name]()
    onnx.save(model, folder / "float.onnx")
    quantization.quantize_static(
        folder / "float.onnx",
        folder / "q.onnx",
        _Reader(feeds),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType[weights],
        per_channel=by_channel,
        reduce_range=reduced,
        extra_options=dict(options),
    )
    return folder / "q.onnx", feeds


def _far(file: Path, feeds: dict[str, Array]) -> float:
    """Return how far numc's results are from onnxruntime's of the graph as it is written, of the largest."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(file, options).run(None, feeds)
    found = numc.compile(file).by_name(feeds)["y"]
    assert found.shape == want.shape
    return float(np.abs(found - want).max() / np.abs(want).max())


def _of_floats(name: str, scheme: Scheme) -> float:
    """How far off a network may be whose layers are products of floats that float32 does not hold exactly.

    Of numbers of 16 bits the sums are rounded, in another order than onnxruntime's; that may move a rounding by a step.
    """
    return 2**-14 if "16" in scheme[1] or "16" in scheme[2] else 0.0


@pytest.mark.all
@pytest.mark.parametrize(("name", "scheme"), [*zip(("cnn", "transformer", "lstm"), STATIC[::10], strict=False)])
def test_some_static_schemes(tmp_path: Path, name: str, scheme: Scheme) -> None:
    file, feeds = _static(tmp_path, name, scheme)
    assert _far(file, feeds) <= _of_floats(name, scheme)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", STATIC, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_all_static_schemes(tmp_path: Path, name: str, scheme: Scheme) -> None:
    file, feeds = _static(tmp_path, name, scheme)
    assert _far(file, feeds) <= _of_floats(name, scheme)


def _dynamic(folder: Path, name: str, weights: str, by_channel: bool, reduced: bool) -> tuple[Path, dict[str, Array]]:
    model, feeds = NETWORKS[name]()
    onnx.save(model, folder / "float.onnx")
    quantization.quantize_dynamic(
        folder / "float.onnx",
        folder / "q.onnx",
        weight_type=quantization.QuantType[weights],
        per_channel=by_channel,
        reduce_range=reduced,
    )
    return folder / "q.onnx", feeds


@pytest.mark.all
def test_a_dynamic_scheme(tmp_path: Path) -> None:
    """Its layers are integers, and what is between them are maxima and Relu, so that every bit is equal."""
    assert _far(*_dynamic(tmp_path, "mlp", "QInt8", True, False)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "mlp", "transformer"])
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("reduced", [False, True])
def test_all_dynamic_schemes(tmp_path: Path, name: str, weights: str, by_channel: bool, reduced: bool) -> None:
    """The scale is that of the largest, so that the last bit of a Sigmoid or a Softmax is in all results behind it."""
    far = _far(*_dynamic(tmp_path, name, weights, by_channel, reduced))
    assert far <= {"mlp": 0, "cnn": 1e-6, "transformer": 5e-2}[name]


@pytest.mark.all
@pytest.mark.parametrize(("form", "bits"), [("QOperator", 4), ("QDQ", 4), ("QOperator", 8)])
def test_weights_of_few_bits(tmp_path: Path, form: str, bits: int) -> None:
    """The quantiser of MatMul weights in blocks, as MatMulNBits or as DequantizeLinear with blocks."""
    pytest.importorskip("onnx_ir")  # which the quantiser imports
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    model, feeds = transformer()
    config = DefaultWeightOnlyQuantConfig(
        block_size=16, is_symmetric=bits == 4, bits=bits, quant_format=quantization.QuantFormat[form]
    )
    quantizer = MatMulNBitsQuantizer(model, algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(str(tmp_path / "q.onnx"))
    kinds = {each.op_type for each in onnx.load(tmp_path / "q.onnx").graph.node}
    assert ("MatMulNBits" if form == "QOperator" else "DequantizeLinear") in kinds
    assert _far(tmp_path / "q.onnx", feeds) <= 1e-6
