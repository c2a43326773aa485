"""Every operator on NaN, infinities, zeros of both signs, subnormals and the ends of each dtype.

A model has all operators of a dtype, so that one compilation serves all of them. An element counts where onnx's
reference evaluator and onnxruntime agree about it, or eager torch says what it is; what is not right is listed in
tests/data/special_values.json by dtype and case, with the reason, and the list holds exactly.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import numc
from tests.shared.special_values import float_values, integer_values, same

KNOWN: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parents[1] / "data" / "special_values.json").read_text(encoding="utf-8")
)
Case = tuple[str, list[str], dict[str, Any]]
"""An operator, its inputs by name (see `inputs_of`), and its attributes."""
FLOATS = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
INTEGERS = {name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}
OPSET = 22

_FUNCTIONS = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp"),
    *("Floor", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg"),
    *("Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign"),
    *("Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Gelu"),
)
_PAIRS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
_NO_UINT64 = ("Abs", "Sign", "ReduceSumSquare", "ReduceL1")
"""What is refused for uint64."""
_REDUCTIONS = ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


def float_cases(dtype: Any) -> Iterator[Case]:
    functions = (each for each in _FUNCTIONS if each != "Celu" or dtype == np.float32)  # ONNX has no other one
    yield from ((operator, ["x"], {}) for operator in functions)
    yield "Gelu", ["x"], {"approximate": "tanh"}
    yield "IsInf", ["x"], {"detect_negative": 0}
    yield "Clip", ["x", "low", "high"], {}
    yield "Clip", ["x", "low"], {}
    yield "PRelu", ["x", "low"], {}
    yield from ((operator, ["x", "column"], {}) for operator in (*_PAIRS, "Pow"))
    yield "Mod", ["x", "column"], {"fmod": 1}
    yield "Where", ["chosen", "x", "low"], {}
    for axis in (0, 1):
        yield from ((operator, ["rows"], {"axis": axis}) for operator in ("Softmax", "LogSoftmax", "Hardmax"))
        for last in (0, 1):
            for operator in ("ArgMax", "ArgMin"):
                yield operator, ["rows"], {"axis": axis, "select_last_index": last}
    yield from ((f"Reduce{name}", ["rows", "one"], {}) for name in _REDUCTIONS)
    yield "CumSum", ["rows", "axis"], {}
    yield "LpNormalization", ["rows"], {"axis": 1}
    yield "LayerNormalization", ["rows", "scale"], {}
    for pool in ("MaxPool", "AveragePool", "LpPool"):
        yield pool, ["image"], {"kernel_shape": [2], "strides": [1]}
    yield from ((pool, ["image"], {}) for pool in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"))
    yield from (("Cast", ["x"], {"to": to}) for to in (1, 10, 11, 16, 9))
    yield from (("Cast", ["small"], {"to": to}) for to in (2, 3, 4, 5, 6, 7, 12))


def integer_cases(dtype: np.dtype[Any]) -> Iterator[Case]:
    yield from ((operator, ["x"], {}) for operator in ("Abs", "Identity", "Sign", *["Neg"] * (dtype.kind == "i")))
    yield "BitwiseNot", ["x"], {}
    yield "Clip", ["x", "low", "high"], {}
    pairs = (*_PAIRS, "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod")
    yield from ((o, ["x", "divisor" if o in ("Div", "Mod") else "column"], {}) for o in pairs)
    yield "Mod", ["x", "divisor"], {"fmod": 1}
    yield "Pow", ["x", "exponent"], {}
    if dtype.kind == "u":
        yield from (("BitShift", ["x", "shift"], {"direction": way}) for way in ("LEFT", "RIGHT"))
    yield from ((f"Reduce{name}", ["rows", "one"], {}) for name in ("Max", "Min", "Sum", "Prod", "SumSquare", "L1"))
    yield from ((operator, ["rows"], {"axis": 1}) for operator in ("ArgMax", "ArgMin"))
    yield "CumSum", ["rows", "axis"], {}
    yield from (("Cast", ["x"], {"to": to}) for to in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16))


def label(case: Case) -> str:
    operator, inputs, attributes = case
    return " ".join([operator, *inputs, *(f"{key}={value}" for key, value in attributes.items())])


def rows_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows of four values of which each special value is at each place, and rows of one value alone."""
    rows = [[value if n == place else values[3 + n] for n in range(4)] for value in values for place in range(4)]
    return np.array(rows + [[value] * 4 for value in values], dtype=values.dtype)


