"""Block floating point in a circuit: signs and magnitudes, the exponent of a group, and that of the tensor."""

from __future__ import annotations

from collections.abc import Mapping

from numc.hardware.circuits.kinds.group import Group, signed
from numc.hardware.port import TOP_BITS
from numc.numerics.circuits import Whole, below, field, select
from numc.numerics.kinds.bfp import Bfp


def group(name: str, fmt: Bfp, length: int, ports: Mapping[str, Whole]) -> Group:
    """Return the group of an operand in a circuit."""
    m = fmt.magnitude_bits
    codes = [field(ports[name], n * (m + 1), m + 1) for n in range(length)]
    sizes = [below(code, m) for code in codes]
    integers = [select(field(code, m, 1), -size, size) for code, size in zip(codes, sizes, strict=True)]
    own, every = ports[f"{name}_exponent"], sizes[0]
    for size in sizes[1:]:
        every = every | size
    exponent = signed(ports[f"{name}_top"], TOP_BITS) + own - (fmt.window + m - 1)
    return Group(integers, exponent, (own == fmt.window) & (every == 0))
