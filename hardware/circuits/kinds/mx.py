"""OCP's MX in a circuit: elements, and a scale that is a power of two."""

from __future__ import annotations

from collections.abc import Mapping

from numc.hardware.circuits.exact_real import high
from numc.hardware.circuits.kinds.group import Group, fields, integer
from numc.hardware.circuits.reals import decode
from numc.numerics.circuits import Whole
from numc.numerics.formats import Fixed, Format
from numc.numerics.kinds.mx import SCALE_BIAS, SCALE_BITS, Mx


def group(name: str, fmt: Mx, length: int, ports: Mapping[str, Whole]) -> Group:
    """Return the group of an operand in a circuit."""
    scale = ports[f"{name}_scale"]
    single: Format = fmt.single or Fixed(1, fmt.significand_bits)
    unit = single.unit_exponent
    elements = [decode(single, each) for each in fields(ports[name], fmt.element_bits, length)]
    integers = [integer(each, single) for each in elements]
    is_spread = max(high(each) for each in integers).bit_length() > 2 * single.precision
    nan = scale == (1 << SCALE_BITS) - 1
    return Group(
        integers, scale - SCALE_BIAS + unit, nan, shifted=elements if is_spread else (), unit=unit if is_spread else 0
    )
