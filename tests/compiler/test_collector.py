"""Python's collector of cyclic garbage is set back to what it was, whoever asked for fewer collections."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from numc.support import collector


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collections_are_seldom_until_the_last_block_ends() -> None:
    gc.set_threshold(700, 10, 10)
    with collector.seldom():
        collector.begin()  # as another thread does
    assert min(gc.get_threshold()) > 10
    assert gc.get_threshold()[0] > 700
    collector.end()
    assert gc.get_threshold() == (700, 10, 10)
    collector.end()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (1_000_000, 1000, 1000)])
def test_who_collects_still_more_seldom_goes_on_with_it(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    with collector.seldom():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen
