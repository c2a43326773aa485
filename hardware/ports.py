"""The ports of an operator: the codes that enter one step of it, and the code that leaves it, by the definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from numc.hardware.encodings import Encoding
from numc.numerics.datapaths import Blocks, Own
from numc.numerics.defined import definition_of, is_defined
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import rounder
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds.bfp import Bfp
from numc.numerics.kinds.mx import SCALE_BIAS, SCALE_BITS, Mx
from numc.numerics.kinds.scaled_groups import ScaledGroups
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.datapaths import BLOCKS, STEPS, Draws, contraction
from numc.numerics.reference.defined import defined_run
from numc.numerics.reference.group_operators import Vector, add_group, group_dot
from numc.support.errors import NumcError

Codes = Mapping[str, tuple[int, ...]]
"""The codes of each port, the first product's first."""
INTEGERS = 16  # products that a step of intN takes: the format itself sets no number
TOP_BITS = 9  # of an exponent of binary32, subnormals included, in two's complement
_INSTRUCTIONS = {"avx512_bf16": 2, "amx_bf16": 32}


@dataclass(frozen=True)
class Port:
    """`count` codes of `bits` bits side by side, the first one lowest. holds: what they are codes of."""

    name: str
    bits: int
    holds: str
    count: int = 1

    @property
    def width(self) -> int:
        """All codes together."""
        return self.bits * self.count

    def joined(self, codes: tuple[int, ...]) -> int:
        """Return codes as one number."""
        return sum(code << n * self.bits for n, code in enumerate(codes))

    def divided(self, number: int) -> tuple[int, ...]:
        """The inverse of `joined`."""
        return tuple(number >> n * self.bits & (1 << self.bits) - 1 for n in range(self.count))


@dataclass(frozen=True)
class Interface:
    """One step of an operator on codes.

    products: how many it takes. Ports `a` and `b` hold the operands, `c` the accumulator, `u` and `v` the random bits
    of the accumulator's and of the product's rounding where these draw, and `d` is the new accumulator.
    evaluate: the exact products and the value of the accumulator become the value of the new one, by the definition.
    """

    op: Fma
    products: int
    inputs: tuple[Port, ...]
    output: Port
    evaluate: Callable[[Codes], Value]

    def expected(self, codes: Codes) -> int | None:
        """Return the code of the result; None for a NaN for which the accumulator has no code."""
        return Encoding(self.op.acc.format).encode(self.evaluate(codes))

    def port(self, name: str) -> Port:
        """Return an input by its name."""
        return next(port for port in self.inputs if port.name == name)


@cache
def interface(op: Fma) -> Interface:
    """Return the ports of a step of an operator, without its chunks.

    Raises NumcError for widths and lengths that a run chooses, and for sums of groups that have no step here.
    """
    if op.open_operands:
        raise NumcError(f"operator '{op}': its widths are open, hardware has fixed ones: want a format such as e5m2")
    if op.datapath.splits is not None:
        raise NumcError(f"operator '{op}': a reduction says how long its splits are, hardware knows none: want chunk=c")
    if op.groups is not None and op.datapath.name in ("fused", "int"):
        raise NumcError(f"operator '{op}': datapath '{op.datapath.name}' has no step on groups: want datapath=fp32")
    if is_defined(op) and definition_of(op).register:
        raise NumcError(f"operator '{op}' has no ports: its accumulator is a register, want one of a format")
    if op.groups is not None:
        return _of_groups(op, *op.groups)
    path, (to_a, to_b) = op.datapath, op.singles
    within = path.within
    products = within.length if isinstance(within, Blocks) else _INSTRUCTIONS.get(path.name, 1)
    a, b, c = (Encoding(to.format) for to in (to_a, to_b, op.acc))
    inputs = [
        Port("a", a.bits, to_a.format.name, products),
        Port("b", b.bits, to_b.format.name, products),
        Port("c", c.bits, op.acc.format.name),
    ]
    for name, to in (("u", op.acc), ("v", op.product)):
        if to is not None and to.noise is not None:
            inputs.append(Port(name, to.noise.bits, "random bits"))
    step = _step(op)

    def evaluate(codes: Codes) -> Value:
        x, y = ([each.split(each.decode(code)) for code in codes[name]] for name, each in (("a", a), ("b", b)))
        noise, product_noise = (codes[name][0] if name in codes else 0 for name in "uv")
        return step(x, y, c.decode(codes["c"][0]), noise, product_noise)

    return Interface(op, products, tuple(inputs), Port("d", c.bits, op.acc.format.name), evaluate)


_Parts = list[tuple[Value, ...]]


def _step(op: Fma) -> Callable[[_Parts, _Parts, Value, int, int], Value]:
    name, within = op.datapath.name, op.datapath.within
    if isinstance(within, Own):
        whole = contraction(op)
        return lambda x, y, c, _, __: whole(x, y, c, Draws(0, 0))
    if is_defined(op):
        run = defined_run(op)
        return lambda x, y, c, noise, _: run(x, y, c, [(0, noise)])
    if isinstance(within, Blocks):
        block = BLOCKS[name](op)
        return lambda x, y, c, noise, _: block(x, y, c, noise)
    step = STEPS[name](op)
    return lambda x, y, c, noise, product_noise: step(x[0], y[0], c, product_noise, noise)


# Groups.

_Read = Callable[[Codes], tuple[list[Value], Value]]


