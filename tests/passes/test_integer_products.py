"""Contractions of bytes, as quantised layers have them, are exact, however long, and are computed by kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import numc
from numc.compiler.lower import lower
from targets_here import HERE
from tiers import one_in, pairs

Array = np.ndarray[Any, Any]
EXTREMES = {np.uint8: (0, 255), np.int8: (-128, 127)}
CASES = [(n, a, b) for n in (1, 257, 258, 259, 600, 3000) for a in EXTREMES for b in EXTREMES]
USUAL = [(3000, np.uint8, np.int8)]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type, *, extreme: bool) -> Array:
    """Bytes; extreme: the smallest and the largest only, of which sums are the largest that there are."""
    if extreme:
        return rng.choice(EXTREMES[dtype], shape).astype(dtype)
    return rng.integers(EXTREMES[dtype][0], EXTREMES[dtype][1] + 1, shape).astype(dtype)


def model(path: Path, operator: str, feeds: dict[str, Array], constants: dict[str, Array], free: bool,
          **attributes: Any) -> Path:  # fmt: skip
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype),
                                      ["n", *value.shape[1:]] if free and value.ndim else value.shape)
        for name, value in feeds.items()
    ]  # fmt: skip
    node = helper.make_node(operator, ["a", "b", "a_zero", "b_zero"], ["y"], name="product", **attributes)
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(made, path / "m.onnx")
    return path / "m.onnx"


def check(file: Path, feeds: dict[str, Array], want: Array, target: str = "host") -> None:
    got = numc.compile(file, target=target).by_name(feeds)["y"]
    assert got.dtype == np.int32
    assert got.shape == want.shape
    wrong = np.argwhere(got != want)
    assert not len(wrong), f"{wrong[0]}: {int(got[tuple(wrong[0])]):#x}, want {int(want[tuple(wrong[0])]):#x}"


@pytest.mark.parametrize(("length", "first", "second"), one_in(11, CASES, *USUAL))
@pytest.mark.parametrize("extreme", [False, True])
def test_matrices(tmp_path: Path, length: int, first: type, second: type, extreme: bool) -> None:
    """A sum of 258 products of 9 bits is below 2^24, that of 259 may be above. Zero points are known in the run."""
    rng, dtypes = np.random.default_rng(length), (first, second)
    a, b = (numbers(rng, shape, dtype, extreme=extreme)
            for shape, dtype in zip(((2, 5, length), (length, 33)), dtypes, strict=True))  # fmt: skip
    zeros = [np.asarray(EXTREMES[dtype][n], dtype) for n, dtype in enumerate(dtypes)]
    want = (a.astype(np.int64) - int(zeros[0])) @ (b.astype(np.int64) - int(zeros[1]))
    feeds = {"a": a, "a_zero": zeros[0], "b_zero": zeros[1]}
    check(model(tmp_path, "MatMulInteger", feeds, {"b": b}, free=True), feeds, want)
    # One zero point for each column, and weights that the run brings.
    columns = numbers(rng, (33,), second, extreme=True)
    feeds = {"a": a, "b": b, "a_zero": zeros[0]}
    want = (a.astype(np.int64) - int(zeros[0])) @ (b.astype(np.int64) - columns.astype(np.int64))
    check(model(tmp_path, "MatMulInteger", feeds, {"b_zero": columns}, free=False), feeds, want)


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_convolutions(tmp_path: Path, groups: int, free: bool, symmetric: bool) -> None:
    """Symmetric weights have 8 bits, and not 9. What pads the images is no zero of the bytes that are multiplied."""
    rng = np.random.default_rng(groups)
    channels = 6 if groups > 1 else 130
    a = numbers(rng, (2, channels, 7, 9), np.uint8, extreme=True)
    b = numbers(rng, (12, channels // groups, 3, 3), np.int8, extreme=True)
    zero, zeros = np.uint8(250), numbers(rng, (12,), np.int8, extreme=True) * np.int8(not symmetric)
    wide = np.pad(a.astype(np.int64) - int(zero), ((0, 0), (0, 0), (1, 1), (0, 1)))
    kernel = b.astype(np.int64) - zeros.astype(np.int64).reshape(-1, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))[:, :, ::2]
    of_groups = windows.reshape(2, groups, channels // groups, *windows.shape[2:])
    want = np.einsum("ngchwij,gkcij->ngkhw", of_groups, kernel.reshape(groups, 12 // groups, channels // groups, 3, 3))
    want = want.reshape(2, 12, *windows.shape[2:4])
    feeds = {"a": a}
    constants = {"b": b, "a_zero": zero, "b_zero": zeros}
    file = model(tmp_path, "ConvInteger", feeds, constants, free, group=groups, pads=[1, 0, 1, 1], strides=[2, 1])
    check(file, feeds, want)


# The types and the zero points of A and B, and what their product is computed by: zero points are numbers, or given to
# the run. Only constant weights are summed by columns.
OPERATORS = [
    ((np.uint8, 113), (np.int8, 0), "bytes"),
    ((np.int8, -7), (np.int8, 0), "bytes"),
    ((np.uint8, "given"), (np.uint8, 128), "bytes"),
    ((np.uint8, 3), (np.uint8, 127), "integers"),
    ((np.int8, "given"), (np.int8, 5), "integers"),
]
SIZES = [(1, 600, 33), (5, 3, 17), (17, 33, 15), (40, 1025, 130), (3, 258, 1)]


@pytest.mark.parametrize(("first", "second", "operator"), OPERATORS)
@pytest.mark.parametrize(("target", "sizes"), pairs(HERE, SIZES))
def test_words_of_bytes_and_of_pairs(
    tmp_path: Path, first: Any, second: Any, operator: str, target: str, sizes: tuple[int, int, int]
) -> None:
    (a_type, a_zero), (b_type, b_zero) = first, second
    (m, k, n), rng = sizes, np.random.default_rng(sum(sizes))
    a, b = numbers(rng, (m, k), a_type, extreme=True), numbers(rng, (k, n), b_type, extreme=True)
    feeds, constants = {"a": a}, {"b": b, "b_zero": np.asarray(b_zero, b_type)}
    if a_zero == "given":
        a_zero = EXTREMES[a_type][1]
        feeds["a_zero"] = np.asarray(a_zero, a_type)
    else:
        constants["a_zero"] = np.asarray(a_zero, a_type)
    want = (a.astype(np.int64) - int(a_zero)) @ (b.astype(np.int64) - int(b_zero))
    file = model(tmp_path, "MatMulInteger", feeds, constants, free=False)
    program = numc.compile(file, target=target)
    is_small = min(sizes) < 2 and b.size < 64  # a constant that is no weight
    assert is_small or [c["fma"] for c in program.manifest["contractions"]] == [operator]
    check(file, feeds, want, target)
    report = numc.verify(program, feeds, samples=50)
    assert (report.mismatches, report.checked > 0) == (0, True), report.first


@pytest.mark.parametrize("first", [np.uint8, np.int8])
@pytest.mark.parametrize("target", one_in(3, HERE, HERE[-1]))
def test_words_of_activations(tmp_path: Path, first: type, target: str) -> None:
    """Both operands are known in the run only, and A is transposed: rows are adjacent, or steps of k are."""
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (3, 75, 40), first, extreme=True), numbers(rng, (3, 75, 33), np.int8, extreme=True)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in {"a": a, "b": b}.items()
    ]
    nodes = [
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMulInteger", ["t", "b"], ["y"]),
        helper.make_node("Transpose", ["b"], ["u"], perm=[0, 2, 1]),
        helper.make_node("MatMulInteger", ["u", "a"], ["z"]),
    ]
    ends = [helper.make_empty_tensor_value_info(name) for name in "yz"]
    graph = helper.make_graph(nodes, "g", inputs, ends)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    program = numc.compile(tmp_path / "m.onnx", target=target)
    got = program.by_name({"a": a, "b": b})
    want = a.astype(np.int64).transpose(0, 2, 1) @ b.astype(np.int64)
    assert np.array_equal(got["y"], want)
    assert np.array_equal(got["z"], want.transpose(0, 2, 1))
    kinds = {c["fma"] for c in program.manifest["contractions"]}
    assert kinds == ({"bytes"} if first is np.uint8 else {"integers"})
    assert not numc.verify(program, {"a": a, "b": b}, samples=50).mismatches


def test_they_are_no_operators_of_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact ones, which no operator changes and no policy sees; where they are switched off, the bits are the same."""
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (4, 1000), np.uint8, extreme=True), numbers(rng, (1000, 8), np.int8, extreme=True)
    constants = {"b": b, "a_zero": np.uint8(3), "b_zero": np.int8(0)}
    file = model(tmp_path, "MatMulInteger", {"a": a}, constants, free=False)
    text = str(lower(file, to="tensors", fma="bf16_1_1"))
    assert text.count('fma = "bytes"') == 1
    assert "bf16" not in text
    want = (a.astype(np.int64) - 3) @ b.astype(np.int64)
    check(file, {"a": a}, want)
    assert numc.explain(file, fma="bf16_1_1").layers == []
    counting = numc.compile(file, statistics=True)
    with numc.collect_stats() as found:
        assert np.array_equal(counting(a), want)
    with pytest.raises(numc.NumcError, match="no program of numc with a contraction ran"):
        _ = found.statistics
    with pytest.raises(numc.NumcError, match="unknown FMA operator 'bytes'"):
        numc.compile(file, fma="bytes")
    with pytest.raises(numc.NumcError, match="datapath 'bytes', want fp32, exact, fused, dot,"):
        numc.compile(file, fma="fma(a=fp32,acc=fp32,datapath=bytes)")
    monkeypatch.setenv("NUMC_DISABLE", "integer-products")
    assert "numc.fma" not in str(lower(file, to="tensors"))
    check(file, {"a": a}, want)


@pytest.mark.parametrize(("size", "contractions"), [(22, 1), (23, 0)])
def test_a_depthwise_convolution_is_one_of_float32(tmp_path: Path, size: int, contractions: int) -> None:
    """Its sums are at most 2^24, or it stays a loop: windows cannot be cut."""
    rng = np.random.default_rng(0)
    a = numbers(rng, (1, 4, 30, 30), np.uint8, extreme=True)
    b = numbers(rng, (4, 1, size, size), np.int8, extreme=True)
    constants = {"b": b, "a_zero": np.uint8(0), "b_zero": np.int8(0)}
    file = model(tmp_path, "ConvInteger", {"a": a}, constants, free=False, group=4)
    windows = np.lib.stride_tricks.sliding_window_view(a.astype(np.int64), (size, size), axis=(2, 3))
    check(file, {"a": a}, np.einsum("nchwij,cij->nchw", windows, b[:, 0].astype(np.int64)))
    assert str(lower(file, to="tensors")).count('fma = "fp32"') == contractions
