"""Blocks of elements and scales as circuits: the datapath fused on operands with groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from numc.hardware.circuits.block_circuits import aligned, exponent_of, largest, rounded_block
from numc.hardware.circuits.exact_real import Real, magnitude
from numc.hardware.circuits.kinds.group import fields, integer
from numc.hardware.circuits.reals import decode, multiply
from numc.hardware.circuits.sums import of_integer
from numc.numerics.circuits import Whole, any_of
from numc.numerics.formats import Format
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma


@dataclass(frozen=True)
class Side:
    """The elements of a block, and the scales of their groups."""

    element: Format
    scale: Format
    group: int
    elements: Sequence[Real]
    scales: Sequence[Real]

    def scale_at(self, n: int) -> Real:
        """The scale of an element."""
        return self.scales[n // self.group]


@dataclass(frozen=True)
class _Term:
    """A term of a sum. exponent: what it is aligned by, if it is present."""

    value: Real
    exponent: Whole
    present: Whole


def sides(op: Fma, length: int, ports: Mapping[str, Whole]) -> list[Side]:
    """Both operands of a block."""
    return [_side(name, to, length, ports) for name, to in zip("ab", op.grouped, strict=True) if to is not None]


def _side(name: str, to: GroupConversion, length: int, ports: Mapping[str, Whole]) -> Side:
    element, scale, group = to.format.single, to.format.scales, to.format.group
    assert element is not None
    assert scale is not None
    assert group is not None
    elements = [decode(element, code) for code in fields(ports[name], element.bits, length)]
    scales = fields(ports[f"{name}_scale"], scale.bits, max(length // group, 1))
    return Side(element, scale, group, elements, [decode(scale, code) for code in scales])


def scaled_block_circuit(op: Fma, length: int, ports: Mapping[str, Whole]) -> Whole:
    """The code of the new accumulator of a block of products."""
    x, y = sides(op, length, ports)
    c, bits, run = decode(op.acc.format, ports["c"]), op.datapath["bits"], op.datapath["run"]
    starts = range(0, length, run or 1)
    terms = [(_sum_of(x, y, n, n + run) if run else _product(x, y, n)) for n in starts]
    terms.append(_Term(c, exponent_of(c, op.acc.format), any_of(c.significand)))
    top = largest([(Real(0, 0, term.present), term.exponent) for term in terms], op.datapath["least"])
    total = aligned([(term.value, term.exponent) for term in terms], top, bits)
    nan = reduce(lambda one, other: one | other, [scale.nan for scale in (*x.scales, *y.scales)])
    real = of_integer(total, top - bits, [c, Real(0, 0, 0, nan=nan)])
    return rounded_block(op, real, ports.get("u", 0))


def _product(x: Side, y: Side, n: int) -> _Term:
    """A product of two elements and of their scales."""
    i, j, scale = x.elements[n], y.elements[n], multiply(x.scale_at(n), y.scale_at(n))
    value = multiply(multiply(i, j), scale)
    return _Term(
        value,
        exponent_of(i, x.element) + exponent_of(j, y.element) + _exponent_of_scales(x, y, n),
        any_of(value.significand),
    )


def _sum_of(x: Side, y: Side, first: int, end: int) -> _Term:
    """The exact sum of products of elements that share scales, times these."""
    scale, products = multiply(x.scale_at(first), y.scale_at(first)), products_of(x, y)[first:end]
    total, present = reduce(lambda a, b: a + b, products), any_of(reduce(lambda a, b: a | b, products))
    unit = x.element.unit_exponent + y.element.unit_exponent
    value = Real(scale.sign ^ (total < 0), scale.exponent + unit, magnitude(total) * scale.significand)
    return _Term(value, _exponent_of_scales(x, y, first), present & any_of(scale.significand))


def _exponent_of_scales(x: Side, y: Side, n: int) -> Whole:
    return exponent_of(x.scale_at(n), x.scale) + exponent_of(y.scale_at(n), y.scale)


def products_of(x: Side, y: Side) -> list[Whole]:
    """The products of elements, in the product of their units."""
    pairs = zip(x.elements, y.elements, strict=True)
    return [integer(i, x.element) * integer(j, y.element) for i, j in pairs]
