"""The interface of recipes: the arithmetic of the next step, decided after each step, beside an unmodified loop."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from numc.compiler.arrays.statistics import shares
from numc.compiler.torch_compile import open_widths, regions
from numc.numerics.policy.presets import Arithmetic
from numc.runtime.context import CONTEXT
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened
from numc.train.recipes.arithmetics import Given, named
from numc.train.recipes.decision import Decision
from numc.train.recipes.history import History
from numc.train.recipes.losses import loss_of, mean_over_ranks
from numc.train.recipes.prepared import prepare
from numc.train.recipes.traced_states import TracedStates

VERSION = 1
"""Of `Recipe.state_dict`."""
_RUNS = 1 << 16
"""Seeds of stochastic rounding for each step, one for each run of a program."""


@in_default_environment
class Recipe(ABC):
    """Chooses the arithmetic of every step of a training, as a scheduler chooses its learning rate.

        for x, y in loader:
            with recipe:
                loss = train_step(x, y)
            recipe.update(loss)

    The ``with`` block runs what torch.compile compiled with numc in the arithmetic `current`: forward pass, backward
    pass, and the update if it is compiled. It may be entered several times for one step of the optimizer, to accumulate
    gradients; `update` is called once for each step. Nothing is traced or compiled by a change of the arithmetic once
    `prepare` has run the step in each.

    Stochastic rounding draws with a seed of the recipe: run n of a program in step s takes `seed` + 65536 s + n. A
    resumed run therefore draws the numbers of one that was never stopped.

    Subclasses decide (`decide`) and say what they need for that (`options`, `state`, `restore`).
    """

    def __init__(
        self, arithmetics: Sequence[Given], *, seed: int = 0, log: str | os.PathLike[str] | None = None
    ) -> None:
        """Take the arithmetics that the recipe chooses from; it starts with the first.

        arithmetics: presets, operators, or texts such as ``bf16_1_1 with update=fp32``; policies. seed: of stochastic
        rounding, 0 to 2^64 - 1. log: a file that gets a line of JSON for every decision, at once.
        Raises NumcError for an arithmetic or a file that is none.
        """
        self._arithmetics = dict(map(named, arithmetics))
        self._names = tuple(self._arithmetics)
        self._seed = checked_integer(seed, "seed", 0, 2**64 - 1)
        self._history = History(log)
        self._next = self._names[0]
        self._open: contextlib.ExitStack | None = None
        self._runs = 0  # blocks since the last update
        self._watched: list[float] = []  # losses that watch took since the last update
        self._states: TracedStates | None = None
        self._tally: Counter[tuple[str, str]] = Counter()  # of the open block
        self._waiting: Counter[tuple[str, str]] = Counter()  # of blocks since the last update
        self._fmas: Counter[tuple[str, str]] = Counter()
        self._seeds = itertools.count(self._seed)  # of the runs of this step

    @property
    def arithmetics(self) -> Mapping[str, Arithmetic]:
        """Every arithmetic that the recipe can choose, by the text that names it in histories."""
        return dict(self._arithmetics)

    @property
    def current(self) -> Arithmetic:
        """The arithmetic of the next step, or of this one inside the block."""
        return self._arithmetics[self._next]

    @property
    def step(self) -> int:
        """The number of steps that `update` has seen."""
        return len(self.history)

    @property
    def history(self) -> Sequence[Decision]:
        """The decisions so far, one for each step."""
        return self._history.decisions

    def step_shares(self) -> dict[str, float]:
        """Return, for each arithmetic that was used, the fraction of steps that ran in it."""
        used = Counter(decision.used for decision in self.history)
        return {name: used[name] / self.step for name in self._names if used[name]}

    @property
    def fmas(self) -> Mapping[tuple[str, str], int]:
        """The multiply-adds of all steps, by role and operator: those of contractions, normalisation and update."""
        return dict(self._fmas)

    def fma_shares(self) -> dict[str, float]:
        """Return, for each operator, the fraction of the multiply-adds of all steps that it computed."""
        return shares(self._fmas)

    def __enter__(self) -> Recipe:
        if CONTEXT.recipes:
            which = "this recipe" if CONTEXT.recipes[-1] is self else f"a {type(CONTEXT.recipes[-1]).__name__}"
            raise NumcError(f"{type(self).__name__}: the block of {which} is open already: a step has one recipe")
        if self._states is not None and self._states.put_in_place():
            self._states = None
        with contextlib.ExitStack() as stack:
            stack.enter_context(regions.arithmetic(self.current))
            stack.enter_context(regions.seeded(self._seeds))
            if self.widths is not None:
                stack.enter_context(open_widths.widths(self.widths))
            self._tally = stack.enter_context(regions.tally())
            stack.enter_context(CONTEXT.recipes.around(self))
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        assert self._open is not None
        self._open.close()
        self._open = None
        if self._states is not None:
            self._states.put_in_place()
        if kind is None:
            self._runs += 1
            self._waiting += self._tally

    def leave(self, error: BaseException | None = None) -> None:
        """Leave the block if it is open, as an exception does; for callbacks, which have no ``with``."""
        if self._open is not None:
            self.__exit__(type(error or KeyboardInterrupt()))

    def update(self, loss: Any = None) -> Decision:
        """Decide the arithmetic of the next step, once for each step of the optimizer.

        loss: of the step, unscaled: a number or a tensor with one element, in any float type; averaged in binary64 over
        all ranks if training is distributed. It may be left out for a recipe that needs none, or if `watch` takes it.
        A loss that is not finite is warned about and never averaged.
        Raises NumcError without a step before it, inside the block, or for a loss that is none.
        """
        name = type(self).__name__
        if self._open is not None:
            raise NumcError(f"{name}: update inside of the block: leave the block first")
        if not self._runs:
            raise NumcError(
                f"{name}: update without a step: run the step in `with recipe:` first, and update once after it"
            )
        watched = sum(self._watched) / len(self._watched) if self._watched else None
        value = watched if loss is None else loss_of(loss, name)
        if value is None and self.needs_loss:
            raise NumcError(f"{name}: update needs the loss of the step: update(loss), or watch(criterion) before")
        values = {}
        if value is not None:
            values["loss"] = value = mean_over_ranks(value)
            before = self.history[-1].values.get("loss", 0.0) if self.history else 0.0
            if not math.isfinite(value) and math.isfinite(before):  # once, and not for each step that follows
                warnings.warn(
                    f"numc: {name}, step {self.step}: the loss is {value}, which no average takes up", stacklevel=3
                )
        following, numbers, reason = self.decide(value)
        decision = Decision(self.step, self._next, {**values, **numbers}, following, reason)
        self._next = following
        self._fmas += self._waiting
        try:
            self._history.add(decision)
        finally:
            self._forget()
        return decision

    #: The widths that the next step chooses in formats that leave them open (numc.widths); None: the widest.
    widths: Any = None

    #: Whether `decide` is never called without a loss.
    needs_loss = True

    @abstractmethod
    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        """Return the name of the next arithmetic, the numbers that it was decided from, and the reason, or ""."""

    def options(self) -> dict[str, Any]:
        """Return what the recipe was made with; a checkpoint is only taken by a recipe with the same options."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return what `decide` keeps from step to step, in types that JSON has."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what `state` returned. Raises ValueError or another of Python's own for anything else."""
        if state:
            raise ValueError("a state of a recipe that has none")

    def watch(self, criterion: torch.nn.Module) -> None:
        """Take the loss of every step from what a module returns, so that `update` needs none.

        criterion: returns a tensor with one element, or an object with the attribute ``loss``; if it is called several
        times in a step, the mean counts.
        """
        checked(criterion, "watch", torch.nn.Module, "a module that returns the loss")
        # Not traced: a traced hook would keep the loss of the graph, with its gradient.
        criterion.register_forward_hook(torch.compiler.disable(self._take))

    def _take(self, module: torch.nn.Module, _: Any, result: Any) -> None:
        if CONTEXT.recipes and CONTEXT.recipes[-1] is self:
            self._watched.append(loss_of(getattr(result, "loss", result), type(module).__name__))

    def prepare(self, step: Callable[..., Any], *batch: Any, keep: Sequence[Any] = ()) -> None:
        """Run a step in every arithmetic, so that all is compiled, and undo what it did.

        step: called with `batch`, twice for each arithmetic: the first step of an optimizer makes its state. keep: what
        the step changes, modules, optimizers and other objects with a ``state_dict``; without it, those that the
        function `step` refers to. They and the generators of random numbers of torch, numpy and Python are as before
        afterwards. Raises NumcError if nothing is found that the step changes.
        """
        if CONTEXT.recipes:
            raise NumcError(f"{type(self).__name__}: prepare inside of a recipe's block: call it before training")
        with regions.seeded(itertools.count(self._seed)):
            self._states = prepare(self._arithmetics.values(), step, batch, keep)

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs to decide as one that was never stopped, in types that JSON has."""
        if self._open is not None:
            raise NumcError(f"{type(self).__name__}: a checkpoint inside of the block: leave the block first")
        return {
            **self._identity(),
            "next": self._next,
            "state": self.state(),
            "fmas": [[role, fma, count] for (role, fma), count in self._fmas.items()],
            "history": [decision.to_json() for decision in self.history],
        }

    def load_state_dict(self, given: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned. A file of decisions is cut back to those of the checkpoint.

        Raises NumcError for the checkpoint of another recipe, version or options; then nothing is changed.
        """
        name = type(self).__name__
        checked(given, f"{name}: checkpoint", Mapping, "what state_dict returns")
        for key, want in self._identity().items():
            if given.get(key) != want:
                raise NumcError(
                    f"{name}: checkpoint: its {key} is {shortened(given.get(key))}, want {shortened(want)}: "
                    "make the recipe as it was made for the run"
                )
        try:
            history = [Decision.from_json(decision) for decision in given["history"]]
            fmas = Counter({(str(role), str(fma)): int(count) for role, fma, count in given["fmas"]})
            if given["next"] not in self._arithmetics:
                raise ValueError(f"no arithmetic {quoted(given['next'])}")
            before = self.state()
            try:
                self.restore(given["state"])
            except BaseException:
                self.restore(before)
                raise
        except (LookupError, TypeError, ValueError, AttributeError, NumcError) as error:
            raise NumcError(
                f"{name}: damaged checkpoint ({shortened(error, 60)}): want what state_dict returns"
            ) from None
        self._history.replace(history)
        self._next, self._fmas = given["next"], fmas
        self._forget()

    def _identity(self) -> dict[str, Any]:
        """Return what a checkpoint and the recipe that takes it have in common."""
        options = {"seed": self._seed, **self.options()}
        return {
            "recipe": type(self).__name__,
            "version": VERSION,
            "arithmetics": list(self._names),
            "options": options,
        }

    def _forget(self) -> None:
        """Forget what belongs to the step that has ended."""
        self._runs, self._watched, self._waiting = 0, [], Counter()
        self._seeds = itertools.count(self._seed + _RUNS * self.step)
