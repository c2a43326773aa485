"""Weights in the bytes of their number format: what a program file says of them, and how they become float32 again.

The bytes are those of `numc.pack` (docs/arithmetic.md, "Packed storage"); runtime/src/storage.cpp expands them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.errors import NumcError
from numc.runtime.library import ErrorText, library

_ENCODING = 0  # codes of a float format; formats of groups will be others
_SIDES = ("", "rows", "lanes")


@dataclass(frozen=True)
class Panels:
    """The order in which a kernel reads an operand: `Layout` of passes/packing.py, without the parts."""

    side: str
    width: int
    count: int
    k_block: int


@dataclass(frozen=True)
class Storage:
    """How a weight is stored: the codes of a format, and where its values go in memory.

    shape: batches, rows or lanes, and k; the codes are in that order. panels: None is the same order in memory.
    words: how many float32 numbers it is in memory, with what panels are padded with and the guards' data.
    """

    exponent_bits: int
    significand_bits: int
    subnormals: bool
    finite: bool
    parts: int
    shape: tuple[int, int, int]
    words: int
    panels: Panels | None = None

    @property
    def values(self) -> int:
        """How many values there are."""
        batches, size, depth = self.shape
        return batches * size * depth

    @property
    def stored_bytes(self) -> int:
        """The size in a program file."""
        return -(-self.values * self.parts * (1 + self.exponent_bits + self.significand_bits) // 8)

    def record(self) -> bytes:
        """Return what the `abi` section says of it (runtime/src/storage.hpp)."""
        fmt = (self.exponent_bits, self.significand_bits, self.subnormals, self.finite, self.parts)
        side = "" if self.panels is None else self.panels.side
        head = struct.pack("<7B3Q", _ENCODING, *fmt, _SIDES.index(side), *self.shape)
        if self.panels is None:
            return head
        return head + struct.pack("<3I", self.panels.width, self.panels.count, self.panels.k_block)

    def expand(self, stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return the float32 numbers that the bytes `stored` become when a program is loaded; 1-D. Raises NumcError."""
        record, out, error = self.record(), np.empty(self.words, np.float32), ErrorText()
        code = library().numc_expand(
            record, len(record), stored.ctypes.data, stored.size, out.ctypes.data, out.size, error.reference()
        )
        if code != 0:
            raise NumcError(error.take())
        return out


def read_storage(unpack: Callable[[str], tuple[Any, ...]], words: int) -> Storage:
    """Return what `unpack`, which reads the numbers of a struct format, finds in an `abi` section.

    Raises ValueError for an encoding that it does not know.
    """
    encoding, exponent, significand, subnormals, finite, parts, side, *shape = unpack("7B3Q")
    if encoding != _ENCODING or side >= len(_SIDES):
        raise ValueError(f"storage {encoding}, side {side}")
    panels = Panels(_SIDES[side], *unpack("3I")) if side else None
    batches, size, depth = shape
    fmt = (exponent, significand, bool(subnormals), bool(finite), parts)
    return Storage(*fmt, (batches, size, depth), words, panels)
