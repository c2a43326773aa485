"""Functions of elements that torch-mlir does not lower, or lowers wrongly."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from numc.frontends.pytorch import operators
from numc.frontends.pytorch.operators import bits
from numc.frontends.pytorch.rewrites.scalars import common

aten = torch.ops.aten


def signbit(value: torch.Tensor) -> torch.Tensor:
    """aten.signbit, also of zeros and NaN."""
    if not value.is_floating_point():
        return value < 0 if value.dtype != torch.bool else torch.zeros_like(value)
    # A narrow dtype keeps the sign when it is widened.
    return bits(value if value.dtype == torch.float64 else value.float()) < 0


def copysign(value: torch.Tensor, sign: Any) -> torch.Tensor:
    """aten.copysign."""
    dtype = torch.result_type(value, sign)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    if not isinstance(sign, torch.Tensor):
        sign = torch.full((), sign, dtype=dtype)
    value = value.to(dtype).abs()
    return torch.where(signbit(sign), -value, value)


def fmod(value: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    """aten.fmod of floats, which has no error: torch-mlir multiplies the divisor by a rounded quotient."""
    dtype = torch.result_type(value, divisor)
    if not dtype.is_floating_point:
        return NotImplemented
    return copysign(torch.remainder(value.to(dtype).abs(), divisor.to(dtype).abs()), value)


def trunc(value: torch.Tensor) -> torch.Tensor:
    """aten.trunc of floats, which keeps the sign of what becomes 0."""
    return copysign(value.abs().floor(), value) if value.is_floating_point() else NotImplemented


def div_mode(value: torch.Tensor, divisor: Any, *, rounding_mode: str | None = None) -> torch.Tensor:
    """aten.div with a mode: of int8, on which torch-mlir crashes, and of floats.

    The floor is that of the exact quotient, and that of an infinity over a number is NaN, as in Python.
    """
    dtype = torch.result_type(value, divisor)
    if rounding_mode is not None and (operands := common((value, divisor))) is not None:
        return torch.div(*operands, rounding_mode=rounding_mode)
    if dtype == torch.int8 and rounding_mode is not None:
        divisor = divisor.int() if isinstance(divisor, torch.Tensor) else divisor
        return torch.div(value.int(), divisor, rounding_mode=rounding_mode).to(dtype)
    if not dtype.is_floating_point or rounding_mode is None:
        return NotImplemented
    if not isinstance(divisor, torch.Tensor):
        divisor = torch.full((), divisor, dtype=dtype)
    value, divisor = value.to(dtype), divisor.to(dtype)
    quotient = value / divisor
    if rounding_mode == "trunc":
        return trunc(quotient)
    rest = fmod(value, divisor)
    whole = (value - rest) / divisor
    whole = torch.where((rest != 0) & ((rest < 0) != (divisor < 0)), whole - 1, whole)
    floor = whole.floor()
    floor = torch.where(whole - floor > 0.5, floor + 1, floor)
    floor = torch.where(whole == 0, copysign(torch.zeros_like(whole), quotient), floor)
    return torch.where(divisor == 0, quotient, floor)


def native_dropout(value: torch.Tensor, p: float, train: bool | None) -> Any:
    """aten.native_dropout where it draws nothing: it keeps every element, or none."""
    if train is False or p == 0.0:
        return value.clone(), torch.ones_like(value, dtype=torch.bool)
    if p == 1.0:
        return value * 0.0, torch.zeros_like(value, dtype=torch.bool)  # a NaN stays one, as in eager torch
    return NotImplemented


def logaddexp2(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.logaddexp2: torch-mlir adds the powers, of which the smaller may be lost."""
    most = torch.maximum(one, other)
    log_sum = most + (-(one - other).abs()).exp2().log1p() * (1 / math.log(2))
    return torch.where((one == other) & (one.abs() == float("inf")), one, log_sum)


def isfinite(value: torch.Tensor) -> torch.Tensor:
    """aten.isfinite."""
    if not value.is_floating_point():
        return torch.ones_like(value, dtype=torch.bool)
    return value.abs() < float("inf")


