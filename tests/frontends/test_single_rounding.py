"""Conversions of float64 and of integers to narrower floats are rounded once, however they are asked for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import numc
from numc.numerics.grammar import parse_conversion
from numc.numerics.reference.random import conversion_draws, stream
from numc.numerics.reference.rounding import round_real
from tiers import one_in
from torch_modules import Calls

Array = npt.NDArray[Any]

TORCH = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2"}
ONNX = {"BFLOAT16": "bf16", "FLOAT16": "fp16", "FLOAT8E4M3FN": "fp8_e4m3", "FLOAT8E5M2": "fp8_e5m2"}
CODED = {
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
}
SOURCES = {np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64, np.int32: TensorProto.INT32,
           np.uint64: TensorProto.UINT64, np.uint32: TensorProto.UINT32}  # fmt: skip


def near_ties(dtype: type[np.generic], count: int, seed: int = 0) -> Array:
    """Numbers half-way between two of few bits, and their neighbours: a detour over float32 makes ties of these."""
    rng, found = np.random.default_rng(seed), list[Any]()
    for _ in range(count):
        cut, whole = int(rng.choice([1, 2, 3, 7, 8, 10, 11])), issubclass(dtype, np.integer)
        exponent = int(rng.integers(14, 64)) if whole else int(rng.integers(-30, 130))
        tie = Fraction(2 * int(rng.integers(1 << cut, 2 << cut)) + 1, 2 << cut) * Fraction(2) ** exponent
        steps = (0, 1, -1) if whole else (0, Fraction(2) ** (exponent - 45), -(Fraction(2) ** (exponent - 45)))
        found += [sign * (tie + step) for step in steps for sign in (1, -1)]
    if whole:
        info = np.iinfo(dtype)
        found += [info.min, info.min + 1, info.max, info.max - 1, 2**53 + 1, -(2**53) - 1]
        return np.array([int(x) for x in found if info.min <= x <= info.max and x == int(x)], dtype)
    return np.array([*map(float, found), 0.0, -0.0, 1e300, -1e300, 5e-324, -1e-310], dtype)


def differences(x: Array, found: Array, want: list[float]) -> list[str]:
    """What was rounded otherwise, in hex."""
    return [
        f"{given!r}: {got.hex()}, want {right.hex()}"
        for given, got, right in zip(x.tolist(), found.astype(float).tolist(), want, strict=True)
        if got.hex() != right.hex()
    ]


def nearest(x: Array, dtype: Any) -> list[float]:
    """The nearest numbers of a dtype of at most 8 bits, ties to the even code; it saturates."""
    codes = np.arange(1 << (4 if dtype is ml_dtypes.float4_e2m1fn else 8), dtype=np.uint8)
    every = codes.view(dtype).astype(float)
    sizes = [Fraction(v) for v in every[: len(codes) // 2] if np.isfinite(v)]
    has_zero = not np.isnan(every[len(codes) // 2])
    found = []
    for value in x.tolist():
        size = abs(Fraction(value))
        code = min(range(len(sizes)), key=lambda n: (abs(sizes[n] - size), n % 2))
        negative = np.signbit(np.float64(value)) and (code > 0 or has_zero)
        found.append(-float(sizes[code]) if negative else float(sizes[code]))
    return found


@pytest.mark.parametrize("kind", [torch.float64, torch.int64, torch.int32], ids=str)
def test_casts_of_torch(kind: torch.dtype) -> None:
    x = near_ties(np.dtype(str(kind).removeprefix("torch.")).type, 150)
    program = numc.compile(Calls(lambda v: tuple(v.to(dtype) for dtype in TORCH)), (torch.from_numpy(x),))
    for got, to in zip(program(torch.from_numpy(x)).values(), TORCH.values(), strict=True):
        assert not differences(x, got.float().numpy(), [round_real(v, to) for v in x.tolist()]), to


@pytest.mark.parametrize("source", one_in(2, SOURCES), ids=lambda s: s.__name__)
def test_casts_of_onnx(source: type[np.generic]) -> None:
    x = near_ties(source, 60)
    program = numc.compile(casts_of(SOURCES[source], [*ONNX, *CODED]))
    found = program(x)
    for name, to in ONNX.items():
        want = [round_real(v, to) for v in x.tolist()]
        if to == "fp8_e5m2":  # it saturates in ONNX
            want = [min(max(v, -57344.0), 57344.0) for v in want]
        assert not differences(x, found[name], want), name
    for name, dtype in CODED.items():
        assert not differences(x, found[name], nearest(x, dtype)), name


def casts_of(source: int, types: list[str]) -> onnx.ModelProto:
    nodes = [helper.make_node("Cast", ["x"], [f"{name}/q"], to=TensorProto.DataType.Value(name)) for name in types]
    nodes += [helper.make_node("Cast", [f"{name}/q"], [name], to=TensorProto.FLOAT) for name in types]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in types]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", source, [None])], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def test_constants_of_onnx() -> None:
    """Constants are not folded by the reference of onnx, which goes by way of float32."""
    constants = {"a": np.full(2, -431.99999999999994), "b": np.full(2, 2**60 + 2**52 + 1)}
    nodes = [
        helper.make_node("Cast", ["a"], ["p"], to=TensorProto.FLOAT8E4M3FN),
        helper.make_node("Cast", ["b"], ["q"], to=TensorProto.BFLOAT16),
        *(helper.make_node("Cast", [q], [y], to=TensorProto.FLOAT) for q, y in (("p", "u"), ("q", "v"))),
        helper.make_node("Add", ["u", "x"], ["y"]),
        helper.make_node("Add", ["v", "x"], ["z"]),
    ]
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xyz")
    initial = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y, z], initial), opset_imports=[helper.make_opsetid("", 23)], ir_version=11
    )
    found = numc.compile(model)(np.zeros(2, np.float32))
    assert found["y"].tolist() == [-416.0] * 2
    assert found["z"].tolist() == [2.0**60 + 2.0**53] * 2


LONG = 1 + 2.0**-8 + 2.0**-40
"""A number that bfloat16 rounds up, and float32 to a tie."""


def test_numbers_of_torch() -> None:
    def numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.full((2,), LONG, dtype=torch.bfloat16) + x,
            torch.full_like(x, LONG),
            torch.where(x == 0, LONG, x),
            nn.functional.pad(x[:1], (1, 0), value=LONG)[:1].expand(2),
        )

    x = torch.zeros(2, dtype=torch.bfloat16)
    for value in numc.compile(Calls(numbers), (x,))(x).values():
        assert value.tolist() == [1.0078125] * 2


def test_ops_round_what_becomes_float32_once() -> None:
    x = torch.tensor([LONG], dtype=torch.float64)
    program = numc.compile(Calls(lambda v: v.float()), (x,), ops="bf16")
    assert program(x).item() == 1.0078125
    n = torch.tensor([2**60 + 2**52 + 1])
    assert numc.compile(Calls(lambda v: v.float()), (n,), ops="bf16")(n).item() == 2.0**60 + 2.0**53


FORMATS = ("bf16", "fp16", "e4m3fn", "e5m2", "tf32", "fp32", "e8m22", "e6m9n", "e8m0", "e5m0", "e2m1fn")
ROUNDINGS = ("rne", "rtz", "rna", "rup", "rdn", "odd", "sr8", "sr24")


@pytest.mark.parametrize(
    "to",
    [
        *("bf16", "fp16:rup", "e4m3fn:rtz:nan", "bf16x2", "bf16x3", "fp32:odd", "e8m22:sr24", "e6m9n"),
        *(pytest.param(f"{f}:{r}", marks=pytest.mark.slow) for f in FORMATS for r in ROUNDINGS),
    ],
)
def test_arrays_of_float64(to: str) -> None:
    conversion = parse_conversion(to)
    bits = conversion.format.significand_bits * conversion.format.parts
    rng, found = np.random.default_rng(2), list[float]()
    for exponent in (0, -7, 5, 8, 15, 60, 127, -6, -14, -17, -126, -130, -140, -149, -150):
        for cut in (max(bits - 1, 0), bits, bits + 1, 24):
            whole = (1 << cut) + rng.integers(1 << cut, size=6, dtype=np.int64)
            tie = np.ldexp(2.0 * whole + 1, exponent - cut - 1)
            found += [*tie, *tie * (1 + 2.0**-50), *tie * (1 - 2.0**-50)]
    beyond = [0.0, np.inf, np.nan, 1e300, 1e-310, 5e-324, 3.4028235677973366e38, 3.39e38]
    x = np.array([*found, *beyond])
    x = np.concatenate([x, -x])
    draws = [0] * x.size if conversion.noise is None else conversion_draws(stream(5, 0), x.size, conversion.noise)
    want = [round_real(v, to, int(u)) for v, u in zip(x.tolist(), draws, strict=True)]
    assert not differences(x, numc.round(x, to, seed=5), want)
    assert not differences(x[:9], numc.round(x[:9].tolist(), to, seed=5), want[:9])
    if conversion.noise is None:
        assert not differences(x, numc.unpack(numc.pack(x, to)), want)
