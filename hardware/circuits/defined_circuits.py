"""Operators that users define as circuits: the real numbers of their graphs become codes and exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from numc.hardware.circuits.exact_real import Real, low, magnitude
from numc.hardware.circuits.few_values import MOST_BITS
from numc.hardware.circuits.reals import decode, encode, multiply
from numc.hardware.circuits.sums import add, exact_sum
from numc.hardware.encodings import Encoding
from numc.numerics.circuits import (
    Whole,
    any_of,
    below,
    field,
    leading_zeros,
    lookup,
    maximum,
    select,
    within,
)
from numc.numerics.circuits.known import Known
from numc.numerics.circuits.number import Number, make
from numc.numerics.circuits.ordering import Node
from numc.numerics.circuits.traced import Traced
from numc.numerics.defined import definition_of, ending, traced
from numc.numerics.formats import Conversion, Fixed, Format, Posit, Record
from numc.numerics.operators import Fma
from numc.support.errors import NumcError


def defined_circuit(op: Fma, length: int, operands: tuple[Whole, Whole], c: Whole, noise: Whole) -> Whole:
    """The code of the new accumulator of a block; of a register, in two's complement."""
    graph, bits = traced(op), definition_of(op).register
    codes: dict[int, Whole] = {id(graph.c): _signed(op, c) if bits else c}
    for side, port, to in zip((graph.a, graph.b), operands, op.singles, strict=True):
        each_bits = to.format.bits
        codes |= {id(each): field(port, n * each_bits, each_bits) for n, each in enumerate(side[:length])}
    writer = _Writer(codes)
    for node in graph.numbers:
        writer.append(node)
    if bits:
        return field(writer.made[id(graph.result)], 0, bits)
    assert isinstance(graph.result, Traced)
    return writer.rounded(graph.result, op.acc, noise)


def ending_circuit(op: Fma, c: Whole, register: Whole) -> Whole:
    """The code of the result of a reduction that began with the code `c` and ends with a register."""
    last = ending(op)
    writer = _Writer({id(last.c): c, id(last.register): _signed(op, register)})
    for node in last.numbers:
        writer.append(node)
    return writer.rounded(last.result, op.acc, 0)


def _signed(op: Fma, code: Whole) -> Whole:
    """The number of a register from its code in two's complement."""
    definition = definition_of(op)
    bits = definition.register
    return within(code - (field(code, bits - 1, 1) << bits), *definition.range)


class _Writer:
    """Appends a graph. made: the numbers so far by their identity; of a real one of a format its code."""

    def __init__(self, made: dict[int, Whole]) -> None:
        self.made = made

    def append(self, node: Node) -> None:
        """Append a number, whose operands are there; an exact one has no code, and waits for its rounding."""
        if id(node) in self.made or (isinstance(node, Traced) and node.to is None):
            return
        self.made[id(node)] = self._whole(node) if isinstance(node, Number) else self._code(node)

    def _whole(self, n: Number) -> Whole:
        if n.op == "part":
            assert isinstance(n.of, Traced)
            assert n.of.to is not None
            return within(_part(n.of.to.format, self.made[id(n.of)], str(n.data)), n.low, n.high)
        args = [self.made[id(arg)] for arg in n.args]
        if n.op == "lookup":
            assert isinstance(n.data, tuple)
            return lookup(n.data, args[0])
        if n.op == "within":
            return within(args[0], n.low, n.high)
        return make(n.op, *args) if n.op != "constant" else n.low

    def _code(self, x: Traced) -> Whole:
        if x.op == "decoded":
            return self.made[id(x.args[0])]
        if x.op == "chosen":
            condition, first, second = (self.made[id(arg)] for arg in x.args)
            return select(condition, first, second)
        (exact,) = x.args
        assert isinstance(exact, Traced)
        assert x.to is not None
        return self.rounded(exact, x.to, 0)

    def rounded(self, x: Traced, to: Conversion, noise: Whole) -> Whole:
        """The code of a real number that is rounded to a format."""
        if x.op == "chosen" and x.to is None:
            condition, *both = x.args
            first, second = (self.rounded(each, to, noise) for each in both if isinstance(each, Traced))
            return select(self.made[id(condition)], first, second)
        if x.to is not None and x.to.format == to.format and to.noise is None and not to.overflow:
            return _part(to.format, self.made[id(x)], "code")
        if x.op == "sum":
            first_term, second_term = self._args(x)
            if isinstance(to.format, Record):
                return encode(add(first_term, second_term, to), to, noise)
            return encode(exact_sum([first_term, second_term]), to, noise)
        return encode(self._exact(x), to, noise)

    def _args(self, x: Traced) -> Sequence[Real]:
        return [self._exact(each) for each in x.args if isinstance(each, Traced)]

    def _exact(self, x: Traced) -> Real:
        if x.to is not None:
            return decode(x.to.format, self.made[id(x)])
        if x.op == "constant":
            return _constant(x.data)
        if x.op == "product":
            return multiply(*self._args(x))
        n, exponent = (self.made[id(arg)] for arg in x.args)
        # It can have one bit at every exponent, below which a sum has to see as much as below a normal number: with a
        # zero behind it, it has two.
        return Real((n < 0) + 0, exponent - 1, magnitude(n) << 1, least=((2, low(exponent) - 1),))


