"""Scripts of examples/ as modules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@contextmanager
def example(folder: Path) -> Iterator[ModuleType]:
    """The module ``run`` of `folder`. It and its neighbours have short names, which are gone afterwards.

    So are the modules of other examples that they import, for which they extend sys.path.
    """
    path = sys.path.copy()
    _forget_modules()
    sys.path.insert(0, str(folder))
    try:
        yield import_module("run")
    finally:
        sys.path[:] = path
        _forget_modules()


def refused(
    run: ModuleType,
    arguments: Sequence[str],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Run a script where a package is missing, if one is named; return the one line with which it ends."""
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else find(name))
    assert run.main(list(arguments)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def _forget_modules() -> None:
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/")
        if EXAMPLES in file.parents and file.parent.name != "models":  # those are shared
            del sys.modules[name]
