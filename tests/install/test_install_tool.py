"""tools/install.py: a line for each step of pip, and all that it said if it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.install import step_of

TOOL = Path(__file__).resolve().parents[2] / "tools" / "install.py"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Collecting numpy>=1.26 (from numc==0.1.0)\n", "collecting numpy>=1.26"),
        (
            "  Downloading https://host/a/b/numpy-2.4.0-cp311.whl.metadata (62 kB)\n",
            "downloading numpy-2.4.0-cp311.whl",
        ),
        ("Building wheel for numc (pyproject.toml): started\n", "building numc"),
        ("Installing collected packages: a, b, c\n", "installing 3 packages"),
        ("Requirement already satisfied: numpy in x\n", ""),
    ],
)
def test_steps(line: str, step: str) -> None:
    assert step_of(line) == step


def test_a_failure_shows_what_pip_said(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-package"
    command = [sys.executable, TOOL, "--no-index", str(missing)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "ERROR" in done.stderr
    assert str(missing) in done.stderr
    assert done.stdout.startswith("installing --no-index")
