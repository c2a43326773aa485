"""The documented procedure: one width for all layers, then narrower significands layer by layer, from the last one."""

from __future__ import annotations

from numc.studies.search.samplers.interface import Ask, Problem
from numc.studies.search.samplers.uniform import SIGNIFICAND, uniform
from numc.studies.search.space import lowered, replaced
from numc.support.errors import NumcError


def procedure(problem: Problem) -> Ask:
    """Find the narrowest uniform choice, then lower significands of groups, the last group first.

    Significands do not become wider from one group to the next: earlier layers need more bits (Au Liang Jun, section
    6.1.7). Raises NumcError for a space without significands.
    """
    names = [axis.name for axis in problem.space.axes]
    if SIGNIFICAND not in names:
        raise NumcError(
            f"sampler 'procedure': lowers significands, m, but the space has {', '.join(names)}: want greedy"
        )
    axis = names.index(SIGNIFICAND)
    choice = yield from uniform(problem)
    if choice is None:
        return
    candidate = problem.space.everywhere(choice)
    for group in reversed(range(len(candidate))):
        while (narrower := lowered(candidate[group], axis)) is not None:
            if group + 1 < len(candidate) and narrower[axis] < candidate[group + 1][axis]:
                break
            (outcome,) = yield [replaced(candidate, group, narrower)]
            if not outcome.holds:
                break
            candidate = outcome.candidate
