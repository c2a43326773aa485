"""Values of emitted code: a name in the text of MLIR, and a type."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

PTR = "!llvm.ptr"


def f32_bits(value: float) -> int:
    """Return the binary32 encoding of `value`."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def f64_bits(value: float) -> int:
    """Return the binary64 encoding of `value`."""
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def f32_value(bits: int) -> float:
    """Return the number with this binary32 encoding."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


@dataclass(frozen=True)
class Type:
    """The type of a value: its element (``f32``, ``i64``, ``!llvm.ptr``) and its number of lanes, 0 for a scalar."""

    element: str
    lanes: int = 0

    @staticmethod
    @functools.cache
    def of(text: str) -> Type:
        """Parse ``f32`` or ``vector<16xf32>``."""
        if not text.startswith("vector<"):
            return Type(text)
        lanes, _, element = text[len("vector<") : -1].partition("x")
        return Type(element, int(lanes))

    def __str__(self) -> str:
        return f"vector<{self.lanes}x{self.element}>" if self.lanes else self.element

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.element in ("f16", "bf16", "f32", "f64")

    @property
    def is_int(self) -> bool:
        """Whether elements are integers (``index`` too)."""
        return self.element[0] == "i"

    @property
    def bits(self) -> int:
        """Bits of an element; of a pointer and an index 64."""
        digits = self.element.lstrip("bfi").partition("E")[0]  # f8E4M3FN has 8
        return int(digits) if digits.isdigit() else 64


@dataclass(frozen=True)
class Value:
    """An SSA value; ``str`` gives its name."""

    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


def listed(things: Sequence[object]) -> str:
    """The texts of values or of types, with commas between them."""
    return ", ".join(map(str, things))
