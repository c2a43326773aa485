"""The collection of statistics, by observing each contraction before and after its kernel runs.

Kernels count their additions themselves (passes/kernels/datapaths/counting.py); the runtime counts the exponents of
operands and accumulators.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.statistics import (
    LAST_BIN,
    WHAT,
    Histogram,
    LayerStatistics,
    Statistics,
    TensorStatistics,
    chosen,
    sampling,
)
from numc.numerics.formats import Conversion
from numc.numerics.grammar import stated_fma
from numc.numerics.groups import GroupConversion
from numc.numerics.numpy_groups import convert_operand
from numc.numerics.operators import INTERNAL, Fma
from numc.runtime.context import CONTEXT
from numc.runtime.library import library
from numc.runtime.program import Program
from numc.studies.observe.operands import Operands
from numc.studies.observe.tensor_counts import tensor_statistics
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted

IntArray = npt.NDArray[np.int64]
F32Array = npt.NDArray[np.float32]

_CHAINS = 256  # outputs of an execution whose rounding error is looked at


@dataclass
class _Row:
    """The statistics of one contraction so far."""

    fmas: int = 0
    executions: int = 0
    looked_at: int = 0
    adds: int = 0
    counts: IntArray = field(default_factory=lambda: np.zeros(LAST_BIN + 1, np.int64))
    tensors: dict[str, TensorStatistics] = field(default_factory=dict)
    error: float = 0.0
    size: float = 0.0


@dataclass
class _Execution:
    """The memory that the running kernel writes to."""

    counts: IntArray
    probe: F32Array


class Collector:
    """The observer of one program."""

    def __init__(self, program: Program, what: Iterable[str], sample: Fraction) -> None:
        manifest = program.manifest
        # Those of integers are none that an operator can be chosen for.
        self._table = {c["id"]: c for c in manifest.get("contractions", ()) if c["fma"] not in INTERNAL}
        self._what, self._stride = frozenset(what), sample.denominator
        if "swamping" in self._what and self._table and not manifest.get("statistics"):
            raise NumcError(
                "swamping: the program was compiled without statistics, its kernels do not count: compile it with "
                "`numc compile --statistics`, or numc.compile(..., statistics=True)"
            )
        rounded = [about["name"] for about in self._table.values() if about.get("narrow")]
        if rounded and (told := sorted(self._what & {"exponents", "denormals"})):
            raise NumcError(
                f"{told[0]}: the program was compiled with --pack-weights, operands of {quoted(rounded[0])} are "
                "rounded before they are in memory: compile it without, or with `--statistics`, in numc.compile "
                "statistics=True"
            )
        layers = [row for row in manifest.get("layers", ()) if row["position"] is not None]
        by_name = {row["layer"]: row for row in reversed(layers)}
        # Operations of MLIR text have no names: then contractions are matched by their order.
        ordered = dict(enumerate(layers)) if len(layers) == len(self._table) else {}
        self._layers = {n: by_name.get(c["name"]) or ordered.get(n, {}) for n, c in self._table.items()}
        self._found = {number: _Row() for number in self._table}
        self._running: dict[int, _Execution] = {}
        self._weights: dict[tuple[int, str], TensorStatistics] = {}
        self._program, self._runs = program, 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Observe one run of the program."""
        with self._program.observe(self.observe) if self._table else contextlib.nullcontext():
            yield
        with self._lock:
            self._runs += 1

    @property
    def _probes(self) -> bool:
        return bool(self._what & {"exponents", "denormals", "rounding"})

    def observe(self, kernel: int, operands: int, phase: int) -> None:
        """Observe a kernel before it runs (phase 0) and after (phase 1)."""
        about = self._table.get(kernel)
        if about is None:
            return
        view = Operands(operands, about)
        # If calls of a program overlap in several threads, each thread's observer sees all of them.
        if phase == 0:
            if operands not in self._running:
                self._begin(about, view, operands)
        elif (
            execution := self._running.pop(operands, None)
        ) is not None:  # None if the kernel started before the block
            self._end(kernel, about, view, execution)

    def _begin(self, about: Mapping[str, Any], view: Operands, operands: int) -> None:
        counts = np.zeros(LAST_BIN + 1, np.int64)
        probe = view.watch() if self._probes else np.empty(0, np.float32)
        if "swamping" in self._what and about["counts"]:
            view.set_counts(counts.ctypes.data, self._stride, _offset(self._stride, view.depth))
        self._running[operands] = _Execution(counts, probe)

    def _end(self, kernel: int, about: Mapping[str, Any], view: Operands, execution: _Execution) -> None:
        view.unwatch()
        view.set_counts(0, 0, 0)
        fma = view.operator(about)
        batches, rows, lanes = view.sizes
        outputs = batches * rows * lanes
        tensors: dict[str, TensorStatistics] = {}
        if self._what & {"exponents", "denormals"}:
            tensors = self._tensors(kernel, about, view, fma, execution.probe)
        error, size = (0.0, 0.0)
        if "rounding" in self._what and _has_rounding(fma):
            error, size = _rounding(about, view, fma, execution.probe)
        with self._lock:
            row = self._found[kernel]
            row.executions += 1
            row.fmas += outputs * view.depth
            # A contraction of groups has few additions, so all of them are counted.
            group = 0 if fma.group is None else fma.group.group or 0
            steps = view.depth if group else sampled_steps(self._stride, view.depth)
            row.looked_at += outputs * steps
            row.adds += outputs * about.get("counts", 0) * (-(-view.depth // group) if group else steps)
            row.counts += execution.counts
            row.error += error
            row.size += size
            for name, tensor in tensors.items():
                before = row.tensors.get(name)
                row.tensors[name] = tensor if before is None else before + tensor

    def _tensors(
        self, kernel: int, about: Mapping[str, Any], view: Operands, fma: Fma, probe: F32Array
    ) -> dict[str, TensorStatistics]:
        sides = ("lane", "row") if about["swap"] else ("row", "lane")
        names = "ba" if self._layers[kernel].get("swapped") else "ab"
        statistics = {}
        named = stated_fma(about["fma"])
        operands = zip(names, sides, (fma.a, fma.b), (named.a, named.b), strict=True)
        for name, side, to, stated in sorted(operands, key=itemgetter(0)):
            key = kernel, name
            known = self._weights.get(key)
            if known is None:
                known = replace(tensor_statistics(*view.elements(side), to), format=str(stated))
                if view.is_packed(side) and stated.open is None:  # a weight in the program does not change
                    self._weights[key] = known
            statistics[name] = known
        accumulators = probe[1].reshape(-1)
        statistics["result"] = tensor_statistics(
            accumulators.ctypes.data, [None] * 3, [accumulators.size, 1, 1], 0, fma.acc
        )
        return statistics

    def rows(self) -> tuple[LayerStatistics, ...]:
        """Return the statistics of the contractions that ran."""
        return tuple(self._row(number, row) for number, row in self._found.items() if row.executions)

    def outside(self) -> Counter[tuple[str, str]]:
        """Return the multiply-adds outside of contractions in all runs, by role and operator."""
        return Counter(
            {
                (row["role"], row["fma"]): self._runs * row["count"]
                for row in self._program.manifest.get("fmas") or ()
                if not row["contraction"] and not row["free"]
            }
        )

    def _row(self, number: int, row: _Row) -> LayerStatistics:
        about = self._table[number]
        layer = self._layers[number]
        counts, notes = about.get("counts", 0), []
        swamping, adds, sampled = None, 0, Fraction(1)
        if "swamping" in self._what:
            if counts:
                swamping, adds = Histogram(0, tuple(row.counts.tolist())), row.adds
                sampled = Fraction(row.looked_at, row.fmas) if row.fmas else Fraction(1)
            else:
                notes.append(f"swamping: additions of '{about['fma']}' are not counted")
        fma = stated_fma(about["fma"])
        has_rounding = "rounding" in self._what and _has_rounding(fma)
        if "rounding" in self._what and not has_rounding:
            notes.append("rounding: not of sums of groups, nor of groups that are rounded stochastically")
        return LayerStatistics(
            layer=about["name"],
            role=layer.get("role", ""),
            position=layer.get("position", number),
            fma=str(fma.swapped if layer.get("swapped") else fma),
            fmas=row.fmas,
            executions=row.executions,
            swamping=swamping,
            sampled=sampled,
            tensors=row.tensors,
            rounding=(row.error, row.size) if has_rounding else None,
            note="; ".join(notes),
            adds=adds,
        )


def sampled_steps(stride: int, depth: int) -> int:
    """Return how many of `depth` steps of k are observed: those with k % stride == (k // stride + offset) % stride."""
    if stride == 1:
        return depth
    k = np.arange(depth)
    return int(np.count_nonzero(k % stride == (k // stride + _offset(stride, depth)) % stride))


def _offset(stride: int, depth: int) -> int:
    """Return the offset of the first observed step: half a stride, because the first accumulators are still zero."""
    return min(stride, depth) // 2


def _has_rounding(fma: Fma) -> bool:
    """Whether the same sum in fp32 can be computed from the converted operands."""
    return fma.groups is None and all(to is None or to.noise is None for to in fma.grouped)


def _values(view: Operands, side: str, place: tuple[int, int], to: GroupConversion | None) -> F32Array:
    """Return the values of one row or lane of an operand; those of one with groups are converted."""
    values = view.values(side, *place)
    if to is None or view.is_packed(side):
        return values
    largest = view.largest(side, to, *place)
    converted: F32Array = convert_operand(values[None], replace(to, channel=False), largest, factors="values").values[0]
    return converted


def _rounding(about: Mapping[str, Any], view: Operands, fma: Fma, probe: F32Array) -> tuple[float, float]:
    """Return the sums of (x - r)^2 and r^2 over outputs x, `_CHAINS` of them or all.

    r is the same output in fp32, computed from the converted operands.
    """
    outputs, depth = probe[0].size, view.depth
    count = min(outputs, _CHAINS)
    places = np.unravel_index(np.arange(count) * outputs // max(1, count), probe[0].shape)
    sides = ("lane", "row") if about["swap"] else ("row", "lane")
    operands = []
    for side, to, groups in zip(sides, fma.singles, fma.grouped, strict=True):
        across = places[1] if side == "row" else places[2]
        every = list(zip(places[0].tolist(), across.tolist(), strict=True))
        known = {position: _values(view, side, position, groups) for position in set(every)}
        line = np.stack([known[position] for position in every]) if count else np.zeros((0, depth), np.float32)
        operands.append(np.ascontiguousarray(line if view.is_packed(side) else _converted(line, to.settled)))
    start, got = (np.ascontiguousarray(p[places]) for p in probe)
    want = np.empty_like(got)
    a, b = operands
    library().numc_fp32_chains(a.ctypes.data, b.ctypes.data, start.ctypes.data, count, depth, want.ctypes.data)
    x, r = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(r)
    return float(np.sum((x - r)[finite] ** 2)), float(np.sum(r[finite] ** 2))


def _converted(values: F32Array, to: Conversion) -> F32Array:
    from numc.compiler.arrays.arrays import round as round_array

    if str(to) == "fp32":
        return values
    with _unwatched():
        return round_array(values, str(to))


_outside = threading.local()


@contextlib.contextmanager
def _unwatched() -> Iterator[None]:
    _outside.count = getattr(_outside, "count", 0) + 1
    try:
        yield
    finally:
        _outside.count -= 1


@in_default_environment
class Collected:
    """The statistics of a block of `numc.collect_stats`, complete when the block has ended."""

    def __init__(self, what: tuple[str, ...], sample: Fraction) -> None:
        self._what, self._sample = what, sample
        self._collectors: dict[Program, Collector] = {}

    def around(self, program: Program) -> contextlib.AbstractContextManager[None]:
        """Return the context in which one run of a program is observed."""
        manifest = program.manifest
        if getattr(_outside, "count", 0) or not (manifest.get("contractions") or manifest.get("fmas")):
            return contextlib.nullcontext()
        if program not in self._collectors:
            self._collectors[program] = Collector(program, self._what, self._sample)
        return self._collectors[program].around()

    @property
    def statistics(self) -> Statistics:
        """The statistics so far. Raises NumcError if no program ran."""
        if not self._collectors:
            raise NumcError("no statistics: no program of numc with a contraction ran in the block")
        rows = tuple(row for each in self._collectors.values() for row in each.rows())
        outside = sum((each.outside() for each in self._collectors.values()), Counter())
        return Statistics(rows, self._what, self._sample, outside)


@contextlib.contextmanager
def collect_stats(what: str | Iterable[str] = WHAT, *, sample: str | float | Fraction = 1) -> Iterator[Collected]:
    """Collect statistics of every contraction that runs while a ``with`` block lasts, in any thread.

    Both calls of programs and what torch.compile runs in numc are observed; if `what` has ``swamping``, the latter is
    compiled anew, and only one such block may be active at a time.
    what: some of statistics.WHAT, as a sequence or a comma-separated text. sample: the fraction 1/n of the steps of k
    whose additions are counted. The block's value has an attribute ``statistics``.
    Raises NumcError for unknown names, and if a program that runs has to count but was compiled without
    ``statistics=True``.
    """
    names = chosen(what)
    if "swamping" in names and CONTEXT.counting:
        raise NumcError("collect_stats: another block counts swamping already: leave it out of one of them")
    collected = Collected(names, sampling(sample))
    counting = CONTEXT.counting.around(None) if "swamping" in names else contextlib.nullcontext()
    with counting, CONTEXT.watches.around(collected.around):
        yield collected
