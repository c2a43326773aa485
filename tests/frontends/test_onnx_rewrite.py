"""Nodes that torch-mlir would lower to something else than ONNX defines give onnxruntime's results or are refused.

Many of them are one model, because each compilation takes a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import arithmetic_vectorised as reference
import numc
from tiers import by_default, one_in, pairs

Array = np.ndarray[Any, Any]
CEIL: dict[str, Any] = {"ceil_mode": 1}


def model_of(tmp_path: Path, nodes: list[onnx.NodeProto], feeds: dict[str, Array], *, free: bool | str = False,
             constants: dict[str, Array] | None = None, opset: int = 18) -> Path:  # fmt: skip
    """A file with a model of which every value that no node reads is an output. free: the inputs of free sizes."""
    names = tuple(feeds) if free is True else (free,)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype),
                                      [f"{name}{d}" if name in names else size for d, size in enumerate(value.shape)])
        for name, value in feeds.items()
    ]  # fmt: skip
    read = {name for node in nodes for name in node.input}
    outputs = [helper.make_empty_tensor_value_info(o) for node in nodes for o in node.output if o and o not in read]
    stored = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def compare(path: Path, feeds: dict[str, Array]) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.x64quantprecision", "1"
    )  # no sums of 16 bits, which saturate, where there is no VNNI
    session = onnxruntime.InferenceSession(path, options)
    wants = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    got = numc.compile(path).by_name(feeds)
    for name, want in wants.items():
        assert got[name].shape == want.shape, name
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=name)


def test_of_all_behind_an_axis_before_opset_13(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    nodes = [
        helper.make_node(operator, ["x"], [f"{operator}{n}"], **axis)
        for operator in ("Hardmax", "Softmax", "LogSoftmax")
        for n, axis in enumerate(({}, {"axis": 0}, {"axis": -1}))
    ]
    compare(model_of(tmp_path, nodes, {"x": x}, free=True, opset=11), {"x": x})


def test_pools(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"s": (1, 2, 2, 2), "l": (1, 2, 7), "m": (2, 1, 4, 3), "o": (1, 1, 5, 6)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    pools = [
        *[("MaxPool", "s", dict(kernel_shape=[3, 3], strides=[2, 2], pads=p, **c))
          for p in ([1] * 4, [0, 0, 1, 1], [1, 1, 0, 0]) for c in ({}, CEIL)],
        ("MaxPool", "s", dict(kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER", **CEIL)),
        ("MaxPool", "m", dict(kernel_shape=[3, 3], strides=[3, 3], pads=[1, 0, 2, 2], **CEIL)),
        ("MaxPool", "l", dict(kernel_shape=[2], strides=[3], dilations=[2], **CEIL)),
        ("AveragePool", "l", dict(kernel_shape=[3], strides=[3], pads=[1, 0], count_include_pad=1, **CEIL)),
        ("AveragePool", "l", dict(kernel_shape=[3], strides=[3], pads=[1, 0], **CEIL)),
        ("AveragePool", "l", dict(kernel_shape=[4], strides=[2], auto_pad="VALID", count_include_pad=1, **CEIL)),
        ("AveragePool", "s", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1, **CEIL)),
        ("AveragePool", "m", dict(kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER", **CEIL)),
        *[(op, "m", dict(kernel_shape=[1 << 20, 2], strides=[1 << 20, 2], pads=[1, 1, 0, 1], **CEIL))
          for op in ("AveragePool", "MaxPool")],
    ]  # fmt: skip
    nodes = [helper.make_node(op, [x], [f"y{n}"], **how) for n, (op, x, how) in enumerate(pools)]
    nodes.append(helper.make_node("MaxPool", ["o"], ["most", "where"], kernel_shape=[2, 3]))
    compare(model_of(tmp_path, nodes, feeds), feeds)


@pytest.mark.parametrize("free", [False, True])
def test_depth_to_space_and_back(tmp_path: Path, free: bool) -> None:
    """One channel that is left, as many as a block has rows, as in networks for super-resolution, and others."""
    shapes = {"a": (1, 4, 2, 3), "b": (2, 8, 3, 2), "c": (1, 12, 2, 5), "d": (2, 45, 2, 4)}
    blocks = {"a": 2, "b": 2, "c": 2, "d": 3}
    feeds = {name: np.arange(np.prod(s), dtype=np.float32).reshape(s) for name, s in shapes.items()}
    nodes = [
        helper.make_node("DepthToSpace", [name], [f"{name}{mode}"], blocksize=blocks[name], mode=mode)
        for name in feeds
        for mode in ("DCR", "CRD")
    ]
    feeds["e"] = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    nodes.append(helper.make_node("SpaceToDepth", ["e"], ["deep"], blocksize=2))
    compare(model_of(tmp_path, nodes, feeds, free=free), feeds)


def test_pads_that_crop(tmp_path: Path) -> None:
    """What is taken away on one side and padded on the other, cropped only, and along some axes only."""
    feeds = {"x": np.arange(1.0, 61.0, dtype=np.float32).reshape(1, 2, 5, 6)}
    pads = {"p": [0, 0, -1, 1, 0, 0, 2, -2], "q": [0, 0, -1, 0, 0, 0, -1, -2], "r": [-2, 1, 1, -1]}
    constants = {name: np.array(each, np.int64) for name, each in pads.items()}
    constants |= {"v": np.float32(7.5), "axes": np.array([3, -2], np.int64)}
    nodes = [helper.make_node("Pad", ["x", name, "v"], [f"y{name}"]) for name in "pq"]
    nodes.append(helper.make_node("Pad", ["x", "r", "", "axes"], ["yr"]))
    compare(model_of(tmp_path, nodes, feeds, constants=constants), feeds)


def test_remainders_of_floats(tmp_path: Path) -> None:
    """They have no error, and the sign of the dividend."""
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(500) * 2.0 ** rng.integers(-8, 9, 500)).astype(np.float32) for _ in range(2))
    x[:8], y[:8] = [-6, 6, np.inf, 5, -5, np.nan, -0.0, 1], [3, -3, 2, np.inf, -np.inf, 1, 2, 0]
    node = helper.make_node("Mod", ["x", "y"], ["z"], fmod=1)
    got = numc.compile(model_of(tmp_path, [node], {"x": x, "y": y}))(x, y)
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
    numbers = ~np.isnan(want)
    assert np.isnan(got[~numbers]).all()
    assert (found := reference.first_mismatch(got[numbers], want[numbers])) is None, found


def test_a_tensor_with_nan_is_not_equal_to_itself(tmp_path: Path) -> None:
    feeds = {"x": np.array([np.nan, 1, np.inf, -0.0], np.float32)}
    operators = ("Equal", "LessOrEqual", "GreaterOrEqual")
    nodes = [helper.make_node("Identity", ["x"], ["same"])]
    nodes += [helper.make_node(name, ["x", other], [name + other]) for name in operators for other in ("x", "same")]
    compare(model_of(tmp_path, nodes, feeds), feeds)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_local_response_normalisation(tmp_path: Path, size: int) -> None:
    """Of an even number, one channel more behind than before: ONNX's formula, which onnxruntime has for odd ones."""
    x = np.random.default_rng(0).standard_normal((2, 7, 3, 2)).astype(np.float32)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.75, bias=1.5)
    before, behind = (size - 1) // 2, -(-(size - 1) // 2)
    sums = [(x[:, max(0, c - before) : c + behind + 1].astype(float) ** 2).sum(1) for c in range(7)]
    want = x / (1.5 + 0.5 / size * np.stack(sums, 1)) ** 0.75
    got = numc.compile(model_of(tmp_path, [node], {"x": x}))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("free", [False, True])
