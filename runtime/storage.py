"""Weights in the bytes of their number format: how a program file describes them, and their expansion to float32.

The bytes are those of `numc.pack` (docs/arithmetic.md, "Packed storage"); runtime/src/program/storage.cpp expands them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numc.runtime.library import ErrorText, library
from numc.support.errors import NumcError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_KINDS = ("float", "bfp", "mx", "int", "listed")
_SIDES = ("", "rows", "lanes")


@dataclass(frozen=True)
class Encoding:
    """The meaning of the bits: codes of a ``float`` format or its parts, groups of ``bfp`` or ``mx``, ``int`` numbers.

    ``listed`` codes are places in a list of float32 numbers, which is stored behind them; if there are groups, each
    begins with a float32 number, of 32 `exponent_bits`, by which its values are multiplied.
    significand_bits: for bfp the bits of the magnitude, for int and listed codes all bits. parts: into how many numbers
    a value is cut in memory: bf16 numbers, or for bfp chunks of the magnitude. group: how many adjacent values along k
    share an exponent. top: the largest exponent of a bfp tensor.
    """

    kind: str
    exponent_bits: int
    significand_bits: int
    subnormals: bool = True
    finite: bool = False
    parts: int = 1
    group: int = 0
    top: int = 0


@dataclass(frozen=True, kw_only=True)
class Panels:
    """The order in which a kernel reads an operand: as `Layout` of passes/kernels/packing/layout.py, without parts.

    dot: panels hold words of two 16-bit or four 8-bit integers and the units of groups; 0 if they hold numbers. tail:
    how many float32 numbers, the data of the guard, follow the panels.
    """

    side: str
    width: int
    count: int
    k_block: int
    dot: int = 0
    tail: int = 0


@dataclass(frozen=True)
class Storage:
    """The storage of a weight in a file, and the layout of its values in memory.

    shape: batches, rows or lanes, and k; the values are stored in that order. panels: None is the same order in memory.
    stored_bytes: the size in a program file, with the tail, which is stored as it is. words: how many float32 numbers
    it is in memory, with what panels are padded with and the tail.
    """

    encoding: Encoding
    shape: tuple[int, int, int]
    stored_bytes: int
    words: int
    panels: Panels | None = None

    @property
    def values(self) -> int:
        """The number of values."""
        batches, size, depth = self.shape
        return batches * size * depth

    def record(self) -> bytes:
        """Return the record of the weight in the `abi` section (runtime/src/program/storage.hpp)."""
        e, p = self.encoding, self.panels
        numbers = e.exponent_bits, e.significand_bits, e.subnormals, e.finite, e.parts, e.group, e.top
        side = _SIDES.index("" if p is None else p.side)
        head = struct.pack("<6BIiB3Q", _KINDS.index(e.kind), *numbers, side, *self.shape)
        if p is None:
            return head
        return head + struct.pack("<3IBI", p.width, p.count, p.k_block, p.dot, p.tail)

    def expand(self, stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return the float32 numbers, 1-D, that the bytes `stored` become. Raises NumcError if they do not fit."""
        import numpy as np

        record, out, error = self.record(), np.empty(self.words, np.float32), ErrorText()
        code = library().numc_expand(
            record, len(record), stored.ctypes.data, stored.size, out.ctypes.data, out.size, error.reference()
        )
        if code != 0:
            raise NumcError(error.take())
        return out


def read_storage(unpack: Callable[[str], tuple[Any, ...]], stored_bytes: int, words: int) -> Storage:
    """Read the record of a weight from an `abi` section; `unpack` reads the numbers of a struct format from there.

    Raises ValueError for a kind or an order that it does not know.
    """
    kind_code, exponent, significand, subnormals, finite, parts, group, top, side, *shape = unpack("6BIiB3Q")
    if kind_code >= len(_KINDS) or side >= len(_SIDES):
        raise ValueError(f"storage {kind_code}, side {side}")
    encoding = Encoding(
        kind=_KINDS[kind_code],
        exponent_bits=exponent,
        significand_bits=significand,
        subnormals=bool(subnormals),
        finite=bool(finite),
        parts=parts,
        group=group,
        top=top,
    )
    panels = None
    if side:
        width, count, k_block, dot, tail = unpack("3IBI")
        panels = Panels(side=_SIDES[side], width=width, count=count, k_block=k_block, dot=dot, tail=tail)
    batches, size, depth = shape
    return Storage(encoding, (batches, size, depth), stored_bytes, words, panels)
