"""lower_math against mpmath, against C99 Annex F, and against itself on two instruction sets."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from math_harness import V3_ONLY, V4, WITH_CHECKS, Compiled, apply, loop_text, with_checks
from math_oracle import UNARY, largest_error, ulp_errors
from numc.passes.kernels.values import math_tables
from numc.passes.kernels.values.function_table import FUNCTIONS
from numc.passes.vector.lower_math import lower_math
from numc.runtime.library import cpu_features
from numc.support.errors import CompilerBug

INF, NAN = np.inf, np.nan
# The bound of each function in docs/math-functions.md.
BOUND = 0.501

MPMATH: dict[str, Callable[[Any], Any]] = {
    "acos": mpmath.acos,
    "acosh": mpmath.acosh,
    "asin": mpmath.asin,
    "asinh": mpmath.asinh,
    "atan": mpmath.atan,
    "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "cos": mpmath.cos,
    "cosh": mpmath.cosh,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "log2": lambda x: mpmath.log(x, 2),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sin": mpmath.sin,
    "sinh": mpmath.sinh,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
}


def every_float(step: int, start: int = 0) -> NDArray[np.float32]:
    """Every `step`-th binary32 number of both signs, infinities and NaNs included."""
    return np.arange(start, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def exact(function: Callable[[Any], Any], x: float) -> float:
    """The value as a double (correct to far below 2^-40), NaN outside the domain."""
    with mpmath.workprec(400):
        try:
            value = function(mpmath.mpf(x))
        except (ValueError, ZeroDivisionError):
            return NAN
        return NAN if isinstance(value, mpmath.mpc) and value.imag else float(mpmath.re(value))


@pytest.mark.parametrize("name", MPMATH)
def test_against_mpmath(name: str) -> None:
    """Numbers all over the range, and dense where functions are interesting."""
    rng = np.random.default_rng(7)
    x = np.concatenate([every_float(2**32 // 350, 12345), rng.uniform(-2, 2, 250), rng.uniform(-100, 100, 100)]).astype(
        np.float32
    )
    x = (
        x[np.isfinite(x) & (np.abs(x) < 1e4)]
        if name in ("erf", "erfc", "exp", "exp2", "expm1", "sinh", "cosh", "tanh")
        else x[np.isfinite(x)]
    )
    expected = np.array([exact(MPMATH[name], float(v)) for v in x])
    with np.errstate(all="ignore"):
        expected = np.where(x == 0, UNARY[name](x.astype(np.float64)), expected)
    got = apply(Compiled(loop_text(name, 1)), x)
    assert np.isfinite(expected).sum() > 100
    assert largest_error(x, got, expected) <= BOUND


@pytest.mark.parametrize("name", UNARY)
def test_dense_sample(name: str) -> None:
    """Every 20011-th binary32 number against binary64 library functions."""
    x = every_float(20011)
    with np.errstate(all="ignore"):
        expected = UNARY[name](x.astype(np.float64))
    assert largest_error(x, apply(Compiled(loop_text(name, 1)), x), expected) <= BOUND


def test_hard_angles() -> None:
    """The binary32 numbers nearest to a multiple of pi/2, and huge ones: where a weak reduction loses every digit."""
    x = np.array(
        [1.5707964, 16367173.0, 1.6367173e7, 5.3721e15, 2.0**127, 3.4028235e38, 1e22, 6381956970095103.0 * 2.0**70]
    )
    x = np.concatenate([x, 2.0 ** np.arange(-30, 128), -(2.0 ** np.arange(-30, 128))]).astype(np.float32)
    # k pi/2 rounded to binary32 covers the closest approaches of the moderate range.
    x = np.concatenate([x, (np.arange(1, 400) * (np.pi / 2)).astype(np.float32)])
    for name in ("sin", "cos", "tan"):
        expected = np.array([exact(MPMATH[name], float(v)) for v in x])
        assert largest_error(x, apply(Compiled(loop_text(name, 1)), x), expected) <= BOUND


SPECIALS: dict[str, list[tuple[float, float]]] = {
    "acos": [(1, 0.0), (1.0000001, NAN), (-1.0000001, NAN), (INF, NAN), (NAN, NAN)],
    "acosh": [(1, 0.0), (0.5, NAN), (-INF, NAN), (-5, NAN), (INF, INF), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0000001, NAN), (-INF, NAN), (NAN, NAN)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.5707964), (-INF, -1.5707964), (NAN, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (27, 3), (-8, -2), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (100, INF), (NAN, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN)],
    "erfc": [(0.0, 1), (INF, 0.0), (-INF, 2), (NAN, NAN), (10.1, 0.0)],
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (89, INF), (-104, 0.0), (-103.5, 2**-149), (NAN, NAN)],
    "exp2": [(0.0, 1), (10, 1024), (-149, 2**-149), (-151, 0.0), (128, INF), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (2**-149, 2**-149), (NAN, NAN)],
    "log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "log10": [(1, 0.0), (1000, 3), (0.0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
    "log1p": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (-1, -INF),
        (-2, NAN),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (-(2**-149), -(2**-149)),
    ],
    "log2": [(1, 0.0), (2**-149, -149), (2**100, 100), (0.0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
    "round": [
        (0.5, 1),
        (-0.5, -1),
        (0.49999997, 0.0),
        (-0.25, -0.0),
        (2.5, 3),
        (8388609, 8388609),
        (-INF, -INF),
        (NAN, NAN),
    ],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4, 0.5), (INF, 0.0), (-1, NAN), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (-(2**-149), -(2**-149))],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (100, INF), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (2**-149, 2**-149)],
}


def same(got: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Equal bits, all NaNs equal."""
    equal: NDArray[np.bool_] = (got == expected) & (np.signbit(got) == np.signbit(expected))
    return equal | (np.isnan(got) & np.isnan(expected))


