"""``make release`` asks for its token before it builds anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on the PATH")
@pytest.mark.parametrize("token", [None, ""])
def test_a_release_without_a_token_ends_at_once(token: str | None, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    # The tests run under a make themselves, and its MAKEFLAGS and MAKELEVEL make one below it tell where it is.
    outer = ("TWINE_PASSWORD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    environment |= {} if token is None else {"TWINE_PASSWORD": token}
    done = subprocess.run(
        ["make", "release"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    first, *_ = done.stderr.splitlines()
    assert first == "make release: TWINE_PASSWORD is empty: want the token of the package index"
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]
