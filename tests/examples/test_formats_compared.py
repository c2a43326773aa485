"""examples/formats_compared in tiny sizes: the table, resumption, fp32 next to eager torch; and the page's table."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused
from numc.studies.uncertainty.paired import Interval, of_differences

pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "formats_compared"
PAGE = ROOT / "docs" / "formats-compared.md"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """The script as a module; the modules beside it are to be had from it."""
    with example(FOLDER) as module:
        yield module


def options(folder: Path) -> list[str]:
    return ["--quick", "--seeds", "2", "--arithmetic", "bf16_1_1", "--results", str(folder / "results.jsonl")]


@pytest.fixture(scope="module")
def done(run: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results and the picture of a run."""
    folder = tmp_path_factory.mktemp("formats")
    assert run.main([*options(folder), "--plot", str(folder / "losses.png")]) == 0
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def no_training(*_: Any) -> None:
    raise AssertionError("trained again")


@pytest.mark.slow
def test_table_and_picture(
    run: ModuleType, done: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run.Trainer, "run", no_training)
    assert run.main(options(done)) == 0
    head, rule, *lines = capsys.readouterr().out.splitlines()[:4]
    assert head.startswith("| arithmetic | ResNet: accuracy (%) | minus fp32 |")
    assert set(rule) <= set("|- :")
    base, other = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert (base[0], other[0]) == ("`fp32`", "`bf16_1_1`")
    of = {(r["network"], r["arithmetic"]): [] for r in rows(done / "results.jsonl")}
    for row in rows(done / "results.jsonl"):
        of[row["network"], row["arithmetic"]].append(row["outcome"]["quality"])
    mine, theirs = of["lstm", "bf16_1_1"], of["lstm", "fp32"]
    assert other[5] == f"{np.mean(mine):.3f} ± {abs(mine[0] - mine[1]) / math.sqrt(2):.3f}"
    assert other[6].strip("*").startswith(f"{np.mean(mine) - np.mean(theirs):+.3f}")
    differences = np.subtract(mine, theirs)
    half = 12.706204736 * differences.std(ddof=1) / math.sqrt(2)  # Student's t of one degree of freedom
    assert other[6].endswith(f"({differences.mean() - half:+.3f} to {differences.mean() + half:+.3f})")
    assert float(other[7]) > half
    assert 0 < float(other[8]) < 1
    assert base[6] == base[7] == base[8] == ""
    assert (done / "losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("network", ["resnet", "lstm"])
def test_fp32_is_as_eager(run: ModuleType, done: Path, network: str) -> None:
    (task,) = (t for t in run.QUICK if t.name == network)
    eager = run.Trainer(task, lambda function: function).run(seed=1)
    (found,) = (
        r["outcome"]
        for r in rows(done / "results.jsonl")
        if (r["network"], r["arithmetic"], r["seed"]) == (network, "fp32", 1)
    )
    np.testing.assert_allclose(found["losses"], eager.losses, rtol=1e-5)
    assert found["quality"] == pytest.approx(eager.quality, rel=1e-5 if network == "lstm" else 0, abs=0.1)
    assert len(set(found["losses"])) == task.steps


@pytest.mark.slow
def test_resumed_run_gives_the_same_bits(run: ModuleType, done: Path, tmp_path: Path) -> None:
    whole = (done / "results.jsonl").read_text()
    lines = whole.splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(lines[:-1]) + lines[-1][:40])
    assert run.main(options(tmp_path)) == 0
    again, before = rows(tmp_path / "results.jsonl"), rows(done / "results.jsonl")
    for row in (*again, *before):
        row["outcome"].pop("cpu_seconds")
    assert again == before