def test_logarithms_of_sums(tmp_path: Path, free: bool) -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    constants = {"one": np.array([1], np.int64), "two": np.array([0, -1], np.int64)}
    nodes = [
        helper.make_node("ReduceLogSumExp", ["x", *given], [f"y{n}{keeps}"], keepdims=keeps)
        for n, given in enumerate(([], ["one"], ["two"]))
        for keeps in (0, 1)
    ]
    compare(model_of(tmp_path, nodes, feeds, constants=constants, free=free), feeds)


def compare_einsums(path: Path, shapes: dict[str, tuple[int, ...]], cases: dict[str, str]) -> None:
    """Compare all equations in one model. cases: the names of each one's operands."""
    rng = np.random.default_rng(0)
    feeds = {name: np.array(rng.standard_normal(shape), np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Einsum", [*names], [f"y{n}"], equation=equation)
        for n, (equation, names) in enumerate(cases.items())
    ]
    compare(model_of(path, nodes, feeds), feeds)


def test_einsum_without_a_result(tmp_path: Path) -> None:
    """Its letters are those that come once, in alphabetical order."""
    shapes = {"a": (3, 4), "b": (4, 5), "c": (2, 3, 4), "d": (5,)}
    compare_einsums(tmp_path, shapes, {"ij,jk": "ab", "ba": "a", "i,j": "dd", "zij,jk": "cb"})


def test_einsum_with_an_ellipsis_of_no_dimensions(tmp_path: Path) -> None:
    shapes: dict[str, tuple[int, ...]] = {"a": (3, 4), "b": (4, 5), "c": (2, 4, 5), "d": ()}
    cases = {"...ij,...jk->...ik": "ab", "... ij, jk": "ab", "ij,...jk->...ik": "ac", "...,...->...": "dd"}
    compare_einsums(tmp_path, shapes, cases)


def test_slices_backwards_along_free_dimensions(tmp_path: Path) -> None:
    """From and to places that are counted from either end, inside and outside."""
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)}
    last = np.iinfo(np.int64)
    bounds = [
        (-1, -(2**62), -2),
        (3, 0, -1),
        (last.max, last.min, -3),
        (-2, 1, -1),
        (9, -4, -2),
        (1, 3, -1),
        (9, 7, -1),
    ]
    nodes, constants = [], {"axis": np.array([1])}
    for n, given in enumerate(bounds):
        names = [f"{what}{n}" for what in ("start", "end", "step")]
        constants |= {name: np.array([value]) for name, value in zip(names, given, strict=True)}
        nodes.append(helper.make_node("Slice", ["x", *names[:2], "axis", names[2]], [f"y{n}"]))
    compare(model_of(tmp_path, nodes, feeds, free=True, constants=constants), feeds)


