"""Dtypes of tensors that are not those of the arithmetic: narrow ones, and those that only enter and leave.

Narrow dtypes are floating-point types with fewer bits than float32, as formats that values are stored in. Of a tensor
of a boundary dtype a program takes and returns the bits; what it computes of them is in its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from numc.numerics.formats import FORMATS, Conversion


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
"""Narrow dtypes by their element type in MLIR."""


class Boundary(NamedTuple):
    """A dtype that tensors have where they enter and leave a program, and nowhere inside.

    name: in ml_dtypes and numpy. bits_dtype: the name of the numpy dtype of one value in memory. A value of fewer
    than 8 bits has the low bits of a byte, as in ml_dtypes; what the others hold does not count, and is 0 in results.
    """

    name: str
    bits_dtype: str


# By name, in the order of numc_dtype (numc.h).
BOUNDARY: Mapping[str, Boundary] = MappingProxyType(
    {
        dtype.name: dtype
        for dtype in (
            Boundary("uint16", "uint16"),
            Boundary("uint32", "uint32"),
            Boundary("uint64", "uint64"),
            Boundary("int4", "uint8"),
            Boundary("uint4", "uint8"),
            Boundary("int2", "uint8"),
            Boundary("uint2", "uint8"),
            Boundary("float8_e4m3fnuz", "uint8"),
            Boundary("float8_e5m2fnuz", "uint8"),
            Boundary("float8_e8m0fnu", "uint8"),
            Boundary("float4_e2m1fn", "uint8"),
        )
    }
)
BITS_DTYPES: Mapping[str, str] = MappingProxyType(
    {name: narrow.bits_dtype for name, narrow in NARROW.items()}
    | {name: dtype.bits_dtype for name, dtype in BOUNDARY.items()}
)
"""The numpy dtypes of the memory of all of them, by name."""
