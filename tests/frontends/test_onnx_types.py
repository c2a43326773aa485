"""ONNX models with integers that have no sign or few bits, and with the small floats: what enters, leaves and is
computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc
from numc.support.errors import NumcError

Array = npt.NDArray[Any]
NUMBERS = {
    np.dtype(each): helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in ("uint8", "uint16", "uint32", "uint64")
}
SMALL = ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2")


class Graph:
    """A model in the making: nodes, and arrays that enter it."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.given: dict[str, Array] = {}
        self.stored: dict[str, Array] = {}

    def op(self, name: str, operator: str, *inputs: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))

    def compile(self, path: Path, opset: int = 26) -> numc.Program:
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in self.given.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for node in self.nodes for name in node.output if name[0] != "_"]
        stored = [numpy_helper.from_array(value, name) for name, value in self.stored.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return numc.compile(path)

    def run(self, path: Path) -> dict[str, Array]:
        return self.compile(path).by_name(self.given)


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark) for name, mark in (
    ("uint8", pytest.mark.slow), ("uint16", pytest.mark.slow), ("uint32", pytest.mark.slow), ("uint64", pytest.mark.all)
)])  # fmt: skip
def test_numbers_without_a_sign(tmp_path: Path, name: str) -> None:
    dtype, rng = np.dtype(name), np.random.default_rng(0)
    top, bits = int(np.iinfo(dtype).max), dtype.itemsize * 8
    ends = np.array([0, 1, 2, 3, top, top - 1, top // 2, top // 2 + 1, top // 2 + 2, top // 3], dtype)
    a, b = (np.append(x.reshape(-1), rng.integers(0, top, 60, dtype)) for x in np.meshgrid(ends, ends))
    graph = Graph()
    graph.given = {"a": a, "b": b, "c": np.maximum(b, 1).astype(dtype), "s": (b % (bits + 1)).astype(dtype)}
    graph.stored = {"k": np.array([5], np.int64), "k0": np.zeros((), dtype), "k9": np.array(top // 3 * 2, dtype)}
    pairs = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum,
             "Less": np.less, "GreaterOrEqual": np.greater_equal, "BitwiseXor": np.bitwise_xor}  # fmt: skip
    want = {operator: of(a, b) for operator, of in pairs.items()}
    for operator in pairs:
        graph.op(operator, operator, "a", "b")
    graph.op("Div", "Div", "a", "c")
    graph.op("Mod", "Mod", "a", "c")
    graph.op("left", "BitShift", "a", "s", direction="LEFT")
    graph.op("right", "BitShift", "a", "s", direction="RIGHT")
    graph.op("not", "BitwiseNot", "a")
    graph.op("least", "ReduceMin", "a", keepdims=0)
    graph.op("most", "ReduceMax", "a", keepdims=0)
    graph.op("clip", "Clip", "a", "k0", "k9")
    c, s = graph.given["c"], graph.given["s"]
    want |= {"Div": a // c, "Mod": a % c, "left": np.where(s < bits, a << (s % bits), 0).astype(dtype)}
    want |= {
        "right": np.where(s < bits, a >> (s % bits), 0).astype(dtype),
        "not": ~a,
        "least": a.min(),
        "most": a.max(),
    }
    want |= {"clip": np.clip(a, 0, top // 3 * 2)}
    graph.nodes.append(helper.make_node("TopK", ["a", "k"], ["first", "places"]))
    want["first"] = np.sort(a)[::-1][:5]
    for kind in (np.float32, np.float64, np.int8, np.int64, np.bool_):
        graph.op(f"to_{np.dtype(kind).name}", "Cast", "a", to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
        want[f"to_{np.dtype(kind).name}"] = a.astype(kind)
    graph.given["f"] = rng.uniform(0, float(top) * 0.999, 40).astype(np.float32)
    graph.op("from", "Cast", "f", to=NUMBERS[dtype])
    want["from"] = graph.given["f"].astype(dtype)
    found = graph.run(tmp_path / "m.onnx")
    for what, value in want.items():
        assert found[what].dtype == value.dtype, what
        assert np.array_equal(found[what], value), what
    assert np.array_equal(a[found["places"]], want["first"])


@pytest.mark.all
def test_every_code_of_small_types(tmp_path: Path) -> None:
    """All codes enter, are widened and leave; float32 numbers are rounded as ml_dtypes does; weights are packed."""
    graph, want = Graph(), {}
    for name in SMALL:
        dtype = np.dtype(getattr(ml_dtypes, name))
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        bits = 2 if name.endswith("int2") else 4 if name.startswith("float4") or name.endswith("int4") else 8
        codes = np.arange(1 << bits, dtype=np.uint8)
        graph.given[name] = codes.view(dtype)
        wide = codes.view(dtype).astype(np.float32)
        graph.stored[f"{name}/w"] = codes.view(dtype)
        graph.op(f"{name}/same", "Reshape", name, "all")
        graph.op(f"{name}/wide", "Cast", name, to=TensorProto.FLOAT)
        graph.op(f"{name}/stored", "Cast", f"{name}/w", to=TensorProto.FLOAT)
        want |= {f"{name}/same": codes.view(dtype), f"{name}/wide": wide, f"{name}/stored": wide}
        if "float" in name:
            # Every number, what lies in the middle of two, and beside.
            middle = np.unique(wide[np.isfinite(wide)].astype(float))
            middle = np.concatenate([middle, (middle[1:] + middle[:-1]) / 2]).astype(np.float32)
            x = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]).astype(np.float32)
            if name.endswith("e8m0fnu"):  # ml_dtypes takes the upper of the two smallest for what is between them
                x = x[x >= wide[1]]
            graph.given[f"{name}/x"] = x
            graph.op(f"{name}/cast", "Cast", f"{name}/x", to=kind, round_mode="nearest")
            most, least = np.nanmax(wide), np.nanmin(wide)
            want[f"{name}/cast"] = np.clip(x, least, most).astype(dtype)
            graph.given[f"{name}/far"] = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0, -0.0], np.float32)
            if name.endswith("uz"):
                graph.op(f"{name}/beyond", "Cast", f"{name}/far", to=kind, saturate=0)
                want[f"{name}/beyond"] = np.array([np.nan] * 5 + [0, 0], np.float32).astype(dtype)
                graph.op(f"{name}/most", "Cast", f"{name}/far", to=kind)
                want[f"{name}/most"] = np.array([most, -most, np.nan, most, -most, 0, 0], np.float32).astype(dtype)
    graph.stored["all"] = np.array([-1], np.int64)
    program = graph.compile(tmp_path / "m.onnx")
    assert {spec.dtype for spec in program.inputs} == {*SMALL, "float32"}
    found = program.by_name(graph.given)
    for what, value in want.items():
        got = found[what]
        assert got.dtype == value.dtype, what
        x, y = got.astype(np.float32), value.astype(np.float32)
        assert np.array_equal(x, y, equal_nan=True), what
    for name in SMALL:  # files of numpy hold them as bytes, and have no dtype for them
        graph.given[name] = graph.given[name].view("V1")
    program.save(tmp_path / "m.numc")
    again = numc.load(tmp_path / "m.numc").by_name(graph.given)
    assert all(again[what].tobytes() == found[what].tobytes() for what in want)


def test_integers_that_have_a_sign(tmp_path: Path) -> None:
    rng, graph, want = np.random.default_rng(0), Graph(), {}
    for name in ("int8", "int16", "int32", "int64"):
        low, high = np.iinfo(name).min, np.iinfo(name).max
        graph.given[name] = rng.integers(low, high, 40, name)
        graph.given[f"{name}/e"] = rng.integers(0, 70, 40, np.int8)
        graph.op(f"{name}/neg", "Neg", name)
        graph.op(f"{name}/pow", "Pow", name, f"{name}/e")
        want[f"{name}/neg"], want[f"{name}/pow"] = -graph.given[name], graph.given[name] ** graph.given[f"{name}/e"]
    graph.given["f"] = np.array([1.5, -0.0, np.inf, np.nan], np.float32)
    graph.op("bits", "BitCast", "f", to=TensorProto.UINT32)
    graph.op("again", "BitCast", "bits", to=TensorProto.FLOAT)
    want |= {"bits": graph.given["f"].view(np.uint32), "again": graph.given["f"]}
    found = graph.run(tmp_path / "m.onnx")
    for what, value in want.items():
        assert found[what].tobytes() == value.tobytes(), what


def test_types_that_a_node_cannot_take(tmp_path: Path) -> None:
    graph = Graph()
    graph.given = {"x": np.zeros((1, 1, 4), np.uint64)}
    graph.op("y", "Resize", "x", "", "k")
    graph.stored = {"k": np.array([1, 1, 2], np.float32)}
    with pytest.raises(NumcError) as caught:
        graph.compile(tmp_path / "m.onnx", 22)
    assert str(caught.value) == (
        f"{tmp_path}/m.onnx: node 'y' (Resize): its tensor 'x' is uint64, which it is not available for: convert it "
        "with Cast"
    )
