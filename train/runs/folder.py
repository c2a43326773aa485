"""The folder of a training: the files that a report reads, and the one of them that has metrics."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened, shown
from numc.support.files import checked_path
from numc.support.json_values import json_values, parsed
from numc.train.observe.lines import Lines
from numc.train.runs.origin import ORIGIN, Origin

DECISIONS, STATISTICS, DENORMALS, METRICS = (
    f"{name}.jsonl" for name in ("decisions", "statistics", "denormals", "metrics")
)
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Record:
    """Metrics after a step of the optimizer.

    step: the number of the last step before them, from 0. epoch: None if it was not given. metrics: numbers by name.
    fmas: the multiply-adds of all steps so far, by role and operator; empty if they were not given. seconds: that the
    run has taken so far, since its folder was opened and without what was between its parts; None if that is not known.
    """

    step: int
    epoch: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    fmas: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record in types that JSON has; numbers that are not finite are strings."""
        fmas = [[role, fma, count] for (role, fma), count in self.fmas.items()]
        line = {"step": self.step, "epoch": self.epoch, "metrics": json_values(self.metrics), "fmas": fmas}
        return line if self.seconds is None else {**line, "seconds": self.seconds}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Record:
        """Return the record that `to_json` gave; `data` may be its text. Raises NumcError for anything else."""
        try:
            fields = parsed(data) if isinstance(data, str) else data
            if type(fields["step"]) is not int or type(fields["epoch"]) not in (int, type(None)):
                raise TypeError("a number of another type")
            metrics = {str(name): float(value) for name, value in fields["metrics"].items()}
            fmas = {(str(role), str(fma)): int(count) for role, fma, count in fields["fmas"]}
            seconds = fields.get("seconds")
            return cls(fields["step"], fields["epoch"], metrics, fmas, None if seconds is None else float(seconds))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise NumcError(
                f"not a record of metrics ({shortened(error, 60)}): want what RunFolder.record writes"
            ) from None


@in_default_environment
class RunFolder:
    """The folder of one training, with files of fixed names, so that ``numc report FOLDER`` finds them.

        run = RunFolder("runs/dynamic")
        recipe = DynamicPrecision(log=run.decisions)
        statistics = EpochStatistics(file=run.statistics)
        ...
        run.record(recipe.step - 1, epoch=epoch, fmas=recipe.fmas, accuracy=0.97)

    Each file may be missing. A new training belongs into a new folder, a resumed one into that of its beginning.
    Runs of several seeds that belong together have a group, as in

        RunFolder("runs/bf16-3", group="bf16", seed=3, configuration={"batch": 128, "rate": 0.01})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        group: str | None = None,
        seed: int | None = None,
        configuration: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a folder, which is created if it is not there.

        group: the name of what runs of several seeds have in common, which are then shown together. seed: of this run.
        configuration: numbers and texts by name, the same in all runs of a group. They are kept with the versions of
        numc, torch, numpy and Python. Raises NumcError if that is not possible, or the folder has those of another run.
        """
        if group is None and (seed is not None or configuration is not None):
            raise NumcError("seed and configuration are of runs of a group: name it, as in group='bf16'")
        self._path = checked_path(path)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NumcError(
                f"{self._path}: cannot be made: {error.strerror or error}: name another folder for the run"
            ) from None
        self._lines = Lines(self.metrics)
        self._last: int | None = None  # the step of the last record of this object
        self._begin, self._before_begin = time.monotonic(), 0.0
        if group is not None:
            Origin.of(group, seed, configuration).write(self.origin)

    def __fspath__(self) -> str:
        return str(self._path)

    @property
    def origin(self) -> Path:
        """The file that has group, seed, configuration and versions; it is there if there is a group."""
        return self._path / ORIGIN

    @property
    def decisions(self) -> Path:
        """The file for the argument `log` of a recipe."""
        return self._path / DECISIONS

    @property
    def statistics(self) -> Path:
        """The file for EpochStatistics."""
        return self._path / STATISTICS

    @property
    def denormals(self) -> Path:
        """The file for DenormalMonitor."""
        return self._path / DENORMALS

    @property
    def metrics(self) -> Path:
        """The file that `record` writes."""
        return self._path / METRICS

    def record(
        self,
        step: int,
        *,
        epoch: int | None = None,
        fmas: Mapping[tuple[str, str], int] | None = None,
        **metrics: Any,
    ) -> None:
        """Write metrics after a step of the optimizer as a line of JSON, at once.

        step: the number of the last step, from 0. epoch: its epoch. fmas: ``recipe.fmas``, the multiply-adds so far.
        metrics: numbers, or tensors with one element. The first record of a run that goes on, and one that goes back to
        an earlier step, replaces the records from its step on. Raises NumcError for other values, or if the file cannot
        be written.
        """
        number = checked_integer(step, "step", 0, _LARGEST)
        its = None if epoch is None else checked_integer(epoch, "epoch", 0, _LARGEST)
        numbers = {name: _number(name, value) for name, value in metrics.items()}
        counts = _counts({} if fmas is None else fmas)
        kept = self._kept(number) if self._last is None or number < self._last else None
        if kept is not None and self._last is None and kept:
            self._before_begin = kept[-1].seconds or 0.0
        seconds = round(self._before_begin + time.monotonic() - self._begin, 3)
        line = _line(Record(number, its, numbers, counts, seconds))
        if kept is None:
            self._lines.append(line)
        else:
            self._lines.replace([*map(_line, kept), line])
        self._last = number

    def _kept(self, step: int) -> list[Record]:
        """Return the records of earlier steps. Raises NumcError if the file has other lines."""
        if not self.metrics.exists():
            return []
        *lines, _ = self.metrics.read_text(encoding="utf-8", errors="replace").split("\n")
        kept = []
        for number, line in enumerate(lines, 1):
            try:
                record = Record.from_json(line)
            except NumcError as error:
                raise NumcError(f"{self.metrics}: line {number}: {error}") from None
            if record.step < step:
                kept.append(record)
        return kept


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool | str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):  # RuntimeError: a tensor of several elements
        raise NumcError(f"metric {quoted(name)}: got {shown(value)}, want a number") from None


def _counts(given: Any) -> dict[tuple[str, str], int]:
    try:
        if any(isinstance(key, str) for key in given):
            raise TypeError
        return {(str(role), str(fma)): int(count) for (role, fma), count in given.items()}
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        raise NumcError(f"fmas: got {shown(given)}, want the `fmas` of a recipe") from None


def _line(record: Record) -> str:
    return json.dumps(record.to_json(), allow_nan=False)
