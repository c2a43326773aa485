"""Times of quantised layers and networks, against onnxruntime, and of layers against loops over integers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import numc
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models import graphs
from benchmarks.models.architectures import network
from benchmarks.peers.peers import exported, onnxruntime_call

Row = dict[str, Any]

#: The rows, the depth and the columns of products with a weight.
PRODUCTS = ((1, 512, 1024), (16, 512, 1024), (200, 512, 1024), (200, 2048, 512))
#: Channels, filters, size of the image, size of the window, and groups of convolutions.
CONVOLUTIONS = ((64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (96, 96, 56, 3, 96), (512, 512, 7, 3, 1))
#: Networks quantised by onnxruntime: with scales of activations that data has fixed, or that each run finds.
STATIC, DYNAMIC = ("ResNet-50", "MobileNetV3-L"), ("BERT-base, 128 tokens", "DeiT-Ti")


def quantised(seconds: float, quick: bool) -> list[Row]:
    """Time each layer on one thread."""
    rows = []
    with graphs.folder() as folder:
        for name, path, feeds in _layers(Path(folder), quick):
            program = numc.compile(path)
            with _without("integer-products"):
                loops = numc.compile(path)
            calls: dict[str, Call] = {
                "numc": lambda p=program, f=feeds: p(f, threads=1),
                "loops": lambda p=loops, f=feeds: p(f, threads=1),
                "onnxruntime": onnxruntime_call(path, feeds),
            }
            rows.append(_row(name, calls, seconds))
        for name, path, feeds in () if quick else _networks(Path(folder)):
            program = numc.compile(path)
            calls = {
                "numc": lambda p=program, f=feeds: p(f, threads=1),
                "onnxruntime": onnxruntime_call(path, feeds),
            }
            rows.append(_row(name, calls, 4 * seconds))
    return rows


def models(folder: Path) -> Iterator[tuple[str, Path, graphs.Feeds]]:
    """The name, the file and the inputs of each layer and network."""
    yield from _layers(folder, quick=False)
    yield from _networks(folder)


def _layers(folder: Path, quick: bool) -> Iterator[tuple[str, Path, graphs.Feeds]]:
    layers = [*(_product(*sizes) for sizes in PRODUCTS), *(_convolution(*sizes) for sizes in CONVOLUTIONS)]
    for number, (name, node, image, constants) in enumerate(layers[:2] if quick else layers):
        path = folder / f"{number}.onnx"
        _save(node, image, constants, path)
        yield name, path, {"x": image}


def _networks(folder: Path) -> Iterator[tuple[str, Path, graphs.Feeds]]:
    for name in (*STATIC, *DYNAMIC):
        yield f"{name}, {'static' if name in STATIC else 'dynamic'}", *_network(name, folder)


def _row(name: str, calls: dict[str, Call], seconds: float) -> Row:
    timings = in_turns(calls, seconds=seconds)
    times = {f"{who}_seconds": timing.best for who, timing in timings.items()}
    return {"layer": name, "loops_seconds": None, **times, "ratio": ratio(timings, "numc", "onnxruntime")}


def _network(name: str, folder: Path) -> tuple[Path, graphs.Feeds]:
    """Write a network that onnxruntime has quantised; returns the file and its inputs."""
    plain, feeds = exported(*network(name, 1), folder / "plain.onnx")
    path = folder / "quantised.onnx"
    if name in DYNAMIC:
        quantize_dynamic(plain, path, weight_type=QuantType.QInt8)
        return path, feeds
    quant_pre_process(plain, folder / "inferred.onnx", skip_symbolic_shape=True)
    bytes_ = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QUInt8, "per_channel": True}
    quantize_static(folder / "inferred.onnx", path, _Once(feeds), quant_format=QuantFormat.QOperator, **bytes_)
    return path, feeds


class _Once(CalibrationDataReader):
    """One batch of data."""

    def __init__(self, feeds: graphs.Feeds) -> None:
        self._feeds: graphs.Feeds | None = feeds

    def get_next(self) -> graphs.Feeds | None:
        """Return the batch, and then nothing."""
        feeds, self._feeds = self._feeds, None
        return feeds


@contextmanager
def _without(switch: str) -> Iterator[None]:
    before = os.environ.get("NUMC_DISABLE")
    os.environ["NUMC_DISABLE"] = switch
    try:
        yield
    finally:
        os.environ.pop("NUMC_DISABLE")
        if before is not None:
            os.environ["NUMC_DISABLE"] = before


def _product(m: int, k: int, n: int) -> tuple[str, onnx.NodeProto, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    constants = {"w": rng.integers(-127, 128, (k, n)).astype(np.int8), "xz": np.uint8(113), "wz": np.int8(0)}
    node = helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])
    return f"MatMulInteger {m}x{k}x{n}", node, rng.integers(0, 256, (m, k)).astype(np.uint8), constants


def _convolution(
    channels: int, filters: int, size: int, window: int, groups: int
) -> tuple[str, onnx.NodeProto, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(120),
        "w": rng.integers(-127, 128, (filters, channels // groups, window, window)).astype(np.int8),
        "ws": rng.uniform(0.001, 0.01, filters).astype(np.float32), "wz": np.zeros(filters, np.int8),
        "ys": np.float32(0.3), "yz": np.uint8(128), "b": rng.integers(-1000, 1000, filters).astype(np.int32),
    }  # fmt: skip
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", inputs, ["y"], pads=[window // 2] * 4, group=groups)
    prefix = "depthwise " if groups > 1 else ""
    name = f"QLinearConv {prefix}{window}x{window}, {channels} to {filters}, {size}x{size}"
    return name, node, rng.integers(0, 256, (1, channels, size, size)).astype(np.uint8), constants


def _save(node: onnx.NodeProto, image: np.ndarray, constants: dict[str, np.ndarray], path: Path) -> None:
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    image_info = helper.make_tensor_value_info("x", TensorProto.UINT8, image.shape)
    graph = helper.make_graph([node], "g", [image_info], [helper.make_empty_tensor_value_info("y")], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