def test_depths_are_resnets_of_more_and_more_blocks(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []

    def train(trainer: Any, seed: int, *_: Any) -> Any:
        blocks = sum(type(part).__name__ == "Residual" for part in trainer.model)
        trained.append((blocks, seed))
        return run.Outcome(90.0 + seed - blocks, [1.0], 0.0)

    monkeypatch.setattr(run.Trainer, "run", train)
    assert run.main([*options(tmp_path), "--depths"]) == 0
    assert set(trained) == {(blocks, seed) for blocks in (1, 2, 4) for seed in (0, 1)}
    head, _, base, _ = capsys.readouterr().out.splitlines()
    assert re.findall(r"(ResNet[^:]*):", head) == ["ResNet", "ResNet of 2 blocks", "ResNet of 4 blocks"]
    assert re.findall(r"\d+\.\d+ ±", base) == ["89.50 ±", "88.50 ±", "86.50 ±"]


@pytest.mark.slow
def test_results_of_other_settings_do_not_count(run: ModuleType, done: Path) -> None:
    from dataclasses import replace

    results = run.Results(done / "results.jsonl", run.Outcome)
    for task in run.QUICK:
        assert results.find(task, "fp32", 0)
        assert results.find(replace(task, steps=9), "fp32", 0) is None
        assert results.find(task, "fp32", 2) is None


def test_interruption_says_how_to_go_on(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "Trainer", stop)
    assert run.main(options(tmp_path)) == 130
    assert capsys.readouterr().err.endswith("results.jsonl: the same command goes on\n")


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("sklearn", [], "the digits come from scikit-learn, which is not installed: pip install scikit-learn, or"),
        ("matplotlib", ["--plot", "x.png"], "--plot needs matplotlib, which is not installed: pip install matplotlib"),
        ("", ["--depths", "--network", "lstm"], "--depths trains ResNets only: leave out --network lstm"),
        ("", ["--network", "transformer"], "--network transformer needs --recipes: want another network"),
        ("", ["--recipes", "--network", "lstm"], "--network lstm is not with --recipes: want another network"),
        ("", ["--arithmetic", "bf17_1_1"], "bf17_1_1"),
        ("", ["--arithmetic", "mp with updat=fp32"], "unknown role 'updat' (did you mean 'update'?)"),
        ("", ["--results", str(FOLDER / "run.py")], "run.py:1: not a result; take another file with --results"),
        ("", ["--results", str(FOLDER)], "Is a directory"),
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
    monkeypatch.setattr(run.Trainer, "run", no_training)
    assert message in refused(run, [*options(tmp_path), *given], missing, monkeypatch, capsys)


def test_a_function_that_leaves_numc_ends_the_study(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leave(*_: Any) -> None:
        warnings.warn("numc: step (a.py:1) leaves numc, torch runs it in its own arithmetic: why", stacklevel=2)

    monkeypatch.setattr(run.Trainer, "run", leave)
    assert run.main(options(tmp_path)) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == "run.py: numc: step (a.py:1) leaves numc, torch runs it in its own arithmetic: why"
    assert not (tmp_path / "results.jsonl").exists()


def test_who_knows_the_language_reaches_the_floor(run: ModuleType) -> None:
    task = run.Language()
    table, pairs = task._chain
    np.testing.assert_allclose(table.sum(2), 1)
    np.testing.assert_allclose(np.einsum("ab,abc->bc", pairs, table), pairs, atol=1e-12)
    logs = []
    for x, y in task.held_out():
        letters = y.numpy().reshape(x.shape)
        firsts = x[:, 0].numpy()
        logs.append(np.log(pairs[firsts, letters[:, 0]] / pairs[firsts].sum(1)))
        logs.append(np.log(table[x[:, :-1].numpy(), x[:, 1:].numpy(), letters[:, 1:]]).ravel())
    measured = math.exp(-np.concatenate(logs).mean())
    assert measured == pytest.approx(task.floor(), rel=0.02)


def test_page_has_the_table_of_its_results(run: ModuleType) -> None:
    results = run.Results(PAGE.with_suffix("") / "results.jsonl", run.Outcome)
    runs = [run.report.collect(results, task, run.ARITHMETICS, range(run.SEEDS)) for task in run.FULL]
    assert run.report.table(run.FULL, runs, run.ARITHMETICS) in PAGE.read_text()
    (floor,) = re.findall(r"allows is (\d+\.\d+)", PAGE.read_text())
    assert floor == f"{run.FULL[1].floor():.3f}"
    minutes = sum(r.outcome.cpu_seconds for r in results.all) / 60
    assert f"{minutes:.0f} minutes of CPU time" in PAGE.read_text()
    deep = list(run._chosen(run.arguments(["--depths"])))
    results = run.Results(PAGE.with_suffix("") / "depths.jsonl", run.Outcome)
    runs = [run.report.collect(results, task, run.DEEP, range(run.SEEDS)) for task in deep]
    assert run.report.table(deep, runs, run.DEEP) in PAGE.read_text()
    minutes = sum(r.outcome.cpu_seconds for r in results.all) / 60
    assert f"depths.jsonl), which took {minutes:.0f} minutes of CPU time" in PAGE.read_text()


def test_the_page_says_what_its_results_show(run: ModuleType) -> None:
    page = " ".join(PAGE.read_text().split())
    results = run.Results(PAGE.with_suffix("") / "results.jsonl", run.Outcome)

    def lost(task: Any, name: str, seeds: range = range(run.SEEDS)) -> Interval:
        mine, base = ([o.quality for o in results.runs(task, which, seeds)] for which in (name, run.report.BASE))
        return of_differences(mine, base)

    images, texts = run.FULL
    assert (
        f"loses {-lost(images, 'bf16_1_1').mean:.1f} points of accuracy and {lost(texts, 'bf16_1_1').mean:.2f} of "
        "perplexity, and something in every seed" in page
    )
    for seed in range(run.SEEDS):
        assert lost(images, "bf16_1_1", range(seed, seed + 1)).mean < 0
        assert lost(texts, "bf16_1_1", range(seed, seed + 1)).mean > 0
    half = run.SEEDS // 2
    recovered, first = "bf16_1_1 with update=fp32", lost(images, "bf16_1_1 with update=fp32", range(half))
    assert first.excludes_zero
    assert not any(lost(task, recovered).excludes_zero for task in run.FULL)
    assert f"would have shown a loss of {-first.mean:.2f} points" in page
    assert lost(images, recovered, range(half, run.SEEDS)).mean > 0, "the other five take it back"
    same = ("mp", "bf16_1_2", "bf16_2_2{3}", "bf16_3_3{6}")
    assert not any(lost(images, name).excludes_zero or lost(images, name).visible > 0.155 for name in same)
    assert [name for name in same if lost(texts, name).excludes_zero] == ["bf16_3_3{6}"]
    greater = [d for s in range(run.SEEDS) if (d := lost(texts, "bf16_3_3{6}", range(s, s + 1)).mean) > 0]
    assert len(greater) == 8
    assert max(greater) < 2e-7
    row = re.search(r"\| digits ResNet, measured here \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    fp32 = np.mean([o.quality for o in results.runs(images, "fp32", range(run.SEEDS))])
    published = ("mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "bf16_3_3{6}")
    means = [f"{lost(images, name).mean:+.2f}" for name in published]
    assert row is not None
    assert [cell.strip() for cell in row[1].split("|") if cell.strip()] == [f"{fp32:.2f}", *means]


def test_the_page_says_what_depth_does(run: ModuleType) -> None:
    deep = list(run._chosen(run.arguments(["--depths"])))
    results = run.Results(PAGE.with_suffix("") / "depths.jsonl", run.Outcome)
    runs = [run.report.collect(results, task, run.DEEP, range(run.SEEDS)) for task in deep]
    lost = [
        {name: of_differences(*([o.quality for o in mine[which]] for which in (name, "fp32"))) for name in run.DEEP[1:]}
        for mine in runs
    ]
    losses = [each["bf16_1_1"] for each in lost]
    page = " ".join(PAGE.read_text().split())
    assert f"loses {-losses[0].mean:.1f} points with three blocks, {-losses[1].mean:.1f} with six" in page
    assert [loss.excludes_zero for loss in losses] == [True, True, False]
    assert f"less than {losses[2].visible:.1f} points could not have been seen" in page
    assert [each["bf16_2_2{3}"].excludes_zero for each in lost] == [False] * 3
    assert [each["bf16_1_2"].excludes_zero for each in lost] == [False, True, False]
    assert f"`bf16_1_2` {-lost[1]['bf16_1_2'].mean:.1f} points with six blocks alone" in page
    fp32 = [np.mean([o.quality for o in mine["fp32"]]) for mine in runs]
    assert 4 < min(fp32[1:]) - fp32[0] < 5
    parted = [[np.mean(run.report._deviations(mine, name)) for mine in runs] for name in run.DEEP[1:]]
    assert 0.45 < parted[0][2] / parted[0][0] < 0.6
    assert all(18 < away[2] / away[0] < 31 for away in parted[1:])


def test_page_of_recipes_has_the_tables_of_its_results(run: ModuleType) -> None:
    page = ROOT / "docs" / "presets.md"
    for task in run.SCALED:
        results = run.Results(page.with_suffix("") / f"{task.name}.jsonl", run.Outcome)
        names = [name for name in run.RECIPES if results.find(task, name, 0)]
        runs = run.report.collect(results, task, names, range(1))
        assert len(runs) >= 6
        assert run.report.table([task], [runs], names) in page.read_text()
