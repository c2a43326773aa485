"""The networks that are measured, for any batch size: two that are published or shipped, two made on the spot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

from benchmarks.models.graphs import Feeds, Graph

ROOT = Path(__file__).resolve().parents[2]
RESNET50 = Path(onnx.backend.test.__file__).parent / "data" / "light" / "light_resnet50.onnx"

#: Width, number of heads, sequence length and number of layers of the transformer encoder.
WIDTH, HEADS, LENGTH, DEPTH = 256, 4, 64, 6


def resnet50(batch: int, where: str) -> tuple[Path, Feeds]:
    """ResNet-50 of the onnx package: images of 224 x 224, batch normalisation as nodes, constant weights."""
    model = onnx.load(RESNET50)
    (image,) = (value for value in model.graph.input if value.name == "gpu_0/data_0")
    for value in (image, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT64 and list(numpy_helper.to_array(tensor)) == [1, 2048]:
            tensor.CopyFrom(numpy_helper.from_array(np.array([batch, 2048]), tensor.name))
    path = Path(where) / f"resnet50_{batch}.onnx"
    onnx.save(model, path)
    x = np.random.default_rng(0).standard_normal((batch, 3, 224, 224)).astype(np.float32)
    return path, {image.name: x}


def lstm(batch: int, where: str) -> tuple[Path, Feeds]:
    """The two-layer LSTM of examples/models with a fixed batch: 16 steps, 16 features, 32 cells."""
    model = onnx.load(ROOT / "examples/models/lstm.onnx")
    (x,) = model.graph.input
    x.type.tensor_type.shape.dim[0].dim_value = batch
    path = Path(where) / f"lstm_{batch}.onnx"
    onnx.save(model, path)
    return path, {x.name: np.random.default_rng(0).standard_normal((batch, 16, 16)).astype(np.float32)}


def mobilenet(batch: int, where: str) -> tuple[Path, Feeds]:
    """MobileNetV2 (Sandler et al. 2018, table 2) for 224 x 224, its batch normalisation folded as by exporters."""
    graph = Graph(f"mobilenet_{batch}")
    zero, six = graph.constant(0), graph.constant(6)

    def conv(
        x: str, channels: int, filters: int, size: int, *, stride: int = 1, group: int = 1, clip: bool = True
    ) -> str:
        weight = graph.weight((filters, channels // group, size, size), channels // group * size * size)
        bias = graph.weight((filters,), 100)
        x = graph.op("Conv", x, weight, bias, strides=[stride] * 2, pads=[size // 2] * 4, group=group)
        return graph.op("Clip", x, zero, six) if clip else x

    x, channels = conv(graph.input("x", (batch, 3, 224, 224)), 3, 32, 3, stride=2), 32
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, filters, count, first in blocks:
        for stride in (first, *[1] * (count - 1)):
            wide = channels * expansion
            y = conv(x, channels, wide, 1) if expansion > 1 else x
            y = conv(y, wide, wide, 3, stride=stride, group=wide)
            y = conv(y, wide, filters, 1, clip=False)
            x = graph.op("Add", x, y) if stride == 1 and channels == filters else y
            channels = filters
    x = graph.op("Flatten", graph.op("GlobalAveragePool", conv(x, channels, 1280, 1)))
    return graph.save(where, graph.op("Gemm", x, graph.weight((1280, 1000), 1280), graph.weight((1000,), 100)))


def transformer(batch: int, where: str) -> tuple[Path, Feeds]:
    """A pre-norm transformer encoder with GELU by erf; with random weights."""
    graph, w = Graph(f"transformer_{batch}"), transformer_weights()
    names = {key: graph.constant(value) for key, value in w.items()}
    head = WIDTH // HEADS
    split = graph.constant([0, 0, HEADS, head], np.int64)
    join = graph.constant([0, 0, WIDTH], np.int64)
    half, one, root2 = graph.constant(0.5), graph.constant(1), graph.constant(math.sqrt(2))
    scale = graph.constant(1 / math.sqrt(head))

    def dense(x: str, key: str) -> str:
        return graph.op("Add", graph.op("MatMul", x, names[key + "w"]), names[key + "b"])

    def norm(x: str, key: str) -> str:
        return graph.op("LayerNormalization", x, names[key + "g"], names[key + "b"], axis=-1, epsilon=1e-5)

    x = graph.input("x", (batch, LENGTH, WIDTH))
    for n in range(DEPTH):
        h = norm(x, f"{n}norm1")
        parts = [graph.op("Reshape", dense(h, f"{n}{part}"), split) for part in "qkv"]
        q, v = (graph.op("Transpose", parts[i], perm=[0, 2, 1, 3]) for i in (0, 2))
        k = graph.op("Transpose", parts[1], perm=[0, 2, 3, 1])
        weights = graph.op("Softmax", graph.op("Mul", graph.op("MatMul", q, k), scale), axis=-1)
        mixed = graph.op("Transpose", graph.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = graph.op("Add", x, dense(graph.op("Reshape", mixed, join), f"{n}out"))
        up = dense(norm(x, f"{n}norm2"), f"{n}up")
        erf = graph.op("Add", graph.op("Erf", graph.op("Div", up, root2)), one)
        x = graph.op("Add", x, dense(graph.op("Mul", graph.op("Mul", up, erf), half), f"{n}down"))
    return graph.save(where, norm(x, "norm"))


def transformer_weights() -> dict[str, np.ndarray]:
    """The random weights of the encoder by name: number of the layer, part, kind."""
    rng = np.random.default_rng(1)
    weights: dict[str, np.ndarray] = {}

    def norm(key: str) -> None:
        weights[key + "g"], weights[key + "b"] = np.ones(WIDTH), np.zeros(WIDTH)

    for n in range(DEPTH):
        norm(f"{n}norm1")
        norm(f"{n}norm2")
        for part in ("q", "k", "v", "out", "up", "down"):
            rows, columns = {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}.get(part, (WIDTH, WIDTH))
            weights[f"{n}{part}w"] = rng.standard_normal((rows, columns)) / math.sqrt(rows)
            weights[f"{n}{part}b"] = rng.standard_normal(columns) / 10
    norm("norm")
    return {key: value.astype(np.float32) for key, value in weights.items()}


MODELS: Mapping[str, Callable[[int, str], tuple[Path, Feeds]]] = {
    "light_resnet50": resnet50,
    "MobileNetV2": mobilenet,
    "transformer encoder": transformer,
    "LSTM": lstm,
}
