"""Time to accuracy: the simulated time and energy of a training until its validation metric reaches a target."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from numc.compiler.options import Options
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.policy import Policy, Rule
from numc.studies.cost import decisions_of, report
from numc.studies.hardware.machine import Machine, load_machine
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shortened, shown
from numc.train.recipes.arithmetics import Given, named

Widths = Mapping[str, Mapping[str, int]]
"""By name of a contraction, the magnitude bits of its operands: ``{"conv1": {"a": 4, "b": 2}, "*/wgrad": ...}``.

Names are patterns as in policies, and later ones win; in dgrad and wgrad, a is the gradient.
"""


@dataclass(frozen=True)
class Spent:
    """The time and energy of a training so far. joules: None where the power of the machine is not known."""

    seconds: float
    joules: float | None


@in_default_environment
class TimeToAccuracy:
    """Adds up the simulated time of the steps of a training, until a validation metric first reaches a target.

        tta = numc.train.TimeToAccuracy("fast", target=0.97, model=model, inputs=x)
        for decision in recipe.history:
            tta.step(decision.used)
        tta.validate(accuracy)
        print(tta.reached)

    A step is its contractions, forward and backward, on a machine of `numc list machines` or of a file; other
    operations, such as normalisation and update, take no time. Source: FAST (HPCA 2022), figures 21 and 22.
    """

    def __init__(
        self,
        machine: str | os.PathLike[str] | Machine = "fast",
        *,
        target: float,
        model: Any,
        inputs: Any = None,
        batch: int = 1,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        """Read the contractions of a training step.

        target: of the metric, which is better where it is larger. model, inputs, batch, shapes: as for numc.cost.
        Raises NumcError for a machine, a model or a target that is none.
        """
        self._machine = machine if isinstance(machine, Machine) else load_machine(machine)
        self._target = _real(target, "target")
        self._batch = checked_integer(batch, "batch", 1, 2**63 - 1)
        decisions = decisions_of(model, inputs, Options(), training=True, shapes=shapes)
        # Positions, which a policy can name, begin anew in every graph.
        self._graphs: list[list[Layer]] = []
        for layer in (decision.layer for decision in decisions if decision.layer.position is not None):
            if layer.position == 0:
                self._graphs.append([])
            self._graphs[-1].append(layer)
        self._known: dict[object, Spent] = {}
        self._spent = Spent(0.0, 0.0)
        self._reached: Spent | None = None

    def step(self, arithmetic: Given | Widths) -> Spent:
        """Add a step of the training and return what it takes.

        arithmetic: a preset, an operator, a policy, or whatever else a recipe takes, such as the ``used`` of a
        decision; or the widths of bfp(16,3,m), see Widths. Raises NumcError for anything else, for names that the
        model has not, and for operators that the machine has no units for.
        """
        if isinstance(arithmetic, Mapping):
            arithmetic = self._policy(arithmetic)
        key, chosen = named(arithmetic)
        if key not in self._known:
            decisions = [decision for graph in self._graphs for decision in chosen.policy().decide(graph)]
            estimate = report(decisions, self._machine, free=self._batch)
            assert estimate.latency is not None
            self._known[key] = Spent(estimate.latency, estimate.energy)
        each, before = self._known[key], self._spent
        joules = None if before.joules is None or each.joules is None else before.joules + each.joules
        self._spent = Spent(before.seconds + each.seconds, joules)
        return each

    def validate(self, metric: float) -> bool:
        """Take the metric of a validation after the steps so far; return whether the target is reached, now or before.

        Raises NumcError for what is not a number.
        """
        if isinstance(metric, bool) or not isinstance(metric, Real):
            raise NumcError(f"validate: got {shown(metric)}, want the metric as a number")
        if self._reached is None and metric >= self._target:
            self._reached = self._spent
        return self._reached is not None

    @property
    def spent(self) -> Spent:
        """The time and energy of all steps so far."""
        return self._spent

    @property
    def reached(self) -> Spent | None:
        """The time and energy up to the validation that first reached the target; None: not applicable."""
        return self._reached

    def relative_to(self, other: TimeToAccuracy) -> float | None:
        """Return the time to accuracy as a multiple of another run's.

        None if one of them does not reach its target, or if the other one does so before any step. Raises NumcError for
        what is not a run.
        """
        theirs = checked(other, "relative_to", TimeToAccuracy, "another TimeToAccuracy").reached
        if self._reached is None or theirs is None or not theirs.seconds:
            return None
        return self._reached.seconds / theirs.seconds

    def _policy(self, widths: Mapping[Any, Any]) -> Policy:
        """Return the widths as a policy. Raises NumcError unless they name all contractions, and nothing else."""
        names = list(dict.fromkeys(layer.name for graph in self._graphs for layer in graph))
        rules = []
        for pattern, layer_widths in widths.items():
            if not any(fnmatch.fnmatchcase(name, str(pattern)) for name in names):
                near = did_you_mean(str(pattern), names)
                raise NumcError(f"widths: unknown layer {quoted(pattern)}{near}: want {shortened(', '.join(names))}")
            what = f"widths of {quoted(pattern)}"
            bits = checked(layer_widths, what, Mapping, "{'a': BITS, 'b': BITS}")
            if set(bits) != {"a", "b"}:
                raise NumcError(f"{what}: got {shortened(dict(bits))}, want the bits of a and of b")
            a, b = (checked_integer(bits[operand], f"{what}, {operand}", 1, 23) for operand in "ab")
            fma = f"fma(a=bfp(16,3,{a}),b=bfp(16,3,{b}),acc=fp32)"
            rules.append(Rule("layer", (str(pattern),), (("fma", fma),)))
        for name in names:
            if not any(fnmatch.fnmatchcase(name, str(pattern)) for pattern in widths):
                raise NumcError(f"widths: none for layer {quoted(name)}: give those of every contraction")
        return Policy(rules=tuple(rules), strict=False)


def _real(given: object, what: str) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not math.isfinite(given):
        raise NumcError(f"{what}: got {shown(given)}, want a finite number")
    return float(given)
