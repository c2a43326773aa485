"""Dynamic precision: cheap arithmetic while the loss falls, better arithmetic when it does not.

Algorithm 1 of chapter 6 of J. Osorio Rios, "Adapting Floating-Point Precision to Accelerate Deep Neural Network
Training" (2023). docs/training-recipes.md says what the text leaves open and what is chosen here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shown
from numc.train.recipes.arithmetics import Given
from numc.train.recipes.recipe import Recipe

_FIRST = 6
"""Losses whose mean is the first average: those of i = 0 to 5 in the text."""
_LARGEST = 2**31
LOSSES = ("last", "mean")
COMPARISONS = ("step", "block")


@in_default_environment
class DynamicPrecision(Recipe):
    """Switches between two arithmetics, or along a chain of them, by the average of the training loss.

    The exponential moving average of the loss is looked at in every `monitor`-th step. In the high arithmetic: if it
    fell by more than `threshold` since the step before, the next steps run in the low one. In the low arithmetic: after
    every `block` steps, the low arithmetic is kept if it fell by more than `threshold`, and left otherwise.
    """

    def __init__(
        self,
        high: Given = "mp",
        low: Given | Sequence[Given] = "fase_bf16",
        *,
        monitor: int = 10,
        block: int = 1000,
        threshold: float | str = 0.04,
        reference: Sequence[float] | None = None,
        average: int = 5,
        loss: str = "last",
        compare: str = "step",
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take the parameters of the algorithm; the defaults are those of the text for convolutional networks.

        high, low: arithmetics, see Recipe; several in `low` are a chain, from better to cheaper: a fall of the average
        leads to the next of them, and the lack of one back by one. monitor, block: steps of the optimizer
        (numBatchesMP, numBatchesBF16; 1 and 15 for sequence to sequence). threshold: a difference of losses
        (emaThreshold; 0.06 for sequence to sequence), or ``auto``: `average_drop` of the losses in `reference`, those
        of a run in fp32 from its first step. average: n of the weight 2 / (n + 1) of the newest loss. loss: of the
        steps since the one before, the ``last`` loss or their ``mean``. compare: a block looks at the fall in its last
        ``step``, or since the ``block`` began.
        Raises NumcError for values that are not allowed.
        """
        lows = [low] if isinstance(low, str) or not isinstance(low, Sequence) else list(low)
        super().__init__([high, *lows], seed=seed, log=log)
        if len(self.arithmetics) < 2 or len(self.arithmetics) != 1 + len(lows):
            raise NumcError("DynamicPrecision: want different arithmetics for high and low, and for each of a chain")
        self._monitor = checked_integer(monitor, "monitor", 1, _LARGEST)
        self._block = checked_integer(block, "block", 1, _LARGEST)
        if self._block % self._monitor:
            raise NumcError(f"block: got {self._block}, want a multiple of monitor, {self._monitor}")
        self._average = checked_integer(average, "average", 1, _LARGEST)
        self._loss = _one_of(loss, "loss", LOSSES)
        self._compare = _one_of(compare, "compare", COMPARISONS)
        if threshold == "auto":
            if reference is None:
                raise NumcError("threshold 'auto': want reference=, the losses of a run in fp32, one for each step")
            threshold = average_drop(reference, monitor=self._monitor, average=self._average, loss=self._loss)
        elif reference is not None:
            raise NumcError(
                f"reference: has no use with threshold {shown(threshold)}: want threshold='auto', or no reference"
            )
        self.threshold = _real(threshold, "threshold", "a difference of losses, or 'auto'")
        self._averages = _Averages(self._monitor, self._average, self._loss)
        self._level = 0  # 0 is the high arithmetic
        self._count = 0  # steps of the running block
        self._since: float | None = None  # the average when the block began

    def options(self) -> dict[str, Any]:
        numbers = {"monitor": self._monitor, "block": self._block, "average": self._average}
        return {**numbers, "threshold": self.threshold.hex(), "loss": self._loss, "compare": self._compare}

    def state(self) -> dict[str, Any]:
        own = {"level": self._level, "count": self._count, "since": _hex(self._since)}
        return {**own, "averages": self._averages.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        level, count, since = int(state["level"]), int(state["count"]), _number(state["since"])
        if not 0 <= level < len(self.arithmetics):
            raise ValueError("no such level")
        self._averages.restore(state["averages"])
        self._level, self._count, self._since = level, count, since

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        assert loss is not None
        names, values, reason = list(self.arithmetics), {}, ""
        drop = self._averages.take(loss)
        if self._averages.value is not None:
            values["ema"] = self._averages.value
        if drop is not None:
            values["drop"] = drop
        if not math.isfinite(loss):
            reason = f"goes up: the loss is {loss}"
            self._enter(0)
        elif drop is not None:
            reason = self._monitored(drop)
        return names[self._level], values, reason

    def _monitored(self, drop: float) -> str:
        """Go from one arithmetic to another after the fall of the average by `drop`; return why, or ""."""
        if self._level:
            self._count += self._monitor
            if self._count < self._block:
                return ""
            if self._compare == "block":
                assert self._since is not None
                assert self._averages.value is not None
                drop = self._since - self._averages.value
        falls = drop > self.threshold
        before = self._level
        lowest = len(self.arithmetics) - 1
        self._enter(min(before + 1, lowest) if falls else max(before - 1, 0))
        if not before and not falls:
            return ""
        since = "since the block began" if before and self._compare == "block" else "in one step of the average"
        does = "stays low" if before == self._level else "goes down" if falls else "goes up"
        relation = ">" if falls else "<="
        return f"{does}: the average fell by {drop:.4g} {since}, {relation} {self.threshold:.4g}"

    def _enter(self, level: int) -> None:
        self._level, self._count, self._since = level, 0, self._averages.value


class _Averages:
    """The exponential moving average of the losses of every `monitor`-th step."""

    def __init__(self, monitor: int, average: int, loss: str) -> None:
        self._monitor, self._n, self._loss = monitor, average, loss
        self.value: float | None = None
        self._first: list[float] = []
        self._waiting: list[float] = []  # finite losses since the last monitored step
        self._steps = 0

    def take(self, loss: float) -> float | None:
        """Take the loss of a step. Returns by how much the average fell, if this step is a monitored one.

        A step whose loss is not finite counts as a step and gives no loss.
        """
        self._steps += 1
        if math.isfinite(loss):
            self._waiting = [*self._waiting, loss] if self._loss == "mean" else [loss]
        elif self._loss == "last":
            self._waiting = []
        if self._steps % self._monitor or not self._waiting:
            return None
        newest = sum(self._waiting) / len(self._waiting)
        self._waiting = []
        if self.value is None:
            self._first.append(newest)
            if len(self._first) == _FIRST:
                self.value = sum(self._first) / _FIRST
            return None
        before = self.value
        self.value = (2 * newest + (self._n - 1) * before) / (self._n + 1)
        return before - self.value

    def state(self) -> dict[str, Any]:
        lists = {"first": list(map(_hex, self._first)), "waiting": list(map(_hex, self._waiting))}
        return {"value": _hex(self.value), "steps": self._steps, **lists}

    def restore(self, state: Mapping[str, Any]) -> None:
        value, steps = _number(state["value"]), int(state["steps"])
        first, waiting = ([float.fromhex(x) for x in state[key]] for key in ("first", "waiting"))
        self.value, self._steps, self._first, self._waiting = value, steps, first, waiting


@in_default_environment
def average_drop(losses: Sequence[float], *, monitor: int = 10, average: int = 5, loss: str = "last") -> float:
    """Return by how much the average of losses falls from one monitored step to the next, in the mean.

    losses: one for each step, from the first on. The others: as for DynamicPrecision. An earlier version of the text
    gives this mean over a run in fp32 as the meaning of the threshold. Raises NumcError for too few losses.
    """
    monitor = checked_integer(monitor, "monitor", 1, _LARGEST)
    averages = _Averages(monitor, checked_integer(average, "average", 1, _LARGEST), _one_of(loss, "loss", LOSSES))
    numbers = [_real(number, "losses", "finite numbers") for number in checked(losses, "losses", Sequence, "numbers")]
    drops = [drop for number in numbers if (drop := averages.take(number)) is not None]
    if not drops:
        raise NumcError(f"losses: got {len(losses)}, want those of more than {_FIRST * monitor} steps")
    return sum(drops) / len(drops)


def _one_of(given: object, what: str, allowed: Sequence[str]) -> str:
    if given not in allowed:
        near = did_you_mean(given, allowed) if isinstance(given, str) else ""
        raise NumcError(f"{what}: got {shown(given)}{near}, want {' or '.join(map(quoted, allowed))}")
    return str(given)


def _real(given: object, what: str, want: str) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not math.isfinite(given):
        raise NumcError(f"{what}: got {shown(given)}, want {want}")
    return float(given)


def _hex(value: float | None) -> str | None:
    return None if value is None else value.hex()


def _number(text: str | None) -> float | None:
    return None if text is None else float.fromhex(text)
