"""The narrowest choice for all groups together: sweeps of every axis, then a grid around what they found.

Au Liang Jun, "A Variable Precision GPU Architecture for Deep Learning" (2021), section 6.1.7, describes the search in
words. What it leaves open is decided here: docs/search.md lists it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import product

from numc.studies.search.samplers.interface import Outcome, Problem
from numc.studies.search.space import Axis, Candidate, Choice, Space

EXPONENT, SIGNIFICAND = "e", "m"
_SWEPT_AT = 7  # the significand bits at which exponents are swept
_HOPELESS = 10.0  # a value that is worse by more than so many tolerances is left out of the grid


def uniform(problem: Problem) -> Generator[Sequence[Candidate], Sequence[Outcome], Choice | None]:
    """Return the narrowest choice for all groups within the tolerance that is found, or None. See interface.Ask."""
    space = problem.space
    known: dict[Choice, Outcome] = {}
    for middle in dict.fromkeys((_middle(space), space.widest)):
        asked = [choice for axis in range(len(space.axes)) for choice in _sweep(middle, axis)]
        yield from _ask(space, asked, known)
        ends = [_narrowest(known, _sweep(middle, axis)) for axis in range(len(space.axes))]
        if None not in ends:
            break  # otherwise nothing holds with 7 significand bits, and the sweeps are repeated at the widest
    else:
        return _first(space, known, list(known))
    ranges = []
    for axis, end in enumerate(ends):
        at = (end or middle)[axis]
        near = range(max(0, at - 1), min(space.widest[axis], at + _above(space.axes[axis])) + 1)
        ranges.append([n for n in near if not _hopeless(problem, known.get(_with(middle, axis, n)))])
    grid = _by_size(space, list(product(*ranges)))
    for size in dict.fromkeys(map(space.size, map(space.everywhere, grid))):
        together = [choice for choice in grid if space.size(space.everywhere(choice)) == size]
        yield from _ask(space, together, known)
        narrowest = next((choice for choice in together if known[choice].holds), None)
        if narrowest is not None:
            return narrowest
    return _first(space, known, list(known))


def _middle(space: Space) -> Choice:
    """Return the choice at which the other axes are swept: the widest, with at most 7 significand bits."""
    middle = []
    for axis, widest in zip(space.axes, space.widest, strict=True):
        narrow = [n for n in range(widest + 1) if axis.name == SIGNIFICAND and axis.size(n) <= _SWEPT_AT]
        middle.append(narrow[-1] if narrow else widest)
    return tuple(middle)


def _above(axis: Axis) -> int:
    """Return how far the grid reaches above the end of a sweep: exponents that fit a range do not become better."""
    return 0 if axis.name == EXPONENT else 1


def _sweep(middle: Choice, axis: int) -> list[Choice]:
    """Return the choices of a sweep, the widest first."""
    return [_with(middle, axis, n) for n in range(middle[axis], -1, -1)]


def _with(choice: Choice, axis: int, number: int) -> Choice:
    return (*choice[:axis], number, *choice[axis + 1 :])


def _ask(
    space: Space, choices: Sequence[Choice], known: dict[Choice, Outcome]
) -> Generator[Sequence[Candidate], Sequence[Outcome], None]:
    new = [choice for choice in dict.fromkeys(choices) if choice not in known]
    if new:
        outcomes = yield [space.everywhere(choice) for choice in new]
        known.update(zip(new, outcomes, strict=True))


def _narrowest(known: dict[Choice, Outcome], swept: Sequence[Choice]) -> Choice | None:
    """Return the narrowest of a sweep that holds. A failure does not end a sweep: narrower ones may hold again."""
    return next((choice for choice in reversed(swept) if known[choice].holds), None)


def _hopeless(problem: Problem, outcome: Outcome | None) -> bool:
    return outcome is not None and not outcome.worse <= _HOPELESS * problem.tolerance


def _by_size(space: Space, choices: list[Choice]) -> list[Choice]:
    """Return choices, the narrowest first; of equal ones, that with the narrower first axis."""
    return sorted(choices, key=lambda choice: (space.size(space.everywhere(choice)), choice))


def _first(space: Space, known: dict[Choice, Outcome], choices: list[Choice]) -> Choice | None:
    """Return the narrowest of some known choices that holds."""
    return next((choice for choice in _by_size(space, choices) if known[choice].holds), None)
