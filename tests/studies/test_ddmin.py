"""ddmin against its definition: what it returns is enough, and is not without any one item."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from numc.studies.ddmin import ddmin

SIZES = st.integers(1, 24)


@given(SIZES.flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sets(st.integers(0, n - 1), min_size=1), min_size=1))))
def test_monotone_predicates(case: tuple[int, list[set[int]]]) -> None:
    """Enough is what has all of one of several sets: layers that matter together."""
    n, wanted = case
    calls = 0

    def enough(items: Sequence[int]) -> bool:
        nonlocal calls
        calls += 1
        assert items
        assert list(items) == sorted(set(items))
        return any(group <= set(items) for group in wanted)

    if not enough(range(n)):
        return
    kept = ddmin(range(n), enough)
    assert calls <= n * n + 3 * n + 1
    assert enough(kept)
    assert len(kept) == 1 or not any(enough(kept[:i] + kept[i + 1 :]) for i in range(len(kept)))
    if len(wanted) == 1:
        assert set(kept) == wanted[0]  # one answer: it is the smallest


@settings(max_examples=300)
@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_any_predicate(n: int, random) -> None:
    """An error that more layers in fp32 make larger is no reason for a wrong answer."""
    answers = {(): False, tuple(range(n)): True}

    def enough(items: Sequence[int]) -> bool:
        return answers.setdefault(tuple(items), random.random() < 0.3)

    kept = ddmin(range(n), enough)
    assert enough(kept)
    assert not any(enough(kept[:i] + kept[i + 1 :]) for i in range(len(kept)))
