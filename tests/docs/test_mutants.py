"""The mutants of tests/mutants.toml still have their places in the sources, and the tests that find them exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import mutants

ROOT = Path(__file__).resolve().parents[2]


def test_every_mutant_has_its_place() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.mutants", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_functions_of_the_tests_are_there() -> None:
    for test in {test for mutant in mutants.load() for test in mutant.tests}:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name.partition('[')[0]}(" in text, test


@pytest.mark.slow
def test_the_tests_of_every_mutant_are_collected() -> None:
    named = sorted({test for mutant in mutants.load() for test in mutant.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