@pytest.mark.parametrize("aligned", [0, 1])
def test_grids(tmp_path: Path, aligned: int) -> None:
    """Of one image, and of several, in two and in three dimensions."""
    rng = np.random.default_rng(0)
    shapes = {"a": (1, 2, 3), "b": (2, 2, 3), "c": (1, 3, 4)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    sizes = {"a": [1, 2, 4, 5], "b": [2, 3, 5, 6], "c": [1, 2, 3, 4, 5]}
    constants = {f"s{name}": np.array(size, np.int64) for name, size in sizes.items()}
    nodes = [helper.make_node("AffineGrid", [n, f"s{n}"], [f"y{n}"], align_corners=aligned) for n in feeds]
    compare(model_of(tmp_path, nodes, feeds, constants=constants, opset=20), feeds)


def test_images_of_bytes_are_resized(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        "u": rng.integers(0, 256, (1, 2, 5, 6)).astype(np.uint8),
        "s": rng.integers(-128, 128, (1, 2, 4, 3)).astype(np.int8),
    }
    constants = {"scales": np.array([1, 1, 2, 2], np.float32)}
    nodes = [
        helper.make_node(
            "Resize", [name, "", "scales"], [f"{name}{how}"], mode="linear", coordinate_transformation_mode=how
        )
        for name in feeds
        for how in ("half_pixel", "asymmetric", "align_corners")
    ]
    path = model_of(tmp_path, nodes, feeds, constants=constants)
    compare_closely(path, feeds)


def compare_closely(path: Path, feeds: dict[str, Array]) -> None:
    """Averages are cut off: a rounding error of one is a step."""
    session = onnxruntime.InferenceSession(path)
    got = numc.compile(path).by_name(feeds)
    for name, want in zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True):
        assert got[name].dtype == want.dtype
        away = np.abs(got[name].astype(int) - want.astype(int))
        assert away.max() <= 1, name
        assert (away == 0).mean() > 0.9, name


def test_factors_of_gemm(tmp_path: Path) -> None:
    feeds = {name: np.random.default_rng(0).standard_normal(s).astype(np.float32) for name, s in
             {"a": (3, 4), "b": (4, 5), "c": (5,)}.items()}  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["a", "b"], ["without"], alpha=0.5, beta=0.25),
        helper.make_node("Gemm", ["a", "b", ""], ["empty"], alpha=0.5),
        helper.make_node("Gemm", ["a", "b", "c"], ["both"], alpha=0.5, beta=0.25),
    ]
    compare(model_of(tmp_path, nodes, feeds), feeds)


