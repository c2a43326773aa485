"""No test touches the user's cache, or finds there what another run left; within a run, equal programs compile once."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    os.environ["NUMC_CACHE_DIR"] = str(tmp_path_factory.getbasetemp() / "numc-cache")
    os.environ.pop("NUMC_CACHE_SIZE", None)
