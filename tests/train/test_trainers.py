"""Recipes in Lightning and in Hugging Face's Trainer, against the real packages."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402
from numc.train import DynamicPrecision, Static  # noqa: E402

X, Y = torch.linspace(-2, 2, 48 * 8).reshape(48, 8), torch.arange(48) % 4
BATCH = 8


@pytest.fixture(autouse=True)
def _traced_anew() -> None:
    torch._dynamo.reset()


def recipe(**options) -> DynamicPrecision:
    return DynamicPrecision("fp32", "bf16_1_1", monitor=1, block=2, threshold=-1.0, **options)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def weights(model) -> list[np.ndarray]:
    return [p.detach().numpy().copy() for p in model.parameters()]


def same(one, other) -> bool:
    return all(np.array_equal(a.view(np.int32), b.view(np.int32)) for a, b in zip(one, other, strict=True))


def by_hand(chosen, *, steps: int, accumulate: int = 1, with_loss: bool = False, images=X, labels=Y):
    """Train in a plain loop; return the weights and the losses of the steps. with_loss: compile the loss, too."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    compiled = torch.compile(loss_of if with_loss else model, backend=numc.backend())
    losses, batch = [], 0
    for _ in range(steps):
        optimizer.zero_grad()
        parts = []
        with chosen:
            for _ in range(accumulate):
                place = batch % (len(images) // BATCH) * BATCH
                x, y = images[place : place + BATCH], labels[place : place + BATCH]
                loss = compiled(x, y) if with_loss else F.cross_entropy(compiled(x), y)
                (loss / accumulate).backward()
                parts.append(float(loss.detach()))
                batch += 1
            optimizer.step()
        losses.append(sum(parts) / accumulate)
        chosen.update(losses[-1])
    return weights(model), losses


@pytest.fixture
def module():
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch, _):
            x, y = batch
            return F.cross_entropy(self.network(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module


def lightning_trainer(folder, steps: int, *callbacks, **options):
    import lightning.pytorch as lightning

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    places = {"accelerator": "cpu", "default_root_dir": str(folder)}
    options = {"enable_checkpointing": False, **quiet, **places, **options}
    return lightning.Trainer(max_steps=steps, callbacks=list(callbacks), **options)


def batches(images=X, labels=Y):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=BATCH)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning(tmp_path, module, accumulate) -> None:
    chosen, model = recipe(), module()
    options = {"accumulate_grad_batches": accumulate}
    lightning_trainer(tmp_path, 9, numc.train.lightning(chosen), **options).fit(model, batches())
    plain = recipe()
    want, losses = by_hand(plain, steps=9, accumulate=accumulate)
    assert [d.values["loss"] for d in chosen.history] == losses
    assert [d.used for d in chosen.history] == [d.used for d in plain.history] == ["fp32"] * 7 + ["bf16_1_1"] * 2
    assert same(weights(model), want)


@pytest.mark.filterwarnings("ignore")
def test_lightning_goes_on_from_a_checkpoint(tmp_path, module) -> None:
    """With one batch in each epoch, because Lightning repeats a batch when it goes on."""
    first, second, plain = recipe(), recipe(), recipe()
    data = X[:BATCH], Y[:BATCH]
    trainer = lightning_trainer(tmp_path, 7, numc.train.lightning(first))
    trainer.fit(module(), batches(*data))
    trainer.save_checkpoint(tmp_path / "last.ckpt", weights_only=False)
    model = module()
    resumed = lightning_trainer(tmp_path, 9, numc.train.lightning(second))
    resumed.fit(model, batches(*data), ckpt_path=tmp_path / "last.ckpt", weights_only=False)
    want, _ = by_hand(plain, steps=9, images=data[0], labels=data[1])
    assert list(second.history) == list(plain.history)
    assert same(weights(model), want)


@pytest.mark.filterwarnings("ignore")
def test_an_exception_in_lightning_leaves_the_block(tmp_path, module) -> None:
    class Failing(module):
        def training_step(self, batch, number):
            raise ZeroDivisionError

    chosen = Static("bf16_1_1")
    with pytest.raises(ZeroDivisionError):
        lightning_trainer(tmp_path, 2, numc.train.lightning(chosen)).fit(Failing(), batches())
    with chosen:
        pass
    assert len(chosen.history) == 0


def hugging_face(folder, callback, *, steps: int, accumulate: int = 1, resume=None, save: int | None = None):
    transformers = pytest.importorskip("transformers")

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, x, labels=None):
            logits = self.network(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        save_strategy="no" if save is None else "steps",
        save_steps=save or 1,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        train_sampling_strategy="sequential",
    )
    data = [{"x": X[n], "labels": Y[n]} for n in range(len(X))]
    trainer = transformers.Trainer(Classifier(), arguments, train_dataset=data, callbacks=[callback])
    trainer.train(resume_from_checkpoint=resume)
    return trainer.model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_hugging_face(tmp_path, accumulate) -> None:
    chosen = recipe()
    model = hugging_face(tmp_path, numc.train.huggingface(chosen), steps=9, accumulate=accumulate)
    plain = recipe()
    want, losses = by_hand(plain, steps=9, accumulate=accumulate, with_loss=True)
    assert [d.values["loss"] for d in chosen.history] == losses
    assert [d.used for d in chosen.history] == [d.used for d in plain.history]
    assert same(weights(model), want)
    assert "forward" not in vars(model), "the model is as it was"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_hugging_face_goes_on_from_a_checkpoint(tmp_path) -> None:
    hugging_face(tmp_path, numc.train.huggingface(recipe()), steps=7, save=7)
    second = recipe()
    model = hugging_face(tmp_path, numc.train.huggingface(second), steps=9, resume=True, save=9)
    plain = recipe()
    want, _ = by_hand(plain, steps=9, with_loss=True)
    assert list(second.history) == list(plain.history)
    assert same(weights(model), want)
    file = tmp_path / "checkpoint-9" / "trainer_state.json"
    state = json.loads(file.read_text())
    del state["stateful_callbacks"]["RecipeCallback"]
    file.write_text(json.dumps(state))
    with pytest.raises(numc.NumcError, match="checkpoint of step 9 has no state of a recipe: go on from one that was"):
        hugging_face(tmp_path, numc.train.huggingface(recipe()), steps=10, resume=True)


def test_what_is_no_recipe() -> None:
    for adapter in (numc.train.lightning, numc.train.huggingface):
        with pytest.raises(numc.NumcError, match=r"got str, want a recipe"):
            adapter("mp")