def test_quantised_convolutions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = {"x": rng.integers(0, 256, (1, 4, 7, 6), dtype=np.uint8)}
    padding: list[dict[str, Any]] = [{"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID"}, {"pads": [1, 0, 2, 1]}]
    nodes, constants = [], {"xs": np.float32(0.02), "xz": np.uint8(119), "ys": np.float32(0.7), "yz": np.uint8(99)}
    for n, given in enumerate(padding):
        scales = (rng.random(8, dtype=np.float32) if n else np.float32(0.5)) / 100
        constants |= {
            f"w{n}": rng.integers(-127, 128, (8, 4 // (1 + n % 2), 3, 3), dtype=np.int8),
            f"ws{n}": np.asarray(scales, np.float32),
            f"wz{n}": rng.integers(-5, 5, np.shape(scales), dtype=np.int8),
            f"b{n}": rng.integers(-3000, 3000, 8, dtype=np.int32),
        }
        weight = [f"w{n}", f"ws{n}", f"wz{n}", "ys", "yz", *([f"b{n}"] if n else [])]
        strides = {"strides": [1 + n, 1], "group": 1 + n % 2}
        nodes.append(helper.make_node("QLinearConv", ["x", "xs", "xz", *weight], [f"y{n}"], **given, **strides))
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    compare(model_of(tmp_path, nodes, feeds, constants=arrays), feeds)
    compare(model_of(tmp_path, nodes[1:], feeds, free=True, constants=arrays), feeds)  # channels, too
    arrays["yz"] = np.zeros((), np.int32)
    with pytest.raises(numc.NumcError, match="its result is of a type other than integers of 8 and 16 bits"):
        numc.compile(model_of(tmp_path, nodes, feeds, constants=arrays))


def test_quantised_products(tmp_path: Path) -> None:
    """A scale for each column, as onnxruntime quantises weights per channel, and stacks along free dimensions."""
    rng = np.random.default_rng(0)
    sizes = {"a": (2, 3, 4, 5), "b": (2, 3, 5, 6), "c": (3, 5, 6), "d": (2, 1, 5, 6)}
    feeds = {name: rng.integers(0, 256, size, dtype=np.uint8) for name, size in sizes.items()}
    constants = {
        "s": np.float32(0.02), "z": np.uint8(119), "ys": np.float32(0.7), "yz": np.uint8(99),
        "w": rng.integers(-127, 128, (5, 6), dtype=np.int8), "wz": rng.integers(-5, 5, 6, dtype=np.int8),
        "v": rng.integers(-127, 128, (5, 6), dtype=np.int8),
        "ws": rng.random(6, dtype=np.float32) / 100, "wss": rng.random((1, 6), dtype=np.float32) / 100,
        "wzs": np.zeros((1, 6), np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QLinearMatMul", ["a", "s", "z", "w", "ws", "wz", "ys", "yz"], ["columns"]),
        helper.make_node("QLinearMatMul", ["a", "s", "z", "v", "wss", "wzs", "ys", "yz"], ["columns_of_matrix"]),
        helper.make_node("QLinearMatMul", ["a", "s", "z", "b", "s", "z", "ys", "yz"], ["stacks"]),
        *(helper.make_node("MatMulInteger", ["a", other, "z", "z"], [f"a{other}"]) for other in "bcd"),
    ]
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    path = model_of(tmp_path, nodes, feeds, constants=arrays, free=True)
    model = onnx.load(path)
    for n, axes in ((0, (3,)), (1, (2, 3)), (2, (1, 2)), (3, (1, 2, 3))):  # the others stay free
        for axis in axes:
            model.graph.input[n].type.tensor_type.shape.dim[axis].dim_value = feeds["abcd"[n]].shape[axis]
    del model.graph.value_info[:]
    onnx.save(model, path)
    compare(path, feeds)


def test_quantised_rows(tmp_path: Path) -> None:
    """A scale and a zero point for each row, which onnxruntime does not have."""
    rng = np.random.default_rng(0)
    a, zeros = (rng.integers(0, 256, size, dtype=np.uint8) for size in ((2, 4, 5), 4))
    scales, w = rng.random(4, dtype=np.float32), rng.integers(-127, 128, (5, 6), dtype=np.int8)
    constants = {"s": scales, "z": zeros, "w": w, "ws": np.float32([0.01]), "wz": np.int8([3]), "yz": np.uint8([9] * 4)}
    node = helper.make_node("QLinearMatMul", ["a", "s", "z", "w", "ws", "wz", "s", "yz"], ["y"])
    got = numc.compile(model_of(tmp_path, [node], {"a": a}, constants=constants))(a)
    whole = (a.astype(int) - zeros[:, None]) @ (w.astype(int) - 3)
    factor = (scales * np.float32(0.01) / scales)[:, None]
    np.testing.assert_array_equal(got, np.clip(np.round(whole.astype(np.float32) * factor) + 9, 0, 255))


def test_free_sizes_and_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    x[0, 0, 0, :3] = np.nan, -0.0, -2.0
    feeds = {"x": x, "z": rng.standard_normal((2, 3, 4)).astype(np.float32),
             "i": np.array([-3, 0, 7]), "g": np.float32([np.nan, 1, -2, 3, np.nan, -0.0]),
             "f": np.float32([3e9, -3e9, 1e20, np.nan, -1.5, 300.0])}  # fmt: skip
    constants = {"scale": np.float32([1, 2, 3]), "bias": np.float32([3, 2, 1])}
    nodes = [
        helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["images"], epsilon=0.01),
        helper.make_node("InstanceNormalization", ["z", "scale", "bias"], ["rows"]),
        helper.make_node("Sign", ["x"], ["sign"]),
        helper.make_node("Sign", ["i"], ["whole"]),
        *[
            helper.make_node(op, pair, [op + "".join(pair)])
            for op in ("Max", "Min")
            for pair in (["f", "g"], ["g", "f"])
        ],
        helper.make_node("Cast", ["f"], ["i32"], to=TensorProto.INT32),
        helper.make_node("Cast", ["f"], ["i64"], to=TensorProto.INT64),
    ]
    compare(model_of(tmp_path, nodes, feeds, free=True, constants=constants), feeds)


@pytest.mark.all
def test_operators_that_onnx_defines_by_others(tmp_path: Path) -> None:
    """Cases of ONNX's own suite, of operators that torch-mlir does not lower or lowers wrongly."""
    cases = {case.name: case for case in collect_testcases(None)}
    for name in (
        "test_rms_normalization_3d_axis_negative_2_epsilon",
        "test_rotary_embedding_interleaved",
        "test_mvn",
        "test_group_normalization_epsilon",
        "test_sce_mean_weight_ii_3d_log_prob",
        "test_attention_4d_with_qk_matmul_softcap",
    ):
        case = cases[name]
        onnx.save(case.model, tmp_path / "case.onnx")
        ((inputs, outputs),) = case.data_sets
        found = numc.compile(tmp_path / "case.onnx").by_name(
            {i.name: np.asarray(value) for i, value in zip(case.model.graph.input, inputs, strict=True)}
        )
        for output, want in zip(case.model.graph.output, outputs, strict=True):
            np.testing.assert_allclose(found[output.name], want, rtol=1e-3, atol=1e-5, err_msg=name)
    layers = [row["kind"] for row in numc.explain(tmp_path / "case.onnx").layers]
    assert "attention" in layers


def test_the_k_of_a_run(tmp_path: Path) -> None:
    """TopK with k as an input: along the first dimension and the last."""
    x = np.random.default_rng(0).permutation(24).reshape(4, 6).astype(np.float32)
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"], name="rows"),
        helper.make_node("TopK", ["x", "k"], ["w", "j"], name="columns", axis=0, largest=0),
    ]
    feeds = {"x": x, "k": np.array([3], np.int64)}
    compare(model_of(tmp_path, nodes, feeds), feeds)
    program = numc.compile(tmp_path / "m.onnx")
    for k in (7, 5, -1, -3):  # 5: more than the columns have
        with pytest.raises(numc.NumcError, match="k is .*in "):
            program(x, np.array([k], np.int64))


def test_resizing_before_it_had_attributes(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) ** 2
    nodes = [
        helper.make_node("Upsample", ["x", "s"], ["linear"], mode="linear"),
        helper.make_node("Upsample", ["x", "s"], ["nearest"], mode="nearest"),
    ]
    file = model_of(tmp_path, nodes, {"x": x}, constants={"s": np.float32([1, 1, 2, 1.5])}, opset=9)
    compare(file, {"x": x})


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("sizes", "indices", "options"),
    [
        ((3, 4), (5, 2), {}),
        ((3, 4, 5), (2, 6, 2), {}),
        ((2, 3, 4, 5), (2, 3, 2, 2), {"batch_dims": 2}),
        ((3, 4, 5), (3, 6, 1), {"batch_dims": 1}),
        ((3, 4), (5, 2), {"reduction": "none"}),
        ((3, 4, 5), (6, 2), {"reduction": "add"}),
    ],
)
def test_elements_at_lists_of_indices(
    tmp_path: Path, sizes: tuple[int, ...], indices: tuple[int, ...], options: dict[str, Any], free: bool
) -> None:
    """GatherND and ScatterND, and an index that is outside of its dimension but not of the tensor."""
    rng, batch, depth = np.random.default_rng(0), options.get("batch_dims", 0), indices[-1]
    limits = sizes[batch : batch + depth]
    places = rng.permutation(int(np.prod(limits)))[: np.prod(indices[:-1])]
    places = np.resize(places, int(np.prod(indices[:-1])))
    x = rng.standard_normal(sizes).astype(np.float32)
    i = np.stack(np.unravel_index(places, limits), -1).reshape(indices)
    i[..., 0] -= limits[0] * rng.integers(0, 2, indices[:-1])  # from the end
    feeds = {"x": x, "i": i}
    operator = "ScatterND" if "reduction" in options else "GatherND"
    if operator == "ScatterND":
        feeds["u"] = rng.standard_normal((*indices[:-1], *sizes[depth:])).astype(np.float32)
    node = helper.make_node(operator, list(feeds), ["y"], **options)
    path = model_of(tmp_path, [node], feeds, free="x" if free else False)
    compare(path, feeds)
    program = numc.compile(path)
    for n, limit in enumerate(limits):
        for outside in (limit, -limit - 1, 2**40, -(2**63)):
            wrong = i.copy()
            wrong[(0,) * (i.ndim - 1)][n] = outside
            with pytest.raises(numc.NumcError, match="^an index is out of range"):
                program({**feeds, "i": wrong})


