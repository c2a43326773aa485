"""Products aligned to their largest exponent and cut: what the fixed-point adders of matrix units begin with.

Products are exact in binary64. Scaled by ``2^(bits - E)``, with E the largest exponent, they are cut by a truncation to
integers, whose sums binary64 holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numc.numerics.formats import Conversion
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.setting import Parts
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64, Carrier

NOWHERE = -4096  # the exponent of a zero, below all others


def largest_exponents(code: Code, fma: Fma, products: Products, starts: Sequence[Value]) -> list[Value]:
    """Append the largest exponent of every accumulator's products, or what it starts from (i32) if that is larger."""
    to_a, to_b = fma.factors

    def higher(n: int, top: Value, a: Parts, b: Parts) -> Value:
        exponent = code.binary("addi", exponent_of(code, a[0], to_a), exponent_of(code, b[0], to_b))
        return code.binary("maxsi", top, exponent)

    return products.fold(starts, higher)


def cut_sums(
    code: Code,
    products: Products,
    scales: Sequence[Value],
    starts: Sequence[Value],
    value: Callable[[Parts, Parts], Value],
) -> list[Value]:
    """Append the sums of products that are cut to integers, from `starts`.

    scales: what takes the last bit that is kept to 1. value: appends a product in binary64.
    """
    return products.fold(starts, lambda n, total, a, b: code.binary("addf", total, cut(code, value(a, b), scales[n])))


def cut_scale(code: Code, top: Value, bits: int) -> Value:
    """Append what takes the last bit that is kept to 1."""
    return power_of_two(code, code.binary("subi", code.int(bits), top))


def cut(code: Code, x: Value, scale: Value) -> Value:
    """Append numbers in those units, cut toward zero."""
    return code.unary("math.trunc", code.binary("mulf", x, scale))


def exact_product(code: Code, a: Parts, b: Parts) -> Value:
    """Append a product, in binary64."""
    x, y = (code.cast("extf", parts[0], "f64") for parts in (a, b))
    return code.binary("mulf", x, y)


def exponent_of(code: Code, x: Value, to: Conversion) -> Value:
    """The exponents of numbers in their format, as i32: that of all subnormals is the least one."""
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(F32.sign - 1))
    exponent = code.binary("subi", code.binary("shrui", magnitude, code.int(23)), code.int(F32.bias))
    exponent = code.binary("maxsi", exponent, code.int(max(to.format.emin, -F32.bias)))
    return code.select(code.compare("eq", magnitude, code.int(0)), code.int(NOWHERE), exponent)


def power_of_two(code: Code, exponent: Value, carrier: Carrier = F64) -> Value:
    """2 to the power of numbers (i32), which is a normal number of the carrier."""
    field = code.binary("addi", exponent, code.int(carrier.bias))
    wide = field if carrier.i == "i32" else code.cast("extsi", field, carrier.i)
    return code.cast("bitcast", code.binary("shli", wide, code.int(carrier.significand_bits, carrier.i)), carrier.f)