@pytest.mark.parametrize("element", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPECIALS)
def test_special_cases(name: str, element: type[Any]) -> None:
    """C99 Annex F, also for f64; what overflows or is inexact is checked in f32 only."""
    pairs = [(float(x), float(y)) for x, y in SPECIALS[name]]
    if element is np.float64:
        pairs = [(x, y) for x, y in pairs if not np.isfinite(x) or not np.isfinite(y) or x == 0]
        pairs = [(x, y) for x, y in pairs if not (np.isfinite(x) and abs(x) > 1.6 and y == INF) and abs(y) != 1.5707964]
    x, expected = (np.array(side, dtype=element) for side in zip(*pairs, strict=True))
    got = apply(Compiled(loop_text(name, 1, "f32" if element is np.float32 else "f64")), x)
    assert same(got, expected).all(), list(zip(x, got, expected, strict=True))


def test_every_unary_function_is_tested() -> None:
    """No function joins the table without special cases and a dense sample."""
    binary = {"math.powf", "math.fpowi", "math.atan2", "math.sincos"}
    assert {f"math.{n}" for n in SPECIALS} == {f"math.{n}" for n in UNARY} == set(FUNCTIONS) - binary


GRID = np.array(
    [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1,
        -1,
        1.5,
        2,
        -2,
        3,
        -3,
        4,
        -4,
        5.5,
        -7,
        2**23 + 1,
        2**24,
        -(2**25),
        1e30,
        -1e30,
        3e38,
        1e-40,
        -1e-40,
        INF,
        -INF,
        NAN,
    ]
)


