"""Sums of groups as circuits: block floating point, MX, elements with other scales, and integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numc.hardware.circuits.exact_real import Real, high, low, magnitude
from numc.hardware.circuits.kinds import CHAINS, GROUPS
from numc.hardware.circuits.kinds.group import Group, fields, products_of, signed
from numc.hardware.circuits.reals import decode, encode, multiply
from numc.hardware.circuits.sums import add, fused_multiply_add, of_integer, to_binary32
from numc.numerics.circuits import Whole, below, field, leading_zeros, maximum, minimum, select, within
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import FP32, Fma

CHAIN_BITS = 24
"""Significant bits of a step of the chain of MX."""


def group_circuit(op: Fma, length: int, ports: Mapping[str, Whole]) -> Whole:
    """The code of the binary32 accumulator after one group."""
    x, y = groups_of(op, length, ports)
    total: Whole = 0
    for product in products_of(x, y):
        total = added(op, total, product)
    c = decode(FP32.format, ports["c"])
    if x.elements and bits_of(total) > CHAIN_BITS:
        dot = _chain(x.elements, y.elements)
        return encode(scaled(dot, x.factor, y.factor, c), FP32)
    return accumulated(x, y, total, c)


def groups_of(op: Fma, length: int, ports: Mapping[str, Whole]) -> tuple[Group, Group]:
    """Both operands' groups."""
    x, y = (read_group(name, to, length, ports) for name, to in zip("ab", op.grouped, strict=True) if to is not None)
    return x, y


def integer_circuit(op: Fma, length: int, ports: Mapping[str, Whole]) -> Whole:
    """The code of a register after some products of integers."""
    bits, sides = op.datapath["bits"], []
    for name, to in zip("ab", op.grouped, strict=True):
        assert to is not None
        width = to.format.code_bits
        sides.append([signed(code, width) for code in fields(ports[name], width, length)])
    total = signed(ports["c"], bits)
    for i, j in zip(*sides, strict=True):
        total = total + i * j
    if op.datapath["saturate"]:
        total = minimum(maximum(total, -1 << bits - 1), (1 << bits - 1) - 1)
    return field(total, 0, bits)


def scaled_ending(op: Fma, bits: int, ports: Mapping[str, Whole]) -> Whole:
    """The code of the result: the initial accumulator `c`, and the sum `r`, times the scales of the tensors.

    bits: of a sum that is a whole number; 0 for one in binary32.
    """
    c, r = decode(FP32.format, ports["c"]), ports["r"]
    total = to_binary32(of_integer(signed(r, bits), 0, [_plain(0)])) if bits else decode(FP32.format, r)
    scales = {name[0]: decode(FP32.format, code) for name, code in ports.items() if name not in "cr"}
    return encode(scaled(total, scales.get("a"), scales.get("b"), c), FP32)


def accumulated(x: Group, y: Group, total: Whole, c: Real) -> Whole:
    """The sum of products in binary32, scaled and added to the accumulator."""
    dot = to_binary32(of_integer(total, x.exponent + y.exponent, [_plain(x.nan | y.nan)]))
    if x.factor is not None and y.factor is not None:
        return encode(scaled(dot, x.factor, y.factor, c), FP32)
    return encode(add(dot, c, FP32), FP32)


def _chain(x: Sequence[Real], y: Sequence[Real]) -> Real:
    """Binary32 FMAs from +0."""
    total = Real(0, 0, 0, least=((1, 0),))
    for pair in zip(x, y, strict=True):
        total = fused_multiply_add(*pair, total)
    return total


def scaled(total: Real, of_x: Real | None, of_y: Real | None, c: Real) -> Real:
    """C + S * RN(fa * fb), one FMA; a factor that is not there is 1."""
    unit = Real(0, 0, 1, least=((1, 0),))
    return add(multiply(total, to_binary32(multiply(of_x or unit, of_y or unit))), c, FP32)


def _plain(nan: Whole) -> Real:
    return Real(0, 0, 0, nan=nan)


def added(op: Fma, total: Whole, product: Whole) -> Whole:
    """One more product; a step of MX's chain rounds to 24 bits where a sum can have more."""
    total, bits = total + product, bits_of(total + product)
    return _tobits_of(total, bits) if type(op.group) in CHAINS and bits > CHAIN_BITS else total


def bits_of(x: Whole) -> int:
    """The bits of the largest magnitude."""
    return max(high(x), -low(x)).bit_length()


def _tobits_of(x: Whole, bits: int) -> Whole:
    """`x` rounded to 24 significant bits, to nearest even."""
    size = magnitude(x)
    down = maximum(bits - CHAIN_BITS - leading_zeros(size, bits), 0)
    units, rest = size >> down, below(size, down)
    doubled, unit = rest * 2, 1 << down
    up = (doubled > unit) | ((doubled == unit) & below(units, 1) & (down > 0))
    rounded = within(units + up << down, 0, 1 << bits)
    return select(x < 0, -rounded, rounded)


def read_group(name: str, to: GroupConversion, length: int, ports: Mapping[str, Whole]) -> Group:
    """The elements of an operand's group, and its scale."""
    return GROUPS[type(to.format)](name, to.format, length, ports)
