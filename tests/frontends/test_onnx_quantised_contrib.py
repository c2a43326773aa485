"""Quantised operators, of ONNX and of com.microsoft, give onnxruntime's bits: a table of cases, in one model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import numc
from numc.runtime.library import cpu_features
from onnx_nodes import Alone, Array, in_numc, in_onnxruntime, same_bits

pytest.importorskip("onnxruntime", minversion="1.24")
MS = "com.microsoft"
POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": 1},
    {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"},
]
CONVOLUTIONS: list[dict[str, Any]] = [{}, {"pads": [1] * 4, "strides": [2, 2]}, {"group": 2, "pads": [1] * 4}]
SHAPES = (((2, 3, 4, 4), (2, 3, 4, 4)), ((2, 3, 4, 4), (3, 1, 1)), ((5, 1), (1, 7)), ((6,), ()))


class Numbers:
    """Numbers of cases, drawn one after the other."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(1)

    def whole(self, dtype: Any, *shape: int, low: int | None = None, high: int | None = None) -> Array:
        """Integers of a dtype. Weights have 7 bits where onnxruntime's sums of 16 bits would saturate."""
        info = np.iinfo(dtype)
        return np.asarray(self.random.integers(
            info.min if low is None else low, (info.max if high is None else high) + 1, shape
        )).astype(dtype)  # fmt: skip

    def weight(self, dtype: Any, *shape: int) -> Array:
        """Weights, of 7 bits where there is no VNNI: there onnxruntime's sums of 16 bits saturate for larger ones."""
        if "avx512_vnni" in cpu_features():
            return self.whole(dtype, *shape)
        return self.whole(dtype, *shape, low=0 if dtype == np.uint8 else -64, high=127 if dtype == np.uint8 else 63)

    def real(self, *shape: int) -> Array:
        """Normal numbers."""
        return self.random.standard_normal(shape).astype(np.float32)

    def scale(self, *shape: int, low: float = 0.01, high: float = 0.1) -> Array:
        """Scales."""
        return np.asarray(self.random.uniform(low, high, shape), np.float32)

    def quantised(self, name: str, dtype: Any) -> dict[str, Array]:
        """A scale and a zero point of a value."""
        return {f"s{name}": self.scale(), f"z{name}": self.whole(dtype)}

    def all_quantised(self, names: str, dtype: Any) -> dict[str, Array]:
        """Those of several values, whose names are letters."""
        return {key: value for name in names for key, value in self.quantised(name, dtype).items()}


def _of_bytes(draw: Numbers, dtype: Any) -> Iterator[Alone]:
    for one, two in SHAPES:
        for operator in ("QLinearAdd", "QLinearMul"):
            both = {"a": draw.whole(dtype, *one), "b": draw.whole(dtype, *two)}
            yield Alone(operator=operator, domain=MS, feeds=both,
                        constants=draw.all_quantised("aby", dtype), order="a sa za b sb zb sy zy")  # fmt: skip
    ends = {**draw.quantised("a", dtype), **draw.quantised("y", dtype)}
    small = {
        **draw.quantised("a", dtype),
        "sy": np.float32(1 / 256),
        "zy": np.asarray(np.iinfo(dtype).min).astype(dtype),
    }
    for operator, given, constants in (
        ("QLinearSigmoid", {}, small),
        ("QLinearLeakyRelu", {"alpha": 0.1}, ends),
        *(("QLinearSoftmax", {"axis": axis, "opset": opset}, small)
          for axis, opset in ((-1, 13), (1, 13), (1, 12), (0, 11), (-1, 12))),
        *(("QLinearGlobalAveragePool", {"channels_last": last}, ends) for last in (0, 1)),
        *(("QLinearAveragePool", {**pool, "channels_last": last}, ends) for pool in POOLS for last in (0, 1)),
    ):  # fmt: skip
        shape = (2, 7, 7, 3) if "Pool" in operator else (3, 4, 10)
        yield Alone(operator=operator, domain=MS, feeds={"a": draw.whole(dtype, *shape)}, constants=constants,
                    order="a sa za sy zy", attributes=given)  # fmt: skip
    three = draw.all_quantised("aby", dtype)
    pair = {"a": draw.whole(dtype, 2, 3), "b": draw.whole(dtype, 2, 4)}
    yield Alone(operator="QLinearConcat", domain=MS, feeds=pair, constants=three, order="sy zy a sa za b sb zb",
                attributes={"axis": 1})  # fmt: skip
    either = {"c": draw.random.random((3, 4)) < 0.5, "a": draw.whole(dtype, 3, 4), "b": draw.whole(dtype, 4)}
    yield Alone(operator="QLinearWhere", domain=MS, feeds=either, constants=three, order="c a sa za b sb zb sy zy")
    yield Alone(operator="NhwcMaxPool", domain=MS, feeds={"a": draw.whole(dtype, 2, 7, 6, 3)}, order="a",
                attributes={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]})  # fmt: skip