@pytest.mark.parametrize(("name", "library"), [("powf", np.power), ("atan2", np.arctan2)])
@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_binary_special_cases(name: str, library: Callable[..., Any], element: type[Any]) -> None:
    """All pairs of notable numbers, against the C library's doubles."""
    x, y = (a.ravel().astype(element) for a in np.meshgrid(GRID, GRID))
    with np.errstate(all="ignore"):
        expected = library(x.astype(np.float64), y.astype(np.float64))
    got = apply(Compiled(loop_text(name, 2, "f32" if element is np.float32 else "f64")), x, y)
    if element is np.float32:
        assert largest_error(x, got, expected) <= BOUND
    else:
        assert (np.isnan(got) == np.isnan(expected)).all()
        assert (np.signbit(got) == np.signbit(expected))[~np.isnan(got)].all()
        assert np.allclose(got, expected, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize(("name", "library"), [("powf", np.power), ("atan2", np.arctan2)])
def test_binary_sample(name: str, library: Callable[..., Any]) -> None:
    """Random pairs: any bit patterns, and pairs whose power is finite."""
    rng = np.random.default_rng(11)
    x = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    y = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    if name == "powf":
        x = np.concatenate([x, np.abs(x), np.exp(rng.uniform(-3, 3, 200_000)).astype(np.float32)])
        with np.errstate(all="ignore"):
            near = (rng.uniform(-104, 89, 200_000) / np.log(np.abs(x[:200_000]).astype(np.float64))).astype(np.float32)
        y = np.concatenate([y, near, rng.uniform(-20, 20, 200_000).astype(np.float32)])
    with np.errstate(all="ignore"):
        expected = library(x.astype(np.float64), y.astype(np.float64))
    assert largest_error(x, apply(Compiled(loop_text(name, 2)), x, y), expected) <= BOUND


def power_text(op: str, exponent: str, kind: str) -> str:
    """A loop with a constant exponent."""
    text = loop_text(op, 2) if op == "powf" else loop_text(op, 2, exponent=kind)
    return re.sub(r"%v1 = memref\.load .*", f"%v1 = arith.constant {exponent} : {kind}", text)


@pytest.mark.parametrize("exponent", [-32, -3, -1, 0, 1, 2, 3, 7, 31, 33])
@pytest.mark.parametrize("op", ["powf", "fpowi"])
def test_constant_exponents(op: str, exponent: int) -> None:
    """Products up to 32, the general kernel above: the same specials and the same bound."""
    text = power_text(op, f"{exponent}.0" if op == "powf" else str(exponent), "f32" if op == "powf" else "i32")
    x = np.concatenate([GRID.astype(np.float32), every_float(400009)])
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), float(exponent))
    got = np.empty_like(x)
    unused = np.zeros(1, np.float32 if op == "powf" else np.int32)
    Compiled(text)(x, unused, got)
    assert largest_error(x, got, expected) <= BOUND


def test_fpowi_with_computed_exponents() -> None:
    """math.fpowi with an i32 operand is the power of its value."""
    x = np.repeat(GRID.astype(np.float32), 9)
    n = np.tile(np.array([0, 1, -1, 2, -2, 3, -3, 2147483647, -2147483648], dtype=np.int32), len(GRID))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), n.astype(np.float64))
    got = np.empty_like(x)
    Compiled(loop_text("fpowi", 2, exponent="i32"))(x, n, got)
    assert largest_error(x, got, expected) <= BOUND


