"""examples/swamping in tiny size: curves over three epochs, resumption, and the order of networks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused

pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "swamping"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """The script as a module; the modules beside it are to be had from it."""
    with example(FOLDER) as module:
        yield module


def options(folder: Path) -> list[str]:
    chosen = ["--quick", "--network", "resnet", "--json", str(folder / "curves.json")]
    return [*chosen, "--results", str(folder / "results.jsonl")]


@pytest.mark.slow
def test_quick_study(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*options(tmp_path), "--plot", str(tmp_path / "curves.svg")]) == 0
    said = capsys.readouterr().out
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    curves = json.loads((tmp_path / "curves.json").read_text())["curves"]["resnet"]
    every, pairs = (np.array([curves[one][role] for role in run.report.ROLES]) for one in ("all", "nonzero"))
    assert every.shape == (4, 3, 24)
    assert (np.diff(every) >= 0).all()
    assert every.max() <= 1
    # An addition with a zero counts as one without swamping: it can only make the fraction larger.
    assert (every >= pairs).all()
    assert (every > pairs).any()
    cell = f"| {100 * every[0, 2, 7]:.1f} |"
    assert cell in said

    def no_training(*_: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(run.observed, "observe", no_training)
    assert run.main(options(tmp_path)) == 0
    assert capsys.readouterr().out == said


def test_order_is_that_of_the_last_epoch_at_8_bits(run: ModuleType) -> None:
    def outcome(first: float, last: float) -> Any:
        curves = [[share] * 24 for share in (first, last)]
        return run.observed.Outcome({one: {"all": curves} for one in run.report.DENOMINATORS}, [], 0.0)

    tasks = [task for task in run.networks.QUICK if task.name in run.report.EXPECTED]
    runs = {task: outcome(1 - number / 10, number / 10) for number, task in enumerate(tasks)}
    assert run.report.order(runs) == {name: ["resnet", "lstm", "transformer"] for name in ("all", "nonzero")}


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("sklearn", [], "the digits come from scikit-learn, which is not installed: pip install scikit-learn"),
        ("matplotlib", ["--plot", "x.png"], "--plot needs matplotlib, which is not installed: pip install matplotlib"),
        ("", ["--arithmetic", "bf17_1_1"], "bf17_1_1"),
    ],
)
def test_bad_input_is_one_line(
    run: ModuleType,
    missing: str,
    given: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in refused(run, [*options(tmp_path), *given], missing, monkeypatch, capsys)


def test_page_has_the_tables_of_its_results(run: ModuleType) -> None:
    page = (ROOT / "docs" / "figures.md").read_text()
    results = run.Results(ROOT / "docs" / "figures" / "swamping-epochs.jsonl", run.observed.Outcome)
    runs = {task: results.find(task, "mp", run.SEED) for task in run.chosen(quick=False, names=None)}
    assert run.report.table(runs) in page
    assert run.report.roles(runs) in page