def test_refused_nodes_are_all_listed(tmp_path: Path) -> None:
    x = {name: np.ones(shape, np.float32) for name, shape in {"a": (2, 1, 4), "b": (1, 2, 2, 2)}.items()}
    nodes = [
        helper.make_node("MaxPool", ["a"], ["p", "q"], name="places", kernel_shape=[2]),
        helper.make_node("GridSample", ["b", "b"], ["g"], name="grid", mode="cube"),
        helper.make_node("Bernoulli", ["a"], ["r"], name="coin"),
        helper.make_node("RNN", ["a", "w", "w"], ["h"], name="bound", hidden_size=4, clip=1.0),
        helper.make_node("RNN", ["a", "w", "w"], ["k"], name="leaky", hidden_size=4, activations=["LeakyRelu"]),
        helper.make_node("LSTM", ["a", "v", "v", "", "", "", "", "u"], ["m"], name="peep", hidden_size=4),
        helper.make_node("Split", ["a", "parts"], ["s"], name="far", axis=7),
        *(helper.make_node(operator, ["n"], [operator], name=operator) for operator in ("Softmax", "LogSoftmax")),
        helper.make_node("Cast", ["s"], ["ss"], to=TensorProto.FLOAT),
    ]
    constants = {"w": np.ones((1, 4, 4), np.float32), "v": np.ones((1, 16, 4), np.float32),
                 "u": np.ones((1, 12), np.float32), "parts": np.array([1, 3]), "n": np.float32(1)}  # fmt: skip
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(model_of(tmp_path, nodes, x, free=True, constants=constants))
    reasons = {
        "'places' (MaxPool": "it is available for images of fixed sizes only: give shapes={...} or --shape",
        "'grid' (GridSample": "its mode 'cube' with padding_mode 'zeros' is none that ONNX has",
        "'coin' (Bernoulli": "draws random numbers: give them to the model as an input",
        "'bound' (RNN": "its attribute clip is not available",
        "'leaky' (RNN": "the activation LeakyRelu is not available, only Relu, Sigmoid, Tanh",
        "'peep' (LSTM": "its peephole weights P are not available",
        "'far' (Split": "its axis 7 is none of the 3 of its input",
        "'Softmax' (Softmax": "its axis -1 is none of the 0 of its input",
        "'LogSoftmax' (LogSoftmax": "its axis -1 is none of the 0 of its input",
    }
    listed = "; ".join(f"node {node}, opset 18): {reason}" for node, reason in reasons.items())
    assert str(caught.value).endswith(f": 9 nodes cannot be compiled: {listed}")


