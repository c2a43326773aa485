"""Reading the folder of a training. What is missing or damaged is a note, so that a killed run has a report too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from numc.compiler.arrays.statistics import FRACTIONS, Histogram, LayerStatistics, Statistics
from numc.numerics.grammar import parse_fma, parse_operand_conversion
from numc.support.errors import NumcError, shortened
from numc.support.files import checked_path
from numc.train.observe.epoch_statistics import StepStatistics
from numc.train.recipes.decision import Decision
from numc.train.runs.folder import DECISIONS, DENORMALS, METRICS, STATISTICS, Record
from numc.train.runs.origin import ORIGIN, Origin, read_origin

KINDS: Mapping[tuple[str, str], str] = {
    ("forward", "a"): "activations",
    ("forward", "b"): "weights",
    ("wgrad", "a"): "gradients of activations",
    ("forward", "result"): "results, forward",
    ("dgrad", "result"): "results, dgrad",
    ("wgrad", "result"): "results, wgrad",
}
"""Role and name of a tensor -> what the tensors of all layers are called together. The gradient of a layer's result is
operand `a` of its wgrad and of its dgrad; it is counted once."""
COUNTS: Mapping[str, str] = {
    "rounded_subnormals": "denormal after rounding",
    "flushed": "flushed to zero by rounding",
    "subnormals": "denormal before rounding",
}

_LARGEST = 2000
"""No exponent of a binary64 number is larger in magnitude."""

_Line = TypeVar("_Line")


@dataclass
class Tensors:
    """The tensors of one kind of all layers, in one step. format: of the last; "" if they have several."""

    elements: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    exponents: Histogram = field(default_factory=lambda: Histogram(0, ()))
    format: str | None = None


@dataclass
class Observed:
    """The numbers of the statistics of one step that a report shows over the steps.

    most: by layer and name of a tensor, and by count, the largest fraction in one execution.
    """

    epoch: int
    step: int
    kinds: dict[str, Tensors] = field(default_factory=dict)
    most: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)


@dataclass
class Run:
    """One training, as a report shows it.

    epochs: the statistics of the observed steps of each epoch together. observed: each of these steps. denormals: the
    steps in which denormals were counted, by a DenormalMonitor if there was one. origin: its group and seed, if it has
    them. notes: what is missing or damaged.
    """

    name: str
    decisions: list[Decision] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    epochs: dict[int, Statistics] = field(default_factory=dict)
    observed: list[Observed] = field(default_factory=list)
    denormals: list[Observed] = field(default_factory=list)
    origin: Origin | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """The seconds that the run has taken up to its last record; None if they are not known."""
        return self.records[-1].seconds if self.records else None


def read_run(given: str | os.PathLike[str]) -> Run:
    """Return the training that a folder has. Raises NumcError if there is no such folder, or nothing of one in it."""
    folder = checked_path(given)
    names = (DECISIONS, STATISTICS, DENORMALS, METRICS)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise NumcError(f"{folder}: {what}: want the folder of a training, see numc.train.RunFolder")
    if not any((folder / name).exists() for name in names):
        raise NumcError(f"{folder}: no training: it has none of {', '.join(names)}, the files of numc.train.RunFolder")
    run = Run(folder.resolve().name or str(folder))
    run.decisions = sorted(_lines(folder / DECISIONS, _decision, run.notes, "the decisions"), key=lambda one: one.step)
    run.records = sorted(_lines(folder / METRICS, _record, run.notes, "metrics"), key=lambda one: one.step)
    if (folder / ORIGIN).exists():
        run.origin = read_origin(folder / ORIGIN)
    counted = False
    for row, its in _lines(folder / STATISTICS, _observed, run.notes, "swamping and exponents"):
        before = run.epochs.get(row.epoch)
        run.epochs[row.epoch] = row.statistics if before is None else before + row.statistics
        run.observed.append(its)
        counted = counted or "denormals" in row.statistics.what
    if counted and not (folder / DENORMALS).exists():
        run.denormals = run.observed
    else:
        run.denormals = [seen for _, seen in _lines(folder / DENORMALS, _observed, run.notes, "denormals")]
    for seen in (run.observed, run.denormals):
        seen.sort(key=lambda one: one.step)
    return run


def _lines(path: Path, read: Callable[[str], _Line], notes: list[str], what: str) -> Iterator[_Line]:
    """Yield what the lines of a file are, and add one note at most about the file."""
    bad: list[int] = []
    why, line = "", "\n"
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = read(line)
                except NumcError as error:
                    bad, why = [*bad, number], why or str(error)
                else:
                    yield row
    except FileNotFoundError:
        notes.append(f"{path.name}: not there: nothing is known of {what}")
        return
    except OSError as error:
        notes.append(f"{path.name}: cannot read: {error.strerror or error}")
        return
    if bad and len(bad) == 1 and not line.endswith("\n"):
        notes.append(f"{path.name}: the last line is incomplete and left out: the run was stopped while it wrote")
    elif bad:
        which = f"line {bad[0]} is" if len(bad) == 1 else f"{len(bad)} lines, the first of them {bad[0]}, are"
        notes.append(f"{path.name}: {which} left out: {why}")


def _decision(line: str) -> Decision:
    decision = Decision.from_json(line)
    _check(decision.step)
    return decision


def _record(line: str) -> Record:
    record = Record.from_json(line)
    _check(record.step, record.epoch or 0)
    return record


def _check(*steps: int) -> None:
    for step in steps:
        if not _is_count(step):
            raise NumcError(f"no number of a step or an epoch: {shortened(step)}")


def _observed(line: str) -> tuple[StepStatistics, Observed]:
    """Return the statistics of a step, and what is shown over the steps. Raises NumcError for a damaged line."""
    row = StepStatistics.from_json(line)
    _check(row.step, row.epoch)
    if not all(map(_is_sound, row.statistics.rows)) or not all(map(_is_count, row.statistics.outside.values())):
        raise NumcError("not the statistics of a step (a field of another type): want what EpochStatistics writes")
    seen = Observed(row.epoch, row.step)
    for contraction in row.statistics.rows:
        for name, tensor in contraction.tensors.items():
            seen.most[contraction.layer, name] = {count: tensor.most.get(count, 0.0) for count in COUNTS}
            if (kind := KINDS.get((contraction.role or "forward", name))) is None:
                continue
            of_kind = seen.kinds.setdefault(kind, Tensors())
            of_kind.elements += tensor.elements
            of_kind.counts.update({count: getattr(tensor, count) for count in COUNTS})
            of_kind.exponents += tensor.exponents
            of_kind.format = tensor.format if of_kind.format in (None, tensor.format) else ""
    return row, seen


def _is_sound(row: LayerStatistics) -> bool:
    """Whether the fields of a row have their types, and its operator and formats are some; from_json takes any."""
    try:
        parse_fma(row.fma)
        for tensor in row.tensors.values():
            parse_operand_conversion(tensor.format)
    except NumcError:
        return False
    histograms = [tensor.exponents for tensor in row.tensors.values()] + ([row.swamping] if row.swamping else [])
    counts = [row.position, row.fmas, row.executions, row.adds]
    counts += [getattr(tensor, name) for tensor in row.tensors.values() for name in ("elements", *FRACTIONS)]
    numbers = [*(row.rounding or ()), *(one for tensor in row.tensors.values() for one in tensor.most.values())]
    return (
        all(isinstance(text, str) for text in (row.layer, row.role, row.note))
        and all(map(_is_count, counts))
        and all(isinstance(number, int | float) for number in numbers)
        and all(type(one.low) is int and abs(one.low) <= _LARGEST for one in histograms)
        and all(len(one.counts) <= 2 * _LARGEST and all(map(_is_count, one.counts)) for one in histograms)
        and len(row.rounding or (0, 0)) == 2
        and 0 <= row.sampled <= 1
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63