def _of_weights(draw: Numbers, dtype: Any, weight: Any, per: tuple[int, ...]) -> Iterator[Alone]:
    """Products and convolutions; per: the shape of the scales of weights."""
    zero = draw.weight(weight, *per) if weight == np.int8 or not per else np.zeros(per, weight)
    ends = {**draw.quantised("a", dtype), "sw": draw.scale(*per, low=0.001, high=0.01), "zw": zero}
    result, bias = draw.quantised("y", dtype), draw.whole(np.int32, 6, low=-900, high=900)
    matrix = {**ends, "w": draw.weight(weight, 8, 6)}
    left = {"a": draw.whole(dtype, 5, 8)}
    yield Alone(operator="QGemm", domain=MS, feeds=left, constants={**matrix, **result, "b": bias},
                order="a sa za w sw zw b sy zy", attributes={"transB": 0})  # fmt: skip
    turned = {**ends, "w": draw.weight(weight, 6, 8)}
    yield Alone(operator="QGemm", domain=MS, feeds=left, constants={**turned, "b": bias}, order="a sa za w sw zw b",
                attributes={"transB": 1})  # fmt: skip
    yield Alone(operator="QGemm", domain=MS, feeds=left, constants={**turned, **result},
                order="a sa za w sw zw - sy zy", attributes={"transB": 1, "alpha": 0.5})  # fmt: skip
    stack = {"a": draw.whole(dtype, 2, 5, 8)}
    yield Alone(operator="MatMulIntegerToFloat", domain=MS, feeds=stack, constants={**matrix, "b": draw.real(6)},
                order="a w sa sw za zw b")  # fmt: skip
    yield Alone(operator="QLinearMatMul", feeds=stack, constants={**matrix, **result}, order="a sa za w sw zw sy zy")
    yield Alone(operator="MatMulInteger", feeds=stack, constants=matrix, order="a w za zw")
    for last in (None, 0, 1):
        for given in CONVOLUTIONS:
            kernel = draw.weight(weight, 6, 4 // given.get("group", 1), 3, 3)
            image = draw.whole(dtype, *((2, 9, 9, 4) if last else (2, 4, 9, 9)))
            yield Alone(operator="QLinearConv", domain="" if last is None else MS, feeds={"a": image},
                        constants={**ends, **result, "w": kernel, "b": bias}, order="a sa za w sw zw sy zy b",
                        attributes=given if last is None else {**given, "channels_last": last})  # fmt: skip


def _of_floats(draw: Numbers, weight: Any) -> Iterator[Alone]:
    one = {"w": draw.weight(weight, 8, 6), "s": draw.scale(), "z": draw.whole(weight), "b": draw.real(6)}
    each = {"w": draw.weight(weight, 8, 6), "s": draw.scale(6), "z": draw.whole(weight, 6)}
    for feeds in ({"a": draw.real(5, 8)}, {"a": draw.real(2, 5, 8)}, {"a": np.zeros((5, 8), np.float32)}):
        yield Alone(operator="DynamicQuantizeMatMul", domain=MS, feeds=feeds, constants=one, order="a w s z b")
        yield Alone(operator="DynamicQuantizeMatMul", domain=MS, feeds=feeds, constants=each, order="a w s z")
        yield Alone(operator="DynamicQuantizeLinear", feeds=feeds, order="a", outputs=3)
    words = {"ids": draw.whole(np.int32, 2, 4, low=0, high=8), "kinds": draw.whole(np.int32, 2, 4, low=0, high=1)}
    tables = {"w": (9, 16), "p": (5, 16), "t": (2, 16), "g": (16,), "b": (16,)}
    constants = {name: draw.whole(weight, *shape) for name, shape in tables.items()}
    constants |= {f"s{name}": draw.scale() for name in tables} | {f"z{name}": draw.whole(weight) for name in tables}
    yield Alone(operator="QEmbedLayerNormalization", domain=MS, feeds=words, constants=constants, outputs=2,
                order="ids kinds w p t g b - sw sp st sg sb zw zp zt zg zb", attributes={"epsilon": 1e-5})  # fmt: skip


def _attentions(draw: Numbers) -> Iterator[Alone]:
    source = draw.whole(np.uint8, 2, 4, 16)
    common = {"w": draw.weight(np.int8, 16, 48), "b": draw.real(48), "sa": draw.scale(), "za": draw.whole(np.uint8)}
    single = {**common, "sw": np.float32(0.01), "zw": draw.whole(np.int8)}
    columns = {**common, "sw": draw.scale(48, low=0.005, high=0.02), "zw": np.zeros(48, np.int8)}
    yield Alone(operator="QAttention", domain=MS, feeds={"h": source}, constants=columns,
                order="h w b sa sw - za zw", attributes={"num_heads": 4})  # fmt: skip
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    yield Alone(operator="QAttention", domain=MS, feeds={"h": source, "m": mask}, constants=single,
                order="h w b sa sw m za zw", attributes={"num_heads": 4})  # fmt: skip
    yield Alone(operator="QAttention", domain=MS, feeds={"h": source, "p": draw.real(2, 2, 4, 3, 4)}, constants=single,
                order="h w b sa sw - za zw p", outputs=2, attributes={"num_heads": 4, "unidirectional": 1})  # fmt: skip


def table() -> list[Alone]:
    """All cases."""
    draw, found = Numbers(), []
    for dtype in (np.uint8, np.int8):
        found += _of_bytes(draw, dtype)
        found += _of_floats(draw, dtype)
    for dtype, weight in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
        for per in ((), (6,)):
            found += _of_weights(draw, dtype, weight, per)
    found += _attentions(draw)
    words = {"a": draw.whole(np.int16, 5, 8)}
    found.append(Alone(operator="MatMulInteger16", domain=MS, feeds=words, order="a w",
                       constants={"w": draw.whole(np.int16, 8, 6, low=-999, high=999)}))  # fmt: skip
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        per = {"s": draw.scale(5), "z": draw.whole(dtype, 5)}
        for operator, value in (("QuantizeLinear", draw.real(5, 8)), ("DequantizeLinear", draw.whole(dtype, 5, 8))):
            found.append(Alone(operator=operator, domain=MS, feeds={"a": value}, order="a s z",
                               constants={"s": draw.scale(), "z": draw.whole(dtype)}))  # fmt: skip
            found.append(Alone(operator=operator, domain=MS, feeds={"a": value}, order="a s z", constants=per,
                               attributes={"axis": 0}))  # fmt: skip
    return found


NEAR = {"QEmbedLayerNormalization": 1e-6, "QAttention": 1e-6}
"""Operators that end in sums of floats, which onnxruntime takes in another order: how far a result may be away, of the
largest."""


@pytest.mark.parametrize("step", [pytest.param(5, marks=pytest.mark.all), pytest.param(1, marks=pytest.mark.slow)])
def test_cases(step: int) -> None:
    """The first case of every operator, and every so many."""
    whole = list(enumerate(table()))
    first = {case.operator: number for number, case in reversed(whole)}
    cases = {number: case for number, case in whole if number % step == 0 or first[case.operator] == number}
    wants = {number: found for number, case in cases.items() if (found := in_onnxruntime(case, 17)) is not None}
    results = in_numc({number: cases[number] for number in wants}, wants, 17)
    wrong = []
    for number, want in wants.items():
        case = cases[number]
        for mine, theirs in zip(results[number], want, strict=True):
            if case.operator in NEAR and theirs.dtype == np.float32:
                furthest = np.abs(mine - theirs).max() / np.abs(theirs).max()
                wrong += [] if furthest <= NEAR[case.operator] else [f"{case.label()}: {furthest}"]
            elif not same_bits(mine, theirs):
                wrong.append(case.label())
    assert not wrong, "\n".join(wrong)
    assert len(wants) == len(cases)


def test_sums_of_zeros_have_the_scale_1() -> None:
    """DynamicQuantizeLinear of zeros has the scale 1, as in onnxruntime; ONNX's definition would divide by 0."""
    case = Alone(operator="DynamicQuantizeLinear", feeds={"a": np.zeros((2, 3), np.float32)}, order="a", outputs=3)
    want = in_onnxruntime(case, 17)
    assert want is not None
    (found,) = in_numc({0: case}, {0: want}, 17).values()
    assert all(map(same_bits, found, want))
    assert found[1] == 1


def test_a_convolution_with_other_channels_than_its_weight_is_refused() -> None:
    draw = Numbers()
    constants = {**draw.quantised("a", np.uint8), "w": draw.weight(np.int8, 6, 4, 3, 3), "sw": draw.scale(),
                 "zw": draw.whole(np.int8), **draw.quantised("y", np.uint8)}  # fmt: skip
    case = Alone(operator="QLinearConv", domain=MS, feeds={"a": draw.whole(np.uint8, 2, 9, 9, 3)}, constants=constants,
                 order="a sa za w sw zw sy zy", attributes={"channels_last": 1})  # fmt: skip
    with pytest.raises(numc.NumcError, match="the image has other channels than the weight with a group of 1"):
        in_numc({0: case}, {0: [np.zeros((2, 7, 7, 6), np.uint8)]}, 17)
