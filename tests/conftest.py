"""Options of the test suite. No test touches the user's cache; within a run, equal programs compile once."""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    os.environ["NUMC_CACHE_DIR"] = str(tmp_path_factory.getbasetemp() / "numc-cache")
    os.environ.pop("NUMC_CACHE_SIZE", None)
