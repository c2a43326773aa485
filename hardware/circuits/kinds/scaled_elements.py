"""Elements with scales of any format in a circuit, and perhaps one of the tensor."""

from __future__ import annotations

from collections.abc import Mapping

from numc.hardware.circuits.kinds.group import Group, fields, integer
from numc.hardware.circuits.reals import decode, encode, multiply
from numc.numerics.circuits import Whole
from numc.numerics.formats import FORMATS, Conversion
from numc.numerics.kinds.scaled_groups import ScaledGroups
from numc.numerics.operators import FP32


def group(name: str, fmt: ScaledGroups, length: int, ports: Mapping[str, Whole]) -> Group:
    """Return the group of an operand in a circuit."""
    elements = [decode(fmt.element, each) for each in fields(ports[name], fmt.element.bits, length)]
    integers = [integer(each, fmt.element) for each in elements]
    factor = decode(fmt.scale, ports[f"{name}_scale"])
    if fmt.tensor:
        tensor = decode(FP32.format, ports[f"{name}_tensor"])
        saturating = Conversion(FORMATS["fp32"], overflow="sat")
        factor = decode(FP32.format, encode(multiply(factor, tensor), saturating))
    return Group(integers, fmt.element.unit_exponent, 0, factor, elements)
