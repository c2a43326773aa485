"""Block floating point in hardware: signs and magnitudes, the exponent of a group, and that of the tensor."""

from __future__ import annotations

import math

from numc.hardware.port import SIGN_AND_MAGNITUDE, TOP_BITS, Codes, Port, Read, times_power, with_sign
from numc.hardware.port import signed as signed_number
from numc.numerics.exact.value import POINT, Value
from numc.numerics.kinds.bfp import Bfp


def ports(name: str, fmt: Bfp, size: int) -> tuple[list[Port], Read]:
    """Return the ports of an operand, signs and magnitudes, and what reads a group."""
    port_list = [
        Port(name, fmt.magnitude_bits + 1, SIGN_AND_MAGNITUDE, size),
        Port(f"{name}_exponent", fmt.exponent_bits, "the exponent above the bottom of the window"),
        Port(f"{name}_top", TOP_BITS, "the largest exponent of the tensor, two's complement"),
    ]

    def read(codes: Codes) -> tuple[list[Value], Value]:
        own, top = codes[f"{name}_exponent"][0], signed_number(codes[f"{name}_top"][0], TOP_BITS)
        sizes = [code & fmt.largest for code in codes[name]]
        if own == fmt.window and not any(sizes):
            return [math.nan] * size, 0
        shift = POINT + top - fmt.window + own - (fmt.magnitude_bits - 1)
        signs = [code >> fmt.magnitude_bits for code in codes[name]]
        return [with_sign(int(times_power(m, shift)), s) for m, s in zip(sizes, signs, strict=True)], 0

    return port_list, read
