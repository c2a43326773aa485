"""The parts of an operator as circuits of their own: its products, and the conversions of its operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from numc.hardware.circuits import scaled_block_circuits
from numc.hardware.circuits.exact_real import Real, high
from numc.hardware.circuits.group_circuits import CHAIN_BITS, accumulated, added, groups_of
from numc.hardware.circuits.kinds import CHAINS
from numc.hardware.circuits.kinds.group import products_of
from numc.hardware.circuits.reals import decode, encode, multiply, split
from numc.hardware.circuits.sums import add, to_binary32
from numc.hardware.ports import interface
from numc.numerics.circuits import Circuit, Whole, field, trace
from numc.numerics.formats import FORMATS, Conversion, Format, Record
from numc.numerics.operators import FP32, Fma


@cache
def products(op: Fma) -> Circuit:
    """The products of a step, decoded and multiplied, before anything is added."""
    of = interface(op)

    def every(**ports: Whole) -> dict[str, Whole]:
        if op.multiplies == "elements":
            sides = scaled_block_circuits.sides(op, of.products, ports)
            if op.datapath["run"]:  # the sum of a run is one of whole numbers
                return {f"p{n}": each for n, each in enumerate(scaled_block_circuits.products_of(*sides))}
            reals = (multiply(i, j) for i, j in zip(*(side.elements for side in sides), strict=True))
            return {name: each for n, real in enumerate(reals) for name, each in _named(f"p{n}", real).items()}
        if op.groups:
            ports = {"a_scale": 0, "b_scale": 0, **ports}
            both = groups_of(op, of.products, ports)
            return {f"p{n}": each for n, each in enumerate(products_of(*both))}
        (to_a, to_b) = op.singles
        made: dict[str, Whole] = {}
        for lane in range(of.products):
            x, y = (_parts(to.format, ports[name], lane) for name, to in (("a", to_a), ("b", to_b)))
            for n, (i, j) in enumerate(op.terms):
                made |= _named(f"p{lane}_{n}", multiply(x[i], y[j]))
        return made

    used = [port for port in of.inputs if port.name[0] in "ab"]
    return trace("products", every, {port.name: (0, (1 << port.width) - 1) for port in used})


@dataclass(frozen=True)
class Links:
    """The circuits of a step whose sum rounds behind each product: one product, its addition, and what follows them.

    count: how many products there are, each with an addition.
    """

    product: Circuit
    link: Circuit
    rest: Circuit
    count: int


_MOST_TERMS = 6  # of a chain that is synthesized as a whole, which takes an hour
_CODE = (0, (1 << FP32.format.bits) - 1)


@cache
def links(op: Fma) -> Links | None:
    """Return the parts of a step that rounds so, in the widths of the last product; None of others."""
    if op.groups is None and op.datapath.name == "fp32" and len(op.terms) > _MOST_TERMS:
        return _chain(op)
    if op.multiplies != "sums" or type(op.group) not in CHAINS:
        return None
    of = interface(op)
    others = {port.name: 0 for port in of.inputs if port.name not in "ab"}
    codes = {port.name: (0, (1 << port.bits) - 1) for port in of.inputs}

    def product(a: Whole, b: Whole) -> Whole:
        return products_of(*groups_of(op, 1, {**others, "a": a, "b": b}))[0]

    def link(t: Whole, a: Whole, b: Whole) -> Whole:
        return added(op, t, product(a, b))

    def rest(t: Whole, **ports: Whole) -> Whole:
        x, y = groups_of(op, of.products, {**ports, "a": 0, "b": 0})
        return accumulated(x, y, t, decode(FP32.format, ports["c"]))

    pair = {name: codes.pop(name) for name in "ab"}
    single = trace("product", product, pair)
    most = of.products * high(single.outputs["result"])
    bits = most.bit_length()
    if bits <= CHAIN_BITS:
        return None
    before = most - high(single.outputs["result"])
    linked = trace("link", link, {"t": (-before, before), **pair})
    ending = trace("rest", rest, {"t": (-1 << bits, 1 << bits), **codes})
    return Links(single, linked, ending, of.products)


def _chain(op: Fma) -> Links:
    """A chain of binary32 FMAs over the parts of two numbers."""
    part, acc = FORMATS["bf16"], op.acc
    pair = dict.fromkeys("ab", (0, (1 << part.bits) - 1))

    def product(a: Whole, b: Whole) -> dict[str, Whole]:
        return _named("p", multiply(decode(part, a), decode(part, b)))

    def link(t: Whole, a: Whole, b: Whole) -> Whole:
        return encode(add(multiply(decode(part, a), decode(part, b)), decode(FP32.format, t), FP32), FP32)

    def rest(t: Whole, c: Whole) -> Whole:
        return encode(to_binary32(add(decode(FP32.format, t), decode(acc.format, c), FP32)), acc)

    ending = trace("rest", rest, {"t": _CODE, "c": (0, (1 << acc.format.bits) - 1)})
    return Links(trace("product", product, pair), trace("link", link, {"t": _CODE, **pair}), ending, len(op.terms))


def _parts(fmt: Format, codes: Whole, lane: int) -> list[Real]:
    code = field(codes, lane * fmt.bits, fmt.bits)
    return split(fmt, code) if isinstance(fmt, Record) else [decode(fmt, code)]


def _named(name: str, x: Real) -> dict[str, Whole]:
    parts = {"sign": x.sign, "exponent": x.exponent, "significand": x.significand, "special": x.special}
    return {f"{name}_{key}": value for key, value in parts.items()}


@cache
def conversion(to: Conversion) -> Circuit | None:
    """The conversion of a binary32 number to the format of an operand; None where it changes nothing."""
    if to.format == FP32.format:
        return None
    bits = 0 if to.noise is None else to.noise.bits
    ranges = {"x": (0, (1 << 32) - 1), **({"u": (0, (1 << bits) - 1)} if bits else {})}
    return trace("conversion", lambda x, u=0: {"d": encode(decode(FP32.format, x), to, u)}, ranges)
