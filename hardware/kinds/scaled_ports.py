"""Elements with scales of any format in hardware, and perhaps one of the tensor."""

from __future__ import annotations

from numc.hardware.encodings import Encoding
from numc.hardware.port import Codes, Port, Read
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import rounder
from numc.numerics.kinds.scaled_groups import ScaledGroups
from numc.numerics.operators import FP32


def ports(name: str, fmt: ScaledGroups, size: int) -> tuple[list[Port], Read]:
    """Return the ports of an operand, elements and scales, and what reads a group."""
    element, scale, fp32 = Encoding(fmt.element), Encoding(fmt.scale), Encoding(FP32.format)
    port_list = [
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

    return port_list, read
