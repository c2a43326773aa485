"""The curves of a training in the trackers that people watch: TensorBoard, Weights & Biases, MLflow, trackio."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numc.support.arguments import checked_integer
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.train.recipes.losses import loss_of

if TYPE_CHECKING:
    from numc.train.recipes.recipe import Recipe

Send = Callable[[dict[str, float], int], object]
_PACKAGES = ("tensorboard", "wandb", "mlflow", "trackio")
_LARGEST = 2**63 - 1
_OTHER = re.compile(r"[^\w/.: -]", re.ASCII)


class Tracker:
    """Sends what a training does, step by step, to loggers.

        tracker = Tracker(wandb.init(project="digits"), "tensorboard")
        ...
        tracker.log(step, recipe=recipe, model=model, optimizer=optimizer, loss=loss)

    Each logger is a package by its name ("tensorboard", "wandb", "mlflow", "trackio"), which begins a run if there is
    none; a run, a module or a writer of theirs; or one of Lightning's loggers. Raises NumcError for what is none, and
    for a package that is not installed.
    """

    def __init__(self, *loggers: Any) -> None:
        self._send = [_sender(logger) for logger in loggers]

    def log(
        self,
        step: int,
        *,
        recipe: Recipe | None = None,
        model: Any = None,
        optimizer: Any = None,
        **metrics: Any,
    ) -> None:
        """Send the numbers of a step, from 0, under the names that `numbers` gives them. Raises NumcError."""
        number = checked_integer(step, "step", 0, _LARGEST)
        values = numbers(recipe=recipe, model=model, optimizer=optimizer, metrics=metrics)
        for send in self._send:
            send(values, number)


def numbers(*, recipe: Recipe | None, model: Any, optimizer: Any, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return what is known of a step by name.

    metrics: numbers or tensors of one element, which keep their names. model: ``gradient_norm``, the 2-norm of all its
    gradients together. optimizer: ``learning_rate``, of further groups of parameters ``learning_rate_1`` and so on.
    recipe: ``arithmetic/NAME`` is 1 for that of its last step and 0 for its others, ``decision/NAME`` are the numbers
    that it decided from, and ``fmas/ROLE/OPERATOR`` the shares of all multiply-adds so far.
    """
    values = {name: loss_of(value, name) for name, value in metrics.items()}
    if model is not None:
        values["gradient_norm"] = gradient_norm(model.parameters())
    if optimizer is not None:
        for position, group in enumerate(optimizer.param_groups):
            values[f"learning_rate_{position}" if position else "learning_rate"] = float(group["lr"])
    if recipe is not None and recipe.history:
        last = recipe.history[-1]
        values |= {f"arithmetic/{name}": float(name == last.used) for name in recipe.arithmetics}
        values |= {f"decision/{name}": value for name, value in last.values.items()}
        total = sum(recipe.fmas.values())
        values |= {f"fmas/{role}/{fma}": count / total for (role, fma), count in recipe.fmas.items()}
    return values


def gradient_norm(parameters: Iterable[Any]) -> float:
    """Return the 2-norm of all gradients together, in float64; 0 without gradients."""
    squares = [float(p.grad.double().square().sum()) for p in parameters if p.grad is not None]
    return math.sqrt(sum(squares))


def _sender(logger: Any) -> Send:
    if isinstance(logger, str):
        return _package(logger)
    if hasattr(logger, "add_scalar"):  # the SummaryWriter of torch
        return lambda values, step: [logger.add_scalar(name, value, step) for name, value in values.items()]
    if getattr(logger, "__name__", "") == "mlflow":  # whose names have no brackets
        return lambda values, step: logger.log_metrics({_OTHER.sub("_", k): v for k, v in values.items()}, step=step)
    if hasattr(logger, "log_metrics"):  # a logger of Lightning
        return lambda values, step: logger.log_metrics(values, step=step)
    if hasattr(logger, "log"):  # a run of wandb, or the module wandb or trackio
        return lambda values, step: logger.log(values, step=step)
    raise NumcError(
        f"tracker: got {type(logger).__name__}, want {', '.join(_PACKAGES)}, a run or a writer of theirs, or a logger "
        "of Lightning"
    )


def _package(name: str) -> Send:
    """Return what sends to a run of a package, which is begun where none has begun."""
    if name not in _PACKAGES:
        raise NumcError(f"tracker {quoted(name)}: unknown{did_you_mean(name, _PACKAGES)}: want {', '.join(_PACKAGES)}")
    try:
        package = import_module("torch.utils.tensorboard" if name == "tensorboard" else name)
    except ImportError:
        raise NumcError(f"tracker: {name} is not installed: pip install {name}") from None
    if name == "tensorboard":
        return _sender(package.SummaryWriter())
    if name == "wandb" and package.run is None:
        package.init(project="numc")
    if name == "trackio":
        package.init(project="numc")
    return _sender(package)
