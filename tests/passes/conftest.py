"""Slow tests run when asked for: ``pytest -m slow tests/passes``."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _only_when_asked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("slow") and "slow" not in request.config.getoption("-m"):
        pytest.skip("slow: ask for it with -m slow")
