"""Scales of intN that given data fixes: what they are, what saturates, and data that does not fit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import numc
from numc.frontends.imported import Argument, Imported
from numc.numerics.grammar import parse_fma
from numc.numerics.reference.operators import grouped_dot, vector
from numc.support.errors import NumcError

F32 = npt.NDArray[np.float32]
TEXT = """
func.func @main(%x: tensor<?x40xf32>, %w: tensor<40x9xf32>) -> tensor<?x9xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x40xf32>
  %e = tensor.empty(%n) : tensor<?x9xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x9xf32>) -> tensor<?x9xf32>
  %r = linalg.matmul ins(%x, %w : tensor<?x40xf32>, tensor<40x9xf32>) outs(%f : tensor<?x9xf32>) -> tensor<?x9xf32>
  return %r : tensor<?x9xf32>
}"""
RNG = np.random.default_rng(0)
X, W = (RNG.standard_normal(s).astype(np.float32) for s in ((6, 40), (40, 9)))
MODEL = Imported(TEXT, (Argument("x", "float32", (-1, 40)),), (Argument("y", "float32", (-1, 9)),), {1: ("w", W)})
FMAS = (
    "int8",
    "fma(a=int8,b=int8:channel,acc=fp32)",
    "fma(a=int4,b=int12,acc=fp32)",
    "fma(a=int8:rup,b=int8:rtz,acc=fp32)",
)


def expected(x: F32, fma: str, largest: float) -> F32:
    op = parse_fma(fma)
    assert op.groups is not None
    channel = op.groups[1].channel
    columns = [vector(w, op.groups[1], largest=np.abs(w if channel else W).max()) for w in W.T]
    rows = [vector(row, op.groups[0], largest=np.float32(largest)) for row in x]
    return np.array([[grouped_dot(a, b, np.float32(0), op) for b in columns] for a in rows])


@pytest.mark.parametrize("fma", FMAS)
def test_the_data_itself_gives_the_bits_of_dynamic_scales(fma: str) -> None:
    fixed, dynamic = (numc.compile(MODEL, fma=fma, calibrate=data) for data in ({"x": X}, None))
    assert (fixed.manifest["calibrated"], dynamic.manifest["calibrated"]) == (True, False)
    assert np.array_equal(np.asarray(fixed(X)), np.asarray(dynamic(X)))


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
@pytest.mark.parametrize("fma", FMAS)
def test_other_data_keeps_the_scales_and_saturates(fma: str, target: str) -> None:
    program = numc.compile(MODEL, fma=fma, calibrate={"x": X}, target=target)
    other = X[:2] * np.array([[3], [0.01]], np.float32)
    other[0, :3] = np.inf, -np.inf, np.nan
    got = np.asarray(program(other))
    assert np.array_equal(got, expected(other, fma, float(np.abs(X).max())))
    assert not np.array_equal(got[1:], np.asarray(numc.compile(MODEL, fma=fma)(other[1:])))
    assert numc.verify(program, {"x": other}, samples=50).mismatches == 0


def test_data_of_zeros_leaves_zeros() -> None:
    program = numc.compile(MODEL, fma="int8", calibrate={"x": np.zeros_like(X)})
    assert not np.asarray(program(X)).any()


@pytest.mark.parametrize(
    ("fma", "data", "message"),
    [
        ("mp", {"x": X}, "calibration: 'mp' has no scales to calibrate, only intN has: leave the data out"),
        ("highbfp", {"x": X}, "calibration: 'fma(a=bfp(16,3,4),acc=fp32)' has no scales to calibrate, only intN has: "
         "leave the data out"),
        ("int8", {"y": X}, "calibration data: "),
        ("int8", {"x": X[:, :39]}, "calibration data: "),
        ("int8", {"x": X.astype(np.float64)}, "calibration data: "),
        ("int8", {"x": X * np.float32(np.nan)}, "calibration data: an operand has an infinity or a NaN, which gives no "
         "scale: use finite data"),
    ],
)  # fmt: skip
def test_data_that_does_not_fit_is_one_line(fma: str, data: dict[str, npt.NDArray[np.float32]], message: str) -> None:
    with pytest.raises(NumcError) as error:
        numc.compile(MODEL, fma=fma, calibrate=data)
    assert str(error.value) == message if not message.endswith("data: ") else str(error.value).startswith(message)
    assert len(str(error.value)) > len("calibration data: ")
    assert "\n" not in str(error.value)
