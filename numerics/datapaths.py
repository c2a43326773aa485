"""The datapaths that an operator can name, and what each admits. reference/ defines what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Admits:
    """What a datapath can be used with.

    only: the formats of A, B and the accumulator, if it is an instruction with fixed ones.
    groups: whether it exists for operands with groups alone.
    internal: whether no text can name it, because numc has to know that the operands are what it is for.
    """

    only: tuple[str, str, str] | None = None
    groups: bool = False
    internal: bool = False

    @property
    def stepwise(self) -> bool:
        """Whether a reduction is one step after the other, of which a step whose product is zero changes nothing."""
        return self.only is None and not self.groups


ALL_DATAPATHS: Mapping[str, Admits] = MappingProxyType({
    "fp32": Admits(),
    "exact": Admits(),
    "amx_bf16": Admits(only=("bf16", "bf16", "fp32")),
    "avx512_bf16": Admits(only=("bf16", "bf16", "fp32")),
    "fmac2": Admits(groups=True),  # FAST's fMAC, which multiplies two magnitude bits by two at a time
    # Sums of products of integers modulo 2^32, in the bits of binary32 numbers: A and B have at most 16 bits with their
    # signs, or 8, and A no sign.
    "integers": Admits(only=("fp32", "fp32", "fp32"), internal=True),
    "bytes": Admits(only=("fp32", "fp32", "fp32"), internal=True),
})  # fmt: skip
# Those that a text can name.
DATAPATHS: Mapping[str, Admits] = MappingProxyType(
    {name: admits for name, admits in ALL_DATAPATHS.items() if not admits.internal}
)
