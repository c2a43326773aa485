"""Which units become chains that are computed side by side."""

from __future__ import annotations

import pytest

from numc.passes.streams.windows import Cost, Window, windows

SHORT = Cost(100e-6, shared=False)


def chains(costs: list[Cost], after: list[list[int]]) -> list[tuple[tuple[int, ...], ...]]:
    return [window.chains for window in windows(costs, after, lambda _: True)]


def test_branches_between_two_units_are_chains_and_the_longest_comes_first() -> None:
    after = [[], [0], [0], [2], [1, 3], [4], [4], [5, 6]]
    costs = [Cost(each, shared=False) for each in (1e-4, 2e-4, 1.1e-4, 1.1e-4, 1e-4, 1e-4, 2e-4, 1e-4)]
    assert chains(costs, after) == [((2, 3), (1,)), ((6,), (5,))]


def test_a_sequence_has_no_windows() -> None:
    assert chains([SHORT] * 5, [[], [0], [1], [2], [3]]) == []


def test_what_gains_nothing_is_left() -> None:
    after: list[list[int]] = [[], []]
    assert chains([Cost(1e-6, shared=False)] * 2, after) == []
    assert chains([Cost(0.1), Cost(1e-6)], after) == []
    assert chains([SHORT] * 2, after) == [((0,), (1,))]


def test_layers_whose_halves_wait_for_both_halves_before_are_cut() -> None:
    after = [[], [], [0, 1], [0, 1], [2, 3], [2, 3]]
    assert chains([SHORT] * 6, after) == [((0,), (1,)), ((2,), (3,)), ((4,), (5,))]


def test_minor_units_at_the_beginning_do_not_join_chains() -> None:
    minor = Cost(1e-7, shared=False, minor=True)
    assert chains([minor, SHORT, SHORT], [[], [0], [0]]) == [((1,), (2,))]  # @main computes it for both
    assert chains([SHORT, minor, SHORT], [[], [], [1]]) == [((0,), (1, 2))]


def test_gradients_of_weights_are_beside_those_of_activations() -> None:
    # 0, 2, 4: of activations, each from the one before; 1, 3, 5: of weights
    after: list[list[int]] = [[], [], [0], [0], [2], [2]]
    found = windows([SHORT] * 6, after, lambda _: True)
    assert [window.chains for window in found] == [((0,), (1,)), ((2,), (3,)), ((4,), (5,))]
    for window in found:
        assert_is_right(window, after)


def assert_is_right(window: Window, after: list[list[int]]) -> None:
    members = [unit for chain in window.chains for unit in chain]
    assert sorted(members) == list(range(window.first, window.last + 1))
    of = {unit: n for n, chain in enumerate(window.chains) for unit in chain}
    assert all(of[one] == of[unit] for unit in members for one in after[unit] if one in of)


@pytest.mark.parametrize("fits", [True, False])
def test_what_does_not_fit_is_left(fits: bool) -> None:
    assert bool(windows([SHORT] * 2, [[], []], lambda _: fits)) == fits
    # If the whole does not fit, parts of it may.
    found = windows([SHORT] * 4, [[], [], [0], [1]], lambda window: window.last - window.first < 3)
    assert [len(window.chains) for window in found] == [2, 2]
