"""Padding of images of free sizes gives onnxruntime's results for every size; so do models as converters write them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc
from tiers import by_default

FREE = ["n", 2, "h", "w"]
SIZES = [(1, 2, 9, 9), (2, 2, 8, 11), (1, 2, 7, 6)]
WINDOW: dict[str, Any] = {"kernel_shape": [3, 2]}


def model(tmp_path: Path, nodes: list[onnx.NodeProto], kind: int, shape: list[Any], **constants: Any) -> Path:
    """A file with a model of an input ``x``, of which every value that no node reads is an output of any shape."""
    read = {name for node in nodes for name in node.input}
    outputs = [helper.make_empty_tensor_value_info(o) for node in nodes for o in node.output if o not in read]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, shape)], outputs, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def compare(path: Path, sizes: list[tuple[int, ...]], dtype: type = np.float32) -> None:
    session, program = onnxruntime.InferenceSession(path), numc.compile(path)
    rng = np.random.default_rng(0)
    for shape in sizes:
        x = (rng.standard_normal(shape) * (1 if dtype == np.float32 else 50)).astype(dtype)
        got = program.by_name({"x": x})
        wants = zip([o.name for o in session.get_outputs()], session.run(None, {"x": x}), strict=True)
        for name, want in wants:
            assert got[name].shape == want.shape, (name, shape)
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=f"{name} of {shape}")


def pools() -> list[onnx.NodeProto]:
    """Nodes of all kinds of padding that torch-mlir makes wrong sizes of, or refuses."""
    nodes = []
    for auto in ("SAME_UPPER", "SAME_LOWER"):
        for strides in ([1, 1], [2, 2], [3, 1]):
            same = {**WINDOW, "strides": strides, "auto_pad": auto}
            nodes += [helper.make_node("MaxPool", ["x"], [""], **same),
                      helper.make_node("Conv", ["x", "c"], [""], **same),
                      helper.make_node("ConvTranspose", ["x", "t"], [""], **same),
                      helper.make_node("AveragePool", ["x"], [""], **same),
                      helper.make_node("AveragePool", ["x"], [""], **same, count_include_pad=1)]  # fmt: skip
    for pads in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]):
        for strides in ([2, 2], [3, 2], [1, 1]):
            up = {**WINDOW, "pads": pads, "strides": strides, "ceil_mode": 1}
            nodes += [
                helper.make_node("MaxPool", ["x"], [""], **up),
                helper.make_node("MaxPool", ["x"], [""], **WINDOW, pads=pads),
            ]
    uneven = {**WINDOW, "pads": [0, 0, 1, 1], "strides": [2, 2]}
    nodes += [helper.make_node("Conv", ["x", "c"], [""], **uneven),
              helper.make_node("AveragePool", ["x"], [""], **uneven),
              helper.make_node("ConvTranspose", ["x", "t"], [""], **uneven)]  # fmt: skip
    for number, node in enumerate(nodes):
        node.output[0] = node.name = f"y{number}"
    return nodes


def test_padding_of_free_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    c, t = rng.standard_normal((4, 2, 3, 2)).astype(np.float32), rng.standard_normal((2, 4, 3, 2)).astype(np.float32)
    compare(model(tmp_path, pools(), TensorProto.FLOAT, FREE, c=c, t=t), SIZES)


@pytest.mark.parametrize("dtype", by_default([np.uint8, np.int8], [np.uint8]))
def test_padding_of_free_images_of_integers(tmp_path: Path, dtype: type) -> None:
    """What is padded is never the largest."""
    nodes = [node for node in pools() if node.op_type == "MaxPool"]
    compare(model(tmp_path, nodes, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), FREE), SIZES, dtype)


@pytest.mark.parametrize("counted", by_default([0, 1], [1]))
def test_averages_of_free_images_are_exact(tmp_path: Path, counted: int) -> None:
    """A sum over the number of elements, rounded once; the padding of the last window is not counted."""
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1],
                            ceil_mode=1, count_include_pad=counted)  # fmt: skip
    program = numc.compile(model(tmp_path, [node], TensorProto.FLOAT, FREE))
    for shape in SIZES:
        x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
        found = program(x)
        for i, j in np.ndindex(found.shape[2:]):
            rows, columns = range(2 * i - 1, 2 * i + 2), range(3 * j, 3 * j + 2)
            inside = [(r, c) for r in rows for c in columns if 0 <= r < shape[2] and 0 <= c < shape[3]]
            total = sum(x[:, :, r, c] for r, c in inside)
            padded = [(r, c) for r in rows for c in columns if -1 <= r <= shape[2] and 0 <= c <= shape[3]]
            np.testing.assert_array_equal(found[:, :, i, j], total / np.float32(len(padded if counted else inside)))


def resized(tmp_path: Path, nodes: list[onnx.NodeProto], times: list[int], more: list[int], shape: list[Any]) -> Path:
    """A file whose Resize nodes have the sizes of ``x`` times some numbers, and more."""
    sizes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Mul", ["s", "times"], ["m"]),
             helper.make_node("Add", ["m", "more"], ["sizes"])]  # fmt: skip
    return model(tmp_path, [*sizes, *nodes], TensorProto.FLOAT, shape, times=np.array(times), more=np.array(more),
                 scales=np.array([1, 1, 1.5, 3], np.float32))  # fmt: skip


@pytest.mark.parametrize("times", by_default([1, 2], [2]))
def test_images_of_free_sizes_are_resized(tmp_path: Path, times: int) -> None:
    """By sizes that are computed, larger and smaller, and by scales."""
    nodes = []
    for mode, how in itertools.product(("linear", "cubic"), ("align_corners", "half_pixel", "asymmetric")):
        given = {"mode": mode, "coordinate_transformation_mode": how}
        nodes.append(helper.make_node("Resize", ["x", "", "", "sizes"], [f"{mode}_{how}"], f"{mode}_{how}", **given))
        if how != "align_corners":  # of which onnxruntime takes other places than ONNX's reference
            nodes.append(helper.make_node("Resize", ["x", "", "scales"], [f"{mode}_{how}_by"], **given))
    compare(resized(tmp_path, nodes, [1, 1, times, times], [0, 0, -3, 2], FREE), SIZES)


ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda place: math.ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: math.floor(place + Fraction(1, 2)),
}
PLACES: dict[str, Callable[[int, int, int], Fraction]] = {
    "half_pixel": lambda x, before, after: Fraction((2 * x + 1) * before, 2 * after) - Fraction(1, 2),
    "align_corners": lambda x, before, after: Fraction(x * (before - 1), max(after - 1, 1)),
    "asymmetric": lambda x, before, after: Fraction(x * before, after),
}


def test_the_nearest_elements_of_free_sizes_are_exact(tmp_path: Path) -> None:
    """Also where a place lies halfway between two elements, or is one, which float32 numbers miss."""
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], [f"{how}-{near}"], mode="nearest",
                              coordinate_transformation_mode=how, nearest_mode=near)
             for how in PLACES for near in ROUNDINGS]  # fmt: skip
    program = numc.compile(resized(tmp_path, nodes, [1, 1, 2], [0, 0, -9], ["n", "c", "t"]))
    for before in (5, 7, 11, 24):
        x, after = np.arange(2 * before, dtype=np.float32).reshape(2, 1, before), 2 * before - 9
        for name, found in program.by_name({"x": x}).items():
            how, near = name.split("-")
            taken = [ROUNDINGS[near](PLACES[how](place, before, after)) for place in range(after)]
            np.testing.assert_array_equal(found, x[:, :, np.clip(taken, 0, before - 1)], err_msg=f"{name} of {before}")


def test_a_size_that_is_doubled_has_exact_averages(tmp_path: Path) -> None:
    """To twice a size less one, with corners aligned, every second element is the average of two."""
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear",
                            coordinate_transformation_mode="align_corners")  # fmt: skip
    program = numc.compile(resized(tmp_path, [node], [1, 1, 2], [0, 0, -1], ["n", "c", "t"]))
    for count in (1, 2, 7):
        x = np.random.default_rng(0).integers(-99, 99, (2, 3, count)).astype(np.float32)
        want = np.repeat(x, 2, axis=2)[:, :, :-1]
        want[:, :, 1::2] = (x[:, :, 1:] + x[:, :, :-1]) / 2
        np.testing.assert_array_equal(program(x), want)


def test_what_of_a_resize_needs_fixed_sizes(tmp_path: Path) -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", antialias=1)
    with pytest.raises(numc.NumcError, match="'y' .Resize, .* its attribute antialias 1 is available for images"):
        numc.compile(resized(tmp_path, [node], [1] * 4, [0] * 4, FREE))


def test_padding_with_elements_of_free_dimensions(tmp_path: Path) -> None:
    """Every mode, also with more padding than elements where ONNX has that, and with less than none."""
    pads = {"a": [0, 2, 0, 3], "b": [1, 0, 0, 7], "c": [0, -1, 0, 2]}
    nodes = [helper.make_node("Pad", ["x", name], [f"{mode}_{name}"], name=f"{mode}_{name}", mode=mode)
             for mode in ("reflect", "edge", "wrap") for name in pads
             if not (mode == "reflect" and name != "a")]  # fmt: skip
    given = {name: np.int64(value) for name, value in pads.items()}
    compare(model(tmp_path, nodes, TensorProto.FLOAT, ["n", "m"], **given), [(4, 5), (3, 9), (6, 4)])
    # How much padding there is may be computed, here in the other direction of an even size.
    computed = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Mod", ["s", "two"], ["odd"]),
                helper.make_node("Concat", ["odd", "odd"], ["pads"], axis=0),
                *(helper.make_node("Pad", ["x", "pads"], [mode], mode=mode)
                  for mode in ("reflect", "edge", "wrap"))]  # fmt: skip
    compare(model(tmp_path, computed, TensorProto.FLOAT, ["n", "m"], two=np.int64(2)), [(4, 5), (3, 9), (6, 4)])
    reflect = [helper.make_node("Pad", ["x", "b"], ["y"], mode="reflect")]
    program = numc.compile(model(tmp_path, reflect, TensorProto.FLOAT, ["n", "m"], b=given["b"]))
    for shape in ((4, 5), (2, 2), (3, 1)):  # ONNX, and onnxruntime, want more elements than padding
        with pytest.raises(numc.NumcError, match="padding that reflects is not smaller than what is padded .in 'y'"):
            program(np.zeros(shape, np.float32))


def test_squeeze_without_axes_takes_no_free_size_for_1(tmp_path: Path) -> None:
    """The rank of its result would be another one."""
    nodes = [helper.make_node("Squeeze", ["x"], ["thin"], name="thin"), helper.make_node("Relu", ["thin"], ["y"])]
    path = model(tmp_path, nodes, TensorProto.FLOAT, ["n", 1, "m", 4])
    compare(path, [(2, 1, 3, 4), (3, 1, 2, 4), (0, 1, 2, 4)])
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(path)(np.ones((2, 1, 1, 4), np.float32))
    assert str(caught.value) == (
        "dimension 2 of 'x' is 1, which gives the result another rank: compile with shapes={...} or --shape (in 'thin')"
    )
    assert numc.compile(path, shapes={"x": (1, 1, 2, 4)})(np.ones((1, 1, 2, 4), np.float32)).shape == (2, 4)


def test_sizes_as_converters_write_them(tmp_path: Path) -> None:
    """A free size is -1 or a question mark, and an output has another rank than its node."""
    path = model(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], TensorProto.FLOAT, [1, "?", "?"])
    made = onnx.load(path)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m"]))
    onnx.save(made, path)
    program = numc.compile(path)
    for shape in ((1, 2, 3), (4, 3, 2)):
        assert program(np.ones(shape, np.float32)).shape == shape


def chosen(tmp_path: Path) -> Path:
    """A model like those of voice activity: the rate decides which of two models there is, with other shapes inside."""
    branches = []
    for name, width in (("fast", 4), ("slow", 2)):
        nodes = [helper.make_node("Reshape", ["x", f"{name}_rows"], [f"{name}_r"]),
                 helper.make_node("MatMul", [f"{name}_r", f"{name}_w"], [f"{name}_y"])]  # fmt: skip
        stored = [numpy_helper.from_array(np.int64([-1, width]), f"{name}_rows"),
                  numpy_helper.from_array(np.full((width, 3), width, np.float32), f"{name}_w")]  # fmt: skip
        out = helper.make_empty_tensor_value_info(f"{name}_y")
        branches.append(helper.make_graph(nodes, name, [], [out], stored))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
              helper.make_tensor_value_info("sr", TensorProto.INT64, [])]  # fmt: skip
    nodes = [helper.make_node("Equal", ["sr", "rate"], ["is"]),
             helper.make_node("If", ["is"], ["y"], name="rates",
                              then_branch=branches[0], else_branch=branches[1])]  # fmt: skip
    outputs, rate = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["k", 3])], np.array(16000)
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(rate, "rate")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "r.onnx")
    return tmp_path / "r.onnx"


def test_a_value_decides_a_branch(tmp_path: Path) -> None:
    path, x = chosen(tmp_path), np.ones(8, np.float32)
    program = numc.compile(path, values={"sr": 16000})
    np.testing.assert_array_equal(program(x), np.full((2, 3), 16))
    np.testing.assert_array_equal(numc.compile(path, values={"sr": np.int64(8000)})(x), np.full((4, 3), 4))
    assert "4 x 3 x 2" in str(numc.explain(path, shapes={"x": (8,)}, values={"sr": 8000}))
    # What a run cannot know, it checks: here the branches do not fit together.
    with pytest.raises(numc.NumcError, match="sizes do not fit"):
        numc.compile(path)(x, np.array(16000))
    found = numc.compare(path, x, values={"sr": 16000}, fmas=["mp"], statistics=False)
    assert found.results[0].onnxruntime is not None
    assert found.results[0].onnxruntime.note == ""
    assert found.results[0].onnxruntime.error == 0


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"sr": 0.5}, "values: 'sr' is of int64, which does not have 0.5"),
        ({"sr": [1, 2]}, "values: 'sr': got the shape [2], want []"),
        ({"s": 1}, "values: no input 's' (did you mean 'sr'?); the inputs are x, sr"),
        ({"sr": 1, "x": [1.0]}, "values: every input has a value; nothing is left to compute"),
        ({"sr": "a"}, "values: got a for 'sr', want a number or an array for a name"),
        ({"sr": [[1], [1, 2]]}, "values: got [[1], [1, 2]] for 'sr', want a number or an array for a name"),
        ([1], "values: got list, want numbers or arrays by name"),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, values: Any, text: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(chosen(tmp_path), values=values)
    assert str(caught.value).removeprefix(f"{tmp_path / 'r.onnx'}: ") == text


def test_a_value_has_no_shape(tmp_path: Path) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(chosen(tmp_path), values={"x": [1.0]}, shapes={"x": (1,)})
    assert str(caught.value) == "values: 'x' has a shape by its value: leave its shape out"
