"""Values at which a naive formula overflows, loses its place or is of another type, though its result does not."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc

NAN, INF = np.nan, np.inf


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[int | str]]], outputs: dict[str, int],
             constants: dict[str, np.ndarray], opset: int) -> onnx.ModelProto:  # fmt: skip
    infos = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", infos, ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset < 24 else 12)


def results(program: object, *inputs: object) -> list[object]:
    found = program(*inputs)  # type: ignore[operator]
    return list(found.values()) if isinstance(found, dict) else [found]


def test_float8e8m0_saturates() -> None:
    modes = {"up": 4.0, "nearest": 4.0, "down": 2.0}
    nodes = [
        helper.make_node("Cast", ["x"], [f"q{saturate}{mode}"], to=TensorProto.FLOAT8E8M0, saturate=saturate,
                         round_mode=mode)
        for mode in modes
        for saturate in (0, 1)
    ]  # fmt: skip
    nodes += [helper.make_node("Cast", n.output, [n.output[0][1:]], to=TensorProto.FLOAT) for n in nodes]
    outputs = {node.output[0]: TensorProto.FLOAT for node in nodes[len(nodes) // 2 :]}
    program = numc.compile(model_of(nodes, {"x": (TensorProto.FLOAT, [6])}, outputs, {}, 25))
    x = np.array([3e38, 2.0**127 * 1.75, INF, NAN, 3, 2.0**127], np.float32)
    found = program(x)
    for mode, third in modes.items():
        np.testing.assert_array_equal(found[f"1{mode}"], [2.0**127] * 3 + [NAN, third, 2.0**127])
    np.testing.assert_array_equal(found["0up"], [NAN] * 4 + [4, 2.0**127])
    np.testing.assert_array_equal(found["0nearest"], [NAN] * 4 + [4, 2.0**127])
    np.testing.assert_array_equal(found["0down"], [2.0**127] * 2 + [NAN] * 2 + [2, 2.0**127])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_of_more_elements_than_the_type_counts_to(dtype: str) -> None:
    count, kind = 70000, getattr(TensorProto, dtype.upper())
    nodes = [helper.make_node(operator, ["x"], [operator]) for operator in ("Softmax", "LogSoftmax", "ReduceLogSumExp")]
    outputs = {node.op_type: kind for node in nodes}
    program = numc.compile(model_of(nodes, {"x": (kind, [1, count])}, outputs, {}, 18))
    found = program(np.zeros((1, count), np.uint16).view(helper.tensor_dtype_to_np_dtype(kind)))
    for operator, want in (("Softmax", 1 / count), ("LogSoftmax", -np.log(count)), ("ReduceLogSumExp", np.log(count))):
        np.testing.assert_array_equal(found[operator], found[operator].dtype.type(want))


def test_softplus_of_large_numbers_is_the_number() -> None:
    kinds = {"float": np.float32, "double": np.float64, "float16": np.float16}
    nodes = [helper.make_node(op, [k], [f"{op}.{k}"]) for op in ("Softplus", "Mish") for k in kinds]
    types = {k: getattr(TensorProto, k.upper()) for k in kinds}
    inputs = {k: (number, [11]) for k, number in types.items()}
    program = numc.compile(model_of(nodes, inputs, {f"{n.op_type}.{n.input[0]}": types[n.input[0]] for n in nodes}, {},
                                    22))  # fmt: skip
    x = np.array([-INF, -80, -20, -1, 0, 1, 39.5, 41, 88.8, 3e4, INF])
    given = {k: x.astype(dtype) for k, dtype in kinds.items()}
    for name, found in program(given).items():
        operator, kind = name.split(".")
        wide = given[kind].astype(np.longdouble)
        want = np.logaddexp(wide, 0)
        with np.errstate(invalid="ignore"):
            want = want if operator == "Softplus" else wide * np.tanh(want)
        want = want.astype(found.dtype)
        limits = np.finfo(found.dtype)
        np.testing.assert_allclose(found, want, rtol=4 * limits.eps, atol=limits.tiny, err_msg=name)


def test_nearest_before_opset_11_rounds_places_up_where_it_shrinks() -> None:
    x = np.arange(60, dtype=np.float32).reshape(1, 1, 6, 10)
    scales = [(0.6, 0.75), (0.5, 2), (1.3, 0.9), (2, 2)]
    for shape in ([1, 1, 6, 10], [1, 1, "h", "w"]):
        nodes = [helper.make_node("Resize", ["x", f"s{n}"], [f"y{n}"], mode="nearest") for n in range(len(scales))]
        weights = {f"s{n}": np.array([1, 1, *pair], np.float32) for n, pair in enumerate(scales)}
        outputs = {node.output[0]: TensorProto.FLOAT for node in nodes}
        model = model_of(nodes, {"x": (TensorProto.FLOAT, shape)}, outputs, weights, 10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # it says that sizes of 0.9 times 10 are others than its own
        wanted = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
        for found, want in zip(numc.compile(model)(x).values(), wanted, strict=True):
            np.testing.assert_array_equal(found, want)


def pooled_images() -> list[np.ndarray]:
    """Images with several NaN, and one of -inf and a single NaN, of which padding must not be taken for a maximum."""
    rng = np.random.default_rng(0)
    several = rng.choice([-INF, 0, 1, NAN], (2, 2, 7, 7)).astype(np.float32)
    single = np.full((2, 2, 7, 7), -INF, np.float32)
    single[0, 0, 0, 5] = NAN
    return [several, single]


def test_places_of_pooling_are_in_the_image() -> None:
    windows = [{"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
               {"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 1, 1, 1]},
               {"kernel_shape": [7, 7]}]  # fmt: skip
    nodes = [helper.make_node("MaxPool", ["x"], [f"y{n}", f"i{n}"], **each) for n, each in enumerate(windows)]
    outputs = {name: TensorProto.INT64 if name[0] == "i" else TensorProto.FLOAT for n in nodes for name in n.output}
    program = numc.compile(model_of(nodes, {"x": (TensorProto.FLOAT, [2, 2, 7, 7])}, outputs, {}, 18))
    for x in pooled_images():
        found = program(x)
        for n in range(len(windows)):
            values, places = found[f"y{n}"], found[f"i{n}"]
            assert places.min() >= 0
            plane = (np.arange(4) * 49).reshape(2, 2, 1, 1)
            assert ((places >= plane) & (places < plane + 49)).all()
            np.testing.assert_array_equal(x.reshape(-1)[places], values)
        assert (np.isnan(found["y2"]) == np.isnan(x).any((2, 3), keepdims=True)).all()


def test_places_of_pooling_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional

    class Pools(torch.nn.Module):
        def forward(self, x: object) -> object:
            lines, cubes = x.flatten(0, 1), x.unsqueeze(2).expand(-1, -1, 4, -1, -1)  # type: ignore[attr-defined]
            values, places = functional.max_pool2d(x, 2, return_indices=True)
            return (
                *(values, places, functional.max_unpool2d(values, places, 2, output_size=(7, 7))),
                *functional.max_pool1d(lines, 3, 2, 1, return_indices=True),
                *functional.max_pool2d(x, 3, 2, 1, 2, return_indices=True),
                *functional.max_pool3d(cubes, 3, 2, 1, ceil_mode=True, return_indices=True),
                *functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
            )

    images = [torch.from_numpy(x) for x in pooled_images()]
    program = numc.compile(Pools(), (images[0],))
    for x in images:
        for n, (found, want) in enumerate(zip(results(program, x), Pools()(x), strict=True)):
            assert torch.equal(found.nan_to_num(9), want.nan_to_num(9)), n


def test_integers_to_the_power_of_a_float_are_floats() -> None:
    torch = pytest.importorskip("torch")

    class Powers(torch.nn.Module):
        def forward(self, *given: object) -> object:
            return [x**power for x in given for power in (0.5, -1.0, 2.0)]  # type: ignore[operator]

    given = [torch.tensor([7, 10, 2, 0]).to(dtype) for dtype in (torch.int64, torch.int32, torch.int16, torch.int8,
                                                                 torch.uint8, torch.bool)]  # fmt: skip
    for found, want in zip(results(numc.compile(Powers(), tuple(given)), *given), Powers()(*given), strict=True):
        torch.testing.assert_close(found, want)
