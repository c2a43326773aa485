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
from numc.passes.kernels import CONTRACT_ARGUMENTS
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
    watch = _Watch(table, max(1, samples // max(1, len(table))), np.random.default_rng(seed), progress, samples)
    with program.observe(watch.observe):
        program(dict(inputs), threads=threads)
    rows = tuple(Row(c["id"], c["name"], c["fma"], watch.checked[c["id"]], watch.mismatches[c["id"]]) for c in table)
    return Report(rows, watch.first)


class _Watch:
    """The observer: remembers the initial accumulators of its samples, and checks them when the kernel is done."""

    def __init__(
        self,
        table: list[dict[str, Any]],
        each: int,
        rng: np.random.Generator,
        progress: Callable[[int, int], None] | None,
        samples: int,
    ) -> None:
        self.table = {c["id"]: c for c in table}
        self.checked = dict.fromkeys(self.table, 0)
        self.mismatches = dict.fromkeys(self.table, 0)
        self.first: str | None = None
        self._each, self._rng, self._progress, self._samples = each, rng, progress, samples
        self._pending: list[tuple[tuple[int, int, int], np.float32]] = []

    def observe(self, kernel: int, operands: int, phase: int) -> None:
        """Called before (phase 0) and after (phase 1) each kernel."""
        view = _View(operands)
        if phase == 0:
            # The first execution gets the whole share, later ones (of a loop) one sample each.
            count = 1 if self.checked[kernel] else self._each
            sizes = (view.size("batch_c"), view.size("row_c"), view.size("lane_c"))
            places = {tuple(int(self._rng.integers(n)) for n in sizes) for _ in range(count)} if all(sizes) else set()
            self._pending = [(place, view.c(*place)) for place in sorted(places)]  # type: ignore[misc]
            return
        about = self.table[kernel]
        for place, start in self._pending:
            rows, lanes = view.rows(*place), view.lanes(*place)
            a, b = (lanes, rows) if about["swap"] else (rows, lanes)
            want, got = np.float32(dot(a, b, start, about["fma"])), view.c(*place)
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
    """The operands of a running kernel, read where they are: (address, length) pairs, ordered as CONTRACT_ARGUMENTS."""

    def __init__(self, address: int) -> None:
        words = (ctypes.c_int64 * (2 * len(CONTRACT_ARGUMENTS))).from_address(address)
        self._pointer = dict(zip(CONTRACT_ARGUMENTS, words[0::2], strict=True))
        self._length = dict(zip(CONTRACT_ARGUMENTS, words[1::2], strict=True))

    def size(self, table: str) -> int:
        """The number of entries of an offset table."""
        return int(self._length[table])

    def _offset(self, table: str, index: int) -> int:
        return ctypes.c_int64.from_address(self._pointer[table] + 8 * index).value

    def _values(self, operand: str, start: int, table: str) -> npt.NDArray[np.float32]:
        count = self.size(table)
        if count == 0:
            return np.zeros(0, np.float32)
        offsets = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(self._pointer[table])) + start
        data = np.ctypeslib.as_array((ctypes.c_float * (int(offsets.max()) + 1)).from_address(self._pointer[operand]))
        return np.asarray(data[offsets], np.float32)

    def rows(self, batch: int, row: int, lane: int) -> npt.NDArray[np.float32]:
        """The values over k of the operand that supplies the rows."""
        return self._values("a", self._offset("batch_a", batch) + self._offset("row_a", row), "k_a")

    def lanes(self, batch: int, row: int, lane: int) -> npt.NDArray[np.float32]:
        """The values over k of the operand that supplies the lanes."""
        return self._values("b", self._offset("batch_b", batch) + self._offset("lane_b", lane), "k_b")

    def c(self, batch: int, row: int, lane: int) -> np.float32:
        """The accumulator of one output, as it is now."""
        place = self._offset("batch_c", batch) + self._offset("row_c", row) + self._offset("lane_c", lane)
        value: np.float32 = np.float32(ctypes.c_float.from_address(self._pointer["c"] + 4 * place).value)
        return value
