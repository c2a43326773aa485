"""A tiny writer of straight-line MLIR text over f32 scalars or vectors.

Arithmetic is written once and used at any width: as a scalar inside a linalg body, as ``vector<16xf32>`` in a
micro-kernel. Text, because generated code is read far more often than it is built.
"""

from __future__ import annotations

import struct


def f32_bits(value: float) -> int:
    """Return the binary32 encoding of `value`."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


class Code:
    """Straight-line code over one lane shape; every method appends an operation and returns the name of its result."""

    def __init__(self, width: int = 0, prefix: str = "") -> None:
        """`width` is the number of lanes, 0 for scalars; `prefix` keeps names apart from those of the text around."""
        self.width = width
        self.prefix = prefix
        self.lines: list[str] = []
        self._constants: dict[tuple[str, str], str] = {}
        self._count = 0

    def ty(self, element: str) -> str:
        """Return the lane type with this element type."""
        return f"vector<{self.width}x{element}>" if self.width else element

    def op(self, text: str) -> str:
        """Append ``%new = text``."""
        name = f"%{self.prefix}{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        return name

    def _constant(self, element: str, literal: str) -> str:
        key = (element, literal)
        if key not in self._constants:
            value = f"dense<{literal}>" if self.width else literal
            self._constants[key] = self.op(f"arith.constant {value} : {self.ty(element)}")
        return self._constants[key]

    def f32(self, value: float) -> str:
        """A binary32 constant, written as its bits so that no decimal is ever rounded."""
        return self._constant("f32", f"0x{f32_bits(value):08X}")

    def f64(self, value: float) -> str:
        """A binary64 constant, written as its bits."""
        return self._constant("f64", f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")

    def llvm_constant(self, value: int, element: str = "i32") -> str:
        """A scalar the operand of an intrinsic must have as an immediate."""
        key = ("llvm." + element, str(value))
        if key not in self._constants:
            self._constants[key] = self.op(f"llvm.mlir.constant({value} : {element}) : {element}")
        return self._constants[key]

    def int(self, value: int, element: str = "i32") -> str:
        """An integer constant; values above the signed range wrap."""
        bits = int(element[1:])
        if bits > 1 and value >= 1 << (bits - 1):
            value -= 1 << bits
        return self._constant(element, str(value))

    def binary(self, name: str, a: str, b: str, element: str = "f32") -> str:
        """``arith.name a, b``."""
        return self.op(f"arith.{name} {a}, {b} : {self.ty(element)}")

    def fma(self, a: str, b: str, c: str, element: str = "f32") -> str:
        """One correctly rounded ``a * b + c``."""
        return self.op(f"math.fma {a}, {b}, {c} : {self.ty(element)}")

    def compare(self, predicate: str, a: str, b: str, element: str = "i32") -> str:
        """``arith.cmpi`` or ``arith.cmpf``, by the element type."""
        kind = "cmpf" if element.startswith("f") else "cmpi"
        return self.op(f"arith.{kind} {predicate}, {a}, {b} : {self.ty(element)}")

    def select(self, condition: str, a: str, b: str, element: str = "f32") -> str:
        """Lane-wise ``condition ? a : b``."""
        types = f"{self.ty('i1')}, {self.ty(element)}" if self.width else self.ty(element)
        return self.op(f"arith.select {condition}, {a}, {b} : {types}")

    def cast(self, name: str, a: str, source: str, target: str) -> str:
        """``arith.name a : source to target`` (bitcast, extf, truncf, ...)."""
        return self.op(f"arith.{name} {a} : {self.ty(source)} to {self.ty(target)}")

    def text(self, indent: str = "    ") -> str:
        """The code, one operation a line."""
        return "\n".join(indent + line for line in self.lines)