@pytest.mark.skipif("avx512dq" not in cpu_features(), reason="needs a CPU with AVX-512")
@pytest.mark.parametrize("name", sorted({n.removeprefix("math.") for n in FUNCTIONS} - {"sincos", "fpowi"}))
def test_same_bits_on_two_instruction_sets(name: str) -> None:
    """AVX2 and AVX-512 code, vectorised differently, agree on every bit (NaNs are one value)."""
    operands = 2 if name in ("powf", "atan2") else 1
    inputs = [every_float(50021, 17 * i) for i in range(operands)]
    if operands == 2:
        inputs[1] = inputs[1][np.random.default_rng(3).permutation(len(inputs[1]))][: len(inputs[0])]
        inputs[0] = inputs[0][: len(inputs[1])]
    text = loop_text(name, operands)
    new = apply(Compiled(text, V4, "x86-64-v4"), *inputs)
    old = apply(Compiled(text, V3_ONLY, "x86-64-v3"), *inputs)
    assert same(new, old).all()


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize(("isa", "name"), WITH_CHECKS)
def test_cheaper_code_with_a_check_has_the_same_bits(isa: str, name: str, vectors: int) -> None:
    """Vectors in which no lane, one lane or many lanes are too near the middle between two f32 values."""
    rng = np.random.default_rng(7)
    every = every_float(50021, 0)
    x = np.concatenate([every[: len(every) // 32 * 32], rng.uniform(-4.5, 4.5, 1 << 22).astype(np.float32)])
    x[: len(x) // 4 : 7] = -INF  # as a mask of scores has it
    checked = apply(with_checks(isa, name, vectors), x)
    assert same(checked, apply(Compiled(loop_text(name, 1), V3_ONLY, "x86-64-v3"), x)).all()


F64_DOMAIN = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, 50),
    "exp": (-740, 709),
    "exp2": (-1074, 1023),
    "cosh": (-710, 710),
    "sinh": (-710, 710),
    "erfc": (-6, 26),
}
POSITIVE = {"log", "log2", "log10", "rsqrt"}


@pytest.mark.parametrize("name", MPMATH)
def test_f64(name: str) -> None:
    """f64 operations: relative error below 2^-48 (absolute for the angles near a zero of sin, cos, tan)."""
    low, high = F64_DOMAIN.get(name, (0, 5) if name in POSITIVE else (-0.999 if name == "log1p" else -30, 30))
    x = np.random.default_rng(5).uniform(low, high, 300)
    if name in POSITIVE:
        x = np.concatenate([x, 10.0 ** np.arange(-320, 308, 37)])
    if name in ("sin", "cos", "tan", "cbrt", "asinh", "atan"):
        x = np.concatenate([x, 10.0 ** np.arange(-300, 308, 23)])
    expected = np.array([exact(MPMATH[name], float(v)) for v in x])
    got = apply(Compiled(loop_text(name, 1, "f64")), x)
    scale = np.maximum(np.abs(expected), 1e-12 if name in ("sin", "cos", "tan") else 1e-307)
    assert np.max(np.abs(got - expected) / scale) < 2.0**-48, x[np.argmax(np.abs(got - expected) / scale)]


def lowered(text: str) -> str:
    """The module after lower_math, run as a Python pass of a pass manager."""
    with ir.Context():
        module = ir.Module.parse(text)
        manager = PassManager("builtin.module")
        manager.add(lower_math)
        manager.run(module.operation)
        assert module.operation.verify()
        return str(module)


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_library_call_is_left(name: str, element: str) -> None:
    """Scalars and vectors; only functions that are instructions remain."""
    short = name.removeprefix("math.")
    for lanes in ("", "vector<8x{}>"):
        kind = lanes.format(element) if lanes else element
        power = lanes.format("i32") if lanes else "i32"
        second = power if short == "fpowi" else kind
        operands = "%x, %y" if short in ("powf", "atan2", "fpowi") else "%x"
        types = f"{kind}, {power}" if short == "fpowi" else kind
        results, returned = ("%r:2", f"%r#0, %r#1 : {kind}, {kind}") if short == "sincos" else ("%r", f"%r : {kind}")
        result_types = f"({kind}, {kind})" if short == "sincos" else kind
        text = lowered(
            f"func.func @f(%x: {kind}, %y: {second}) -> {result_types} {{\n"
            f"  {results} = {name} {operands} : {types}\n  return {returned}\n}}"
        )
        left = set(re.findall(r"math\.\w+", text))
        assert left <= {"math.fma", "math.sqrt", "math.absf", "math.floor", "math.trunc", "math.copysign"}
        assert "call" not in text
        assert "cf." not in text
        assert "scf." not in text


def test_instructions_stay() -> None:
    """sqrt and its like are left alone; a body inside linalg.generic is reached."""
    text = lowered(
        """
        #m = affine_map<(i) -> (i)>
        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %r = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x: tensor<4xf32>)
            outs(%x: tensor<4xf32>) { ^bb0(%a: f32, %b: f32):
              %s = math.sqrt %a : f32
              %t = math.roundeven %s : f32
              %u = math.exp %t fastmath<fast> : f32
              linalg.yield %u : f32 } -> tensor<4xf32>
          return %r : tensor<4xf32>
        }"""
    )
    assert "math.sqrt" in text
    assert "math.roundeven" in text
    assert "math.exp" not in text
    assert "fastmath" not in text


def test_tensor_operations_are_refused() -> None:
    """Silence here would end in a libm call."""
    kind = "tensor<4xf32>"
    text = f"func.func @f(%x: {kind}) -> {kind} {{ %r = math.exp %x : {kind}\n return %r : {kind} }}"
    with ir.Context():
        module = ir.Module.parse(text)
        with pytest.raises(CompilerBug, match="math.exp on tensor<4xf32> reached lower-math"):
            lower_math(module)


def test_table_is_what_the_generator_derives() -> None:
    """math_tables.py is generated; nobody edited it."""
    path = Path(__file__).parents[2] / "tools" / "math_coefficients.py"
    derived = runpy.run_path(str(path))["table_text"]()
    assert derived == Path(math_tables.__file__).read_text()


def test_the_error_measure_sees_errors() -> None:
    """One ulp off, a wrong sign of zero and a missing NaN are all found."""
    one = np.float32(1)
    assert ulp_errors(np.array([np.nextafter(one, np.float32(2))]), np.array([1.0]))[0] == 1
    assert ulp_errors(np.array([-0.0], np.float32), np.array([0.0]))[0] == INF
    assert ulp_errors(np.array([one]), np.array([NAN]))[0] == INF
    assert ulp_errors(np.array([INF], np.float32), np.array([3.0e38]))[0] == INF
