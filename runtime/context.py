"""The ``with`` blocks that are open around the runs of programs, in one value of the process.

They are of all threads, because threads of autograd run programs, too.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from numc.numerics.policy.presets import Arithmetic

_T = TypeVar("_T")

#: Called with a Program: a block that a run of it enters. One that profiles gives the address of a numc_profile.
Watch = Callable[[Any], contextlib.AbstractContextManager["int | None"]]


class Blocks(list[_T]):
    """The values of the open blocks of one kind, that of the innermost last."""

    @contextlib.contextmanager
    def around(self, value: _T) -> Iterator[_T]:
        """Open a block of this value. Blocks of several threads may end in any order."""
        self.append(value)
        try:
            yield value
        finally:
            del self[next(n for n in reversed(range(len(self))) if self[n] is value)]


@dataclass(frozen=True)
class Context:
    """All open blocks.

    watches: of verification, statistics and profiles. counting: that of statistics of swamping, for which programs that
    are compiled have to be able to count. arithmetics, widths: chosen for what torch.compile compiled. seeds: of the
    next runs. tallies: counts of multiply-adds by role and operator. recipes: the recipe whose step runs.
    """

    watches: Blocks[Watch] = field(default_factory=Blocks)
    counting: Blocks[None] = field(default_factory=Blocks)
    arithmetics: Blocks[Arithmetic] = field(default_factory=Blocks)
    widths: Blocks[Any] = field(default_factory=Blocks)
    seeds: Blocks[Iterator[int]] = field(default_factory=Blocks)
    tallies: Blocks[Counter[tuple[str, str]]] = field(default_factory=Blocks)
    recipes: Blocks[object] = field(default_factory=Blocks)


CONTEXT = Context()
