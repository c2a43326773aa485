"""examples/trainbf: the tables of a study, resumption, and one run, which gives the same bits again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from example_scripts import example
from numc.studies.uncertainty.paired import Interval, of_differences

pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "trainbf") as module:
        yield module


def test_tables_and_orders(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every variant has a row; the runs are made once; the order is found from the means."""
    trained = []

    class Fake:
        def __init__(self, task: Any, techniques: Any) -> None:
            self.found = sum(techniques.values())

        def run(self, seed: int, arithmetic: str) -> Any:
            trained.append((seed, arithmetic))
            better = 10.0 * min(self.found, 2) + seed
            return run.report.Outcome(50 + better, 1.0, 0.1 / (1 + self.found), 20 - better, 0.5, 2.5, 21.0, 0.1)

    monkeypatch.setattr(run, "Trainer", Fake)
    monkeypatch.setattr(run, "chosen_layers", lambda task, threshold: ["3"])
    given = ["--quick", "--results", str(tmp_path / "r.jsonl"), "--json", str(tmp_path / "r.json")]
    assert run.main([*given, "--plot", str(tmp_path / "r.png")]) == 0
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    rows, parts = rows[: 2 + len(run.VARIANTS)], rows[2 + len(run.VARIANTS) :]
    assert [row[0] for row in rows[2:]] == list(run.VARIANTS)
    assert all(len(row) == len(rows[0]) for row in rows)
    assert [row[0] for row in parts[2:]] == list(run.report.PARTS)
    assert parts[2][2] == "**+20.0** (+20.0 to +20.0)"
    assert rows[5][1:4] == ["70.5 ± 0.7", "**+20.0** (+20.0 to +20.0)", "3.3e-02 ± 0.0e+00"]
    assert "- accuracy: none < range < range + weights < all: as in figure 5" in text
    assert "- exponents used: range + weights < all < range < none: not as in figure 5" in text
    assert "- layers that the modifier chooses at 1%: 3" in text
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    (written,) = json.loads((tmp_path / "r.json").read_text())
    assert {name: len(runs) for name, runs in written["runs"].items()} == dict.fromkeys(run.VARIANTS, 2)
    assert len(trained) == 2 * len(run.VARIANTS)
    whole = (tmp_path / "r.jsonl").read_text()
    (tmp_path / "r.jsonl").write_text(whole[:-20])  # as an interrupted process leaves it
    assert run.main(given) == 0
    assert capsys.readouterr().out == text
    assert (tmp_path / "r.jsonl").read_text() == whole
    assert run.Results(tmp_path / "r.jsonl", run.Outcome).find(replace(run.QUICK[0], steps=9), "all", 0) is None
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert run.main(["--quick", "--results", str(tmp_path / "bad.jsonl")]) == 2
    assert "bad.jsonl:1: not a result; take another file with --results" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_gives_the_same_bits_again(run: ModuleType) -> None:
    import torch

    torch._dynamo.reset()
    variant = run.VARIANTS["all"]
    trainer = run.Trainer(run.QUICK[0], variant.techniques)
    first, again = (replace(trainer.run(1, variant.arithmetic), cpu_seconds=0.0) for _ in range(2))
    assert first == again
    assert 0 < first.error < 0.1
    assert first.scale == 20  # halved in each of the four steps
    assert abs(first.R - 2.5) < 0.1  # 1 + 6 / 4
    assert 7 / 16 < first.utilisation < 1
    torch._dynamo.reset()


def test_the_page_shows_the_stored_results(run: ModuleType) -> None:
    text = (ROOT / "docs" / "trainbf.md").read_text()
    results = run.Results(ROOT / "docs" / "trainbf" / "results.jsonl", run.Outcome)
    runs = [run.report.collect(results, task, range(run.SEEDS)) for task in run.FULL]
    for mine in runs:
        assert all(len(outcomes) == run.SEEDS for outcomes in mine.values())
        assert run.report.table(mine) in text
        assert all(line in text for line in run.report.orders(mine))
    assert run.report.parts(run.FULL, runs) in text
    minutes = sum(result.outcome.cpu_seconds for result in results.all) / 60
    assert f"They took {minutes:.0f} minutes of CPU time" in text


def test_the_words_of_the_page_are_those_of_the_results(run: ModuleType) -> None:
    page = " ".join((ROOT / "docs" / "trainbf.md").read_text().split())
    results = run.Results(ROOT / "docs" / "trainbf" / "results.jsonl", run.Outcome)
    runs = {task.title: run.report.collect(results, task, range(run.SEEDS)) for task in run.FULL}

    def added(title: str, part: tuple[str, str]) -> Interval:
        return of_differences(*([outcome.accuracy for outcome in runs[title][name]] for name in part))

    def shown(*part: str) -> set[str]:
        return {title for title in runs if added(title, part).excludes_zero}

    gaining = {"CNN", "U-Net", "LSTM"}
    assert shown("all", "none") == gaining
    assert shown("range", "none") == gaining | {"MLP"}
    assert shown("range + weights", "range") == {"MLP", "U-Net"}
    assert all(added(title, ("range + weights", "range")).mean < 0 for title in ("MLP", "U-Net"))
    half = 0.527 * added("LSTM", ("all", "none")).mean
    assert f"would be {half:.0f} points" in page
    assert added("LSTM", ("range + weights", "range")).high < half
    assert shown("none", "fp32") == {"LSTM"}
    assert shown("all", "fp32") == {"CNN", "LSTM"}
    losses = [abs(added("LSTM", (name, "fp32")).mean) for name in ("none", "all")]
    assert (
        "loses {:.1f} points to fp32, which is shown, and with them it is {:.1f} points better".format(*losses) in page
    )
    assert shown("none, fp32 update", "none") == {"U-Net"}
    assert shown("all, fp32 update", "all") == set()
    for mine in runs.values():
        for first, again in zip(mine["range + weights"], mine["all"], strict=True):
            assert (first.accuracy, first.loss, first.error) == (again.accuracy, again.loss, again.error)
        assert max(outcome.error for outcomes in mine.values() for outcome in outcomes) < 1e-3 or mine is runs["MLP"]
    used = [mean(mine["all"], "exponents") / mean(mine["none"], "exponents") - 1 for mine in runs.values()]
    assert f"by {100 * sorted(used)[1]:.0f} to {100 * max(used):.0f} %" in page
    errors = {title: mean(mine["all"], "error") / mean(mine["none"], "error") for title, mine in runs.items()}
    assert abs(errors.pop("CNN") - 1.2) < 0.05
    assert all(1.5 < ratio < 2.5 for ratio in errors.values())


@pytest.mark.slow
def test_the_gcn_fails_in_fp32_as_well(run: ModuleType) -> None:
    """With range normalisation, from three of ten seeds."""
    trainer = run.Trainer(run.FULL[-1], run.VARIANTS["range"].techniques)
    assert sum(trainer.run(seed, "fp32").accuracy < 70 for seed in range(10)) == 3


def mean(outcomes: Any, field: str) -> float:
    return sum(getattr(outcome, field) for outcome in outcomes) / len(outcomes)
