"""Integers with a scale in a circuit."""

from __future__ import annotations

from collections.abc import Mapping

from numc.hardware.circuits.kinds.group import Group, fields, signed
from numc.hardware.circuits.reals import decode
from numc.numerics.circuits import Whole
from numc.numerics.kinds.integer import Int as Integers
from numc.numerics.operators import FP32


def group(name: str, fmt: Integers, length: int, ports: Mapping[str, Whole]) -> Group:
    """Return the group of an operand in a circuit."""
    integers = [signed(code, fmt.code_bits) for code in fields(ports[name], fmt.code_bits, length)]
    return Group(integers, 0, 0, decode(FP32.format, ports[f"{name}_scale"]))