def inputs_of(name: str) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of the model of a dtype by name."""
    if name in FLOATS:
        values = float_values(FLOATS[name])
        small = values[np.abs(values.astype(float)) <= 100]
        more = {"scale": np.ones(4, values.dtype), "small": np.abs(small), "low": values[1], "high": values[5]}
        more["chosen"] = np.arange(len(values)) % 2 == 0
        more["image"] = rows_of(values)[None]
    else:
        values = integer_values(INTEGERS[name])
        bits = values.dtype.itemsize * 8
        more = {"low": values.dtype.type(1), "high": values.dtype.type(100), "divisor": values[values != 0][:, None]}
        more |= {"exponent": np.arange(9, dtype=values.dtype)[:, None]}
        more |= {"shift": np.array([0, 1, bits - 1], values.dtype)[:, None]}
    common = {"x": values, "column": values[:, None], "rows": rows_of(values)}
    found = common | {key: np.asarray(value) for key, value in more.items()}
    return found | {"one": np.array([1]), "axis": np.array(1)}


def model_of(cases: list[Case], given: dict[str, np.ndarray[Any, Any]]) -> onnx.ModelProto:
    used = {name for _, inputs, _ in cases for name in inputs}
    constant = {name for name in ("one", "axis", "low", "high", "exponent", "shift", "divisor") if name in used}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
        if name in used - constant
    ]
    nodes = [helper.make_node(o, inputs, [f"y{n}"], **attributes) for n, (o, inputs, attributes) in enumerate(cases)]
    weights = [numpy_helper.from_array(given[name], name) for name in constant]
    graph = helper.make_graph(
        nodes, "g", infos, [onnx.ValueInfoProto(name=f"y{n}") for n in range(len(cases))], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def oracles(case: Case, given: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What onnx's reference evaluator and onnxruntime say, as far as they have the operator of the dtype."""
    dtype = given["x"].dtype
    if is_wide := dtype == ml_dtypes.bfloat16:  # of which neither has all operators, nor knows NaN
        given = {name: value.astype(np.float32) if value.dtype == dtype else value for name, value in given.items()}
    model = model_of([case], given)
    feeds = {value.name: given[value.name] for value in model.graph.input}
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):  # either lacks some operators of some types
            found.append(np.asarray(ReferenceEvaluator(model).run(None, feeds)[0]))
        if case[0] not in ("Div", "Mod") or dtype.kind != "i":  # the least integer over -1 ends onnxruntime
            with contextlib.suppress(Exception):
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 4
                session = onnxruntime.InferenceSession(model.SerializeToString(), options)
                found.append(np.asarray(session.run(None, feeds)[0]))
    return [each.astype(dtype) if is_wide and each.dtype == np.float32 else each for each in found]


def differences(cases: list[Case], name: str) -> tuple[dict[str, str], int]:
    """Return what is not right by case, with the first element that differs, and the number of elements compared."""
    given, wrong, count = inputs_of(name), dict[str, str](), 0
    dtype = given["x"].dtype
    model = model_of(cases, given)
    program = numc.compile(model)
    results = program({value.name: given[value.name] for value in model.graph.input})
    for n, case in enumerate(cases):
        found = np.asarray(results[f"y{n}"])
        wanted = oracles(case, given)
        if not wanted or any((want.shape, want.dtype) != (found.shape, found.dtype) for want in wanted):
            continue
        agreed = np.logical_and.reduce([same(want, wanted[0], dtype) for want in wanted])
        right = same(found, wanted[0], dtype) | ~agreed
        count += int(agreed.sum())
        if not right.all():
            place = np.unravel_index(int(np.argmin(right)), right.shape)
            wrong[label(case)] = f"{int((~right).sum())} elements, first {list(map(int, place))}: {found[place]!r}, " \
                                 f"want {wanted[0][place]!r}"  # fmt: skip
    return wrong, count


def cases_of(name: str) -> list[Case]:
    if name in FLOATS:
        return list(float_cases(FLOATS[name]))
    refused = _NO_UINT64 if name == "uint64" else ()
    return [case for case in integer_cases(INTEGERS[name]) if case[0] not in refused]


def check(cases: list[Case], name: str) -> int:
    """Compare what is not right with the list, and return the number of elements compared."""
    wrong, count = differences(cases, name)
    listed = {label(case) for case in cases} & KNOWN.get(name, {}).keys()
    assert {each: why for each, why in wrong.items() if each not in listed} == {}
    assert listed <= set(wrong), "these are right now: remove them from the list"
    return count


@pytest.mark.parametrize("name", ["float32", "int32"])
def test_some_operators(name: str) -> None:
    assert check(cases_of(name)[::4], name) > 800


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_all_operators(name: str) -> None:
    assert check(cases_of(name), name) > (10_000 if name in FLOATS else 2_000)
