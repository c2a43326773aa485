"""Verification: sampled outputs of the contractions of a run are recomputed by the exact reference.

Every contraction runs through the thread pool with a table of its operands (passes/plan/descriptor.py). What is
verified is therefore the machine code of the program file with its own weights, not another build of the model. A
contraction that is computed by phases when nobody observes it (skip_zeros.py) is verified by a second run that is not
observed and has to give the same results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.numerics.operators import Fma
from numc.numerics.reference import dot
from numc.numerics.reference.group_operators import PARTS
from numc.numerics.reference.operators import grouped_dot, vector
from numc.runtime.program import Program, seed_number
from numc.studies.observe.operands import Operands
from numc.support.arguments import check_function, checked, checked_integer
from numc.support.environment import in_default_environment

Array = npt.NDArray[Any]
Results = Mapping[str, Array]


@dataclass(frozen=True)
class Row:
    """The verification of one contraction.

    checked: the number of outputs recomputed. mismatches: how many of them differ. passes: the passes of FAST's fMAC
    over a group.
    """

    id: int
    name: str
    fma: str
    passes: int
    checked: int
    mismatches: int


@in_default_environment
@dataclass(frozen=True)
class Report:
    """The result of a verification.

    rows: one for each contraction. first: a description of the first mismatch, in hex, or None. unwatched: the number
    of elements of the program's results that differ when nobody observes the run.
    """

    rows: tuple[Row, ...]
    first: str | None
    unwatched: int = 0

    @property
    def checked(self) -> int:
        """The number of outputs recomputed."""
        return sum(row.checked for row in self.rows)

    @property
    def mismatches(self) -> int:
        """The number of wrong outputs, and of results that depend on whether the run is observed."""
        return sum(row.mismatches for row in self.rows) + self.unwatched


@in_default_environment
def verify(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    samples: int = 2000,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run `program` on `inputs` and recompute about `samples` outputs of its contractions, at least one of each.

    inputs: arrays by name. seed: of the choice of outputs. threads: as for a Program. progress: called with the number
    of outputs recomputed so far and `samples`. A contraction in a loop is sampled in every execution. Raises NumcError
    for inputs that do not fit, and for arguments of other types.
    """
    checked(program, "program", Program, "what numc.compile or numc.load returns")
    checked(inputs, "inputs", Mapping, "arrays by name of the input")
    checked_integer(samples, "samples", 1, 2**31 - 1), seed_number(seed)
    check_function(progress, "progress")
    table = program.manifest["contractions"]
    watch = Watch(table, max(1, samples // max(1, len(table))), np.random.default_rng(seed), progress, samples)
    by_phases = any(c["phases"] for c in table)
    same_draws = seed if by_phases else None
    with program.observe(watch.observe):
        watched = program.by_name(inputs, threads=threads, seed=same_draws)
    if not by_phases:
        return Report(watch.rows(), watch.first)
    first, count = _difference(watched, program.by_name(inputs, threads=threads, seed=same_draws))
    return Report(watch.rows(), watch.first or first, count)


def _difference(watched: Results, unwatched: Results) -> tuple[str | None, int]:
    """Return the first difference of two runs as text, and the number of elements that differ; all NaN are equal."""
    first, count = None, 0
    for number, (a, b) in enumerate(zip(watched.values(), unwatched.values(), strict=True)):
        same = (
            a == b if a.dtype != np.float32 else (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
        )
        places = np.argwhere(~same)
        count += len(places)
        if len(places) and first is None:
            index = tuple(int(n) for n in places[0])
            first = f"result {number}, element {index}: {b[index]!s} when nobody watches, else {a[index]!s}"
    return first, count


class Watch:
    """The observer that makes kernels write their accumulators and recomputes samples of them."""

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
        """Return the verification so far, one row for each contraction."""
        return tuple(
            Row(
                id=number,
                name=c["name"],
                fma=c["fma"],
                passes=c["passes"],
                checked=self.checked[number],
                mismatches=self.mismatches[number],
            )
            for number, c in self.table.items()
        )

    def observe(self, kernel: int, operands: int, phase: int) -> None:
        """Observe a kernel before it runs (phase 0) and after (phase 1)."""
        about = self.table[kernel]
        view = Operands(operands, about)
        if phase == 0:
            self._probe = view.watch()
            return
        view.unwatch()
        # The first execution gets all samples of the contraction, later ones in a loop one each.
        count = 1 if self.checked[kernel] else self._share()
        for index in self._places(view.sizes, count):
            sides = ("lane", "row") if about["swap"] else ("row", "lane")
            start, got = self._probe[0][index], self._probe[1][index]
            fma, depth = view.operator(about), view.depth
            want = self._recomputed(view, sides, index, start, fma)
            self.checked[kernel] += 1
            of_floats = not fma.datapath.admits.internal  # of which all NaN are equal
            if _bits(want) != _bits(got) and not (of_floats and np.isnan(want) and np.isnan(got)):
                self.mismatches[kernel] += 1
                self.first = self.first or (
                    f"contraction {kernel} ({about['name']}), {about['fma']}, output (batch, row, lane) = {index}, "
                    f"k = {depth}: got 0x{_bits(got):08x} ({got!s}), want 0x{_bits(want):08x} ({want!s})"
                )
            if self._progress:
                self._progress(sum(self.checked.values()), self._samples)

    def _share(self) -> int:
        """The samples of the next contraction: those that are left are shared by the contractions that are left."""
        if not self._samples:
            return self._each
        left = self._samples - sum(self.checked.values())
        return max(1, left // max(1, list(self.checked.values()).count(0)))

    def _places(self, sizes: tuple[int, int, int], count: int) -> list[tuple[int, int, int]]:
        """Different places of outputs, as many as are wanted, or all."""
        total = math.prod(sizes)
        chosen = self._rng.choice(total, min(count, total), replace=False) if total else np.empty(0, np.int64)
        return [tuple(map(int, np.unravel_index(n, sizes))) for n in sorted(chosen)]  # type: ignore[misc]

    @staticmethod
    def _recomputed(
        view: Operands, sides: tuple[str, str], place: tuple[int, int, int], start: np.float32, fma: Fma
    ) -> np.float32:
        """Return one output by the reference. sides: the operands, ``row`` or ``lane``, that are A and B of the
        operator.
        """
        batch, row, lane = place
        places = {"row": row, "lane": lane}
        a, b = (view.values(side, batch, places[side]) for side in sides)
        if fma.datapath.admits.internal:
            return dot(a, b, start, fma)
        x, y = (
            values
            if to is None
            else vector(
                values,
                to,
                largest=view.largest(side, to, batch, places[side]),
                source=view.source(side, batch, places[side], part),
                quantized=view.is_packed(side),
                scales=view.scales(side, batch, places[side]),
            )
            for values, to, side, part in zip((a, b), fma.grouped, sides, PARTS, strict=True)
        )
        return grouped_dot(x, y, start, fma, draws=view.draws(place))


def _bits(x: np.float32) -> int:
    return int(np.float32(x).view(np.uint32))
