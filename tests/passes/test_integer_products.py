"""Contractions of bytes, as quantised layers have them, are exact, however long, and are float32 contractions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import numc
from numc.compiler.lower import lower
from tiers import one_in

Array = np.ndarray[Any, Any]
EXTREMES = {np.uint8: (0, 255), np.int8: (-128, 127)}
CASES = [(n, a, b) for n in (1, 257, 258, 259, 600, 3000) for a in EXTREMES for b in EXTREMES]
USUAL = [(259, np.uint8, np.int8), (3000, np.uint8, np.int8)]


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


def check(file: Path, feeds: dict[str, Array], want: Array) -> None:
    got = numc.compile(file).by_name(feeds)["y"]
    assert got.dtype == np.int32
    assert got.shape == want.shape
    wrong = np.argwhere(got != want)
    assert not len(wrong), f"{wrong[0]}: {int(got[tuple(wrong[0])]):#x}, want {int(want[tuple(wrong[0])]):#x}"


@pytest.mark.parametrize(("length", "first", "second"), one_in(5, CASES, *USUAL))
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
def test_convolutions(tmp_path: Path, groups: int, free: bool) -> None:
    rng = np.random.default_rng(groups)
    channels = 6 if groups > 1 else 130
    a = numbers(rng, (2, channels, 7, 9), np.uint8, extreme=True)
    b = numbers(rng, (12, channels // groups, 3, 3), np.int8, extreme=True)
    zero, zeros = np.uint8(255), numbers(rng, (12,), np.int8, extreme=True)
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


def test_they_are_contractions_of_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact ones, which no operator changes and no policy sees; where they are switched off, the bits are the same."""
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (4, 1000), np.uint8, extreme=True), numbers(rng, (1000, 8), np.int8, extreme=True)
    constants = {"b": b, "a_zero": np.uint8(3), "b_zero": np.int8(0)}
    file = model(tmp_path, "MatMulInteger", {"a": a}, constants, free=False)
    text = str(lower(file, to="tensors", fma="bf16_1_1"))
    assert text.count('fma = "fp32"') == 2
    assert "bf16" not in text
    want = (a.astype(np.int64) - 3) @ b.astype(np.int64)
    check(file, {"a": a}, want)
    assert numc.explain(file, fma="bf16_1_1").layers == []
    counting = numc.compile(file, statistics=True)
    with numc.collect_stats() as found:
        assert np.array_equal(counting(a), want)
    with pytest.raises(numc.NumcError, match="no program of numc with a contraction ran"):
        _ = found.statistics
    monkeypatch.setenv("NUMC_DISABLE", "integer-products")
    assert "numc.fma" not in str(lower(file, to="tensors"))
    check(file, {"a": a}, want)
