"""Samplers on tables of values: the published search replayed, and what every sampler does with a known landscape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from numc.studies.search.groups import Group
from numc.studies.search.samplers.greedy import greedy
from numc.studies.search.samplers.interface import Outcome, Problem, Sampler
from numc.studies.search.samplers.optuna import nsga2, tpe
from numc.studies.search.samplers.procedure import procedure
from numc.studies.search.space import Candidate, Space, operator_space, width_space
from numc.support.errors import NumcError

# Au Liang Jun (2021): sweeps at S=7 and at E=8 from the author's notebook, then table 6.7 (MLP2) and 6.8 (CNN2).
MLP2 = {
    **{
        (e, (7, 7, 7)): v for e, v in zip(range(8, 1, -1), (92.08, 92.03, 90.14, 57.00, 13.24, 9.80, 9.80), strict=True)
    },
    **{
        (8, (m, m, m)): v
        for m, v in zip(range(7, 0, -1), (92.08, 92.12, 92.19, 92.07, 91.86, 90.39, 82.24), strict=True)
    },
    (6, (3, 3, 3)): 91.54,
    (6, (2, 2, 2)): 90.91,
    (6, (3, 2, 1)): 90.48,
    (6, (3, 3, 2)): 91.33,
    (6, (4, 3, 2)): 91.55,
}
CNN2 = {
    **{(e, (7, 7)): v for e, v in zip(range(8, 1, -1), (99.13,) * 5 + (9.80, 9.80), strict=True)},
    **{(8, (m, m)): v for m, v in zip(range(7, 0, -1), (99.13, 99.13, 99.11, 99.04, 98.96, 98.23, 68.56), strict=True)},
    (4, (4, 4)): 99.05,
    (4, (3, 3)): 95.62,
    (4, (2, 2)): 98.31,
    (4, (3, 2)): 98.89,
    (4, (3, 1)): 98.51,
    (4, (2, 1)): 97.41,
}


def grouped(space: Space, count: int) -> Space:
    return replace(space, groups=tuple(Group(f"layer {n}", f"layer {n}") for n in range(count)))


def drive(sampler: Sampler, problem: Problem, worse: Callable[[Candidate], float]) -> list[Outcome]:
    """Every outcome that a sampler was told, in order."""
    asking, told = sampler(problem), []
    proposed = next(asking)
    while True:
        assert proposed, "a batch is not empty"
        outcomes = [Outcome(c, problem.price(c), worse(c), worse(c) <= problem.tolerance) for c in proposed]
        told += outcomes
        try:
            proposed = asking.send(outcomes)
        except StopIteration:
            return told


def cheapest(told: list[Outcome]) -> Candidate:
    return min((outcome for outcome in told if outcome.holds), key=lambda outcome: outcome.cost).candidate


@pytest.mark.parametrize(
    ("table", "base", "layers", "uniform", "found"),
    [(MLP2, 92.10, 3, (6, (3, 3, 3)), (6, (3, 3, 2))), (CNN2, 99.15, 2, (4, (2, 2)), (4, (2, 2)))],
    ids=["MLP2", "CNN2"],
)
def test_the_procedure_finds_what_was_published(
    table: Mapping[tuple[int, tuple[int, ...]], float], base: float, layers: int, uniform: object, found: object
) -> None:
    space = grouped(width_space("e=2..8 m=1..23"), layers)

    def widths(candidate: Candidate) -> tuple[int, tuple[int, ...]]:
        pairs = [{k: int(v) for k, v in space.values(choice).items()} for choice in candidate]
        (exponent,) = {pair["e"] for pair in pairs}  # conversions cost: the exponents of all layers stay equal
        return exponent, tuple(pair["m"] for pair in pairs)

    def worse(candidate: Candidate) -> float:
        return base - table.get(widths(candidate), -1e9)

    problem = Problem(space=space, price=lambda candidate: float(space.size(candidate)), tolerance=1.0)
    told = drive(procedure, problem, worse)
    swept = [widths(outcome.candidate) for outcome in told[:13]]
    assert set(swept) == {(e, (7,) * layers) for e in range(2, 9)} | {(8, (m,) * layers) for m in range(1, 8)}
    same = [outcome for outcome in told if len(set(outcome.candidate)) == 1]
    assert widths(cheapest(same)) == uniform
    assert widths(cheapest(told)) == found
    assert len(told) <= 20


def landscape(space: Space) -> Callable[[Candidate], float]:
    """Layers that need fewer and fewer significands, and 4 exponent bits."""

    def worse(candidate: Candidate) -> float:
        values = [space.values(choice) for choice in candidate]
        losses = (weight * 2.0 ** -int(v["m"]) for weight, v in zip((0.08, 0.02, 0.01), values, strict=True))
        return sum(losses) + sum(int(v["e"]) < 4 for v in values)

    return worse


@pytest.mark.parametrize(
    "sampler",
    [procedure, greedy, *(pytest.param(one, marks=pytest.mark.all) for one in (tpe, nsga2))],
    ids=lambda s: s.__name__,
)
def test_a_sampler_depends_on_outcomes_and_seed_alone(sampler: Sampler) -> None:
    if sampler in (tpe, nsga2):
        pytest.importorskip("optuna")
    space = grouped(width_space("e=2..8 m=1..7"), 3)
    problem = Problem(
        space=space, price=lambda candidate: float(space.size(candidate)), tolerance=0.01, seed=5, trials=48
    )
    told = drive(sampler, problem, landscape(space))
    assert told == drive(sampler, problem, landscape(space))
    best = cheapest(told)
    if sampler in (tpe, nsga2):
        assert len(told) == 48
        assert told != drive(sampler, replace(problem, seed=6), landscape(space))
        assert space.size(best) < space.size(space.everywhere(space.widest)) - 8
    else:
        assert [space.text(choice) for choice in best] == [f"fma = fmacs(e4m{m})" for m in (4, 3, 2)]


def test_the_procedure_lets_no_significand_grow_from_layer_to_layer() -> None:
    space = grouped(width_space("e=4 m=1..7"), 3)
    needs = (1, 4, 2)

    def worse(candidate: Candidate) -> float:
        return float(any(int(space.values(c)["m"]) < least for c, least in zip(candidate, needs, strict=True)))

    told = drive(
        procedure, Problem(space=space, price=lambda candidate: float(space.size(candidate)), tolerance=0.5), worse
    )
    assert [space.values(choice)["m"] for choice in cheapest(told)] == ["4", "4", "2"]


def test_greedy_searches_operators_and_the_procedure_does_not() -> None:
    space = grouped(operator_space(["fmac(e4m3)", "bf16_1_1", "fp32"]), 2)
    needs = {0: 1, 1: 0}  # the second layer keeps the metric in e4m3, the first one needs bf16

    def worse(candidate: Candidate) -> float:
        return float(sum(choice[0] < needs[layer] for layer, choice in enumerate(candidate)))

    problem = Problem(space=space, price=lambda candidate: float(space.size(candidate)), tolerance=0.5)
    assert space.policy(cheapest(drive(greedy, problem, worse))) == (
        "layer 0 fma = bf16_1_1\nlayer 1 fma = fmac(e4m3)\n"
    )
    with pytest.raises(NumcError) as error:
        drive(procedure, problem, worse)
    assert str(error.value) == ("sampler 'procedure': lowers significands, m, but the space has fma: want greedy")


def test_known_errors_order_greedy_which_then_tries_no_move_alone() -> None:
    """It finds what it finds without them, in fewer evaluations; and the order decides where the tolerance is short."""
    space = grouped(operator_space(["fmac(e4m3)", "bf16_1_1", "fp32"]), 4)

    def worse(candidate: Candidate) -> float:  # narrow layers 0 and 3 lose four and two times what the others do
        return sum(weight * (2 - choice[0]) for weight, choice in zip((4, 1, 1, 2), candidate, strict=True))

    problem = Problem(space=space, price=lambda candidate: float(space.size(candidate)), tolerance=6.0)
    plain = drive(greedy, problem, worse)
    ordered = drive(greedy, replace(problem, errors=(0.4, 0.1, 0.1, 0.2)), worse)
    assert cheapest(ordered) == cheapest(plain) == ((2,), (0,), (0,), (1,))
    assert len({outcome.candidate for outcome in ordered}) < len({outcome.candidate for outcome in plain})
    opposite = drive(greedy, replace(problem, errors=(0.1, 0.4, 0.4, 0.2)), worse)
    assert cheapest(opposite)[0] == (1,)


def test_greedy_passes_over_widths_that_cost_the_same() -> None:
    space = grouped(width_space("m=2..4", "fma = fma(a=bfp(16,3,{m}),b=bfp(16,3,{m}),acc=fp32)"), 2)

    def passes(candidate: Candidate) -> float:
        return float(sum(((int(space.values(choice)["m"]) + 1) // 2) ** 2 for choice in candidate))

    told = drive(
        greedy, Problem(space=space, price=passes, tolerance=0.5), lambda c: float(c[0] != (2,) or c[1] == (1,))
    )
    assert [choice[0] for choice in cheapest(told)] == [2, 0]


def test_wide_significands_are_swept_if_seven_bits_are_too_few_and_nothing_is_found_if_nothing_holds() -> None:
    space = grouped(width_space("e=8,5 m=1..23"), 1)
    problem = Problem(space=space, price=lambda candidate: float(space.size(candidate)), tolerance=0.01)
    told = drive(procedure, problem, lambda c: 0.0 if int(space.values(c[0])["m"]) >= 11 else 1.0)
    assert space.values(cheapest(told)[0]) == {"e": "5", "m": "11"}
    assert len(told) < 40
    for sampler in (procedure, greedy):
        assert not any(outcome.holds for outcome in drive(sampler, problem, lambda _: 1.0))
