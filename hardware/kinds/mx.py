"""OCP's MX in hardware: elements, and a scale that is a power of two."""

from __future__ import annotations

import math

from numc.hardware.encodings import Encoding
from numc.hardware.port import Codes, Port, Read, signed, times_power
from numc.numerics.exact.value import POINT, Value
from numc.numerics.kinds.mx import SCALE_BIAS, SCALE_BITS, Mx


def ports(name: str, fmt: Mx, size: int) -> tuple[list[Port], Read]:
    """Return the ports of an operand, elements and a scale, and what reads a group."""
    single = fmt.single
    element = None if single is None else Encoding(single)
    port_list = [
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
        return [times_power(value, scale) for value in values], 0

    return port_list, read