@pytest.mark.parametrize(
    ("operator", "direction"),
    by_default(
        one_in(2, pairs(["LSTM", "GRU", "RNN"], ["forward", "reverse", "bidirectional"])), [("RNN", "bidirectional")]
    ),
)
def test_lengths_of_sequences(tmp_path: Path, operator: str, direction: str) -> None:
    """A batch of padded sequences has the results of each sequence alone, to the bit, and 0 behind them."""
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator], 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 3, 3)).astype(np.float32)
    lengths = np.int32([5, 2, 1])
    constants = {"w": rng.standard_normal((count, 4 * gates, 3)).astype(np.float32),
                 "r": rng.standard_normal((count, 4 * gates, 4)).astype(np.float32)}  # fmt: skip
    results = ["y", "last", *(["unread"] if operator == "LSTM" else [])]

    def cells(*given: str) -> onnx.NodeProto:
        return helper.make_node(operator, ["x", "w", "r", *given], results, "cells", hidden_size=4, direction=direction)

    read = [helper.make_node("Identity", [name], [f"the {name}"]) for name in ("y", "last")]
    many = model_of(tmp_path, [cells("", "n"), *read], {"x": x, "n": lengths}, constants=constants)
    model = onnx.load(many)
    del model.graph.output[:-2]
    found = numc.compile(model).by_name({"x": x, "n": lengths})
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(["the y", "the last"], {"x": x, "n": lengths})
    for name, values in zip(("the y", "the last"), want, strict=True):
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5)
    for n, length in enumerate(lengths):
        part = np.ascontiguousarray(x[:length, n : n + 1])
        alone = numc.compile(model_of(tmp_path, [cells()], {"x": part}, constants=constants)).by_name({"x": part})
        np.testing.assert_array_equal(found["the y"][:length, :, n], alone["y"][:, :, 0])
        np.testing.assert_array_equal(found["the last"][:, n], alone["last"][:, 0])
        assert not found["the y"][length:, :, n].any()


def test_lengths_that_are_full(tmp_path: Path) -> None:
    """All results are available; of other lengths, the last state of the cells is not."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((5, 2, 3)).astype(np.float32)}
    constants = {"w": rng.standard_normal((1, 16, 3)).astype(np.float32),
                 "r": rng.standard_normal((1, 16, 4)).astype(np.float32), "n": np.int32([5, 5])}  # fmt: skip
    node = helper.make_node("LSTM", ["x", "w", "r", "", "n"], ["y", "h", "c"], name="cells", hidden_size=4)
    compare(model_of(tmp_path, [node], feeds, constants=constants), feeds)
    short = model_of(tmp_path, [node], feeds, constants={**constants, "n": np.int32([5, 3])})
    with pytest.raises(numc.NumcError, match="'cells' .*its result Y_c is not available with sequence_lens of other"):
        numc.compile(short)


@pytest.mark.parametrize(
    ("operator", "first"), by_default(pairs(["LSTM", "GRU", "RNN"], [False, True]), [("LSTM", False)])
)
def test_free_sizes_of_recurrent_layers(tmp_path: Path, operator: str, first: bool) -> None:
    """All sizes are free, with and without states to begin with; those of features follow from the weights."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((5, 2, 3)).astype(np.float32)}
    if first:
        feeds["h"] = rng.standard_normal((2, 2, 4)).astype(np.float32)
    constants = {"w": rng.standard_normal((2, 4 * gates, 3)).astype(np.float32),
                 "r": rng.standard_normal((2, 4 * gates, 4)).astype(np.float32)}  # fmt: skip
    inputs = ["x", "w", "r", "", "", *(["h"] if first else [])]
    node = helper.make_node(operator, inputs, ["y", "last"], hidden_size=4, direction="bidirectional")
    file = model_of(tmp_path, [node], feeds, constants=constants, free=True)
    program, session = numc.compile(file), onnxruntime.InferenceSession(file)
    for steps, sequences in ((5, 2), (1, 3), (7, 1)):
        given = {"x": rng.standard_normal((steps, sequences, 3)).astype(np.float32)}
        if first:
            given["h"] = rng.standard_normal((2, sequences, 4)).astype(np.float32)
        got = program.by_name(given)
        for name, want in zip(("y", "last"), session.run(["y", "last"], given), strict=True):
            np.testing.assert_allclose(got[name], want, atol=1e-5)  # fp32 libraries sum in other orders


