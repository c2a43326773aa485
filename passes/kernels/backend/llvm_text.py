"""The text of LLVM IR as older versions read it: MLIR writes that of the LLVM it was built with.

What differs is how numbers are written, and the attributes of intrinsics, which every LLVM gives to them itself.
"""

from __future__ import annotations

import re
import struct
from fractions import Fraction

from numc.numerics.binary32 import INFINITY
from numc.numerics.reference import round_real

# Texts in quotes, names and comments have no numbers. A number has the floating-point type that the line named last.
_OTHER = r'"[^"]*"|[%@#!$][\w.$-]+|;[^\n]*'
_NUMBER = r"f0x[0-9A-Fa-f]+|[+-](?:inf|qnan|s?nan\(0x[0-9A-Fa-f]+\))|-?\d+\.\d*(?:e[+-]?\d+)?"
_TOKEN = re.compile(rf"{_OTHER}|\b(half|bfloat|float|double)\b|(?<![\w.])({_NUMBER})(?![\w.])")
_DECLARED = re.compile(r"^(declare [^@\n]*@llvm\.[^(\n]*\()(.*)\)[^)\n]*$", re.MULTILINE)
_OPERAND = re.compile(r"(<[^>]*>|[\w.]+)((?:[^,()]|\([^()]*\))*)")  # its type, and its attributes
# Bits of the significand, and of the exponent; the format, except of binary64, which Python reads.
_TYPES = {"half": (10, 5, "fp16"), "bfloat": (7, 8, "bf16"), "float": (23, 8, "fp32"), "double": (52, 11, "")}
_HEAD = {"half": "0xH", "bfloat": "0xR"}  # the others are written as the binary64 number that has their value


def older(text: str) -> str:
    """Return the text with numbers in hexadecimal and without attributes of intrinsics: LLVM 22 reads it.

    No number is rounded: what MLIR writes in decimal is the shortest text that names a number of its type.
    """
    lines = _DECLARED.sub(_declared, text).splitlines(keepends=True)
    return "".join(map(_line, lines))


def _line(line: str) -> str:
    named = ""

    def token(match: re.Match[str]) -> str:
        nonlocal named
        named = match[1] or named
        return match[0] if match[2] is None else _number(named, match[2])

    return _TOKEN.sub(token, line)


def _declared(match: re.Match[str]) -> str:
    """A declaration of an intrinsic with the types of its operands alone."""
    return f"{match[1]}{_OPERAND.sub(lambda operand: operand[1], match[2])})"


def _number(of: str, literal: str) -> str:
    bits = _encoding(of, literal)
    if of in _HEAD:
        return f"{_HEAD[of]}{bits:04X}"
    return f"0x{bits if of == 'double' else _widened(bits):016X}"


def _encoding(of: str, literal: str) -> int:
    """The bits of a number, as its own type has them."""
    if literal.startswith("f0x"):
        return int(literal[3:], 16)
    significand, exponent, conversion = _TYPES[of]
    sign = int(literal[0] == "-") << (significand + exponent)
    magnitude = literal.lstrip("+-")
    infinity = ((1 << exponent) - 1) << significand
    quiet = 1 << (significand - 1)
    if magnitude == "inf":
        return sign | infinity
    if magnitude == "qnan":
        return sign | infinity | quiet
    if "nan" in magnitude:
        payload = int(magnitude[magnitude.index("(") + 1 : -1], 16)
        return sign | infinity | payload | (0 if magnitude[0] == "s" else quiet)
    if not conversion:
        return sign | int.from_bytes(struct.pack(">d", float(magnitude)), "big")
    value = round_real(Fraction(magnitude), conversion)
    word = int.from_bytes(struct.pack(">f", value), "big")
    if of == "half":
        return sign | int.from_bytes(struct.pack(">e", value), "big")
    return sign | (word >> 16 if of == "bfloat" else word)


def _widened(bits: int) -> int:
    """The encoding in binary64 of a binary32 number; of a NaN with its payload, quiet or signalling as it is."""
    sign, magnitude = bits >> 31, bits & 0x7FFFFFFF
    if magnitude >= INFINITY:
        return sign << 63 | 0x7FF << 52 | (magnitude & 0x7FFFFF) << 29
    value = struct.unpack(">f", magnitude.to_bytes(4, "big"))[0]
    return sign << 63 | int.from_bytes(struct.pack(">d", value), "big")
