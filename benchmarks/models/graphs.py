"""ONNX models with random weights from a seed, made when they are needed: the repository holds no large files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.cases import Conv, Product

Feeds = dict[str, np.ndarray]


def folder() -> AbstractContextManager[str]:
    """A folder for model files, which is deleted at the end of the ``with`` block."""
    return tempfile.TemporaryDirectory(prefix="numc-benchmarks-")


class Graph:
    """A model under construction: each call appends a node and returns the name of its result."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs: Feeds = {}

    def input(self, name: str, shape: Sequence[int]) -> str:
        """Add a float32 input; the benchmark feeds it standard normal numbers."""
        self.inputs[name] = self.rng.standard_normal(shape).astype(np.float32)
        return name

    def weight(self, shape: Sequence[int], fan_in: int) -> str:
        """Add random weights that keep the scale of activations."""
        return self.constant(self.rng.standard_normal(shape) / np.sqrt(fan_in))

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Add an initializer."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def save(self, path: str | Path, output: str) -> tuple[Path, Feeds]:
        """Write the model with static shapes; returns its file and inputs."""

        def value(name: str, shape: Sequence[int] | None) -> Any:
            return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

        inputs = [value(name, array.shape) for name, array in self.inputs.items()]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, inputs, [value(output, None)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(model)
        path = Path(path) / f"{self.name}.onnx"
        onnx.save(model, path)
        return path, dict(self.inputs)


def matmul(product: Product, where: str) -> tuple[Path, Feeds, np.ndarray | None]:
    """One MatMul; returns the weight too, if there is one."""
    p = product
    graph = Graph(f"matmul_{p.batch}_{p.m}_{p.n}_{p.k}_{int(p.constant)}")
    leading = (p.batch,) if p.batch > 1 else ()
    a = graph.input("a", (*leading, p.m, p.k))
    b = graph.weight((p.k, p.n), p.k) if p.constant else graph.input("b", (*leading, p.k, p.n))
    path, feeds = graph.save(where, graph.op("MatMul", a, b))
    return path, feeds, graph.weights[b] if p.constant else None


def scalar(where: str) -> tuple[Path, Feeds]:
    """The sum of two numbers."""
    graph = Graph("scalar")
    return graph.save(where, graph.op("Add", graph.input("a", (1,)), graph.input("b", (1,))))


def conv(case: Conv, where: str) -> tuple[Path, Feeds]:
    """One convolution layer with bias."""
    c = case
    graph = Graph("conv_" + "".join(ch if ch.isalnum() else "_" for ch in c.name))
    x = graph.input("x", (1, c.channels, c.size, c.size))
    shape = (c.channels, c.filters // c.group) if c.transposed else (c.filters, c.channels // c.group)
    fan_in = c.channels // c.group * c.kernel**2
    w = graph.weight((*shape, c.kernel, c.kernel), fan_in)
    bias = graph.weight((c.filters,), 1)
    sizes = {"strides": [c.stride] * 2, "dilations": [c.dilation] * 2, "group": c.group, "pads": [c.padding] * 4}
    return graph.save(where, graph.op("ConvTranspose" if c.transposed else "Conv", x, w, bias, **sizes))
