"""Which parts that follow each other are worth being computed side by side.

A window is some units that follow each other. Those of them that depend on each other are a chain. Chains are computed
side by side, and what comes after the window waits for all of them. The windows are those that gain most on two
threads, as the times of units are estimated: small ones, or all units between two that wait for everything before
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_FORK = 4e-6
"""Seconds that it takes to begin and to end a window."""
_SHARE, _BARRIER = 0.515, 3e-6
"""The time of a unit on two threads: this part of its time on one, and these seconds, in which one of them waits."""
_LATE = 32
"""A thread that comes to the help of another one may find this part of its longest unit left, which it cannot share."""
_MOST = 24
"""Units of a small window."""

After = Sequence[Sequence[int]]
"""For every unit those that have to end before it begins, all with smaller numbers than its own."""


@dataclass(frozen=True)
class Cost:
    """seconds: the time of a unit on one thread. shared: whether it is shared out among threads.

    minor: it takes next to no time, or it could be computed at any time.
    """

    seconds: float
    shared: bool = True
    minor: bool = False

    @property
    def on_two(self) -> float:
        """The seconds on two threads."""
        return self.seconds * _SHARE + _BARRIER if self.shared else self.seconds


@dataclass(frozen=True)
class Window:
    """Units from `first` to `last`, the last one included.

    chains: numbers of units in the order of the program, the longest chain first. What is in none of them is computed
    before all of them.
    """

    first: int
    last: int
    chains: tuple[tuple[int, ...], ...]


def windows(costs: Sequence[Cost], after: After, fits: Callable[[Window], bool]) -> list[Window]:
    """Return the windows that gain most, in order. fits: whether there is memory for one."""
    chosen: list[Window] = []
    first = 0
    for end in [*_cuts(costs, after), len(costs)]:
        chosen += _within(costs, after, fits, first, end)
        first = end
    return chosen


def _cuts(costs: Sequence[Cost], after: After) -> list[int]:
    """The units before which everything has to end that came before, but for minor units."""
    counted = 0  # sets of units, as bits
    before: list[int] = []
    for n, each in enumerate(after):
        known = 0
        for predecessor in each:
            known |= before[predecessor] | 1 << predecessor
        before.append(known)
        counted |= (not costs[n].minor) << n
    cuts = []
    common = counted
    for n in range(len(costs) - 1, 0, -1):
        if counted >> n & 1:
            common &= before[n]
            earlier = counted & ((1 << n) - 1)
            if common & earlier == earlier:
                cuts.append(n)
    return cuts[::-1]


def _within(costs: Sequence[Cost], after: After, fits: Callable[[Window], bool], first: int, end: int) -> list[Window]:
    """The windows in a range of units: all of it, or small ones, whichever gain more."""
    best: list[tuple[float, tuple[Window, ...]]] = [(0.0, ())] * (end - first + 1)  # of the units before each
    for start in range(first, end):
        gain, chosen = best[start - first]
        for last, chains in enumerate(_grown(costs, after, start, min(end, start + _MOST)), start):
            more = _gain(chains)
            if more > 0.0 and gain + more > best[last + 1 - first][0]:
                window = _window(after, start, last, chains)
                if fits(window):
                    best[last + 1 - first] = gain + more, (*chosen, window)
        best[start + 1 - first] = max(best[start + 1 - first], best[start - first], key=lambda each: each[0])
    *_, whole = _grown(costs, after, first, end)
    if _gain(whole) > best[-1][0]:
        window = _window(after, first, end - 1, whole)
        if fits(window):
            return [window]
    return list(best[-1][1])


@dataclass
class _Chain:
    units: list[int] = field(default_factory=list)
    seconds: float = 0.0
    on_two: float = 0.0
    longest: float = 0.0

    def add(self, other: _Chain) -> None:
        self.units += other.units
        self.seconds += other.seconds
        self.on_two += other.on_two
        self.longest = max(self.longest, other.longest)


def _grown(costs: Sequence[Cost], after: After, first: int, end: int) -> Iterator[list[_Chain]]:
    """Yield the connected components of `first` alone, of it and the next unit, and so on.

    Minor units that wait for nothing join nothing, and are in none.
    """
    of: dict[int, _Chain] = {}
    chains: list[_Chain] = []
    for n in range(first, end):
        cost = costs[n]
        if not cost.minor or after[n]:
            own = _Chain([n], cost.seconds, cost.on_two, cost.seconds)
            chains.append(own)
            for predecessor in after[n]:
                other = of.get(predecessor)
                if other is not None and other is not own:
                    small, large = sorted((own, other), key=lambda chain: len(chain.units))
                    large.add(small)
                    chains.remove(small)
                    of.update(dict.fromkeys(small.units, large))
                    own = large
            of[n] = own
        yield chains


def _gain(chains: Sequence[_Chain]) -> float:
    """The seconds that chains take less side by side on two threads than one after the other."""
    if len(chains) < 2:
        return 0.0
    ends = [0.0, 0.0]
    last = [chains[0]] * 2
    for chain in sorted(chains, key=lambda chain: -chain.seconds):  # each on the thread that ends first
        thread = ends.index(min(ends))
        ends[thread] += chain.seconds
        last[thread] = chain
    late = ends.index(max(ends))
    helped = last[late]
    rest = (ends[late] - ends[1 - late]) * helped.on_two / helped.seconds
    takes = ends[1 - late] + rest + min(rest, helped.longest) / _LATE + _FORK
    return sum(chain.on_two for chain in chains) - takes


def _window(after: After, first: int, last: int, chains: Sequence[_Chain]) -> Window:
    """The window of some chains. A unit of none of them that only one of them waits for joins it."""
    members = [set(chain.units) for chain in sorted(chains, key=lambda chain: -chain.seconds)]
    inside = set().union(*members)
    for n in range(first, last + 1):
        if n not in inside:
            waiting = [own for own in members if any(n in after[member] for member in own)]
            if len(waiting) == 1:
                waiting[0].add(n)
    return Window(first, last, tuple(tuple(sorted(own)) for own in members))
