"""Operators of ONNX whose sizes, steps or scales only a run knows, beside onnxruntime or numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import numc
from tiers import one_in

Shape = Sequence["int | str"]
KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.UINT8}


def model_of(
    node: onnx.NodeProto,
    inputs: dict[str, tuple[str, Shape]],
    fixed: dict[str, Any] | None = None,
    *,
    opset: int = 21,
) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, KINDS[letter], shape) for name, (letter, shape) in inputs.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output if name]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in (fixed or {}).items()]
    graph = helper.make_graph([node], "g", infos, ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def as_onnxruntime(model: onnx.ModelProto, runs: Sequence[dict[str, Any]], **options: Any) -> None:
    program = numc.compile(model, **options)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for feeds in runs:
        (want,) = session.run(None, feeds)
        (got,) = program.by_name(feeds).values()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("keeps", [0, 1])
def test_products_along_axes_of_free_sizes(keeps: int) -> None:
    node = helper.make_node("ReduceProd", ["x", "a"], ["y"], keepdims=keeps)
    model = model_of(node, {"x": ("f", ["n", 3, "m"])}, {"a": np.array([-1, 0])}, opset=18)
    as_onnxruntime(model, [{"x": drawn(*s)} for s in ((2, 3, 4), (1, 3, 1), (0, 3, 2))])


@pytest.mark.parametrize(("operator", "value"), [("ReduceMax", -np.inf), ("ReduceProd", 1), ("ReduceMean", np.nan)])
def test_reductions_of_nothing_with_other_sizes_free(operator: str, value: float) -> None:
    node = helper.make_node(operator, ["x", "a"], ["y"], keepdims=0)
    program = numc.compile(model_of(node, {"x": ("f", ["n", 0, "m"])}, {"a": np.array([1])}, opset=20))
    np.testing.assert_array_equal(program(np.zeros((2, 0, 3), np.float32)), np.full((2, 3), value, np.float32))


def test_a_free_size_that_is_squeezed_is_1() -> None:
    node = helper.make_node("Squeeze", ["x", "a"], ["y"])
    model = model_of(node, {"x": ("f", ["n", 3, "m"])}, {"a": np.array([0, -1])})
    as_onnxruntime(model, [{"x": drawn(1, 3, 1)}])
    with pytest.raises(numc.NumcError, match="dimension 0 of 'x' is left out, and is not 1"):
        numc.compile(model)(drawn(2, 3, 1))


def test_both_operands_of_prelu_stretch() -> None:
    model = model_of(helper.make_node("PRelu", ["x", "s"], ["y"]), {"x": ("f", ["a", "b"]), "s": ("f", ["c", "d"])})
    runs = [((1, 1), (2, 3)), ((2, 3), (1, 1)), ((2, 3), (2, 3)), ((2, 1), (1, 3))]
    as_onnxruntime(model, [{"x": drawn(*one), "s": drawn(*other)} for one, other in runs])


@pytest.mark.all
@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_responses_of_free_images(size: int) -> None:
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.6, bias=1.5)
    model = model_of(node, {"x": ("f", ["n", "c", "h", 3])})
    as_onnxruntime(model, [{"x": drawn(*s)} for s in ((2, 5, 4, 3), (1, 1, 1, 3), (2, 2, 0, 3))])


def test_quantisation_in_blocks_of_a_free_size() -> None:
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=1, block_size=2)
    model = model_of(node, {"x": ("u", ["n", "m"]), "s": ("f", ["n", "k"])})
    numbers = np.arange(14, dtype=np.uint8).reshape(2, 7)
    as_onnxruntime(model, [{"x": numbers[:, :c], "s": drawn(2, (c + 1) // 2)} for c in (7, 4, 1)])
    with pytest.raises(numc.NumcError, match="dimension 1 of 's' has another size"):
        numc.compile(model)(numbers, drawn(2, 2))


def test_one_scale_for_all_channels_of_a_group_normalization() -> None:
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    model = model_of(node, {"x": ("f", [2, "c", 3]), "s": ("f", ["k"]), "b": ("f", ["k"])})
    as_onnxruntime(model, [{"x": drawn(2, 4, 3), "s": drawn(k), "b": drawn(k)} for k in (1, 4)])
    with pytest.raises(numc.NumcError, match="'s' has neither one number nor one for each channel"):
        numc.compile(model)(drawn(2, 4, 3), drawn(2), drawn(2))


STEPS = [
    ([0, 0], [4, 5], [2, 1]),
    ([-1, -1], [-9, -9], [-1, -2]),
    ([3, 2**62], [-(2**63), -(2**63)], [-1, -1]),
    ([-(2**63), -(2**63)], [2**62, 2**62], [1, 3]),
    ([4, 5], [0, 0], [-3, -(2**63)]),
]


def test_slices_by_computed_steps() -> None:
    node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    lists = {name: ("i", [2]) for name in "set"}
    model = model_of(node, {"x": ("f", ["n", "m"]), **lists}, {"a": np.array([1, 0])})
    runs = [{"x": drawn(5, 4), **{n: np.array(v) for n, v in zip("set", row, strict=True)}} for row in STEPS]
    as_onnxruntime(model, [*runs, *({**run, "x": np.zeros((0, 4), np.float32)} for run in runs)])
    with pytest.raises(numc.NumcError, match="the step of a slice is 0"):
        numc.compile(model)(drawn(5, 4), np.array([0, 0]), np.array([1, 1]), np.array([0, 1]))
    model = model_of(node, {"x": ("f", [5, 4]), "t": ("i", ["k"])}, dict.fromkeys("sea", np.array([0, 1])))
    with pytest.raises(numc.NumcError, match="its steps and axes are computed: their number has to be fixed"):
        numc.compile(model)


@pytest.mark.all
@pytest.mark.parametrize("operator", ["GRU", "LSTM", "RNN"])
def test_free_sizes_that_weights_and_attributes_tell(operator: str) -> None:
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[operator]
    node = helper.make_node(operator, ["x", "w", "r", "b", "", "h"], ["y"], hidden_size=4)
    inputs = {"x": ("f", ["s", "n", "i"]), "b": ("f", ["d", "k"]), "h": ("f", ["d", "n", "j"])}
    model = model_of(node, inputs, {"w": drawn(1, 4 * gates, 3), "r": drawn(1, 4 * gates, 4)})
    feeds = {"x": drawn(5, 2, 3), "b": drawn(1, 8 * gates), "h": drawn(1, 2, 4)}
    as_onnxruntime(model, [feeds])
    for name, shape, dim in (("x", (5, 2, 4), "2 of 'w'"), ("b", (1, 7), "1 of 'b'"), ("h", (1, 2, 3), "2 of 'h'")):
        with pytest.raises(numc.NumcError, match=f"dimension {dim} has another size"):
            numc.compile(model).by_name(feeds | {name: drawn(*shape)})
    model = model_of(node, inputs | {"w": ("f", [1, 4 * gates, "i"])}, {"r": drawn(1, 4 * gates, 4)})
    with pytest.raises(numc.NumcError, match="the number of features is free in its input and its weight: give"):
        numc.compile(model)


@pytest.mark.all
def test_a_gru_of_free_sizes_with_the_batch_first() -> None:
    """onnxruntime has no layout: it is given the steps first."""
    node = helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["y", "e"], hidden_size=4, layout=1)
    weights = {"w": drawn(1, 12, 3), "r": drawn(1, 12, 4)}
    model = model_of(node, {"x": ("f", ["n", "s", 3]), "h": ("f", ["n", 1, 4])}, weights)
    plain = helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["y", "e"], hidden_size=4)
    session = onnxruntime.InferenceSession(
        model_of(plain, {"x": ("f", ["s", "n", 3]), "h": ("f", [1, "n", 4])}, weights).SerializeToString()
    )
    feeds = {"x": drawn(2, 5, 3), "h": drawn(2, 1, 4)}
    steps, end = session.run(None, {name: value.swapaxes(0, 1) for name, value in feeds.items()})
    got = numc.compile(model).by_name(feeds)
    np.testing.assert_allclose(got["y"], steps.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["e"], end.swapaxes(0, 1), rtol=1e-5, atol=1e-6)


RESIZED: list[dict[str, Any]] = [
    {"mode": "nearest"},
    {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
]


@pytest.mark.all
@pytest.mark.parametrize("options", one_in(2, RESIZED))
def test_every_dimension_is_resized_to_computed_sizes(options: dict[str, Any]) -> None:
    """onnxruntime resizes two dimensions only, but to the nearest: ONNX's evaluator is the reference."""
    model = model_of(helper.make_node("Resize", ["x", "", "", "s"], ["y"], **options),
                     {"x": ("f", ["n", "c", "a", "b"]), "s": ("i", [4])})  # fmt: skip
    program, evaluator = numc.compile(model), ReferenceEvaluator(model)
    for sizes in ([2, 3, 5, 4], [4, 3, 3, 3], [1, 5, 2, 3]):
        feeds = {"x": drawn(2, 3, 3, 3), "s": np.array(sizes)}
        (want,) = evaluator.run(None, feeds)
        np.testing.assert_allclose(program.by_name(feeds)["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.all
@pytest.mark.parametrize("options", one_in(3, RESIZED))
def test_resizing_by_computed_scales(options: dict[str, Any]) -> None:
    model = model_of(helper.make_node("Resize", ["x", "", "s"], ["y"], **options),
                     {"x": ("f", [1, 3, "a", "b"]), "s": ("f", [4])})  # fmt: skip
    program, evaluator = numc.compile(model), ReferenceEvaluator(model)
    for scales in ([1, 1, 2, 2], [1, 1, 0.5, 1.25], [1, 1, 3, 0.2]):
        feeds = {"x": drawn(1, 3, 8, 4), "s": np.array(scales, np.float32)}
        (want,) = evaluator.run(None, feeds)
        np.testing.assert_allclose(program.by_name(feeds)["y"], want, rtol=1e-5, atol=1e-5)
    for scale, message in ((np.inf, "a scale is 2\\^32 or more"), (np.nan, "a scale is not positive")):
        with pytest.raises(numc.NumcError, match=message):
            program(feeds["x"], np.array([1, 1, scale, 1], np.float32))


@pytest.mark.all
@pytest.mark.parametrize("version", [9, 10])
def test_old_resizing_by_computed_scales(version: int) -> None:
    node = helper.make_node({9: "Upsample", 10: "Resize"}[version], ["x", "s"], ["y"], mode="nearest")
    model = model_of(node, {"x": ("f", [1, 1, "a", "b"]), "s": ("f", [4])}, opset=version)
    scales = [[1, 1, 2, 2], [1, 1, 1.5, 3], *[[1, 1, 0.6, 0.75], [1, 1, 0.5, 2]][: 2 * (version - 9)]]
    as_onnxruntime(model, [{"x": drawn(1, 1, 6, 10), "s": np.array(s, np.float32)} for s in scales])


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
def test_pools_without_windows_and_of_free_images(operator: str) -> None:
    """A window that is larger than the image by its stride gives no rows."""
    for options in ({}, {"strides": [2, 2], "ceil_mode": 1}, {"strides": [3, 3], "pads": [2, 2, 2, 2]}):
        node = helper.make_node(operator, ["x"], ["y"], kernel_shape=[3, 3], **options)
        model = model_of(node, {"x": ("f", ["n", 3, "h", "w"])}, opset=19)
        sizes = [(5, 5), (4, 6), *([] if "pads" in options else [(2, 3)] if not options else [(1, 3)])]
        if operator == "LpPool" and "ceil_mode" in options:
            sizes = sizes[:1]  # onnxruntime rounds down
        as_onnxruntime(model, [{"x": drawn(1, 3, *size)} for size in sizes])
    with pytest.raises(numc.NumcError, match="an image has no elements"):
        numc.compile(model)(np.zeros((1, 3, 0, 5), np.float32))


@pytest.mark.all
def test_convolutions_have_a_result() -> None:
    options = {"dilations": [2, 2], "strides": [2, 2]}
    model = model_of(helper.make_node("Conv", ["x", "w"], ["y"], **options), {"x": ("f", ["n", 3, "h", "w0"])},
                     {"w": drawn(4, 3, 3, 3)})  # fmt: skip
    with pytest.raises(numc.NumcError, match="an input is smaller than the window that slides over it"):
        numc.compile(model)(drawn(1, 3, 4, 5))
    model = model_of(helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=[2, 2, 2, 2]),
                     {"x": ("f", ["n", 3, "h", "w0"])}, {"w": drawn(3, 4, 3, 3)})  # fmt: skip
    as_onnxruntime(model, [{"x": drawn(1, 3, 5, 5)}])
    with pytest.raises(numc.NumcError, match="a result would have no elements: its pads take all away"):
        numc.compile(model)(drawn(1, 3, 2, 5))


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_a_grid_of_nan_is_at_0(padding: str) -> None:
    """As in onnxruntime and PyTorch; outside of images padded by zeros, it is NaN, as in PyTorch."""
    node = helper.make_node("GridSample", ["x", "g"], ["y"], padding_mode=padding)
    model = model_of(node, {"x": ("f", [1, 1, 6, 6]), "g": ("f", [1, 1, 1, 2])}, opset=20)
    as_onnxruntime(model, [{"x": drawn(1, 1, 6, 6), "g": np.full((1, 1, 1, 2), np.nan, np.float32)}])


def test_determinants_by_elimination_with_exchanges() -> None:
    exchanged = np.eye(5, dtype=np.float32)[[4, 0, 1, 2, 3]]
    model = model_of(helper.make_node("Det", ["x"], ["y"]), {"x": ("f", ["n", 5, "m"])})
    program = numc.compile(model)
    for matrices in (drawn(3, 5, 5), exchanged[None], np.ones((2, 5, 5), np.float32), np.zeros((0, 5, 5), np.float32)):
        np.testing.assert_allclose(program(matrices), np.linalg.det(matrices), rtol=1e-4, atol=1e-5)
    program = numc.compile(model_of(helper.make_node("Det", ["x"], ["y"]), {"x": ("f", ["n", "m"])}))
    with pytest.raises(numc.NumcError, match="a determinant of a free number of rows divides by 0: fix the number"):
        program(exchanged)


def test_products_of_queries_with_a_free_number_of_keys() -> None:
    """onnx infers 0 keys where the number of values is free."""
    node = helper.make_node("Attention", ["q", "k", "v"], ["y", "", "", "p"], qk_matmul_output_mode=3)
    model = model_of(node, {"q": ("f", [1, 2, 3, 8]), "k": ("f", [1, 2, 4, 8]), "v": ("f", [1, 2, "n", 8])}, opset=24)
    feeds = {"q": drawn(1, 2, 3, 8), "k": drawn(1, 2, 4, 8), "v": drawn(1, 2, 4, 8)}
    want = ReferenceEvaluator(model).run(None, feeds)
    for got, wanted in zip(numc.compile(model).by_name(feeds).values(), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
