"""Pages that show how to add something do what they say, in a copy of the sources.

A block ``python file=PATH`` is a new file. A block ``diff file=PATH`` changes one: a line that begins with ``+`` is
inserted behind the line before it, one that begins with ``-`` is taken out; the other lines are there once. The block
``python run`` is executed then, and prints what the ``text`` block behind it shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from numc.runtime.library import library
from rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    f"adding-{what}.md"
    for what in ("a-datapath", "a-reduction", "a-kind-of-format", "an-instruction-set", "an-operation")
]
_BLOCK = re.compile(r"^```(\w+)(?: (run)| file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path) -> None:
    for folder in ("src", *ROOMS):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    script, shown = "", ""
    for language, run, path, text in _BLOCK.findall((ROOT / "docs" / page).read_text()):
        if path and language == "diff":
            (tmp_path / path).write_text(changed((tmp_path / path).read_text(), text))
        elif path:
            assert not (tmp_path / path).exists(), path
            (tmp_path / path).write_text(text)
        elif run:
            script, shown = text, ""
        elif language == "text" and script and not shown:
            shown = text
    assert script
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "src"),
        "NUMC_RUNTIME_LIBRARY": library()._name,
        "NUMC_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


def changed(text: str, diff: str) -> str:
    """Return `text` with a diff applied."""
    lines = text.splitlines()
    place = 0
    for line in diff.splitlines():
        if line.startswith("+"):
            lines.insert(place, line[1:])
            place += 1
            continue
        assert lines.count(line[1:]) == 1, line
        place = lines.index(line[1:])
        if line.startswith("-"):
            del lines[place]
        else:
            place += 1
    return "\n".join(lines) + "\n"
