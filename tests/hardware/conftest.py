"""The command in an empty folder, as the tests of commands run it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from numc.cli import main


@pytest.fixture
def numc_run(capsys, tmp_path, monkeypatch) -> Callable[..., SimpleNamespace]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> SimpleNamespace:
        status = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, error=err.removeprefix("numc: error: ").rstrip("\n"))

    return run
