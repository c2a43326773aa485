"""Sums of groups as circuits: block floating point, MX, elements with other scales, and integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numc.hardware.circuits.reals import Real, decode, encode, high, low, magnitude, multiply
from numc.hardware.circuits.sums import add, fused_multiply_add, of_integer, to_binary32
from numc.hardware.ports import TOP_BITS
from numc.numerics.circuits import Int, below, field, leading_zeros, maximum, select, within
from numc.numerics.formats import FORMATS, Conversion, Fixed, Format
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds.bfp import Bfp
from numc.numerics.kinds.mx import SCALE_BIAS, SCALE_BITS, Mx
from numc.numerics.kinds.scaled_groups import ScaledGroups
from numc.numerics.operators import FP32, Fma

_CHAIN = 24  # significant bits of a step of the chain of MX


@dataclass(frozen=True)
class Group:
    """Integers in units of 2^exponent.

    factor: what a sum of elements is multiplied by in binary32; elements: these numbers, where a sum rounds.
    """

    integers: Sequence[Int]
    exponent: Int
    nan: Int
    factor: Real | None = None
    elements: Sequence[Real] = ()


def group_circuit(op: Fma, length: int, ports: Mapping[str, Int]) -> Int:
    """The code of the binary32 accumulator after one group."""
    x, y = (read_group(name, to, length, ports) for name, to in zip("ab", op.grouped, strict=True) if to is not None)
    c = decode(FP32.format, ports["c"])
    products = [i * j for i, j in zip(x.integers, y.integers, strict=True)]
    total = _sum(products, exact=op.group is not None and not isinstance(op.group, Mx))
    nan = x.nan | y.nan
    if x.elements and max(high(total), -low(total)).bit_length() > _CHAIN:
        dot = _chain(x.elements, y.elements)
        return encode(_scaled(dot, x.factor, y.factor, c), FP32)
    dot = to_binary32(of_integer(total, x.exponent + y.exponent, [_plain(nan)]))
    if x.factor is not None and y.factor is not None:
        return encode(_scaled(dot, x.factor, y.factor, c), FP32)
    return encode(add(dot, c, FP32), FP32)


def _chain(x: Sequence[Real], y: Sequence[Real]) -> Real:
    """Binary32 FMAs from +0."""
    total = Real(0, 0, 0, least=((1, 0),))
    for pair in zip(x, y, strict=True):
        total = fused_multiply_add(*pair, total)
    return total


def _scaled(dot: Real, of_x: Real | None, of_y: Real | None, c: Real) -> Real:
    """C + S * RN(fa * fb), one FMA."""
    assert of_x is not None
    assert of_y is not None
    return add(multiply(dot, to_binary32(multiply(of_x, of_y))), c, FP32)


def _plain(nan: Int) -> Real:
    return Real(0, 0, 0, nan=nan)


def _sum(products: Sequence[Int], *, exact: bool) -> Int:
    """The sum; a step of MX's chain rounds to 24 bits where a sum can have more."""
    total: Int = 0
    for product in products:
        total = total + product
        bits = max(high(total), -low(total)).bit_length()
        if not exact and bits > _CHAIN:
            total = _to_bits(total, bits)
    return total


def _to_bits(x: Int, bits: int) -> Int:
    """`x` rounded to 24 significant bits, to nearest even."""
    size = magnitude(x)
    down = maximum(bits - _CHAIN - leading_zeros(size, bits), 0)
    units, rest = size >> down, below(size, down)
    doubled, unit = rest * 2, 1 << down
    up = (doubled > unit) | ((doubled == unit) & below(units, 1) & (down > 0))
    rounded = within(units + up << down, 0, 1 << bits)
    return select(x < 0, -rounded, rounded)


def read_group(name: str, to: GroupConversion, length: int, ports: Mapping[str, Int]) -> Group:
    """The elements of an operand's group, and its scale."""
    fmt = to.format
    if isinstance(fmt, Bfp):
        return _bfp(name, fmt, length, ports)
    if isinstance(fmt, Mx):
        return _mx(name, fmt, length, ports)
    if isinstance(fmt, ScaledGroups):
        return _elements(name, fmt, length, ports)
    integers = _signed_fields(ports[name], fmt.code_bits, length)
    return Group(integers, 0, 0, decode(FP32.format, ports[f"{name}_scale"]))


def _signed_fields(codes: Int, bits: int, length: int) -> list[Int]:
    return [signed(field(codes, n * bits, bits), bits) for n in range(length)]


def signed(code: Int, bits: int) -> Int:
    """The number of a code in two's complement."""
    return code - (field(code, bits - 1, 1) << bits)


def _bfp(name: str, fmt: Bfp, length: int, ports: Mapping[str, Int]) -> Group:
    m = fmt.magnitude_bits
    codes = [field(ports[name], n * (m + 1), m + 1) for n in range(length)]
    sizes = [below(code, m) for code in codes]
    integers = [select(field(code, m, 1), -size, size) for code, size in zip(codes, sizes, strict=True)]
    own, every = ports[f"{name}_exponent"], sizes[0]
    for size in sizes[1:]:
        every = every | size
    exponent = signed(ports[f"{name}_top"], TOP_BITS) + own - (fmt.window + m - 1)
    return Group(integers, exponent, (own == fmt.window) & (every == 0))


def _mx(name: str, fmt: Mx, length: int, ports: Mapping[str, Int]) -> Group:
    scale = ports[f"{name}_scale"]
    single: Format = fmt.single or Fixed(1, fmt.significand_bits)
    integers = [_integer(decode(single, each), single) for each in _fields(ports[name], fmt.element_bits, length)]
    exponent = scale - SCALE_BIAS + single.unit_exponent
    return Group(integers, exponent, scale == (1 << SCALE_BITS) - 1)


def _fields(codes: Int, bits: int, length: int) -> list[Int]:
    return [field(codes, n * bits, bits) for n in range(length)]


def _integer(x: Real, fmt: Format) -> Int:
    """A finite element in the units of its format."""
    size = x.significand << x.exponent - fmt.unit_exponent
    return select(x.sign, -size, size)


def _elements(name: str, fmt: ScaledGroups, length: int, ports: Mapping[str, Int]) -> Group:
    elements = [decode(fmt.element, each) for each in _fields(ports[name], fmt.element.bits, length)]
    integers = [_integer(each, fmt.element) for each in elements]
    factor = decode(fmt.scale, ports[f"{name}_scale"])
    if fmt.tensor:
        tensor = decode(FP32.format, ports[f"{name}_tensor"])
        saturating = Conversion(FORMATS["fp32"], overflow="sat")
        factor = decode(FP32.format, encode(multiply(factor, tensor), saturating))
    return Group(integers, fmt.element.unit_exponent, 0, factor, elements)
