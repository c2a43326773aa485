"""Integers with a scale in hardware."""

from __future__ import annotations

from numc.hardware.encodings import Encoding
from numc.hardware.port import Port, Read
from numc.hardware.port import signed as signed_number
from numc.numerics.kinds.integer import Int as Integers
from numc.numerics.operators import FP32


def ports(name: str, fmt: Integers, size: int) -> tuple[list[Port], Read]:
    """Return the ports of an operand, integers and a scale, and what reads a group."""
    bits, fp32 = fmt.code_bits, Encoding(FP32.format)
    port_list = [Port(name, bits, f"{fmt.name}, two's complement", size), Port(f"{name}_scale", 32, "fp32")]
    return port_list, lambda codes: (
        [signed_number(code, bits) for code in codes[name]],
        fp32.decode(codes[f"{name}_scale"][0]),
    )
