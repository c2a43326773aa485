"""docs/adding-a-kind-of-format.md does what it says, in a copy of the sources.

A block with ``file=PATH`` is a new file. A ``diff`` block with ``file=PATH`` changes one: lines that begin with ``+``
are inserted behind the line before them, which the file has once. The last block is run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from numc.runtime.library import library

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding-a-kind-of-format.md"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path: Path) -> None:
    for folder in ("src", "compiler", "passes", "runtime", "frontends"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = _BLOCK.findall(PAGE.read_text())
    for language, path, text in blocks:
        if path and language == "diff":
            changed = insert((tmp_path / path).read_text(), text)
            (tmp_path / path).write_text(changed)
        elif path:
            assert not (tmp_path / path).exists(), path
            (tmp_path / path).write_text(text)
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "src"),
        "NUMC_RUNTIME_LIBRARY": library()._name,
        "NUMC_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", blocks[-1][2]],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ternary(16): 5/2 bits per value\n"


def insert(text: str, diff: str) -> str:
    """Return `text` with the lines of a diff that begin with + behind those that begin with a space."""
    lines = text.splitlines()
    place = 0
    for line in diff.splitlines():
        if line.startswith("+"):
            lines.insert(place, line[1:])
        else:
            assert lines.count(line[1:]) == 1, line
            place = lines.index(line[1:])
        place += 1
    return "\n".join(lines) + "\n"
