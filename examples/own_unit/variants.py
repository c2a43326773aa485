"""What is compared: the unit, nine variants of it, and units that exist."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A unit: its name, the text of its operator, and what is special about it."""

    name: str
    text: str
    about: str


def _variant(name: str, about: str, acc: str = "e8m9", length: int = 8, cut: int = 8) -> Unit:
    return Unit(name, f"fma(a=fp8_e4m3, acc={acc}, datapath=own(l={length}, cut={cut}))", about)


VARIANTS = (
    _variant("own", "e8m9, 8 products, 8 bits cut"),
    _variant("acc fp32", "23 bits in the accumulator", acc="fp32"),
    _variant("acc e8m13", "13 bits in the accumulator, as H100's", acc="e8m13"),
    _variant("acc e8m5", "5 bits in the accumulator", acc="e8m5"),
    _variant("block 4", "4 products at once", length=4),
    _variant("block 16", "16 products at once", length=16),
    _variant("cut 4", "4 bits cut", cut=4),
    _variant("cut 11", "11 bits cut", cut=11),
    _variant("cut 13", "13 bits cut", cut=13),
    _variant("small", "e8m5, 16 products, 11 bits cut", acc="e8m5", length=16, cut=11),
)
OTHERS = (
    Unit("H100 e4m3", "hopper_e4m3", "H100's unit for the same operands: 32 products"),
    Unit("H100 bf16", "hopper_bf16", "H100's unit for bf16: 16 products, fp32 accumulator"),
    Unit("bf16 FMA", "mp", "one bf16 product, fp32 accumulator"),
)
FP32 = Unit("fp32", "fp32", "an FMA of binary32")
QUICK = ("own", "block 4")
