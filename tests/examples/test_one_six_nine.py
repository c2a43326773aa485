"""examples/one_six_nine: table I exactly, one tiny network in all arithmetics of FMAC-8, fp32 next to eager torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "one_six_nine"
PAGE = ROOT / "docs" / "one-six-nine.md"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """The script as a module; the modules beside it are to be had from it."""
    with example(FOLDER) as module:
        yield module


def options(folder: Path) -> list[str]:
    return ["--quick", "--results", str(folder / "results.jsonl"), "--json", str(folder / "tables.json")]


@pytest.mark.slow
def test_quick_study(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*options(tmp_path), "--plot", str(tmp_path / "figures.svg")]) == 0
    said = capsys.readouterr().out
    assert "| 1/6/9/d | -30 / -30 | 31 / 31 | 2^-39 / 2^-39 |" in said
    assert "| ResNet | 0.95 / " in said
    assert "<svg" in (tmp_path / "figures.svg").read_text()
    found = json.loads((tmp_path / "tables.json").read_text())
    assert [row["arithmetic"] for row in found["runs"]] == [n for n in run.arithmetics.ALL if "FMACS" not in n]
    rows = {row["arithmetic"]: row for row in found["runs"]}
    assert rows["fp32"]["learned"] == 1
    # The network has two layers with weights. What has denormals in one format is flushed in the one without them.
    assert list(rows["1/5/10/d FMAC-8"]["denormals"]) == list(rows["1/5/10/n FMAC-8"]["flushed"])
    assert len(rows["1/5/10/d FMAC-8"]["denormals"]) == 2
    least, none = (run.report.most(rows[f"1/5/10/{kind} FMAC-8"]["denormals"])[0] for kind in "dn")
    assert least > none == 0
    # fp32 is plain training: the factors of the loss have gone before the update.
    (task,) = (task for task in run.QUICK if task.name == "resnet")
    torch.manual_seed(0)
    model = task.model()
    optimizer, losses = task.optimizer(model.parameters()), []
    for inputs, target in islice(task.inputs(0), task.steps):
        optimizer.zero_grad()
        loss = task.loss(model(*inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    base = run.Results(tmp_path / "results.jsonl", run.Outcome).find(task, "fp32", 0)
    np.testing.assert_allclose(base.losses, losses, rtol=1e-4)

    def no_training(*_: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(run.Trainer, "run", no_training)
    assert run.main(options(tmp_path)) == 0
    assert capsys.readouterr().out == said


def test_formats_are_those_of_table_1(run: ModuleType) -> None:
    for name, row in run.report.published.FORMATS.items():
        assert run.report.exact(name) == row


def test_a_training_is_judged_by_what_fp32_learned(run: ModuleType) -> None:
    def outcome(*losses: float) -> Any:
        return run.Outcome(list(losses), 0, {}, {}, {}, 0.0)

    base = outcome(3.0, 2.0, 1.0)
    shares = [run.report.progress(outcome(3.0, 2.0, last), base) for last in (1.0, 1.5, 2.5, math.nan)]
    assert shares[:3] == [1, 0.75, 0.25]
    assert [run.report.verdict(share) for share in shares] == ["✓", "D", "✗", "✗"]
    assert math.isnan(shares[3])


def test_policies_are_the_strict_preset(run: ModuleType) -> None:
    import numc
    from numc.numerics.policy.load import load_policy

    for operator, preset in (("FMAC-8", "1/6/9/strict"), ("FMACS", "1/6/9/strict/fmacs")):
        given = run.arithmetics.policy(f"1/6/9/n {operator} + DLS").replace("1/6/9/n", "e6m9n")
        assert load_policy(given) == load_policy(str(numc.presets[preset]["policy"]))
    (name,) = run.arithmetics.WITH_SUMS
    assert ", ops = 1/6/9/n(sums=fp32), bias = last" in run.arithmetics.policy(name)


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("sklearn", [], "the digits come from scikit-learn, which is not installed: pip install scikit-learn"),
        ("matplotlib", ["--plot", "x.png"], "--plot needs matplotlib, which is not installed: pip install matplotlib"),
        ("", ["--results", str(FOLDER / "run.py")], "run.py:1: not a result; take another file with --results"),
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


def test_interruption_says_how_to_go_on(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "Trainer", stop)
    assert run.main(options(tmp_path)) == 130
    assert capsys.readouterr().err.endswith("results.jsonl: the same command goes on\n")


def test_page_has_the_tables_of_its_results(run: ModuleType) -> None:
    results, page = run.Results(PAGE.with_suffix("") / "results.jsonl", run.Outcome), PAGE.read_text()
    for operator in run.arithmetics.OPERATORS:
        names = [name for name in run.arithmetics.ALL if name == "fp32" or operator in name]
        names += [name for name in run.arithmetics.WITH_SUMS if operator in name]
        found = {(task, name): results.runs(task, name, range(run.SEEDS)) for task in run.FULL for name in names}
        tables = run.report.Report(run.FULL, [operator], found).text().split("\n\n")
        assert all(part in page for part in tables if part.startswith("|"))
        assert ("sums in fp32" in tables[-1]) == (operator == "FMAC-8")
    words = " ".join(page.split())
    minutes = sum(result.outcome.cpu_seconds for result in results.all) / 60
    assert f"They took {minutes:.0f} minutes of CPU time" in words
    names = [f"1/5/10/d {operator}" for operator in ("FMACS", "FMAC-8")]
    found = {(task, name): results.runs(task, name, range(run.SEEDS)) for task in run.FULL for name in ("fp32", *names)}
    learned = run.report.Report(run.FULL, ["FMAC-8", "FMACS"], found).learned
    wide, narrow = ([f"{100 * (1 - np.mean(learned(task, name))):.0f}" for task in run.FULL[:2]] for name in names)
    (lstm,) = (task for task in run.FULL if task.name == "lstm")
    last = [f"{100 * (1 - np.mean(learned(lstm, name))):.0f}" for name in names]
    assert f"{wide[0]}, {wide[1]} and {last[0]} % of what fp32 learns in the ResNet, the transformer and the" in words
    assert f"where FMAC-8 loses {narrow[0]}, {narrow[1]} and {last[1]} %" in words
