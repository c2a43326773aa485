"""The parts of an operator as circuits of their own: its products, and the conversions of its operands."""

from __future__ import annotations

from functools import cache

from numc.hardware.circuits.group_circuits import read_group
from numc.hardware.circuits.reals import Real, decode, encode, multiply, split
from numc.hardware.ports import interface
from numc.numerics.circuits import Circuit, Whole, field, trace
from numc.numerics.formats import Conversion, Format, Record
from numc.numerics.operators import FP32, Fma


@cache
def products(op: Fma) -> Circuit:
    """The products of a step, decoded and multiplied, before anything is added."""
    of = interface(op)

    def every(**ports: Whole) -> dict[str, Whole]:
        if op.groups:
            groups = [
                read_group(name, to, of.products, ports).integers for name, to in zip("ab", op.groups, strict=True)
            ]
            return {f"p{n}": i * j for n, (i, j) in enumerate(zip(*groups, strict=True))}
        (to_a, to_b) = op.singles
        made: dict[str, Whole] = {}
        for lane in range(of.products):
            x, y = (_parts(to.format, ports[name], lane) for name, to in (("a", to_a), ("b", to_b)))
            for n, (i, j) in enumerate(op.terms):
                made |= _named(f"p{lane}_{n}", multiply(x[i], y[j]))
        return made

    used = [port for port in of.inputs if port.name[0] in "ab"]
    return trace("products", every, {port.name: (0, (1 << port.width) - 1) for port in used})


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