def isclose(
    one: torch.Tensor, other: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> torch.Tensor:
    """aten.isclose: NaN is not close, nor is an infinity to another number."""
    close = one == other
    if equal_nan and one.is_floating_point():
        close = close | one.isnan() & other.isnan()
    distance = (one - (other if other.is_floating_point() else other.float())).abs()
    return close | isfinite(distance) & (_float32(distance) <= atol + (rtol * _float32(other)).abs())


def fmax(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.fmax: of a number and NaN, the number."""
    one, other = torch.broadcast_tensors(one, other)
    larger = torch.maximum(one, other)
    return torch.where(one.isnan(), other, torch.where(other.isnan(), one, larger))


def fmin(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.fmin: of a number and NaN, the number."""
    one, other = torch.broadcast_tensors(one, other)
    smaller = torch.minimum(one, other)
    return torch.where(one.isnan(), other, torch.where(other.isnan(), one, smaller))


def hypot(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.hypot, whose squares do not overflow."""
    one, other = one.abs(), other.abs()
    most = torch.maximum(one, other)
    ratio = torch.where(most == 0, 0.0, torch.minimum(one, other) / most)
    hypotenuse = most * (1 + ratio * ratio).sqrt()
    infinite = (one == float("inf")) | (other == float("inf"))
    return torch.where(infinite, float("inf"), hypotenuse)


def angle(value: torch.Tensor) -> torch.Tensor:
    """aten.angle of real numbers."""
    if value.is_complex():
        return NotImplemented
    angles = torch.where(value < 0, math.pi, 0.0)
    return torch.where(value.isnan(), value, angles).to(value.dtype) if value.is_floating_point() else angles


def cdist(one: torch.Tensor, other: torch.Tensor, p: float, mode: int | None) -> torch.Tensor:
    """aten._cdist_forward."""
    difference = (one.unsqueeze(-2) - other.unsqueeze(-3)).abs()
    return torch.linalg.vector_norm(difference, p, dim=-1)


def xlogy(value: Any, other: Any) -> torch.Tensor:
    """aten.xlogy, also of a number, which eager torch rounds to the dtype first; it rounds the logarithm, too."""
    return _times(value, other, torch.log)


def xlog1py(value: Any, other: Any) -> torch.Tensor:
    """aten.special_xlog1py, likewise."""
    return _times(value, other, torch.log1p)


def _times(value: Any, other: Any, logarithm: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    dtype = torch.result_type(value, other)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    factor, number = (
        each.to(dtype) if isinstance(each, torch.Tensor) else torch.full((), each, dtype=dtype)
        for each in (value, other)
    )
    product = torch.where(factor == 0, 0.0, factor * logarithm(number))
    return torch.where(number.isnan(), number, product)


def entr(value: torch.Tensor) -> torch.Tensor:
    """aten.special_entr, whose logarithm eager torch rounds in narrow dtypes."""
    value = _float32(value)
    product = torch.where(value == 0, 0.0, -value * value.log())
    return torch.where(value < 0, float("-inf"), product)


def erfc(value: torch.Tensor) -> torch.Tensor:
    """aten.erfc, also where 1 - erf has no digits."""
    value = _float32(value)
    return operators.erfc(value) if value.dtype in (torch.float32, torch.float64) else NotImplemented


def _in_double(formula: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function of float32 whose formula is computed in float64 and rounded once: sums in it cancel."""

    @functools.wraps(formula)
    def in_double(value: torch.Tensor) -> torch.Tensor:
        if value.dtype == torch.float64:
            return NotImplemented
        return formula(value.double()).to(_float32(value).dtype)

    return in_double


def in_float32(function: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return such a function with its formula computed in float32: in graphs of torch.compile, torch keeps float64."""
    formula = function.__wrapped__
    return lambda value: NotImplemented if value.dtype == torch.float64 else formula(_float32(value))


_ERFCX_FAR = 9.0


@_in_double
def erfcx(value: torch.Tensor) -> torch.Tensor:
    """aten.special_erfcx of float32: exp(x^2) erfc(x), and its asymptotic series where the first would overflow."""
    near = value.clamp_max(_ERFCX_FAR)
    far = value.clamp_min(_ERFCX_FAR)
    series = _polynomial(1 / (far * far), (1, -1 / 2, 3 / 4, -15 / 8, 105 / 16, -945 / 32)) / math.sqrt(math.pi) / far
    return torch.where(value > _ERFCX_FAR, series, (near * near).exp() * operators.erfc(near))


def _polynomial(value: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    """Evaluate a polynomial, whose first coefficient is the constant one."""
    total = torch.full_like(value, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * value + coefficient
    return total


def _float32(value: torch.Tensor) -> torch.Tensor:
    return value if value.is_floating_point() else value.float()


# M. Giles, Approximating the erfinv function, GPU Computing Gems 2 (2011), single precision.
_ERFINV_MIDDLE = (
    *(1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087),
    *(-4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08),
)
_ERFINV_TAIL = (
    *(2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773),
    *(-0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257),
)


@_in_double
def erfinv(value: torch.Tensor) -> torch.Tensor:
    """aten.erfinv of float32: an approximation of five digits, and a step of Halley's method from it."""
    w = -torch.log1p(-value * value)
    middle = _polynomial(w - 2.5, _ERFINV_MIDDLE)
    tail = _polynomial(w.sqrt() - 3.0, _ERFINV_TAIL)
    estimate = torch.where(w < 5, middle, tail) * value
    if value.dtype == torch.float32:  # in which the step would have no digits near 1
        return torch.where(value.abs() == 1, value * float("inf"), estimate)
    step = (estimate.erf() - value) * (0.5 * math.sqrt(math.pi)) * (estimate * estimate).exp()
    estimate = estimate - step / (1 + estimate * step)
    return torch.where(value.abs() == 1, value * float("inf"), estimate)


_SHIFT = 8
"""The series below are exact enough from this number on."""
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


@_in_double
def lgamma(value: torch.Tensor) -> torch.Tensor:
    """aten.lgamma of float32: Stirling's series, and its reflection for negative numbers."""
    positive = torch.where(value < 0.5, 1 - value, value)
    # None of the large numbers has to be shifted, and the product of eight of them would overflow.
    large = positive > _SHIFT
    small = positive.clamp_max(_SHIFT)
    product = small
    for n in range(1, _SHIFT):
        product = product * (small + n)
    y = torch.where(large, positive, positive + _SHIFT)
    series = (y - 0.5) * y.log() - y + 0.5 * math.log(2 * math.pi) + _polynomial(1 / (y * y), _STIRLING) / y
    log_gamma = series - torch.where(large, 1.0, product).log()
    reflected = math.log(math.pi) - (math.pi * _from_nearest(value)).sin().abs().log() - log_gamma
    log_gamma = torch.where(value < 0.5, reflected, log_gamma)
    log_gamma = torch.where((value == 1) | (value == 2), 0.0, log_gamma)
    pole = (value <= 0) & (value.floor() == value)
    return torch.where(pole | (value.abs() == float("inf")), float("inf"), log_gamma)


@_in_double
def digamma(value: torch.Tensor) -> torch.Tensor:
    """aten.digamma of float32: its asymptotic series, and its reflection for negative numbers."""
    positive = torch.where(value < 0.5, 1 - value, value)
    y = positive + _SHIFT
    squared = 1 / (y * y)
    psi = y.log() - 0.5 / y - squared * _polynomial(squared, _DIGAMMA)
    for n in range(_SHIFT):
        psi = psi - 1 / (positive + n)
    reflected = psi - math.pi / (math.pi * _from_nearest(value)).tan()
    psi = torch.where(value < 0.5, reflected, psi)
    psi = torch.where((value < 0) & (value.floor() == value), float("nan"), psi)
    return torch.where(value == 0, copysign(torch.full_like(value, float("inf")), -value), psi)


def _from_nearest(value: torch.Tensor) -> torch.Tensor:
    """Return the distance from the nearest integer, which has no error, unlike that from the floor of small numbers."""
    return value - value.round()


def pow_scalar(value: torch.Tensor, exponent: Any) -> torch.Tensor:
    """aten.pow.Tensor_Scalar of integers: by squaring, or of floats if the exponent is one; the square root."""
    if value.is_floating_point():
        return _power_of_float(value, exponent)
    if isinstance(exponent, float):
        return aten.pow.Tensor_Scalar(value.to(torch.get_default_dtype()), exponent)
    if not isinstance(exponent, int) or exponent < 0:
        return NotImplemented
    value = value.long() if value.dtype == torch.bool else value
    product, power = None, value
    while exponent:
        if exponent & 1:
            product = power if product is None else product * power
        exponent >>= 1
        power = power * power if exponent else power
    return torch.ones_like(value) if product is None else product


def _power_of_float(value: torch.Tensor, exponent: Any) -> torch.Tensor:
    """Return the powers that eager torch has loops of their own for."""
    if exponent in (0.5, -0.5) and value.dtype != torch.float16:  # in which they are powers
        return value.sqrt() if exponent == 0.5 else value.rsqrt()
    if value.dtype == torch.bfloat16 and exponent in (3, -2):  # it rounds each product there, but not in float16
        square = value * value
        return square * value if exponent == 3 else square.reciprocal()
    return NotImplemented


def pow_tensor(value: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """aten.pow.Tensor_Tensor of integers, by squaring. Negative ones give 0, but of 1 and -1."""
    dtype = torch.result_type(value, exponent)
    if dtype.is_floating_point or dtype == torch.bool:
        return NotImplemented
    value, exponent = torch.broadcast_tensors(value.to(dtype), exponent.to(dtype))
    product, power, size = torch.ones_like(value), value, exponent.abs()
    for n in range(torch.iinfo(dtype).bits - (0 if dtype == torch.uint8 else 1)):
        product = torch.where((size >> n) & 1 != 0, product * power, product)
        power = power * power
    return torch.where((exponent < 0) & (value.abs() != 1), 0, product).to(dtype)
