"""Write a ResNet-50 with random weights of sensible size, and an image for it: RESNET.onnx IMAGE.npz [--seed N].

The network is light_resnet50 of the onnx package, which has the structure and constant weights. Here convolutions get
the initialisation of He, and batch normalisations get the moments that four other random images have there, as if they
had learned them. Images are noise with mean 0 and standard deviation 1 that is equally strong in every octave, as
photographs are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.backend.test
from onnx import helper, numpy_helper

import numc

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light" / "light_resnet50.onnx"
CALIBRATION = 4  # how many images

F32Array = npt.NDArray[np.float32]


def image(shape: tuple[int, ...], rng: np.random.Generator) -> F32Array:
    """Return noise of `shape` (1, channels, size, size), equally strong in all octaves; channels share most of it."""
    _, channels, size, _ = shape
    pixels = np.zeros((channels, size, size))
    for octave in (7, 14, 28, 56, 112, 224):
        cells = rng.standard_normal((channels, octave, octave)) * 0.4 + rng.standard_normal((octave, octave))
        repeat = -(-size // octave)
        pixels += np.kron(cells, np.ones((repeat, repeat)))[:, :size, :size]
    centred = pixels - pixels.mean((1, 2), keepdims=True)
    return np.asarray(centred / centred.std((1, 2), keepdims=True), np.float32)[None]


def initialise(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Make weights random by He and batch normalisations the identity; name convolutions after their weights."""
    graph = model.graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {node.output[0]: tuple(map(int, stored[node.input[0]])) for node in _nodes(graph, "ConstantOfShape")}
    weights: dict[str, F32Array] = {name: np.zeros(shape, np.float32) for name, shape in made.items()}
    for node in _nodes(graph, "Conv", "Gemm"):
        weight = node.input[1]
        fan_in = int(np.prod(made[weight][1:]))
        gain = 2.0 if node.op_type == "Conv" else 1.0
        weights[weight] = (rng.standard_normal(made[weight]) * np.sqrt(gain / fan_in)).astype(np.float32)
        node.name = weight.split("/")[-1].removesuffix("_w_0")
    for node in _nodes(graph, "BatchNormalization"):
        channels = [made[name] if name in made else stored[name].shape for name in node.input[1:]]
        weights |= {name: np.zeros(shape, np.float32) for name, shape in zip(node.input[1:], channels, strict=True)}
        for name in (node.input[1], node.input[4]):
            weights[name] = np.ones_like(weights[name])
    _replace(graph.node, [node for node in graph.node if node.op_type != "ConstantOfShape"])
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used and tensor.name not in weights]
    _replace(graph.initializer, kept + [numpy_helper.from_array(value, name) for name, value in weights.items()])
    constant = {tensor.name for tensor in graph.initializer}
    _replace(graph.input, [value for value in graph.input if value.name not in constant and value.name in used])
    model.ir_version = max(model.ir_version, 4)  # the first in which stored tensors need not be inputs


def calibrate(model: onnx.ModelProto, images: list[F32Array]) -> None:
    """Give every batch normalisation the mean and the variance of its input over `images`."""
    probe = onnx.ModelProto.FromString(model.SerializeToString())
    graph, nodes = probe.graph, list[onnx.NodeProto]()
    norms = _nodes(model.graph, "BatchNormalization")
    for node in graph.node:
        nodes += _batch_statistics(node) if node.op_type == "BatchNormalization" else [node]
    _replace(graph.node, nodes)
    for norm in norms:
        for kind in ("mean", "variance"):
            graph.output.append(helper.make_tensor_value_info(f"{norm.output[0]}.{kind}", onnx.TensorProto.FLOAT, None))
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(onnx.shape_inference.infer_shapes(probe), Path(folder) / "probe.onnx")
        program: Any = numc.compile(Path(folder) / "probe.onnx")
        found = [program(x) for x in images]
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for norm in norms:
        means = np.array([np.ravel(each[f"{norm.output[0]}.mean"]) for each in found], np.float64)
        variances = np.array([np.ravel(each[f"{norm.output[0]}.variance"]) for each in found], np.float64)
        mean = means.mean(0)
        variance = (variances + means**2).mean(0) - mean**2
        for name, value in ((norm.input[3], mean), (norm.input[4], variance)):
            tensors[name].CopyFrom(numpy_helper.from_array(value.astype(np.float32), name))


def _batch_statistics(norm: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Nodes that normalise by the moments of the batch itself, and name these."""
    x, y = norm.input[0], norm.output[0]
    epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
    small = helper.make_tensor(f"{y}.epsilon", onnx.TensorProto.FLOAT, [1], [epsilon])
    axes = {"axes": [0, 2, 3], "keepdims": 1}
    return [
        helper.make_node("Constant", [], [f"{y}.small"], value=small),
        helper.make_node("ReduceMean", [x], [f"{y}.mean"], **axes),
        helper.make_node("Sub", [x, f"{y}.mean"], [f"{y}.centred"]),
        helper.make_node("Mul", [f"{y}.centred", f"{y}.centred"], [f"{y}.squares"]),
        helper.make_node("ReduceMean", [f"{y}.squares"], [f"{y}.variance"], **axes),
        helper.make_node("Add", [f"{y}.variance", f"{y}.small"], [f"{y}.sum"]),
        helper.make_node("Sqrt", [f"{y}.sum"], [f"{y}.deviation"]),
        helper.make_node("Div", [f"{y}.centred", f"{y}.deviation"], [y]),
    ]


def _nodes(graph: onnx.GraphProto, *kinds: str) -> list[onnx.NodeProto]:
    return [node for node in graph.node if node.op_type in kinds]


def _replace(field: Any, values: list[Any]) -> None:
    """Replace the messages of a repeated field."""
    copies = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(copies)


def main() -> int:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="RESNET.onnx")
    parser.add_argument("image", type=Path, metavar="IMAGE.npz")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    model = onnx.load(LIGHT)
    initialise(model, rng)
    value = model.graph.input[0]
    shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    calibrate(model, [image(shape, rng) for _ in range(CALIBRATION)])
    onnx.save(model, args.model)
    np.savez(args.image, **{value.name: image(shape, rng)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
