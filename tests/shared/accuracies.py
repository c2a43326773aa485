"""How far the functions of PyTorch and ONNX may be from their values, and by what that is measured.

docs/math-functions.md shows TABLE, rendered by `rendered`; tests/frontends/test_accuracy.py measures it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch.nn import functional as F  # noqa: N812

Numbers = NDArray[Any]
Function = Callable[..., Any]
DTYPES = {torch.float32: (24, -126, 128), torch.float16: (11, -14, 16), torch.bfloat16: (8, -126, 128)}
"""By dtype: the digits, the smallest normal exponent, and the exponent of the first power of two that is not finite."""
_WIDE = {torch.float64: (53, -1022, 1024)}


@dataclass(frozen=True)
class Accuracy:
    """A function of torch, its exact value in long double, and the largest error in ulp of the result.

    bounds: of float32, float16, bfloat16 and float64. least: the error of a smaller result is in ulp of this number.
    within: the largest operand that is measured. operator: of ONNX. operands: how many. precise: of mpmath, for float64
    where the exact values have the digits of a double.
    """

    function: Function
    exact: Function
    bounds: tuple[float, float, float, float | None] = (0.5001, 0.502, 0.502, 4.0)
    least: float = 0.0
    within: float = np.inf
    operator: str = ""
    operands: int = 1
    precise: str = ""


def _by_scipy(function: Function) -> Function:
    """The double of scipy has enough digits for float32."""
    return lambda x: function(x.astype(np.float64)).astype(np.longdouble)


def _sigmoid(x: Numbers) -> Numbers:
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _softplus(x: Numbers) -> Numbers:
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def _mish(x: Numbers) -> Numbers:
    e = np.exp(np.minimum(x, 100))
    tanh = (e * e + 2 * e) / (e * e + 2 * e + 2)
    return np.where(x == -np.inf, np.nan, x) * tanh


def _gelu(x: Numbers) -> Numbers:
    return np.where(x == -np.inf, np.nan, 0.5 * x * special.erfc(-x / np.sqrt(2)))


def _gelu_by_tanh(x: Numbers) -> Numbers:
    pi = 4 * np.arctan(np.longdouble(1))
    return x * _sigmoid(2 * np.sqrt(2 / pi) * (x + np.longdouble("0.044715") * x**3))


def _lgamma(x: Numbers) -> Numbers:
    return np.where(np.isinf(x), np.inf, special.gammaln(x))


def _elu(x: Numbers, alpha: Any = 1) -> Numbers:
    return np.where(x > 0, x, alpha * np.expm1(x))


def _selu(x: Numbers) -> Numbers:
    alpha, scale = np.longdouble("1.67326324235437728481704"), np.longdouble("1.05070098735548049341933")
    return scale * _elu(x, alpha)


_COMPOSED = (2.5, 0.502, 0.502, None)
_ROUNDED_TWICE = (2.5, 2.5, 2.5, None)
"""What torch itself composes of operations on narrow numbers."""
TABLE = {
    **{
        name: Accuracy(getattr(torch, name), exact, operator=operator)
        for name, exact, operator in (
            ("exp", np.exp, "Exp"),
            ("exp2", np.exp2, ""),
            ("expm1", np.expm1, ""),
            ("log", np.log, "Log"),
            ("log2", np.log2, ""),
            ("log10", np.log10, ""),
            ("log1p", np.log1p, ""),
            ("sin", np.sin, "Sin"),
            ("cos", np.cos, "Cos"),
            ("tan", np.tan, "Tan"),
            ("asin", np.arcsin, "Asin"),
            ("acos", np.arccos, "Acos"),
            ("atan", np.arctan, "Atan"),
            ("sinh", np.sinh, "Sinh"),
            ("cosh", np.cosh, "Cosh"),
            ("tanh", np.tanh, "Tanh"),
            ("asinh", np.arcsinh, "Asinh"),
            ("acosh", np.arccosh, "Acosh"),
            ("atanh", np.arctanh, "Atanh"),
            ("sqrt", np.sqrt, "Sqrt"),
            ("rsqrt", lambda x: 1 / np.sqrt(x), ""),
            ("reciprocal", lambda x: 1 / x, "Reciprocal"),
        )
    },
    "erf": Accuracy(torch.erf, _by_scipy(special.erf), operator="Erf", precise="erf"),
    "erfc": Accuracy(torch.erfc, _by_scipy(special.erfc), precise="erfc"),
    "atan2": Accuracy(torch.atan2, np.arctan2, operands=2),
    "pow": Accuracy(torch.pow, np.power, (0.5001, 0.502, 0.502, 1024.0), operands=2, operator="Pow"),
    "hypot": Accuracy(torch.hypot, np.hypot, _COMPOSED, operands=2),
    "logaddexp": Accuracy(torch.logaddexp, np.logaddexp, _COMPOSED, least=0.5, operands=2),
    "special.erfcx": Accuracy(torch.special.erfcx, _by_scipy(special.erfcx), (0.52, 0.502, 0.502, None)),
    "erfinv": Accuracy(torch.erfinv, _by_scipy(special.erfinv), (0.5001, 0.502, 0.502, None)),
    "lgamma": Accuracy(torch.lgamma, _by_scipy(_lgamma), (2.0, 0.502, 0.502, None)),
    "digamma": Accuracy(torch.digamma, _by_scipy(special.digamma), (0.5001, 0.502, 0.502, None)),
    "sigmoid": Accuracy(torch.sigmoid, _sigmoid, _COMPOSED, least=0.5, operator="Sigmoid"),
    "logsigmoid": Accuracy(F.logsigmoid, lambda x: -_softplus(-x), _COMPOSED, least=0.5),
    "softplus": Accuracy(F.softplus, _softplus, _COMPOSED, least=0.5, operator="Softplus"),
    "silu": Accuracy(F.silu, lambda x: x * _sigmoid(x), _COMPOSED, least=0.5),
    "gelu": Accuracy(F.gelu, _by_scipy(_gelu), _COMPOSED, least=0.5, operator="Gelu"),
    "gelu (tanh)": Accuracy(functools.partial(F.gelu, approximate="tanh"), _gelu_by_tanh, _COMPOSED, least=0.5),
    "mish": Accuracy(F.mish, _mish, _COMPOSED, least=0.5, operator="Mish"),
    "elu": Accuracy(F.elu, _elu, operator="Elu"),
    "celu": Accuracy(F.celu, _elu, operator="Celu"),
    "selu": Accuracy(F.selu, _selu, _COMPOSED, operator="Selu"),
    "hardswish": Accuracy(
        F.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, _COMPOSED, least=0.5, within=2.0**124, operator="HardSwish"
    ),
    "softsign": Accuracy(F.softsign, lambda x: x / (1 + abs(x)), _ROUNDED_TWICE, operator="Softsign"),
    "tanhshrink": Accuracy(F.tanhshrink, lambda x: x - np.tanh(x), _ROUNDED_TWICE, least=0.5),
    "logit": Accuracy(torch.logit, lambda x: np.log(x / (1 - x)), _ROUNDED_TWICE, least=0.5),
    "sinc": Accuracy(torch.sinc, _by_scipy(np.sinc), _COMPOSED, least=0.5, within=2.0**20),
}


def errors(accuracy: Accuracy, got: torch.Tensor, *operands: torch.Tensor) -> Numbers:
    """Return |got - exact| in ulp of the exact result, or of the row's `least`; infinite for a wrong NaN.

    An infinity counts as the first power of two that is not finite, which is where rounding to nearest gives it.
    """
    digits, lowest, highest = {**DTYPES, **_WIDE}[got.dtype]
    with np.errstate(all="ignore"):
        wide = [operand.double().numpy().astype(np.longdouble) for operand in operands]
        exact = np.asarray(accuracy.exact(*wide), np.longdouble)
        top = np.ldexp(np.longdouble(1), highest)
        found = np.clip(got.double().numpy().astype(np.longdouble), -top, top)
        exact = np.clip(exact, -top, top)
        size = np.clip(abs(exact), max(accuracy.least, 2.0**lowest), top / 2)
        exponent = np.minimum(np.frexp(size)[1], highest)
        error = abs(found - exact) * np.ldexp(np.longdouble(1), digits - exponent)
        error = np.where(np.isnan(found) != np.isnan(exact), np.inf, np.where(np.isnan(exact), 0, error))
        outside = functools.reduce(np.logical_or, [abs(operand) > accuracy.within for operand in wide])
        if got.dtype == torch.float64:  # whose subnormal results have no bound
            outside |= abs(exact) < 2.0**lowest
            for place in np.flatnonzero((error > _DOUBTFUL) & ~outside) if accuracy.precise else ():
                error[place] = _precise_error(accuracy.precise, float(operands[0][place]), float(got[place]))
        return np.where(outside, 0, error).astype(np.float64)


_DOUBTFUL = 1.0


def _precise_error(name: str, operand: float, got: float) -> float:
    with mpmath.workdps(40):
        return float(abs(mpmath.mpf(got) - getattr(mpmath, name)(mpmath.mpf(operand))) / float(np.spacing(abs(got))))


def points(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Return all numbers of a dtype of 16 bits, or so many: of all exponents, near 0 and 1, and as models have them."""
    if dtype.itemsize == 2:
        return torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    rng = np.random.default_rng(seed)
    kind, bits = (np.float32, np.uint32) if dtype == torch.float32 else (np.float64, np.uint64)
    part, sign = count // 8, rng.choice([-1, 1], count // 8)
    limits = np.finfo(kind)
    extremes = [0.0, 1.0, 2.0, 0.5, np.inf, limits.max, limits.tiny, limits.smallest_subnormal]
    worst = np.array(_WORST, np.uint32).view(np.float32)
    pieces = [
        *(extremes, np.negative(extremes), [np.nan], worst, np.negative(worst)),
        rng.integers(0, np.iinfo(bits).max, 2 * part, dtype=bits).view(kind),
        rng.uniform(-1, 1, 2 * part),
        rng.uniform(-10, 10, 2 * part),
        rng.uniform(-110, 110, part),
        sign * np.exp(rng.uniform(-30, 3, part)),
        1 + sign * np.exp(rng.uniform(-17, 0, part)),
    ]
    return torch.from_numpy(np.concatenate([np.asarray(piece).astype(kind) for piece in pieces]))


_WORST = (0x410A79F5, 0x40800000, 0x3F7FFFF4, 0xB2805C4B, 0xC01D4279, 0x3F7FF4B5, 0x327FFF00, 0x42B171EE, 0x40BEC4A3)
"""Where functions were wrong, as encodings of float32."""


def rendered() -> str:
    """The table of the page."""
    columns = ("function of torch", "operator of ONNX", "float32", "float16", "bfloat16", "float64", "ulp of at least")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, row in TABLE.items():
        bounds = " | ".join("-" if bound is None else f"{bound:g}" for bound in row.bounds)
        lines.append(f"| `{name}` | {row.operator and f'`{row.operator}`'} | {bounds} | {row.least or ''} |")
    return "\n".join(lines)
