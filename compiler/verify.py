"""Verification: a run of the shipped code is watched, and sampled outputs are recomputed by the exact reference.

Every contraction runs through the thread pool with a table of its operands (see passes/contractions.py), so what is
checked is the machine code of the program file on its own weights, not another build of the model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.reference import dot
from numc.passes.driver import CONTEXT
from numc.passes.packing import Layout
from numc.runtime.program import Program

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Row:
    """What was checked of one contraction."""

    id: int
    name: str
    fma: str
    checked: int
    mismatches: int


@dataclass(frozen=True)
class Report:
    """The result of a verification; `first` describes the first mismatch in hex."""

    rows: tuple[Row, ...]
    first: str | None

    @property
    def checked(self) -> int:
        """Outputs recomputed."""
        return sum(row.checked for row in self.rows)

    @property
    def mismatches(self) -> int:
        """Outputs that differ from the reference."""
        return sum(row.mismatches for row in self.rows)


def verify(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    samples: int = 2000,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run `program` on `inputs` and recompute about `samples` outputs over all its contractions, at least one of each.

    A contraction inside a loop is sampled at every execution. `progress` is called with (outputs checked, samples).
    Raises NumcError for inputs that do not fit.
    """
    table = program.manifest["contractions"]
    watch = Watch(table, max(1, samples // max(1, len(table))), np.random.default_rng(seed), progress, samples)
    with program.observe(watch.observe):
        program(dict(inputs), threads=threads)
    return Report(watch.rows(), watch.first)


class Watch:
    """The observer: has the kernels write their accumulators out, and recomputes samples of them."""

    def __init__(
        self,
        table: list[dict[str, Any]],
        each: int,
        rng: np.random.Generator,
        progress: Callable[[int, int], None] | None = None,
        samples: int = 0,
    ) -> None:
        self.table = {c["id"]: c for c in table}
        self.checked = dict.fromkeys(self.table, 0)
        self.mismatches = dict.fromkeys(self.table, 0)
        self.first: str | None = None
        self._each, self._rng, self._progress, self._samples = each, rng, progress, samples
        self._probe = np.empty(0, np.float32)

    def rows(self) -> tuple[Row, ...]:
        """What was checked so far, one row for a contraction."""
        return tuple(
            Row(number, c["name"], c["fma"], self.checked[number], self.mismatches[number])
            for number, c in self.table.items()
        )

    def observe(self, kernel: int, operands: int, phase: int) -> None:
        """Called before (phase 0) and after (phase 1) each kernel."""
        about = self.table[kernel]
        view = _View(operands, about)
        if phase == 0:
            # The kernel writes the accumulators of each output here, at entry and at exit: nothing else keeps them.
            self._probe = np.empty((2, *view.sizes), np.float32)
            view.set_probe(self._probe.ctypes.data)
            return
        view.set_probe(0)
        # The first execution gets the whole share, later ones (of a loop) one sample each.
        count = 1 if self.checked[kernel] else self._each
        sizes = view.sizes
        places = {tuple(int(self._rng.integers(n)) for n in sizes) for _ in range(count)} if all(sizes) else set()
        for place in sorted(places):
            batch, row, lane = place
            rows, lanes = view.rows(batch, row), view.lanes(batch, lane)
            a, b = (lanes, rows) if about["swap"] else (rows, lanes)
            start, got = self._probe[0][place], self._probe[1][place]
            want = np.float32(dot(a, b, start, about["fma"]))
            self.checked[kernel] += 1
            if _bits(want) != _bits(got) and not (np.isnan(want) and np.isnan(got)):
                self.mismatches[kernel] += 1
                self.first = self.first or (
                    f"contraction {kernel} ({about['name']}), {about['fma']}, output (batch, row, lane) = {place}, "
                    f"k = {len(a)}: got 0x{_bits(got):08x} ({got!s}), want 0x{_bits(want):08x} ({want!s})"
                )
            if self._progress:
                self._progress(sum(self.checked.values()), self._samples)


def _bits(x: np.float32) -> int:
    return int(np.float32(x).view(np.uint32))


class _View:
    """The operands of a running kernel, read where they are: the words of driver.CONTEXT."""

    def __init__(self, address: int, about: Mapping[str, Any]) -> None:
        self._words = dict(zip(CONTEXT, (ctypes.c_int64 * len(CONTEXT)).from_address(address), strict=True))
        self._probe = ctypes.c_int64.from_address(address + 8 * CONTEXT.index("probe"))
        self._packed = about["packed"]
        self._layout = Layout(**about["layout"]) if self._packed else None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Batches, rows and lanes."""
        return self._words["batches"], self._words["rows"], self._words["lanes"]

    def set_probe(self, address: int) -> None:
        """Where the kernel writes its accumulators, shape (2, batches, rows, lanes); 0 for nowhere."""
        self._probe.value = address

    def _table(self, name: str, start: int, count: int) -> npt.NDArray[np.int64]:
        address = self._words[name] + 8 * start
        return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))

    def _values(self, operand: str, batch: int, place: int, across: str, size: int) -> npt.NDArray[np.float32]:
        """The values of one row or lane over k."""
        depth = self._words["depth"]
        if depth == 0:
            return np.zeros(0, np.float32)
        start = int(self._table(f"{operand}_batch", batch, 1)[0])
        if self._layout is not None and self._packed == across + "s":
            to = self._layout
            offsets = start + to.index(0, place, depth, size)
            offsets = offsets[:, None] + to.width * np.arange(to.parts)
        else:
            start += int(self._table(f"{operand}_{across}", place, 1)[0])
            offsets = start + self._table(f"{operand}_k", 0, depth)[:, None]
        low = int(offsets.min())  # strides may be negative
        address = self._words[operand] + 4 * low
        data = np.ctypeslib.as_array((ctypes.c_float * (int(offsets.max()) - low + 1)).from_address(address))
        parts = data[offsets - low]
        # The parts of a value sum up to it exactly, the smallest first; an infinity is in every part.
        return np.asarray(np.where(np.isfinite(parts[:, 0]), parts[:, ::-1].sum(axis=1, dtype=np.float32), parts[:, 0]))

    def rows(self, batch: int, row: int) -> npt.NDArray[np.float32]:
        """The values over k of the operand that supplies the rows."""
        return self._values("a", batch, row, "row", self._words["rows"])

    def lanes(self, batch: int, lane: int) -> npt.NDArray[np.float32]:
        """The values over k of the operand that supplies the lanes."""
        return self._values("b", batch, lane, "lane", self._words["lanes"])
