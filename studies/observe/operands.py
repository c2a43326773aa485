"""The operands and accumulators of a running kernel, read in place through its TaskContext (passes/kernels/abi.py)."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.numerics.formats import Format
from numc.numerics.grammar import stated_fma
from numc.numerics.groups import GroupConversion
from numc.numerics.numpy_groups import largest_magnitude
from numc.numerics.operators import Fma
from numc.numerics.reference import Draws
from numc.numerics.reference.group_operators import Source
from numc.passes.kernels.abi import TASK_CONTEXT
from numc.passes.kernels.packing.code_arrays import expanded
from numc.passes.kernels.packing.layout import Layout
from numc.passes.kernels.packing.pack_arrays import word_values
from numc.passes.kernels.tasks.plane import Plane

IntArray = npt.NDArray[np.int64]

# By address of the operands: the array that all observers of an execution share, until the last one has read it.
_LARGEST = float(np.finfo(np.float32).max)
_PROBES: weakref.WeakValueDictionary[int, npt.NDArray[np.float32]] = weakref.WeakValueDictionary()


class Operands:
    """The operands of one execution of a kernel, valid while the observer of Program.observe is called."""

    _gathered: npt.NDArray[np.float32]

    def __init__(self, address: int, about: Mapping[str, Any]) -> None:
        self._words = dict(
            zip(TASK_CONTEXT.names, (ctypes.c_int64 * TASK_CONTEXT.words).from_address(address), strict=True)
        )
        self._address = address
        self._packed = about["packed"]
        self._layout = Layout(**about["layout"]) if self._packed else None
        self._plane = Plane(**about["plane"]) if about["plane"] else None
        self._narrow = {side.removesuffix("s"): _stored(about, side) for side in about.get("narrow", ())}

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of batches, rows and lanes."""
        return self._words["batches"], self._words["rows"], self._words["lanes"]

    def watch(self) -> npt.NDArray[np.float32]:
        """Make the kernel write its accumulators to an array [2, batches, rows, lanes]: at its start and at its end.

        Called before the kernel runs; call `unwatch` after it. Observers of one execution share the array, which lives
        as long as one of them keeps it.
        """
        if address := self._words["probe"]:
            return _PROBES[address]
        probe = np.empty((2, *self.sizes), np.float32)
        self._set("probe", probe.ctypes.data)
        _PROBES[probe.ctypes.data] = probe
        return probe

    def unwatch(self) -> None:
        """Make the kernel write its accumulators nowhere."""
        self._set("probe", 0)

    def set_counts(self, address: int, stride: int, offset: int) -> None:
        """Set the address of the 32 counts of additions, 0 for none, and the steps of k that are counted."""
        for name, value in (("counts", address), ("stride", stride), ("offset", offset)):
            self._set(name, value)

    def _set(self, name: str, value: int) -> None:
        ctypes.c_int64.from_address(self._address + 8 * TASK_CONTEXT.word(name)).value = value

    def _table(self, name: str, start: int, count: int) -> npt.NDArray[np.int64]:
        address = self._words[name] + 8 * start
        return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))

    def draws(self, place: tuple[int, int, int]) -> Draws:
        """Return the random bits of the accumulator of an output; unused if the operator is not stochastic."""
        element = self._element(dict(zip(("e_batch", "e_row", "e_lane"), place, strict=True)))
        return Draws(self._words["random"] & (1 << 64) - 1, element)

    def source(self, across: str, batch: int, place: int, part: int) -> Source:
        """Return the random bits of the conversion of one ``row`` or ``lane``; unused if it is not stochastic."""
        element = self._element({"e_batch": batch, f"e_{across}": place})
        return Source(self._words["random"] & (1 << 64) - 1, element, part)

    def _element(self, place: Mapping[str, int]) -> int:
        return sum(int(self._table(name, at, 1)[0]) for name, at in place.items() if self._words[name])

    def operator(self, about: Mapping[str, Any]) -> Fma:
        """Return the operator of the kernel, in the widths that this run chose."""
        fma = stated_fma(about["fma"])
        a, b = ("b", "a") if about["swap"] else ("a", "b")
        words = {
            "a": self._words[f"{a}_width"],
            "b": self._words[f"{b}_width"],
            "product": self._words["product_width"],
        }
        return fma.at({name: (words[name] >> 32, words[name] & 0xFFFFFFFF) for name in fma.open_operands})

    @property
    def depth(self) -> int:
        """The number of steps of k."""
        return int(self._words["depth"])

    def is_packed(self, across: str) -> bool:
        """Whether the operand of the rows (``row``) or the lanes (``lane``) is packed in the program."""
        return bool(self._packed == across + "s")

    def largest(self, across: str, to: GroupConversion, batch: int, place: int) -> np.float32:
        """Return the largest magnitude of that operand, or of the channel `place`, if its conversion depends on it."""
        word = self._words["a_largest" if across == "row" else "b_largest"]
        if to.channel:
            if not self.is_packed(across):
                # Over all batches: a list for each batch would need the tile, which is not in the program file.
                values = self.values(across, batch, place)
                return largest_magnitude(values, to.format)
            word = ctypes.c_uint32.from_address(word + 4 * place).value
        most: np.float32 = np.float32(np.array(word, np.uint32).view(np.float32))
        return most

    def elements(self, across: str) -> tuple[int, list[IntArray | None], list[int], int]:
        """Return the elements of an operand as an address, tables of offsets, the sizes of the tables, and a padding.

        The elements are at the address plus all sums of one offset of each table; a table of None has the offsets 0, 1,
        2, ... An operand that is packed in the program is gathered first. padding: how many of the zeros are not
        elements.
        """
        operand, size = ("a", self._words["rows"]) if across == "row" else ("b", self._words["lanes"])
        batches, depth = int(self._words["batches"]), self.depth
        batch = np.unique(self._table(f"{operand}_batch", 0, batches)) if batches else np.zeros(0, np.int64)
        if self._layout is not None and self.is_packed(across):
            self._gathered = np.concatenate(
                [np.zeros(0, np.float32), *(self._panels(operand, across, int(b), size) for b in batch)]
            )
            padding = len(self._gathered) - len(batch) * size * depth
            return self._gathered.ctypes.data, [None] * 3, [len(self._gathered), 1, 1], padding
        if self._plane is not None and across == "lane":
            inside = np.zeros(1, np.int64)
            for n, stride in zip(self._plane.inner, self._plane.strides, strict=True):
                inside = (inside[:, None] + np.arange(n) * stride).reshape(-1)
            return self._words[operand], [batch, inside, np.zeros(1, np.int64)], [len(batch), len(inside), 1], 0
        tables: list[IntArray | None] = [
            np.ascontiguousarray(batch),
            self._table(f"{operand}_{across}", 0, size) if size else np.zeros(0, np.int64),
            self._table(f"{operand}_k", 0, depth) if depth else np.zeros(0, np.int64),
        ]
        return self._words[operand], tables, [len(t) for t in tables if t is not None], 0

    def _panels(self, operand: str, across: str, start: int, size: int) -> npt.NDArray[np.float32]:
        """Return the values of one batch of a packed operand, and the zeros between them."""
        assert self._layout is not None
        if self._layout.dot or self._layout.scales or self._layout.scaled:
            batch = int(np.flatnonzero(self._table(f"{operand}_batch", 0, self._words["batches"]) == start)[0])
            return np.concatenate([self._whole(across, batch, index) for index in range(size)])
        words = self._layout.batch_words(size, self.depth)
        data = np.ctypeslib.as_array((ctypes.c_float * words).from_address(self._words[operand] + 4 * start))
        if self._layout.code and self.depth:
            data = expanded(data.reshape(-1, self._layout.panel_words(self.depth)), self.depth, self._layout)
        # The parts of a value are a vector apart.
        return _joined(data.reshape(-1, self._layout.parts, self._layout.width).swapaxes(1, 2)).reshape(-1)

    def values(self, across: str, batch: int, place: int) -> npt.NDArray[np.float32]:
        """Return the values of one ``row`` or ``lane`` over k; for a weight packed as intN, the integers."""
        operand, size = ("a", self._words["rows"]) if across == "row" else ("b", self._words["lanes"])
        depth = self.depth
        if depth == 0:
            return np.zeros(0, np.float32)
        start, inside = int(self._table(f"{operand}_batch", batch, 1)[0]), np.ones(depth, bool)
        if self._layout is not None and self.is_packed(across) and (self._layout.dot or self._layout.code):
            words = self._layout.panel_words(depth)
            address = self._words[operand] + 4 * (start + place // self._layout.extent * words)
            panel = np.ctypeslib.as_array((ctypes.c_float * words).from_address(address))
            if self._layout.code:
                within = replace(self._layout, code="").index(0, place % self._layout.extent, depth, size)
                parts = within[:, None] + self._layout.width * np.arange(self._layout.parts)
                numbers = _joined(expanded(panel[None], depth, self._layout)[0, parts])
                return self._times(numbers, self._behind(across, batch, place)) if self._layout.scaled else numbers
            of_panel = word_values(panel, self._layout, depth)
            return np.asarray(of_panel[place % self._layout.extent])
        if self._layout is not None and self.is_packed(across):
            to = self._layout
            offsets = start + to.index(0, place, depth, size)
            offsets = offsets[:, None] + to.width * np.arange(to.parts)
        else:
            offsets = int(self._table(f"{operand}_{across}", place, 1)[0]) + self._table(f"{operand}_k", 0, depth)
            if self._plane is not None and across == "lane":
                offsets, inside = self._plane.sources(offsets)
            offsets = start + offsets[:, None]
        low = int(offsets.min())  # because strides may be negative
        data = self._read(across, self._words[operand], low, int(offsets.max()) - low + 1)
        return _joined(np.where(inside[:, None], data[offsets - low], np.float32(0)))

    def _whole(self, across: str, batch: int, place: int) -> npt.NDArray[np.float32]:
        """Return the values of one row or lane of a packed operand, elements times their scales."""
        values, scales = self.values(across, batch, place), self.scales(across, batch, place)
        return self._times(values, scales) if scales.size else values

    def _times(self, elements: npt.NDArray[np.float32], scales: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return elements times the scales of their groups; an integer times its scale is no infinity."""
        assert self._layout is not None
        with np.errstate(over="ignore"):
            product = elements * np.repeat(scales, self._layout.scale_steps)[: len(elements)]
        return np.asarray(np.clip(product, -_LARGEST, _LARGEST) if not self._layout.group else product)

    def scales(self, across: str, batch: int, place: int) -> npt.NDArray[np.float32]:
        """Return the scales of one row or lane of a packed operand whose values are elements; none of another one."""
        to = self._layout
        if to is None or not to.scales or not self.is_packed(across) or not self.depth:
            return np.zeros(0, np.float32)
        return self._behind(across, batch, place)

    def _behind(self, across: str, batch: int, place: int) -> npt.NDArray[np.float32]:
        """Return what lies behind the elements of one row or lane."""
        to = self._layout
        assert to is not None
        operand, size = ("a", self._words["rows"]) if across == "row" else ("b", self._words["lanes"])
        offsets = int(self._table(f"{operand}_batch", batch, 1)[0]) + to.scale_index(0, place, self.depth, size)
        data = self._read(across, self._words[operand], int(offsets.min()), int(offsets.max() - offsets.min()) + 1)
        return np.asarray(data[offsets - offsets.min()])

    def _read(self, across: str, address: int, low: int, count: int) -> npt.NDArray[np.float32]:
        """Return adjacent elements of an operand, `low` elements behind an address."""
        c_type, fmt = self._narrow.get(across, (ctypes.c_float, None))
        elements = np.ctypeslib.as_array((c_type * count).from_address(address + ctypes.sizeof(c_type) * low))
        return elements.astype(np.float32, copy=False) if fmt is None else fmt.decode_array(elements.astype(np.int64))


def _stored(about: Mapping[str, Any], side: str) -> tuple[Any, Format | None]:
    """The type that holds a number of the operand that supplies the ``rows`` or the ``lanes``, and the format of codes.

    Bytes of integers have a sign in b.
    """
    fma, number = stated_fma(about["fma"]), int((side == "rows") == about["swap"])
    if fma.datapath.name == "bytes":
        return (ctypes.c_int8 if number else ctypes.c_uint8), None
    fmt = fma.singles[number].format
    return (ctypes.c_uint16 if fmt.bits == 16 else ctypes.c_uint8), fmt


def _joined(parts: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return values from their parts along the last axis."""
    if parts.shape[-1] == 1:
        return np.asarray(parts[..., 0])
    # The sum of the parts, the smallest first, is exact; every part of an infinity is infinite.
    total = functools.reduce(np.add, [parts[..., n] for n in reversed(range(parts.shape[-1]))])
    return np.asarray(np.where(np.isfinite(parts[..., 0]), total, parts[..., 0]))
