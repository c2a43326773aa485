"""A recipe in Hugging Face's transformers: a callback of its Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numc.support.arguments import checked
from numc.support.errors import NumcError
from numc.train.recipes.losses import loss_of
from numc.train.recipes.recipe import Recipe
from numc.train.trainers.compiled import compile_forward
from numc.train.trainers.tracker import Tracker


def huggingface(recipe: Recipe, *, compile: bool = True, tracker: Tracker | None = None) -> Any:
    """Return a callback for the Trainer of transformers that runs each step of the optimizer under a recipe.

    The recipe gets the loss that the model returns for its labels; with accumulated gradients, that of all their
    batches. compile: compile the model with numc while it is trained; False if it is compiled already
    (``torch_compile_backend="numc"`` is refused by accelerate). The recipe's state is part of the Trainer's in its
    checkpoints, and taken from there when a training goes on.
    tracker: gets what the recipe decided after each step, under the Trainer's number of the step; the Trainer's own
    ``report_to`` has loss, gradient norm, learning rate and evaluations.
    Raises NumcError if transformers is not installed, and for a checkpoint of a training without the callback.
    """
    checked(recipe, "huggingface", Recipe, "a recipe")
    checked(tracker, "huggingface: tracker", (Tracker, type(None)), "a numc.train.Tracker")
    try:
        from transformers import TrainerCallback
        from transformers.trainer_callback import ExportableState
    except ImportError:
        raise NumcError("numc.train.huggingface: transformers is not installed: pip install transformers") from None

    class RecipeCallback(TrainerCallback, ExportableState):  # type: ignore[misc]
        """Enters the recipe's block before the first batch of a step and leaves it after the optimizer."""

        def __init__(self) -> None:
            self.recipe = recipe
            self._losses = _Losses()
            self._undo: list[Any] = []

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            recipe.leave()  # if a training before ended with an exception
            self._end()
            if state.global_step:
                recipe.load_state_dict(_kept(state, type(self).__name__))
            self._undo.append(model.register_forward_hook(self._losses.take, with_kwargs=True).remove)
            if compile:
                self._undo.append(compile_forward(model))

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            recipe.__enter__()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            recipe.__exit__(None, None, None)
            recipe.update(self._losses.total())
            (tracker or Tracker()).log(state.global_step, recipe=recipe)

        def state(self) -> dict[str, Any]:
            """Return what the Trainer writes into its checkpoints."""
            return {"args": {}, "attributes": {"recipe_state": recipe.state_dict()}}

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._end()

        def _end(self) -> None:
            for undo in self._undo:
                undo()
            self._undo = []

    return RecipeCallback()


def _kept(state: Any, name: str) -> Any:
    """Return the state of a recipe in the checkpoint that a training goes on from."""
    known = state.stateful_callbacks.get(name)
    if known is None:
        raise NumcError(
            f"huggingface: the checkpoint of step {state.global_step} has no state of a recipe: go on from "
            "one that was made with the callback, or begin anew"
        )
    return known["attributes"]["recipe_state"]


class _Losses:
    """The losses of the batches whose gradients are accumulated for one step."""

    def __init__(self) -> None:
        self._parts: list[float] = []
        self._are_parts = False  # divided by the number of items of all batches, so that their sum is the loss

    def take(self, model: Any, _: Any, named: Mapping[str, Any], result: Any) -> None:
        """Take the loss that the model returned in training; the model calls this."""
        loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
        if model.training and loss is not None:
            self._parts.append(loss_of(loss, "the model"))
            self._are_parts = named.get("num_items_in_batch") is not None

    def total(self) -> float | None:
        """Return the loss of the step, and forget it."""
        parts, self._parts = self._parts, []
        if not parts:
            return None
        return sum(parts) if self._are_parts else sum(parts) / len(parts)
