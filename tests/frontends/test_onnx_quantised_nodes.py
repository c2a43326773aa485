"""QuantizeLinear and DequantizeLinear of every type, scheme and opset, to the bit.

onnxruntime is compared with where it has a kernel, ONNX's reference evaluator otherwise. What they differ in among
themselves is in `_reference_differs`.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import numc
from onnx_nodes import Alone, Array, in_numc, in_onnxruntime, model_of, same_bits

pytest.importorskip("onnxruntime", minversion="1.24")
RANGES = {
    getattr(TensorProto, name): (0 if name[0] == "U" else -(2 ** (bits - 1)), 2 ** (bits - (name[0] != "U")) - 1)
    for bits in (2, 4, 8, 16)
    for name in (f"INT{bits}", f"UINT{bits}")
}
EIGHTS = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
FIRST = {TensorProto.INT8: 10, TensorProto.UINT8: 10, **dict.fromkeys(EIGHTS, 19), TensorProto.FLOAT4E2M1: 23,
         **dict.fromkeys((TensorProto.INT16, TensorProto.UINT16, TensorProto.INT4, TensorProto.UINT4), 21),
         TensorProto.INT2: 25, TensorProto.UINT2: 25, TensorProto.INT32: 10}  # fmt: skip
"""The first opset of each type."""
SCHEMES = {"tensor": 10, "one": 10, "axis": 13, "axis 0": 13, "axis -1": 13, "block": 21, "block 0": 21}
Case = tuple[str, int, int, str, bool, str]


def cases(opset: int) -> Iterator[Case]:
    """Operator, type, type of floats, scheme of scales, whether there are zero points, and an attribute."""
    for case in itertools.product(
        ("QuantizeLinear", "DequantizeLinear"), FIRST, FLOATS, SCHEMES, (True, False), ("", "output", "kept", "in")
    ):
        operator, number, real, scheme, zeros, more = case
        quantizes = operator == "QuantizeLinear"
        if FIRST[number] > opset or SCHEMES[scheme] > opset or (opset < 19 and real != TensorProto.FLOAT):
            continue
        if number == TensorProto.INT32 and (quantizes or zeros):
            continue
        if more == "output" and (opset < (21 if quantizes else 23) or (zeros and quantizes)):
            continue
        if (more == "kept" and (number not in EIGHTS or not quantizes)) or (more == "in" and opset < 23):
            continue
        if more == "in" and not quantizes:
            continue
        if quantizes and not zeros and more != "output" and number != TensorProto.UINT8:
            continue
        yield case


def _numbers(random: np.random.Generator, number: int, shape: Any) -> Array:
    dtype = helper.tensor_dtype_to_np_dtype(number)
    if number == TensorProto.INT32:
        return random.integers(-(2**20), 2**20, shape).astype(dtype)
    if number in RANGES:
        low, high = RANGES[number]
        return np.asarray(random.integers(low, high + 1, shape)).astype(dtype)
    return np.asarray(random.standard_normal(shape) * 3, np.float32).astype(dtype)


def _alone(case: Case, opset: int) -> Alone:
    operator, number, real, scheme, has_zeros, more = case
    random = np.random.default_rng(zlib.crc32(repr((case, opset)).encode()))
    float_type = helper.tensor_dtype_to_np_dtype(real)
    shape = [int(n) for n in random.integers(2, 7, 3 if scheme == "one" else int(random.integers(2, 5)))]
    attributes: dict[str, Any] = {}
    sizes: tuple[int, ...] = () if scheme == "tensor" else (1,)
    if scheme.startswith("axis"):
        axis = int(scheme[5:] or 1)
        attributes |= {"axis": axis} if scheme != "axis" else {}
        sizes = (shape[axis],)
    elif scheme.startswith("block"):
        axis, block = int(scheme[6:] or 1), int(random.integers(2, 5))
        shape[axis] = block * int(random.integers(1, 4))
        sizes = tuple(n // block if d == axis else n for d, n in enumerate(shape))
        attributes |= {"axis": axis, "block_size": block}
    scale = np.exp2(random.uniform(-6, 1, sizes)).astype(float_type)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    zeros = _numbers(random, number, sizes) if number in RANGES else np.zeros(sizes, dtype)
    if operator == "QuantizeLinear":
        span = np.ptp(RANGES[number]) if number in RANGES else 40
        least, most = float(np.min(scale.astype(float))), float(np.max(scale.astype(float)))
        # The evaluator makes any integer of infinities, and so of what float16 does not hold.
        usual = 0.05 * least if more == "in" else 0.2 * float(np.mean(scale.astype(float)))
        wide = random.standard_normal(shape) * span * usual
        edge = min(0.9 * span * least, 60000) if number in RANGES else 2000 * most
        wide.reshape(-1)[:3] = 0.0, -0.0, edge
        if scheme == "tensor":  # ties
            wide.reshape(-1)[-2:] = 0.5 * float(scale), -2.5 * float(scale)
        data = wide.astype(float_type)
    else:
        data = _numbers(random, number, shape)
    if more == "output":
        attributes["output_dtype"] = number if operator == "QuantizeLinear" else FLOATS[int(random.integers(3))]
    attributes |= {"saturate": 0} if more == "kept" else {}
    attributes |= {"precision": FLOATS[int(random.integers(2))]} if more == "in" else {}
    whole = operator == "QuantizeLinear" and number in RANGES
    return Alone(
        operator=operator,
        feeds={"x": data},
        constants={"s": np.asarray(scale), **({"z": np.asarray(zeros)} if has_zeros else {})},
        order="x s z" if has_zeros else "x s",
        cast=TensorProto.INT32 if whole else TensorProto.FLOAT,
        attributes=attributes,
    )


def _by_reference(alone: Alone, opset: int) -> list[Array]:
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model_of({0: alone}, opset)).run(None, {"x0": alone.feeds["x"]})
    return [np.asarray(value) for value in found]


def _reference_differs(case: Case, opset: int) -> bool:
    """Where ONNX's evaluator divides in the type of the values before opset 23, which onnxruntime does in float32."""
    return case[0] == "QuantizeLinear" and case[2] != TensorProto.FLOAT and opset < 23