def _of_groups(op: Fma, to_a: GroupConversion, to_b: GroupConversion) -> Interface:
    size = to_a.format.group or INTEGERS
    (a_ports, read_a), (b_ports, read_b) = (_group_ports(name, to, size) for name, to in (("a", to_a), ("b", to_b)))
    fp32 = Encoding(FP32.format)

    def evaluate(codes: Codes) -> Value:
        (x, of_x), (y, of_y), c = read_a(codes), read_b(codes), fp32.decode(codes["c"][0])
        if op.group is not None and (op.group.sums_integers or op.group.sums_elements):
            return group_dot(op, _quantized(x, to_a, of_x), _quantized(y, to_b, of_y), c)
        return add_group(op, x, y, c)

    inputs = (*a_ports, *b_ports, Port("c", fp32.bits, "fp32"))
    return Interface(op, size, inputs, Port("d", fp32.bits, "fp32"), evaluate)


def _quantized(values: list[Value], to: GroupConversion, scale: Value) -> Vector:
    if to.format.sums_integers:
        return _Integers([int(value) << POINT for value in values], to, scale, quantized=True)
    return Vector(values, to, 0, quantized=True, scales=[scale])


class _Integers(Vector):
    """Integers whose scale is given, and not found from the largest magnitude of a tensor."""

    @property
    def scale(self) -> Value:
        return self.largest


def _group_ports(name: str, to: GroupConversion, size: int) -> tuple[list[Port], _Read]:
    """The ports of an operand with groups, and what reads them: elements, and their scale where it stands apart."""
    fmt = to.format
    if isinstance(fmt, Bfp):
        return _bfp_ports(name, fmt, size)
    if isinstance(fmt, Mx):
        return _mx_ports(name, fmt, size)
    if isinstance(fmt, ScaledGroups):
        return _scaled_ports(name, fmt, size)
    bits, fp32 = fmt.code_bits, Encoding(FP32.format)
    ports = [Port(name, bits, f"{fmt.name}, two's complement", size), Port(f"{name}_scale", 32, "fp32")]
    return ports, lambda codes: ([signed(code, bits) for code in codes[name]], fp32.decode(codes[f"{name}_scale"][0]))


def _bfp_ports(name: str, fmt: Bfp, size: int) -> tuple[list[Port], _Read]:
    ports = [
        Port(name, fmt.magnitude_bits + 1, "a sign above a magnitude", size),
        Port(f"{name}_exponent", fmt.exponent_bits, "the exponent above the bottom of the window"),
        Port(f"{name}_top", TOP_BITS, "the largest exponent of the tensor, two's complement"),
    ]

    def read(codes: Codes) -> tuple[list[Value], Value]:
        own, top = codes[f"{name}_exponent"][0], signed(codes[f"{name}_top"][0], TOP_BITS)
        sizes = [code & fmt.largest for code in codes[name]]
        if own == fmt.window and not any(sizes):
            return [math.nan] * size, 0
        shift = POINT + top - fmt.window + own - (fmt.magnitude_bits - 1)
        signs = [code >> fmt.magnitude_bits for code in codes[name]]
        return [_with_sign(int(_times_power(m, shift)), s) for m, s in zip(sizes, signs, strict=True)], 0

    return ports, read


def _mx_ports(name: str, fmt: Mx, size: int) -> tuple[list[Port], _Read]:
    single = fmt.single
    element = None if single is None else Encoding(single)
    ports = [
        Port(name, fmt.element_bits, "two's complement" if single is None else single.name, size),
        Port(f"{name}_scale", SCALE_BITS, "e8m0fnu"),
    ]

    def read(codes: Codes) -> tuple[list[Value], Value]:
        scale = codes[f"{name}_scale"][0] - SCALE_BIAS
        if scale > SCALE_BIAS:
            return [math.nan] * size, 0
        values = [
            signed(code, fmt.element_bits) << POINT - fmt.significand_bits if element is None else element.decode(code)
            for code in codes[name]
        ]
        return [_times_power(value, scale) for value in values], 0

    return ports, read


def _scaled_ports(name: str, fmt: ScaledGroups, size: int) -> tuple[list[Port], _Read]:
    element, scale, fp32 = Encoding(fmt.element), Encoding(fmt.scale), Encoding(FP32.format)
    ports = [
        Port(name, element.bits, fmt.element.name, size),
        Port(f"{name}_scale", scale.bits, fmt.scale.name),
        *([Port(f"{name}_tensor", 32, "fp32")] if fmt.tensor else []),
    ]
    saturating = rounder(Conversion(FP32.format, overflow="sat"), 2 * POINT)

    def read(codes: Codes) -> tuple[list[Value], Value]:
        values, factor = [element.decode(code) for code in codes[name]], scale.decode(codes[f"{name}_scale"][0])
        if fmt.tensor and type(factor) is int:
            factor = saturating(factor * int(fp32.decode(codes[f"{name}_tensor"][0])))
        return values, factor

    return ports, read


def signed(code: int, bits: int) -> int:
    """Return a code in two's complement as a number."""
    return code - (code >> bits - 1 << bits)


def _with_sign(size: int, negative: int) -> Value:
    return (-size or -0.0) if negative else size


def _times_power(value: Value, power: int) -> Value:
    """A value times a power of two; elements below the smallest quantum are cut, as conversions make none."""
    if isinstance(value, float):
        return value
    return value << power if power >= 0 else -(-value >> -power) if value < 0 else value >> -power