def test_rewritten_nodes_take_free_sizes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"x": (2, 3, 5, 4), "g": (2, 3, 3, 2), "t": (6, 2, 3), "m": (2, 3, 4), "v": (4,), "s": (2, 8, 1)}
    feeds: dict[str, Array] = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    constants = {
        "w": rng.standard_normal((2, 16, 3)).astype(np.float32),
        "r": rng.standard_normal((2, 16, 4)).astype(np.float32),
        "minus": np.array([-1]), "before": np.array([-(2**63)]), "last": np.array([2]), "axis": np.array(-2),
    }  # fmt: skip
    nodes = [
        *[helper.make_node("GridSample", ["x", "g"], [f"{mode}_{padding}{aligned}"], mode=mode, padding_mode=padding,
                           align_corners=aligned)
          for mode, padding, aligned in (("linear", "zeros", 0), ("cubic", "border", 1), ("nearest", "reflection", 0))],
        helper.make_node("Slice", ["m", "minus", "before", "last", "minus"], ["backwards"]),
        helper.make_node("LSTM", ["t", "w", "r"], ["both"], hidden_size=4, direction="bidirectional"),
        helper.make_node("MatMul", ["m", "v"], ["product"]),
        helper.make_node("LpNormalization", ["m"], ["unit"], axis=1),
    ]  # fmt: skip
    free = {"x": ["n", 3, "h", "w"], "g": ["n", "p", "q", 2], "t": ["l", 2, 3], "m": ["n", 3, "k"], "v": ["k"]}
    file = model_of(tmp_path, nodes, {name: feeds[name] for name in free}, constants=constants, opset=20)
    model = onnx.load(file)
    for value in model.graph.input:
        sizes = free[value.name]
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, sizes))
    onnx.save(model, file)
    compare(file, {name: feeds[name] for name in free})


@pytest.mark.all
def test_sequences_and_optionals(tmp_path: Path) -> None:
    """Sequences are written away; one that is an output becomes outputs; the number of boxes depends on data."""
    rng = np.random.default_rng(0)
    x, boxes = rng.standard_normal((2, 3, 4)).astype(np.float32), rng.uniform(0, 1, (2, 12, 4)).astype(np.float32)
    boxes[..., 2:] = boxes[..., :2] + 0.4
    feeds = {"x": x, "boxes": boxes, "scores": rng.uniform(0, 1, (2, 3, 12)).astype(np.float32)}
    body = helper.make_graph(
        [helper.make_node("Mul", ["e", "e"], ["q"])],
        "square",
        [helper.make_tensor_value_info("e", 1, None)],
        [helper.make_tensor_value_info("q", 1, None)],
    )
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0),
        helper.make_node("SequenceAt", ["s", "one"], ["a"]),
        helper.make_node("SequenceInsert", ["s", "a", "one"], ["t"]),
        helper.make_node("SequenceErase", ["t", "last"], ["u"]),
        helper.make_node("SequenceMap", ["u"], ["v"], body=body),
        helper.make_node("ConcatFromSequence", ["v"], ["whole"], axis=1, new_axis=1),
        helper.make_node("SequenceLength", ["v"], ["length"]),
        helper.make_node("SequenceEmpty", [], ["nothing"]),
        helper.make_node("SequenceLength", ["nothing"], ["none"]),
        helper.make_node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        helper.make_node("Identity", ["parts"], ["parts_out"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "five", "half", "limit"], ["chosen"]),
        helper.make_node("Unique", ["chosen"], ["rows", "first", "back", "counts"], axis=0),
        helper.make_node("Identity", ["chosen"], ["chosen_out"]),
    ]
    constants = {"one": np.array(1), "last": np.array(-1), "two": np.array(2), "five": np.array([5]),
                 "half": np.float32([0.3]), "limit": np.float32([0.2])}  # fmt: skip
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    path = model_of(tmp_path, [n for n in nodes if n.op_type != "Unique"], feeds, constants=constants)
    model = onnx.load(path)
    next(o for o in model.graph.output if o.name == "parts_out").type.CopyFrom(sequence)
    onnx.save(model, path)
    got = numc.compile(path).by_name(feeds)
    chosen = [x[:, 0], x[:, 1], x[:, 1]]
    np.testing.assert_array_equal(got["whole"], np.stack([e * e for e in chosen], 1))
    assert got["length"] == 3
    assert got["none"] == 0
    assert [got[f"parts_out[{n}]"].tolist() for n in range(2)] == [x[:, :2].tolist(), x[:, 2:].tolist()]
    session = onnxruntime.InferenceSession(path)
    np.testing.assert_array_equal(got["chosen_out"], session.run(["chosen_out"], feeds)[0])


