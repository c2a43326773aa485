"""Quantised networks hold bytes between their layers, which changes not one bit of their results."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc
from numc.compiler.targets import TARGETS
from targets_here import HERE
from tiers import one_in, pairs

DTYPES = {"unsigned": np.uint8, "signed": np.int8}


class Layers:
    """Nodes of a network whose activations are bytes of one type."""

    def __init__(self, dtype: type) -> None:
        self.dtype, self.rng = dtype, np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: object, dtype: type) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, domain=domain, **attributes))
        return name

    def scale(self, scale: float, zero: int) -> tuple[str, str]:
        """A scale and a zero point: of signed bytes, 128 less."""
        zero -= 128 * (self.dtype is np.int8)
        return self.constant(scale, np.float32), self.constant(zero, self.dtype)

    def convolution(
        self, x: str, of_x: tuple[str, str], of_y: tuple[str, str], shape: tuple[int, ...], **attributes: object
    ) -> str:
        weights = self.constant(self.rng.integers(-127, 128, shape), np.int8)
        of_w = self.constant(self.rng.uniform(0.001, 0.01, shape[0]), np.float32)
        zeros = self.constant(np.zeros(shape[0]), np.int8)
        bias = self.constant(self.rng.integers(-1000, 1000, shape[0]), np.int32)
        return self.node("QLinearConv", x, *of_x, weights, of_w, zeros, *of_y, bias, **attributes)


def network(path: Path, dtype: type, free: bool) -> Path:
    """Convolutions with padding, strides and groups, a residual, a concatenation, and products with reshapes between.

    The image is 21x19: rows of it fill no vector. Attention multiplies two activations.
    """
    m = Layers(dtype)
    given, inner, last = m.scale(0.02, 120), m.scale(0.3, 128), m.scale(0.05, 0)
    x = m.node("QuantizeLinear", "x", *given)
    first = m.convolution(x, given, inner, (12, 5, 3, 3), pads=[1] * 4)
    second = m.convolution(first, inner, inner, (12, 12, 1, 1))
    joined = m.node("QLinearAdd", second, *inner, first, *inner, *inner, domain="com.microsoft")
    halved = m.convolution(joined, inner, last, (20, 12, 3, 3), pads=[0, 1, 1, 1], strides=[2, 2])
    beside = m.convolution(joined, inner, last, (8, 12, 1, 1), strides=[2, 2])
    cut = m.node("Slice", halved, *(m.constant([n], np.int64) for n in (0, 10, 2)))
    cut = m.node("Pad", cut, m.constant([0, 0, 0, 0, 0, 0, 1, 0], np.int64), m.constant(3, dtype))
    both = m.node("Concat", cut, beside, axis=1)
    deep = m.convolution(both, last, inner, (28, 1, 3, 3), pads=[1] * 4, group=28)
    pooled = m.node("MaxPool", deep, kernel_shape=[3, 3], strides=[2, 2])
    flat = m.node("Reshape", pooled, m.constant([0, 28, -1], np.int64))
    turned = m.node("Transpose", flat, perm=[0, 2, 1])
    scores = m.node("QLinearMatMul", flat, *inner, turned, *inner, *m.scale(40.0, 128))
    weights = m.constant(m.rng.integers(-127, 128, (28, 35)), np.int8)
    of_weights = m.constant(0.01, np.float32), m.constant(0, np.int8)
    mixed = m.node("QLinearMatMul", scores, *m.scale(40.0, 128), weights, *of_weights, *inner)
    y = m.node("DequantizeLinear", mixed, *inner)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n" if free else 2, 5, 21, 19])]
    outputs = [helper.make_empty_tensor_value_info(name) for name in (y, joined, scores)]
    graph = helper.make_graph(m.nodes, "g", inputs, outputs, m.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path / "m.onnx")
    return path / "m.onnx"


def image(batch: int) -> np.ndarray:
    return (2 * np.random.default_rng(batch).standard_normal((batch, 5, 21, 19))).astype(np.float32)


def reads_bytes(program: numc.Program) -> bool:
    return any(row["narrow"] for row in program.manifest["contractions"])


@pytest.mark.parametrize(("target", "case"), one_in(3, pairs(HERE, list(product(DTYPES, [False, True])))))
def test_the_same_bits(tmp_path: Path, target: str, case: tuple[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    kind, free = case
    file = network(tmp_path, DTYPES[kind], free)
    program = numc.compile(file, target=target)
    assert reads_bytes(program) == TARGETS[target].isa.masks
    for switches in ("byte-tensors", "byte-tensors,integer-products"):
        monkeypatch.setenv("NUMC_DISABLE", switches)
        wide = numc.compile(file, target=target)
        assert not reads_bytes(wide)
        for x in map(image, (1, 3) if free else (2,)):
            want = wide.by_name({"x": x})
            for threads in (1, 2):
                got = program.by_name({"x": x}, threads=threads)
                assert got.keys() == want.keys()
                assert all(np.array_equal(got[name], want[name]) for name in want)
        monkeypatch.delenv("NUMC_DISABLE")


@pytest.mark.parametrize("off", one_in(8, ["fuse-last", "fuse-elementwise", "transposed-tiles", "write-over", "fast"]))
def test_without_what_comes_beside_it(tmp_path: Path, off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = network(tmp_path, np.uint8, free=False)
    want = numc.compile(file).by_name({"x": image(2)})
    monkeypatch.setenv("NUMC_DISABLE", off)
    got = numc.compile(file).by_name({"x": image(2)})
    assert all(np.array_equal(got[name], want[name]) for name in want)


def test_observers_read_bytes(tmp_path: Path) -> None:
    for kind in DTYPES.values():
        program = numc.compile(network(tmp_path, kind, free=False))
        report = numc.verify(program, {"x": image(2)}, samples=40)
        assert (report.mismatches, report.checked > 0) == (0, True), report.first
