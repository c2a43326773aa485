"""examples/gan3d in tiny size: the table, resumption; and the showers have the moments that they are made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example

pytest.importorskip("torch")
from numc.studies.uncertainty.paired import of_differences

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "gan3d"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """The script as a module; the modules beside it are to be had from it."""
    with example(FOLDER) as module:
        yield module


def options(folder: Path) -> list[str]:
    chosen = ["--quick", "--seeds", "2", "--json", str(folder / "distances.json")]
    return [*chosen, "--results", str(folder / "results.jsonl")]


@pytest.mark.slow
def test_quick_study(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*options(tmp_path), "--plot", str(tmp_path / "profiles.svg")]) == 0
    said = capsys.readouterr().out
    assert "<svg" in (tmp_path / "profiles.svg").read_text()
    found = json.loads((tmp_path / "distances.json").read_text())
    one, two = (np.array(run_["z"]) for run_ in found["profiles"]["fp32"])
    distance = np.linalg.norm(one - two) / np.linalg.norm(found["simulation"]["z"])
    assert found["distances"]["z"]["fp32 to another seed"] == [pytest.approx(distance)]
    # Four steps in another arithmetic change something, but less than another seed does.
    for columns in found["distances"].values():
        assert 0 < np.mean(columns["MP to fp32"]) < columns["fp32 to another seed"][0]
    assert [line.split(" | ")[0] for line in said.splitlines()[2:]] == ["| x", "| y", "| z", "| sampling fraction"]

    def no_training(*_: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(run.adversarial.Trainer, "run", no_training)
    assert run.main(options(tmp_path)) == 0
    assert capsys.readouterr().out == said


def test_showers_have_their_moments(run: ModuleType) -> None:
    showers = run.adversarial.showers
    energies = np.tile(showers.ENERGIES, 100)
    volumes = showers.showers(energies, np.random.default_rng(0))
    assert (volumes.shape, volumes.dtype, volumes.min() >= 0) == ((800, 1, 16, 16, 16), np.float32, True)
    found = {name: np.array(values) for name, values in showers.profiles(volumes, energies).items()}
    expected = 0.75 + 0.05 * np.log(showers.ENERGIES)
    np.testing.assert_allclose(found["sampling fraction"], expected, rtol=0.01)
    cells = np.arange(16) + 0.5
    for axis in "xy":
        mean = (found[axis] * cells).sum() / found[axis].sum()
        deviation = np.sqrt((found[axis] * (cells - mean) ** 2).sum() / found[axis].sum())
        assert mean == pytest.approx(8, abs=0.05)
        assert deviation == pytest.approx(np.hypot(1.5, 0.3), rel=0.02)
    # The maximum of a gamma distribution cells^a exp(-b cells) is at a / b, here 4 + log(energy).
    for energy in (0.5, 4.0):
        along = volumes[energies == energy].sum((0, 1, 2, 3))
        assert cells[along.argmax()] == pytest.approx(4 + np.log(energy), abs=0.6)


def test_distances_are_relative_to_the_simulation(run: ModuleType) -> None:
    def outcome(value: float) -> Any:
        return run.adversarial.Outcome({name: [value, 0.0] for name in run.report.MEASURES}, [], [], 0.0)

    runs = {"fp32": [outcome(1.0), outcome(4.0)], "mp": [outcome(1.5), outcome(4.0)]}
    found = run.report.distances(runs, {name: [2.0, 0.0] for name in run.report.MEASURES})
    assert found["x"] == {
        "fp32 to simulation": [0.5, 1.0],
        "MP to simulation": [0.25, 1.0],
        "MP to fp32": [0.25, 0.0],
        "fp32 to another seed": [1.5],
    }
    assert "| x | 0.750 ± 0.354 | 0.625 ± 0.530 | 0.125 ± 0.177 | 1.500 | yes |" in run.report.table(found)


def test_bad_input_is_one_line(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run.main([*options(tmp_path), "--plot", "x.png"]) == 2
    assert capsys.readouterr().err == (
        "run.py: --plot needs matplotlib, which is not installed: pip install matplotlib\n"
    )
    with pytest.raises(SystemExit):
        run.main(["--seeds", "1"])
    assert "got '1', want a whole number from 2: two seeds are compared" in capsys.readouterr().err


def test_page_has_the_table_of_its_results(run: ModuleType) -> None:
    gan = run.adversarial.FULL
    results = run.Results(ROOT / "docs" / "figures" / "gan3d.jsonl", run.adversarial.Outcome)
    seeds = range(len(results.all) // 2)
    runs = {name: results.runs(gan, name, seeds) for name in (run.report.BASE, run.report.OTHER)}
    found = run.report.distances(runs, run.adversarial.truth(gan))
    assert run.report.table(found) in (ROOT / "docs" / "figures.md").read_text()
    minutes = sum(result.outcome.cpu_seconds for result in results.all) / 60
    assert (len(seeds), gan.steps, round(minutes)) == (10, 800, 10)
    for measure, columns in found.items():
        fp32, mp = (columns[name] for name in run.report.COLUMNS[:2])
        assert all(0.09 < np.mean(each) < 0.2 for each in (fp32, mp)), measure
        difference = of_differences(mp, fp32)
        assert not difference.excludes_zero
        assert 0.06 < difference.visible < 0.09
        near, far = (np.mean(columns[name]) for name in run.report.COLUMNS[2:])
        assert near / far == pytest.approx(1, abs=0.25), "as far apart as two seeds"
