"""The tiers of the test suite and its options. No test touches the user's cache.

`pytest` alone runs the default tier, `pytest -m "not slow"` the default tier and the tier `all`, `pytest -m slow` the
exhaustive tests, to which the cases of exhaustive.txt belong, too. Within one run equal programs are compiled once: the
processes of a run share one cache of programs.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import hypothesis
import pytest

from numc.frontends.words import FOREIGN
from numc.numerics.formats.kinds.table import DEFINED as FORMATS
from numc.numerics.operators import DEFINED as OPERATORS
from numc.support.errors import NumcError

ROOT = Path(__file__).parent
# A busy machine is no failure.
hypothesis.settings.register_profile("numc", deadline=None)
hypothesis.settings.load_profile("numc")
FOLDERS_OF_ALL = ("docs", "examples", "train", "training")  # every test in these folders is in the tier `all`


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The default tier of the whole suite does not import the tests that it would leave out."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    default = config.getini("addopts")[-1] == config.option.markexpr
    return True if whole and default and collection_path in [ROOT / name for name in FOLDERS_OF_ALL] else None


@pytest.hookimpl(tryfirst=True)  # before pytest reads -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    later = frozenset((ROOT / "exhaustive.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in later:
            item.add_marker(pytest.mark.slow)
        if item.path.relative_to(ROOT).parts[0] in FOLDERS_OF_ALL:
            item.add_marker(pytest.mark.all)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the workers' folders lie in that of the run
    os.environ["NUMC_CACHE_DIR"] = str(base / "numc-cache")
    os.environ.pop("NUMC_CACHE_SIZE", None)


@pytest.fixture(scope="module", autouse=True)
def _definitions_end():
    """No file of tests leaves a definition behind: processes with definitions compile in another way."""
    before = set(FORMATS), set(OPERATORS)
    yield
    assert (set(FORMATS), set(OPERATORS)) == before, "a definition outlives its tests: make it in definitions.undone()"


@pytest.fixture(scope="module", autouse=True)
def _traces_end():
    """What torch traced in a file of tests does not count towards its limits in the next one."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


@pytest.fixture(autouse=True)
def _words_of_users(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """No error of any test holds the words of MLIR, unless it is about MLIR: a text, passes, or the package.

    Tests of any or damaged texts are left out, because messages quote them, and those of passes, which are about IR.
    """
    names = request.path.name, request.node.name
    if any(name.startswith("test_any_") for name in names) or request.path.parent.name == "passes":
        yield
        return
    about = re.compile(r"\.mlir|^loc\(\"-\"|^(--)?passes|pip install torch-mlir|^'tensor\.bitcast'|^<text>")
    said: list[str] = []
    made = NumcError.__init__

    def remember(error: NumcError, message: str) -> None:
        made(error, message)
        said.append(str(error))

    monkeypatch.setattr(NumcError, "__init__", remember)
    yield
    foreign = [text for text in said if FOREIGN.search(text) and not about.search(text)]
    assert not foreign, f"an error in the words of MLIR: {foreign[0]}"
