"""Transformer Engine's FP8 with scales from the largest magnitudes of earlier steps."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed

from numc.numerics.policy.load import load_policy
from numc.numerics.recipes import delayed_policy
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shown
from numc.train.recipes.delayed_linear import DelayedLinear
from numc.train.recipes.recipe import Recipe

_UNITS, _ALGORITHMS = ("hopper", "blackwell"), ("max", "most_recent")
_WITHOUT = (
    torch.nn.modules.conv._ConvNd,
    torch.nn.Bilinear,
    torch.nn.RNNBase,
    torch.nn.RNNCellBase,
    torch.nn.MultiheadAttention,
)


@in_default_environment
class DelayedScaling(Recipe):
    """FP8 as Transformer Engine's DelayedScaling has it: Linear layers by scales of earlier steps.

        recipe = DelayedScaling(model)
        step = torch.compile(model, backend="numc")
        for x, y in loader:
            with recipe:
                loss = train_step(x, y)
            recipe.update()

    The scales and histories are buffers of the layers, so that `model.state_dict()` has them. A layer is called once in
    a block; several blocks before `update` are one step, of which the largest magnitudes count.
    """

    needs_loss = False

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        unit: str = "hopper",
        history: int = 1024,
        algorithm: str = "max",
        margin: int = 0,
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Replace the Linear modules in `model`, which keep their parameters, before it is compiled.

        unit: hopper or blackwell, which multiplies. history: how many steps are remembered. algorithm: whether a scale
        follows from the largest of the history ("max") or from the last step ("most_recent"). margin: the scale is
        divided by 2^margin. seed, log: see Recipe. Raises NumcError for a model without Linear modules, or with layers
        that would multiply without scales.
        """
        checked(model, "DelayedScaling: model", torch.nn.Module, "a module with Linear modules inside")
        for value, name, allowed in ((unit, "unit", _UNITS), (algorithm, "algorithm", _ALGORITHMS)):
            if value not in allowed:
                raise NumcError(f"DelayedScaling: {name}: got {shown(value)}, want {' or '.join(allowed)}")
        self._steps = checked_integer(history, "DelayedScaling: history", 1, 1 << 20)
        self._margin = checked_integer(margin, "DelayedScaling: margin", -126, 126)
        self._unit, self._algorithm = unit, algorithm
        super().__init__([load_policy(delayed_policy(unit))], seed=seed, log=log)
        self._layers = _replaced(model, self._steps)

    def __enter__(self) -> Recipe:
        for layer in self._layers.values():
            layer.seen.grad = None  # of what ran outside of a block
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        with torch.no_grad():
            seen = {name: layer.largest() for name, layer in self._layers.items()}
            for name, (largest, count) in seen.items() if kind is None else ():
                if count > 1:
                    raise NumcError(
                        f"DelayedScaling: layer {quoted(name)} had {count} backward passes in a block: want one block "
                        "for each, and a layer for each place where it is called"
                    )
                self._layers[name].remember(_over_ranks(largest))

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        with torch.no_grad():
            for layer in self._layers.values():
                layer.advance(self._algorithm, self._margin)
        (only,) = self.arithmetics
        return only, {}, ""

    def options(self) -> dict[str, Any]:
        return {"history": self._steps, "algorithm": self._algorithm, "margin": self._margin}


def _over_ranks(largest: torch.Tensor) -> torch.Tensor:
    """Return the largest of all processes of a distributed training."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
    return largest


def _replaced(model: torch.nn.Module, steps: int) -> dict[str, DelayedLinear]:
    """Replace the Linear modules of a model, those of an earlier recipe too; return the new ones by name."""
    layers: dict[str, DelayedLinear] = {}
    others = [name for name, module in model.named_modules() if isinstance(module, _WITHOUT)]
    if others:
        what = type(model.get_submodule(others[0])).__name__
        raise NumcError(f"DelayedScaling: module {quoted(others[0])} is a {what}: scales are available for Linear only")
    for name, module in list(model.named_modules()):
        if name and isinstance(module, torch.nn.Linear):
            parent, _, own = name.rpartition(".")
            layers[name] = DelayedLinear.of(module, steps)
            setattr(model.get_submodule(parent), own, layers[name])
    if not layers:
        raise NumcError("DelayedScaling: model: it has no Linear modules inside: want one at least")
    return layers
