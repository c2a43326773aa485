"""numc.verify_training: verification of the programs that run inside a training loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from numc.runtime.context import CONTEXT
from numc.runtime.program import Program, seed_number
from numc.studies.observe.verify import Report, Watch
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError


@in_default_environment
class Watched:
    """The programs that ran in a verify_training block."""

    def __init__(self, samples: int, seed: int) -> None:
        self._samples, self._rng = samples, np.random.default_rng(seed)
        self._watches: dict[Program, Watch] = {}

    def around(self, program: Program) -> contextlib.AbstractContextManager[None]:
        """Return the context in which one run of a program is verified."""
        if program not in self._watches:
            self._watches[program] = Watch(program.manifest["contractions"], self._samples, self._rng)
        return program.observe(self._watches[program].observe)

    def report(self) -> Report:
        """Return what was verified. Raises NumcError if no program ran in the block."""
        if not self._watches:
            raise NumcError("nothing was verified: torch.compile ran no program of numc in the block")
        rows = tuple(row for watch in self._watches.values() for row in watch.rows())
        return Report(rows, next((watch.first for watch in self._watches.values() if watch.first), None))


@contextlib.contextmanager
def verify_training(*, samples: int = 20, seed: int = 0) -> Iterator[Watched]:
    """Verify the contractions that torch.compile runs in numc while a ``with`` block lasts.

    Outputs of each contraction are recomputed by the exact definition of its operator, in integers, and compared bit by
    bit. samples: the number of outputs recomputed when a contraction runs for the first time; later runs recompute one.
    seed: of the choice of outputs. The block's value has a method `report`, whose rows name the contractions ``conv1``,
    ``conv1/dgrad``, ``conv1/wgrad``. Raises NumcError for numbers out of range.
    """
    watched = Watched(checked_integer(samples, "samples", 1, 2**31 - 1), seed_number(seed))
    with CONTEXT.watches.around(watched.around):
        yield watched
