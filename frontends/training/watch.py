"""Beside a training loop: verification of what runs in it, and a loss scale that tells what it did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from numc.compiler.studies.observe.verify import Report, Watch
from numc.compiler.support.errors import NumcError
from numc.runtime.program import WATCHES, Program


class Watched:
    """The programs that ran in a verify_training block."""

    def __init__(self, samples: int, seed: int) -> None:
        self._samples, self._rng = samples, np.random.default_rng(seed)
        self._watches: dict[Program, Watch] = {}

    def around(self, program: Program) -> contextlib.AbstractContextManager[None]:
        """Watch one run."""
        if program not in self._watches:
            self._watches[program] = Watch(program.manifest["contractions"], self._samples, self._rng)
        return program.observe(self._watches[program].observe)

    def report(self) -> Report:
        """Return what was checked. Raises NumcError if nothing ran."""
        if not self._watches:
            raise NumcError("nothing was verified: torch.compile ran no program of numc in the block")
        rows = tuple(row for watch in self._watches.values() for row in watch.rows())
        return Report(rows, next((watch.first for watch in self._watches.values() if watch.first), None))


@contextlib.contextmanager
def verify_training(*, samples: int = 20, seed: int = 0) -> Iterator[Watched]:
    """Recompute outputs of every contraction that torch.compile runs in numc while a ``with`` block lasts.

    samples: how many of each contraction the first time that it runs; one each time after that. The report has the
    contractions by name: ``conv1``, ``conv1/dgrad``, ``conv1/wgrad``.
    """
    watched = Watched(samples, seed)
    WATCHES.append(watched.around)
    try:
        yield watched
    finally:
        WATCHES.remove(watched.around)


class DynamicLossScale(torch.amp.GradScaler):  # type: ignore[misc]
    """torch.amp.GradScaler on the CPU that counts: `steps` are the updates so far, `skipped` those that overflowed."""

    def __init__(self, init_scale: float = 65536.0, **options: Any) -> None:
        super().__init__("cpu", init_scale=init_scale, **options)
        self.steps = self.skipped = 0

    def update(self, new_scale: Any = None) -> None:
        """Adjust the scale for the next step, and count."""
        before = self.get_scale()
        super().update(new_scale)
        self.steps += 1
        self.skipped += new_scale is None and self.get_scale() < before
