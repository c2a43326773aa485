"""NUMC_DISABLE: what it switches off, and what it says about unknown names."""

from __future__ import annotations

import pytest

from numc.support.errors import NumcError
from numc.support.switches import disabled


def test_the_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMC_DISABLE", raising=False)
    assert not disabled("fuse-elementwise")
    monkeypatch.setenv("NUMC_DISABLE", " parallel-loops, fuse-elementwise,")
    assert disabled("fuse-elementwise")
    assert disabled("parallel-loops")


def test_an_unknown_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMC_DISABLE", "fuse-elementwize")
    with pytest.raises(NumcError, match="NUMC_DISABLE: no such switch 'fuse-elementwize'.*fuse-elementwise"):
        disabled("parallel-loops")