def _constant(value: float) -> Real:
    known = Known(value, None)
    if not isinstance(known.value, Fraction):
        return Real(known.sign, 0, 0, nan=known.is_nan, infinite=known.is_infinite, least=((1, 0),))
    exponent = 1 - known.value.denominator.bit_length()
    size = int(abs(known.value) * 2**-exponent) if exponent < 0 else int(abs(known.value))
    return Real(known.sign, exponent, size, least=((1, exponent),))


def _part(fmt: Format, code: Whole, name: str) -> Whole:
    """A part of a number of a format (numerics/circuits/real.py) from its code."""
    if name == "code":  # of every NaN the one that numc writes
        return select(_part(fmt, code, "nan"), fmt.code_of_nan(), code) if fmt.has_nan else code
    if not isinstance(fmt, Record | Fixed | Posit):
        return _listed_part(fmt, code, name)
    x = decode(fmt, code)
    special = x.nan | x.infinite
    if isinstance(fmt, Record):
        exponent, significand = x.exponent + fmt.significand_bits, below(x.significand, fmt.precision)
    else:
        top = x.exponent + (x.bits - 1) - leading_zeros(x.significand, x.bits)
        exponent = maximum(select(x.significand == 0, fmt.emin, top), fmt.emin)
        up = 0 if isinstance(fmt, Posit) else max(low(x.exponent) - fmt.emin + fmt.precision - 1, 0)
        down = within(exponent - (fmt.precision - 1) - x.exponent + up, 0, x.bits + up)
        significand = x.significand << up >> down
        significand = within(significand, 0, (1 << fmt.precision) - 1)
    parts = {
        "sign": x.sign & (x.nan ^ 1) & (1 if fmt.has_minus_zero else any_of(x.significand) | special),
        "exponent": select(special, fmt.emin, exponent),
        "significand": select(special, 0, significand),
        "nan": x.nan,
        "infinite": x.infinite,
        "zero": x.is_zero,
    }
    return parts[name]


def _listed_part(fmt: Format, code: Whole, name: str) -> Whole:
    if fmt.bits > MOST_BITS:
        raise NumcError(
            f"format '{fmt.name}' has no circuit: want floating point, fixed point, posits, or codes of {MOST_BITS} "
            "bits at most"
        )
    values = [Encoding(fmt).decode(n) for n in range(1 << fmt.bits)]
    known = [Known.counted(value, Conversion(fmt)) for value in values]
    attribute = {"nan": "is_nan", "infinite": "is_infinite", "zero": "is_zero"}.get(name, name)
    return lookup([getattr(each, attribute) for each in known], code)