@pytest.mark.slow
def test_unique_and_deformed_convolutions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = {"x": rng.integers(0, 4, (9, 2)).astype(np.float32), "i": rng.standard_normal((2, 4, 6, 5), np.float32),
             "o": rng.standard_normal((2, 36, 5, 4), np.float32),
             "m": rng.uniform(0, 1, (2, 18, 5, 4)).astype(np.float32)}  # fmt: skip
    feeds["x"][3, 0] = feeds["x"][5, 0] = np.nan
    feeds["i"][0, 0, 0, 0] = 7
    constants = {"w": rng.standard_normal((6, 2, 3, 3), np.float32), "b": rng.standard_normal(6, np.float32)}
    nodes = [
        helper.make_node("Unique", ["x"], ["y", "first", "back", "counts"]),
        helper.make_node("Unique", ["x"], ["u_y", "u_first", "u_back", "u_counts"], sorted=0),
        helper.make_node("DeformConv", ["i", "w", "o", "b", "m"], ["c"], group=2, offset_group=2, strides=[1, 1],
                         pads=[1, 0, 0, 1], kernel_shape=[3, 3]),
    ]  # fmt: skip
    path = model_of(tmp_path, nodes, feeds, constants=constants, opset=19)
    got = numc.compile(path).by_name(feeds)
    y, first, back, counts = np.unique(feeds["x"], True, True, True)
    for name, want in {"y": y, "first": first, "back": back.reshape(-1), "counts": counts}.items():
        np.testing.assert_array_equal(got[name], want)
    order = np.argsort(first)
    for name, want in {"u_y": y[order], "u_first": first[order], "u_counts": counts[order]}.items():
        np.testing.assert_array_equal(got[name], want)
    path = model_of(tmp_path, nodes[2:], {name: feeds[name] for name in "iom"}, constants=constants, opset=19)
    want = onnx.reference.ReferenceEvaluator(onnx.load(path)).run(["c"], {name: feeds[name] for name in "iom"})[0]
    np.testing.assert_allclose(got["c"], want, rtol=1e-4, atol=1e-4)


def test_refused_sequences_and_models(tmp_path: Path) -> None:
    """Each reason is one line, with the name of the node in the file, also of one that a rewritten node became."""
    x = {"a": np.ones((2, 3), np.float32), "n": np.ones((1, 2, 8), np.float32),
         "at": np.array(0), "d": np.ones((2, 3)), "i": np.ones((1, 2, 3, 3), np.float32),
         "u": np.ones((1, 8), np.uint8)}  # fmt: skip
    ml, ms = {"domain": "ai.onnx.ml"}, {"domain": "com.microsoft"}
    constants = {"one": np.array(1), "ninth": np.array(9), "f": np.array(1, np.float32),
                 "k": np.ones((1, 2, 2, 2), np.float32)}  # fmt: skip
    rows = [
        ("SequenceAt", ["s", "at"], "its position 'at' is computed: it has to be a constant", {}),
        ("SequenceAt", ["s", "ninth"], "its position 9 is none of a sequence of 2 elements", {}),
        ("ConcatFromSequence", ["e"], "its sequence has no elements", {"axis": 0}),
        ("OptionalGetElement", ["o"], "its optional holds nothing", {}),
        ("DeformConv", ["i", "k", "i"], "its offsets 'i' have sizes [2, 3, 3] for an image: [8, 2, 2] are needed", {}),
        ("QuantizeLinear", ["d", "f"], "'d' or its scale is float64: float32, float16 and bfloat16 are available", {}),
        ("Normalizer", ["a"], "its norm is 'L3': MAX, L1 and L2 are what ONNX has", dict(norm="L3", **ml)),
        ("LabelEncoder", ["at"], "only keys and values that are lists of numbers are available, as many as each other",
         dict(keys_int64s=[1], values_strings=["a"], **ml)),
        ("TreeEnsembleRegressor", ["a"], "its attribute post_transform is SOFTMAX: only NONE is available",
         dict(post_transform="SOFTMAX", **ml)),
        ("TreeEnsembleRegressor", ["a"], "a tree has more than 64 decisions one after the other",
         dict(nodes_treeids=[0], nodes_nodeids=[0], nodes_featureids=[0], nodes_values=[0.0], nodes_truenodeids=[0],
              nodes_falsenodeids=[0], nodes_modes=["BRANCH_LT"], **ml)),
        ("FusedGemm", ["a", "a"], "its activation 'Cosh' is not available: HardSigmoid, LeakyRelu, Relu, Sigmoid, Tanh "
         "and Clip are", dict(activation="Cosh", transB=1, **ms)),
        ("GatherBlockQuantized", ["u", "at", "a"], "its data 'u' is computed: it has to be a constant",
         dict(quantize_axis=0, **ms)),
    ]  # fmt: skip
    nodes = [
        helper.make_node("SplitToSequence", ["a", "one"], ["s"], axis=0),
        helper.make_node("SequenceEmpty", [], ["e"]),
        helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, [1])),
    ]
    inputs = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in x.items()]
    for n, (operator, given, _, attributes) in enumerate(rows):
        nodes.append(helper.make_node(operator, given, [f"y{n}"], name=f"n{n}", **attributes))
    outputs = [onnx.ValueInfoProto(name=f"y{n}") for n in range(len(rows))]
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    opsets = [helper.make_opsetid(*each) for each in (("", 22), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, stored), opset_imports=opsets)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(tmp_path / "m.onnx")
    for n, (operator, _, reason, _) in enumerate(rows):
        assert f"'n{n}' ({operator}, opset 22): {reason}" in str(caught.value), reason
