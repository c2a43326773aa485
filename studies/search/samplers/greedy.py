"""Greedy search by sensitivity: again and again, what saves most for the least loss."""

from __future__ import annotations

from numc.studies.search.samplers.interface import Ask, Outcome, Problem
from numc.studies.search.samplers.uniform import uniform
from numc.studies.search.space import Candidate, Choice, lowered, replaced

Move = tuple[int, Choice]
"""The number of a group, and its new choice."""


def greedy(problem: Problem) -> Ask:
    """Find the narrowest uniform choice, then make groups cheaper in rounds.

    A round tries every group with the next cheaper value of each axis, one at a time: its sensitivity. Then it makes
    these moves together, those that lose least for what they save first, and keeps each that stays within the
    tolerance. A move that fails alone is not tried again. Where the errors of groups are known, they order the moves of
    a round: it tries none of them alone, and a move that fails is not tried again.
    """
    choice = yield from uniform(problem)
    if choice is None:
        return
    now = problem.space.everywhere(choice)
    (here,) = yield [now]
    failed: set[Move] = set()
    while moves := [move for move in _moves(problem, now) if move not in failed]:
        if problem.errors is None:
            outcomes = yield [replaced(now, *move) for move in moves]
            failed |= {move for move, outcome in zip(moves, outcomes, strict=True) if not outcome.holds}
            good = [(move, outcome) for move, outcome in zip(moves, outcomes, strict=True) if outcome.holds]
            ranked = [move for move, _ in sorted(good, key=lambda pair: _loss(here, pair[1]))]
        else:
            ranked = sorted(moves, key=lambda move: _known_loss(problem, now, move))
        moved: set[int] = set()
        for group, narrower in ranked:
            if group in moved:
                continue
            (outcome,) = yield [replaced(now, group, narrower)]
            if outcome.holds:
                now, here = outcome.candidate, outcome
                moved.add(group)
            elif problem.errors is not None:
                failed.add((group, narrower))


def _moves(problem: Problem, now: Candidate) -> list[Move]:
    """Return, for every group and axis, the next narrower value that saves something: some widths cost the same."""
    price, moves = problem.price(now), []
    for group, choice in enumerate(now):
        for axis in range(len(choice)):
            narrower = lowered(choice, axis)
            while narrower is not None and problem.price(replaced(now, group, narrower)) >= price:
                narrower = lowered(narrower, axis)
            if narrower is not None:
                moves.append((group, narrower))
    return moves


def _known_loss(problem: Problem, now: Candidate, move: Move) -> float:
    """Return the known error of a move's group for each unit of cost that the move saves."""
    errors = problem.errors or ()
    return errors[move[0]] / (problem.price(now) - problem.price(replaced(now, *move)))


def _loss(here: Outcome, there: Outcome) -> float:
    """Return what a move loses for each unit of cost that it saves."""
    return (there.worse - here.worse) / (here.cost - there.cost)
