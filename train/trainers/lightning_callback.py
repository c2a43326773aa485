"""A recipe in Lightning: a callback of its Trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from numc.support.arguments import checked
from numc.support.errors import NumcError
from numc.train.recipes.losses import loss_of
from numc.train.recipes.recipe import Recipe
from numc.train.trainers.compiled import compile_parts
from numc.train.trainers.tracker import Tracker, gradient_norm


def lightning(recipe: Recipe, *, compile: bool = True) -> Any:
    """Return a callback for Lightning's Trainer that runs each of its batches under a recipe.

    The recipe is updated after each step of the optimizer, with the mean of the losses that ``training_step`` returned
    since the one before. compile: compile the modules that the LightningModule has as attributes with numc while it is
    trained; False if the model is compiled already. The callback's state in Lightning's checkpoints is the recipe's.
    The Trainer's own loggers get what `numc.train.Tracker` sends of each step, with the mean loss as ``loss``: its
    gradient norm, its learning rate and what the recipe decided, beside what the module logs itself.
    Raises NumcError if Lightning is not installed.
    """
    checked(recipe, "lightning", Recipe, "a recipe")
    try:
        from lightning.pytorch import Callback
    except ImportError:
        raise NumcError("numc.train.lightning: Lightning is not installed: pip install lightning") from None

    class RecipeCallback(Callback):  # type: ignore[misc]
        """Enters the recipe's block before a batch and leaves it after."""

        def __init__(self) -> None:
            self.recipe = recipe
            self._losses: list[float] = []
            self._steps = 0  # of optimizers, before the batch
            self._undo: list[Callable[[], None]] = []
            self._norm: dict[str, float] = {}

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            if trainer.loggers:  # later, the gradients may be gone
                self._norm = {"gradient_norm": gradient_norm(pl_module.parameters())}

        def on_fit_start(self, trainer: Any, pl_module: torch.nn.Module) -> None:
            if compile:
                self._undo = compile_parts(pl_module)

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            self._end()

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            self._steps = trainer.global_step
            recipe.__enter__()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            recipe.__exit__(None, None, None)
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            if loss is not None:
                # Lightning has divided the loss of its own loop by the number of batches of a step.
                parts = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
                self._losses.append(parts * loss_of(loss, "training_step"))
            if trainer.global_step != self._steps:
                loss = sum(self._losses) / len(self._losses) if self._losses else None
                recipe.update(loss)
                self._losses = []
                known = self._norm if loss is None else {"loss": loss, **self._norm}
                _tell(trainer, recipe, known)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            recipe.leave(exception)
            self._end()

        def _end(self) -> None:
            for undo in self._undo:
                undo()
            self._undo = []

        def state_dict(self) -> dict[str, Any]:
            return recipe.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            recipe.load_state_dict(state_dict)

        @property
        def state_key(self) -> str:
            return f"numc.train.{type(recipe).__name__}"

    return RecipeCallback()


def _tell(trainer: Any, recipe: Recipe, known: dict[str, float]) -> None:
    """Send the numbers of the step that has ended to the Trainer's own loggers."""
    Tracker(*trainer.loggers).log(trainer.global_step - 1, recipe=recipe, optimizer=trainer.optimizers[0], **known)
