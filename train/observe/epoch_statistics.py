"""Statistics of chosen steps of a training, over its epochs (docs/statistics.md)."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numc.compiler.arrays.statistics import WHAT, Statistics, chosen, sampling, tensorboard_writer
from numc.studies.observe.collect import collect_stats
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shortened
from numc.support.files import checked_path
from numc.support.json_values import parsed
from numc.train.observe.lines import Lines

_LARGEST = 2**63 - 1


@in_default_environment
@dataclass(frozen=True)
class StepStatistics:
    """The statistics of one step of the optimizer. step: its number in the whole training, from 0."""

    epoch: int
    step: int
    statistics: Statistics

    def to_json(self) -> dict[str, Any]:
        """Return the statistics in types that JSON has."""
        return {"epoch": self.epoch, "step": self.step, "statistics": self.statistics.to_json()}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> StepStatistics:
        """Return the statistics that `to_json` gave; `data` may be its text. Raises NumcError for anything else."""
        try:
            fields = parsed(data) if isinstance(data, str) else data
            if type(fields["epoch"]) is not int or type(fields["step"]) is not int:
                raise TypeError("a number of another type")
            return cls(fields["epoch"], fields["step"], Statistics.from_json(fields["statistics"]))
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise NumcError(
                f"not the statistics of a step ({shortened(error, 60)}): want what EpochStatistics writes"
            ) from None


@in_default_environment
class EpochStatistics:
    """Collects the statistics of every n-th step of a training.

        statistics = EpochStatistics("1/16", every=100, file="statistics.jsonl")
        for epoch in range(epochs):
            statistics.epoch(epoch)
            for x, y in loader:
                with recipe, statistics:
                    loss = train_step(x, y)
                recipe.update(loss)

    The ``with`` block is one step of the optimizer. In steps 0, n, 2 n and so on, it is a block of numc.collect_stats;
    in the others nothing is observed and nothing takes time.
    """

    def __init__(
        self,
        sample: str | float | Fraction = "1/16",
        *,
        every: int = 100,
        what: str | Iterable[str] = WHAT,
        file: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take what to collect. The first observed step in each arithmetic compiles programs that count swamping.

        sample, what: as for numc.collect_stats. every: n. file: gets a line of JSON for every observed step, at once; a
        run that begins with step s (see `load_state_dict`) keeps the lines of the steps before s that the file has, and
        replaces the others. tensorboard: a folder that gets the same for TensorBoard.
        Raises NumcError for values that are not allowed, and for a file of something else.
        """
        self._sample, self._what = sampling(sample), chosen(what)
        self._every = checked_integer(every, "every", 1, _LARGEST)
        self._lines = None if file is None else Lines(file)
        self._rows = read_statistics(file) if file is not None and os.path.exists(file) else []
        self._begun = False  # whether the file has the rows and nothing else
        self._folder = tensorboard
        self._writer: Any = None
        self._epoch = self._step = 0
        self._inside = False
        self._entered: contextlib.AbstractContextManager[None] | None = None

    @property
    def rows(self) -> Sequence[StepStatistics]:
        """The observed steps, in order: those of the file that come before this run too."""
        return tuple(self._rows)

    def epoch(self, number: int) -> None:
        """Say that the next steps belong to an epoch. Raises NumcError for anything but a whole number from 0."""
        self._epoch = checked_integer(number, "epoch", 0, _LARGEST)

    @contextlib.contextmanager
    def step(self, number: int | None = None) -> Iterator[None]:
        """Run one step of the optimizer in a ``with`` block; ``with statistics:`` is the same without a number.

        number: of the step in the whole training; without it, the steps are counted. A step that ends with an exception
        is none. Raises NumcError inside of another step, for a number below the next one, and if nothing of numc ran in
        a step that was to be observed.
        """
        if self._inside:
            raise NumcError(f"{type(self).__name__}: the block of a step is open already: leave it first")
        step = self._step if number is None else checked_integer(number, "step", 0, _LARGEST)
        if step < self._step:
            raise NumcError(
                f"step {step}: the next step is {self._step}: count the steps over all epochs, or go back with "
                "load_state_dict"
            )
        self._inside = True
        try:
            if step % self._every:
                yield
            else:
                with collect_stats(self._what, sample=self._sample) as collected:
                    yield
                self._add(StepStatistics(self._epoch, step, collected.statistics))
        finally:
            self._inside = False
        self._step = step + 1

    def __enter__(self) -> EpochStatistics:
        entered = self.step()
        entered.__enter__()
        self._entered = entered
        return self

    def __exit__(self, *exception: Any) -> None:
        assert self._entered is not None
        self._entered.__exit__(*exception)

    def _add(self, row: StepStatistics) -> None:
        kept = [before for before in self._rows if before.step < row.step]
        self._begun = self._begun and len(kept) == len(self._rows)
        self._rows = [*kept, row]
        if self._lines is not None and self._begun:
            self._lines.append(_line(row))
        elif self._lines is not None:
            self._lines.replace(map(_line, self._rows))
        if self._folder is not None:
            if not self._begun:
                if self._writer is not None:
                    self._writer.close()
                self._writer = tensorboard_writer(self._folder, row.step)
            row.statistics.add_to(self._writer, row.step)
            self._writer.flush()
        self._begun = True

    def epochs(self) -> dict[int, Statistics]:
        """Return the statistics of every epoch, those of its observed steps together."""
        epochs: dict[int, Statistics] = {}
        for row in self._rows:
            before = epochs.get(row.epoch)
            epochs[row.epoch] = row.statistics if before is None else before + row.statistics
        return epochs

    def without_swamping(
        self, k: int, *, nonzero: bool = False, layer: str | None = None, role: str | None = None
    ) -> dict[int, float]:
        """Return a curve over the epochs: the fraction of additions without swamping at `k` bits.

        The arguments are those of Statistics.without_swamping. Epochs in which nothing was counted are left out.
        """
        shares = {
            epoch: statistics.without_swamping(k, nonzero=nonzero, layer=layer, role=role)
            for epoch, statistics in self.epochs().items()
        }
        return {epoch: share for epoch, share in shares.items() if share is not None}

    def state_dict(self) -> dict[str, Any]:
        """Return where the training is, in types that JSON has. The rows are in the file."""
        return {"step": self._step, "epoch": self._epoch}

    def load_state_dict(self, given: Mapping[str, Any]) -> None:
        """Go on from the step that `state_dict` was called after. Raises NumcError for anything else."""
        where = checked(given, "EpochStatistics: checkpoint", Mapping, "what state_dict returns")
        if set(where) != {"step", "epoch"}:
            raise NumcError(f"EpochStatistics: checkpoint: got {shortened(dict(where))}, want what state_dict returns")
        step, epoch = (checked_integer(where[key], f"checkpoint: {key}", 0, _LARGEST) for key in ("step", "epoch"))
        self._step, self._epoch = step, epoch


@in_default_environment
def read_statistics(file: str | os.PathLike[str]) -> list[StepStatistics]:
    """Return the steps in a file that EpochStatistics wrote.

    The beginning of a line that a stopped run has left at the end is none. Raises NumcError for another file.
    """
    path = checked_path(file)
    try:
        *lines, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise NumcError(f"{path}: cannot read: {error.strerror or error}") from None
    steps = []
    for number, line in enumerate(lines, 1):
        try:
            steps.append(StepStatistics.from_json(line))
        except NumcError as error:
            raise NumcError(f"{path}: line {number}: {error}") from None
    return steps


def _line(row: StepStatistics) -> str:
    return json.dumps(row.to_json(), allow_nan=False)