def _compare(opset: int, every: int) -> tuple[int, int]:
    """Compare one case in `every` of an opset; return how many with onnxruntime and with the evaluator."""
    chosen = [case for n, case in enumerate(cases(opset)) if n % every == 0]
    alone = {n: _alone(case, opset) for n, case in enumerate(chosen)}
    wants, others = {}, 0
    for n, case in enumerate(chosen):
        found = in_onnxruntime(alone[n], opset)
        # Without saturation onnxruntime makes 448 of 480, and NaN of what is infinity in ONNX.
        if found is not None and case[5] != "kept":
            wants[n] = found
        elif not _reference_differs(case, opset):
            wants[n] = _by_reference(alone[n], opset)
            others += 1
    results = in_numc({n: alone[n] for n in wants}, wants, opset)
    wrong = [
        f"{chosen[n]}: {alone[n].label()}" for n, values in wants.items() if not all(map(same_bits, results[n], values))
    ]
    assert not wrong, "\n".join(wrong)
    return len(wants) - others, others


@pytest.mark.all
@pytest.mark.parametrize(
    ("opset", "every"),
    [(10, 5), (13, 11), (19, 41), *(pytest.param(opset, 61, marks=pytest.mark.slow) for opset in (21, 23)), (25, 61)],
)
def test_some_schemes(opset: int, every: int) -> None:
    """Steps are primes, so that every kind of each column comes."""
    by_runtime, by_reference = _compare(opset, every)
    assert by_runtime >= 4
    assert by_reference >= (3 if opset > 21 else 0)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 25])
def test_all_schemes(opset: int) -> None:
    _compare(opset, 1)


def _one(node: onnx.NodeProto, source: int, scale: int, opset: int = 25) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", source, [4, 6]), helper.make_tensor_value_info("s", scale, [6])]
    cast = helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 6])]
    graph = helper.make_graph([node, cast], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


@pytest.mark.parametrize(
    ("operator", "types", "attributes", "text"),
    [
        ("DequantizeLinear", (TensorProto.INT8, TensorProto.FLOAT8E8M0), {},
         "its scale 's' is float8e8m0, which no result is: want output_dtype float, float16 or bfloat16"),
        ("QuantizeLinear", (TensorProto.FLOAT, TensorProto.INT32), {},
         "its scale 's' is int32, and it has no precision: want precision float, float16 or bfloat16"),
        ("QuantizeLinear", (TensorProto.FLOAT, TensorProto.FLOAT16), {"precision": TensorProto.DOUBLE},
         "its precision is double: want float, float16 or bfloat16"),
    ],
)  # fmt: skip
def test_what_has_no_definition_is_refused(operator, types, attributes, text) -> None:
    node = helper.make_node(operator, ["x", "s"], ["q"], **attributes)
    with pytest.raises(numc.NumcError, match=text):
        numc.compile(_one(node, *types))


def test_scales_that_are_powers_of_two() -> None:
    """The blocks of MX: scales in E8M0, elements in e4m3fn, and back, are ONNX's own definition."""
    import ml_dtypes

    random = np.random.default_rng(0)
    x = random.standard_normal((4, 6)).astype(np.float32) * 20
    scale = np.exp2(random.integers(-3, 3, 6)).astype(ml_dtypes.float8_e8m0fnu)
    for number in (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT4E2M1, TensorProto.INT4):
        node = helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=number)
        model = _one(node, TensorProto.FLOAT, TensorProto.FLOAT8E8M0)
        want = ReferenceEvaluator(model).run(None, {"x": x, "s": scale})[0]
        assert same_bits(numc.compile(model)(x, scale), want)


def test_one_scale_as_a_list_beside_a_single_zero_point() -> None:
    """onnxruntime's quantiser writes biases so."""
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    tensors = [onnx.numpy_helper.from_array(np.array([0.5], np.float32), "s"),
               onnx.numpy_helper.from_array(np.array(0, np.int32), "z")]  # fmt: skip
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.INT32, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])], tensors,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert numc.compile(model)(np.array([-3, 0, 8], np.int32)).tolist() == [-1.5, 0, 4]
