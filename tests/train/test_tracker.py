"""What trackers get of a training, against the real packages where they are installed."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402
from numc.train import Static, Tracker  # noqa: E402
from numc.train.trainers.tracker import gradient_norm  # noqa: E402


class Kept:
    """A run as that of wandb."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log(self, values: dict[str, float], step: int) -> None:
        self.rows.append((step, dict(values)))


def _model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))


def _train(tracker: Tracker, steps: int = 3) -> list[dict[str, float]]:
    """Train, tell the tracker, and return what it was to be told."""
    model, recipe = _model(), Static("bf16_2_2{3}")
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.5}], lr=0.1
    )
    compiled = torch.compile(model, backend=numc.backend())
    told = []
    for step in range(steps):
        optimizer.zero_grad()
        with recipe:
            loss = compiled(torch.ones(4, 8)).square().mean()
            loss.backward()
        recipe.update(loss)
        tracker.log(step, recipe=recipe, model=model, optimizer=optimizer, loss=loss)
        norm = float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]))
        told.append({"loss": float(loss.detach()), "gradient_norm": norm})
        optimizer.step()
    return told


def test_numbers_of_a_step() -> None:
    run = Kept()
    told = _train(Tracker(run))
    assert [step for step, _ in run.rows] == [0, 1, 2]
    for (_, row), want in zip(run.rows, told, strict=True):
        assert row["loss"] == row["decision/loss"] == want["loss"]
        assert row["gradient_norm"] == pytest.approx(want["gradient_norm"], rel=1e-6)
        assert (row["learning_rate"], row["learning_rate_1"]) == (0.1, 0.5)
        assert row["arithmetic/bf16_2_2{3}"] == 1.0
        shares = {name: share for name, share in row.items() if name.startswith("fmas/")}
        assert math.isclose(sum(shares.values()), 1.0)
        assert "fmas/forward/bf16_2_2{3}" in shares
    assert gradient_norm(_model().parameters()) == 0.0


def test_tensorboard(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path))
    told = _train(Tracker(writer))
    writer.close()
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(n, one["loss"]) for n, one in enumerate(told)]
    assert [e.value for e in events.Scalars("learning_rate_1")] == [0.5] * 3


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    run = wandb.init(project="numc", mode="offline", dir=str(tmp_path))
    told = _train(Tracker(run))
    assert run.summary["loss"] in [one["loss"] for one in told]  # it takes a step when the next one begins
    run.finish()


@pytest.mark.slow
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path}")
    mlflow.set_experiment("numc")
    with mlflow.start_run() as run:
        told = _train(Tracker("mlflow"))
    client = mlflow.MlflowClient()
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [(one.step, one.value) for one in history] == [(n, one["loss"]) for n, one in enumerate(told)]
    assert client.get_metric_history(run.info.run_id, "arithmetic/bf16_2_2_3_")[0].value == 1.0


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio")
    trackio.init(project="numc-test", embed=False)
    told = _train(Tracker(trackio))
    trackio.finish()
    (stored,) = tmp_path.glob("numc-test*.db")
    with contextlib.closing(sqlite3.connect(stored)) as database:
        rows = database.execute("select step, metrics from metrics order by step").fetchall()
    assert [(step, json.loads(metrics)["loss"]) for step, metrics in rows] == [
        (n, one["loss"]) for n, one in enumerate(told)
    ]


@pytest.mark.filterwarnings("ignore")
def test_the_loggers_of_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = _model()

        def training_step(self, batch: Any, _: int) -> Any:
            return self.network(batch[0]).square().mean()

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val_loss", self.network(batch[0]).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch._dynamo.reset()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 8)), batch_size=4)
    logger, recipe = CSVLogger(tmp_path), Static("mp")
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=logger, log_every_n_steps=1, **quiet,
                                callbacks=[numc.train.lightning(recipe)])  # fmt: skip
    trainer.fit(Module(), data, data)
    with open(Path(logger.log_dir, "metrics.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [row for row in rows if row["loss"]]
    assert [float(row["loss"]) for row in steps] == [decision.values["loss"] for decision in recipe.history]
    assert all(float(row["gradient_norm"]) > 0 and float(row["learning_rate"]) == 0.1 for row in steps)
    assert sum(bool(row["val_loss"]) for row in rows) == 2


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    for logger, text in (
        ("wandb", "^tracker: wandb is not installed: pip install wandb$"),
        ("wandbb", "^tracker 'wandbb': unknown .did you mean 'wandb'.*: want tensorboard, wandb, mlflow, trackio$"),
        (
            3,
            "^tracker: got int, want tensorboard, wandb, mlflow, trackio, a run or a writer of theirs, or a logger of ",
        ),
    ):
        with pytest.raises(numc.NumcError, match=text):
            Tracker(logger)
    with pytest.raises(numc.NumcError, match="step: got -1, want a whole number from 0 to"):
        Tracker().log(-1)
    pytest.importorskip("transformers")
    with pytest.raises(numc.NumcError, match="^huggingface: tracker: got str, want a numc.train.Tracker$"):
        numc.train.huggingface(Static("mp"), tracker="wandb")
