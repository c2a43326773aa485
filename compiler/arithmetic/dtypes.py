"""Narrow dtypes: floating-point types of tensors with fewer bits than float32, as formats that values are stored in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from numc.compiler.arithmetic.formats import FORMATS, Conversion


class Narrow(NamedTuple):
    """A narrow dtype.

    name: in torch, ml_dtypes and numpy. element: in MLIR. stored: how a value gets into it when it is stored.
    """

    name: str
    element: str
    stored: Conversion

    @property
    def bits(self) -> int:
        """Bits of a value in memory."""
        return self.stored.format.bits

    @property
    def bits_dtype(self) -> str:
        """The name of the numpy dtype that holds the bits of a value."""
        return f"uint{self.bits}"


# By the name of the dtype.
NARROW: Mapping[str, Narrow] = MappingProxyType(
    {
        narrow.name: narrow
        for narrow in (
            Narrow("bfloat16", "bf16", Conversion(FORMATS["bf16"])),
            Narrow("float16", "f16", Conversion(FORMATS["fp16"])),
            Narrow("float8_e4m3fn", "f8E4M3FN", Conversion(FORMATS["fp8_e4m3"])),
            Narrow("float8_e5m2", "f8E5M2", Conversion(FORMATS["fp8_e5m2"])),
        )
    }
)
NARROW_ELEMENTS: Mapping[str, Narrow] = MappingProxyType({narrow.element: narrow for narrow in NARROW.values()})
"""The same by the element type in MLIR."""
