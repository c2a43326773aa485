"""One emulated machine for all tests of this folder."""

from __future__ import annotations

import pytest

from emulated import Emulated, machine


@pytest.fixture(scope="session")
def emulated(request: pytest.FixtureRequest) -> Emulated:
    return machine(request.config.cache)
