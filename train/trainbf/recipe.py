"""TrainBF: a training in bfloat16 alone, with the techniques that Xie et al. add to it."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn

from numc.compiler.torch_compile.backend import backend
from numc.support.arguments import checked, checked_integer, checked_texts
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shortened, shown
from numc.support.keywords import about, keywords
from numc.train.recipes.arithmetics import Given
from numc.train.recipes.losses import mean_over_ranks
from numc.train.recipes.prepared import stateful
from numc.train.recipes.recipe import Recipe
from numc.train.trainbf.cr_norm import CRNorm
from numc.train.trainbf.errors import BFLOAT16, REFERENCE, layer_errors
from numc.train.trainbf.layers import KINDS, inputs_of, is_normalised, normalise
from numc.train.trainbf.loss_scale import RangeLossScale
from numc.train.trainbf.modifier import Round, modify, selectable

_GROWTH = 6.0
"""phi learning rate steps: without a gradient, R goes from 1 to 2.5 in the first quarter of the steps."""


@dataclass(frozen=True, kw_only=True)
class TrainBFOptions:
    """The arguments of TrainBF."""

    model: nn.Module = field(kw_only=False, metadata=about("with random weights, not compiled, not distributed yet"))
    optimizer: torch.optim.Optimizer = field(
        kw_only=False, metadata=about("of the parameters of the model; R is no part of it")
    )
    batch: Any = field(kw_only=False, metadata=about("a tensor, or a tuple of the positional arguments of the model"))
    threshold: float = field(
        default=0.01,
        kw_only=False,
        metadata=about(
            "layers are normalised, the one with the largest error first, until the error of the last layer is "
            "smaller; see `layer_errors`"
        ),
    )
    steps: int | None = field(
        default=None, metadata=about("of the whole training, for phi; not needed without `range`")
    )
    layers: Sequence[str] | None = field(
        default=None,
        metadata=about(
            "the names of the layers to normalise, instead of those that are found; a run that goes on takes those of "
            'the checkpoint, `state_dict()["options"]["layers"]`'
        ),
    )
    range: bool = field(default=True, metadata=about("whether activations are normalised (CRNorm)"))
    weights: bool = field(default=True, metadata=about("whether weights are normalised (RangeWeight)"))
    scale: bool = field(default=True, metadata=about("whether the loss is scaled (RangeLossScale)"))
    band: float = field(default=2.0, metadata=about("of RangeLossScale"))
    arithmetic: Given = field(
        default=BFLOAT16,
        metadata=about("of the training; ``bf16_1_1 with ops=bf16 update=fp32`` has an fp32 update"),
    )
    seed: int = field(default=0, metadata=about("of stochastic rounding, 0 to 2^64 - 1"))
    log: str | os.PathLike[str] | None = field(
        default=None, metadata=about("a file that gets a line of JSON for every decision, at once")
    )

    def techniques(self) -> dict[str, bool]:
        """Return which techniques are used. Raises NumcError for what is no bool."""
        return {
            name: checked(getattr(self, name), f"TrainBF: {name}", bool, "True or False")
            for name in ("range", "weights", "scale")
        }


@in_default_environment
class TrainBF(Recipe):
    """Trains in bfloat16 alone, and normalises activations, weights and gradients so that this suffices.

        recipe = numc.train.TrainBF(model, optimizer, x, steps=1000)

        @torch.compile(backend=numc.backend())
        def train_step(x, y):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            recipe.scaled(loss).backward()
            recipe.step_optimizer()
            return loss

        for x, y in loader:
            with recipe:
                loss = train_step(x, y)
            recipe.update(loss)

    When it is made, it chooses the layers (`rounds`) and changes the model: a CRNorm in front of each, and RangeWeight
    in its weights, with the R of that norm. `scaled` returns S (loss - phi sum R): the gradient makes R fall, phi makes
    it rise. `step_optimizer` divides the gradients by S, lets the optimizer step, which it compiles with numc, and
    moves R in fp32 by its gradient times the learning rate. An update with a gradient that is not finite is left out.
    """

    needs_loss = False

    @keywords(TrainBFOptions)
    def __init__(self, given: TrainBFOptions) -> None:
        """Choose the layers and insert the techniques.

        Raises NumcError for values that are not allowed, and a model that has no layers to normalise.
        """
        super().__init__([given.arithmetic], seed=given.seed, log=given.log)
        model, inputs = _checked_model(given.model), _checked_batch(given.batch)
        optimizer = checked(given.optimizer, "TrainBF: optimizer", torch.optim.Optimizer, "an optimizer of torch")
        self._techniques = given.techniques()
        threshold = given.threshold
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold < math.inf:
            raise NumcError(f"TrainBF: threshold: got {shown(threshold)}, want a relative error from 0, such as 0.01")
        if given.range and given.steps is None:
            raise NumcError("TrainBF: steps: want the number of steps of the whole training, or range=False")
        self._model, self._optimizer = model, optimizer
        rate = float(optimizer.param_groups[0]["lr"])
        if not 0 < rate < math.inf:
            raise NumcError(
                f"TrainBF: the optimizer's learning rate is {rate}, want one above 0 when the recipe is made"
            )
        total = 0 if given.steps is None else checked_integer(given.steps, "TrainBF: steps", 1, 2**63 - 1)
        self.phi = _GROWTH / (rate * total) if given.range else 0.0
        self.loss_scale = RangeLossScale(given.band) if given.scale else None
        self.rounds: tuple[Round, ...] = ()
        """The rounds in which layers were chosen, with the errors that were found; none if `layers` was given."""
        self.errors: Mapping[str, float] = {}
        """The errors of the layers after the last round."""
        self.layers: tuple[str, ...] = ()
        """The names of the normalised layers, in the order in which they were chosen."""
        if given.range or given.weights:
            self._insert(inputs, float(threshold), given.layers)
        elif given.layers:
            raise NumcError("TrainBF: layers: have no use without range and weights: want no layers")
        self._norms = [module for module in model.modules() if isinstance(module, CRNorm)]
        # Tensors, because torch traces numbers anew when they change.
        self._scale = torch.tensor(1.0 if self.loss_scale is None else self.loss_scale.scale)
        self._update = torch.compile(lambda: optimizer.step(), backend=backend())
        self._unscaled = False
        self._spread: float | None = None  # of the gradient of the step, after `unscale`

    @property
    def ranges(self) -> dict[str, float]:
        """R of every norm, by the name of its module."""
        norms = {name: module for name, module in self._model.named_modules() if isinstance(module, CRNorm)}
        return {name: float(module.R.detach()) for name, module in norms.items()}

    def scaled(self, loss: Tensor) -> Tensor:
        """Return S (loss - phi sum R), whose gradient is to be taken. It is nothing to log."""
        if self.phi:
            for norm in self._norms:
                loss = loss - self.phi * norm.R
        return loss if self.loss_scale is None else loss * self._scale

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def unscale(self) -> None:
        """Divide the gradients by S, such as before they are clipped; `step_optimizer` does so if that was not done.

        Raises NumcError if there are no gradients, and at a second call in one step.
        """
        if self._unscaled:
            raise NumcError("TrainBF: unscale twice in a step: the gradients are divided by S already")
        gradients = [p.grad for p in self._parameters() if p.grad is not None]
        if not gradients:
            raise NumcError("TrainBF: no gradients: call recipe.scaled(loss).backward() before this")
        weights = [g for g in gradients if g.dim() > 1] or gradients
        finite = all(bool(g.isfinite().all()) for g in gradients)
        together = torch.cat([g.double().reshape(-1) for g in weights])
        self._spread = mean_over_ranks(float(together.std(unbiased=False) / self._scale) if finite else math.inf)
        if self.loss_scale is not None:
            torch._foreach_mul_(gradients, 1 / self.loss_scale.scale)  # exact: a power of two
        self._unscaled = True

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def step_optimizer(self) -> bool:
        """Let the optimizer step, and R; return whether it did: an infinity or NaN among the gradients leaves it out.

        Called inside of the block. Raises NumcError if there are no gradients.
        """
        if not self._unscaled:
            self.unscale()
        assert self._spread is not None
        self._unscaled, done = False, math.isfinite(self._spread)
        if done:
            self._update()
            rate = float(self._optimizer.param_groups[0]["lr"])
            with torch.no_grad():
                for norm in self._norms:
                    if norm.R.grad is not None:
                        norm.R.sub_(norm.R.grad, alpha=rate)
        for norm in self._norms:  # no optimizer clears it
            norm.R.grad = None
        return done

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        (only,) = self.arithmetics
        if self._spread is None:
            raise NumcError(
                "TrainBF: update without step_optimizer(): call recipe.step_optimizer() in the block, in place of "
                "optimizer.step()"
            )
        ranges = list(self.ranges.values())
        R = sum(ranges) / len(ranges) if ranges else 1.0  # noqa: N806
        values, reason = {"spread": self._spread, "R": R}, ""
        if self.loss_scale is not None:
            values["scale"] = self.loss_scale.scale
            reason = self.loss_scale.update(self._spread, R)
            self._scale.fill_(self.loss_scale.scale)
        elif not math.isfinite(self._spread):
            reason = "a gradient is not finite, no update"
        self._spread = None
        return only, values, reason

    def options(self) -> dict[str, Any]:
        band = None if self.loss_scale is None else self.loss_scale.band.hex()
        return {**self._techniques, "layers": list(self.layers), "phi": self.phi.hex(), "band": band}

    def state(self) -> dict[str, Any]:
        return {} if self.loss_scale is None else {"scale": self.loss_scale.scale.hex()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._spread, self._unscaled = None, False
        if self.loss_scale is not None:
            self.loss_scale.scale = RangeLossScale(start=float.fromhex(state["scale"])).scale
            self._scale.fill_(self.loss_scale.scale)

    def load_state_dict(self, given: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned; that of the model has R and the moments. See Recipe.load_state_dict.

        Raises NumcError also for the checkpoint of a recipe with other layers.
        """
        options = given.get("options") if isinstance(given, Mapping) else None
        layers = options.get("layers") if isinstance(options, Mapping) else None
        if layers is not None and layers != list(self.layers):
            raise NumcError(
                f"TrainBF: checkpoint: its layers are {shortened(layers)}, want {shortened(list(self.layers))}: make "
                "the recipe with layers=checkpoint['options']['layers']"
            )
        super().load_state_dict(given)

    def prepare(self, step: Callable[..., Any], *batch: Any, keep: Sequence[Any] = ()) -> None:
        """Run the step twice, so that all is compiled, and undo what it did; see Recipe.prepare."""
        own = (self._model, self._optimizer, self)
        others = [holder for holder in (keep or stateful(step)) if not any(holder is mine for mine in own)]
        super().prepare(step, *batch, keep=[*own, *others])

    def _parameters(self) -> list[nn.Parameter]:
        """Return what the optimizer changes, and R."""
        owned = [p for group in self._optimizer.param_groups for p in group["params"]]
        return [*owned, *(norm.R for norm in self._norms)]

    def _insert(self, batch: tuple[Any, ...], threshold: float, layers: Sequence[str] | None) -> None:
        def insert(name: str) -> None:
            norm, weights = self._techniques["range"], self._techniques["weights"]
            normalise(self._model, name, batch, norm=norm, weights=weights)

        inputs_of(self._model, batch)  # refuses a batch that does not fit, before anything is changed
        if layers is not None:
            self.layers = tuple(checked_texts(layers, "TrainBF: layers"))
            known = [name for name, module in self._model.named_modules() if isinstance(module, KINDS)]
            for name in self.layers:
                if name not in known:
                    raise NumcError(
                        f"TrainBF: layers: the model has no layer {quoted(name)}{did_you_mean(name, known)}: "
                        f"want some of {shortened(', '.join(known))}"
                    )
            for name in self.layers:
                insert(name)
            return
        names = list(self._measure(batch))
        if not selectable(names):
            raise NumcError(
                f"TrainBF: the model has no layers to normalise: got {len(names)} linear, convolutional and recurrent "
                "layers, want 3 or more, because the first and the last stay as they are; or range=weights=False"
            )
        rounds, self.errors = modify(lambda: self._measure(batch), insert, threshold)
        self.rounds, self.layers = tuple(rounds), tuple(round_.layer for round_ in rounds)

    def _measure(self, batch: tuple[Any, ...]) -> dict[str, float]:
        """Return the errors of the layers on a batch, in training mode; the model stays as it is."""
        model = copy.deepcopy(self._model)

        def run() -> Any:
            with torch.no_grad():
                return model(*batch)

        # Each round has another model, and torch counts them as recompilations of one function.
        with torch._dynamo.config.patch(recompile_limit=10_000, accumulated_recompile_limit=10_000):
            (training,) = self.arithmetics
            errors = layer_errors(torch.compile(run, backend=backend()), training, REFERENCE)
        named = {path.removeprefix("model").removeprefix("."): error for path, error in errors.items()}
        kinds = dict(model.named_modules())
        return {name: error for name, error in named.items() if isinstance(kinds.get(name), KINDS)}


def _checked_model(model: Any) -> nn.Module:
    checked(model, "TrainBF: model", nn.Module, "a module of torch")
    if hasattr(model, "_orig_mod") or isinstance(model, nn.parallel.DistributedDataParallel):
        raise NumcError(
            f"TrainBF: model: got {type(model).__name__}: make the recipe from the plain module, and compile or "
            "distribute it after that"
        )
    if is_normalised(model):
        raise NumcError("TrainBF: the model is normalised already: want a model that no TrainBF has changed")
    return model


def _checked_batch(batch: Any) -> tuple[Any, ...]:
    inputs = batch if isinstance(batch, tuple) else (batch,)
    if not any(isinstance(value, Tensor) and value.numel() for value in inputs):
        type_name = shortened(type(batch).__name__)
        raise NumcError(f"TrainBF: batch: got {type_name}, want a tensor, or a tuple of the arguments of the model")
    return inputs
