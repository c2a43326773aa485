"""The script that measures training steps: its numbers are those of what ran."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from train_step import measured  # noqa: E402
from zoo import FULL, SMALL  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[2] / "examples/models/train_step.py"


def test_a_row() -> None:
    torch._dynamo.reset()
    row = measured(SMALL["gcn"], "fp32", check=True)
    assert 0 < row["gradient_error"] < 1e-5
    assert 0 < row["eager_gradient_error"] < 1e-5
    assert row["new_programs"][0] > 0
    assert row["new_programs"][2] == 0  # nothing is new in the third step
    assert row["peak_mib"] > 100


def test_small_and_full_networks_have_the_same_names() -> None:
    assert SMALL.keys() == FULL.keys()


def test_eager_torch_makes_no_programs() -> None:
    command = [sys.executable, str(SCRIPT), "ngcf", "--small", "--arithmetic", "eager"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row = json.loads(done.stdout)
    assert (row["model"], row["arithmetic"], row["programs"]) == ("ngcf", "eager", 0)
