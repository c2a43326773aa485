"""Unit Scaling beside loss scales: the digits in eight bits without any scale of a tensor, by Adam."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from problems import Pictures
from torch import nn
from training import POINTS, Outcome

import numc
from numc.train import Static, UnitScaling

LARGEST = 2.0**24
"""The loss scale that a training with one begins with."""
_EXCEPT = "role update, norm, softmax fp32"
FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "default fp32",
        "e4m3": f"default fma = fma(a=e4m3fn,acc=fp32); {_EXCEPT}",
        "e4m3, gradients e5m2": f"default fma = fma(a=e4m3fn,acc=fp32); role dgrad, wgrad a = e5m2; {_EXCEPT}",
    }
)
"""Arithmetics without scales: what is too small for the format becomes 0, and e4m3 saturates."""
SCALED: Mapping[str, str] = MappingProxyType(
    {**FORMATS, "e4m3": f"default fma = fma(a=e4m3fn,acc=fp32); role dgrad, wgrad a = e4m3fn:nan; {_EXCEPT}"}
)
"""Those with a loss scale, which has to see the overflow of a gradient."""
_RATES: Mapping[str, float] = MappingProxyType({"plain": 0.003, "unit": 0.03, "u-mup": 0.1})
"""Of Adam, by rule: those of the least loss with seed 100 in fp32, among rates a factor of about three apart."""


@dataclass(frozen=True)
class Arm:
    """A network and how it is trained. rule: plain, unit or u-mup. scaled: by a loss scale, in `arithmetic`."""

    rule: str
    arithmetic: str
    scaled: bool = False


@dataclass(frozen=True)
class UnitPictures(Pictures):
    """The task, whose rate is that of an arm."""

    rate: float = 0.0
    momentum: float = 0.0
    name: ClassVar[str] = "mnist"


UNIT = UnitPictures()


class UnitTrainer:
    """Trains the plain and the unit-scaled network of the task; torch traces each of them only once."""

    ARMS: ClassVar[Mapping[str, Arm]] = MappingProxyType(
        {
            "fp32": Arm("plain", "fp32"),
            **{f"{form}": Arm("plain", form) for form in list(FORMATS)[1:]},
            **{f"{form}, loss scale": Arm("plain", form, scaled=True) for form in list(FORMATS)[1:]},
            **{f"{form}, {rule}": Arm(rule, form) for rule in ("unit", "u-mup") for form in FORMATS},
        }
    )

    def __init__(self, task: UnitPictures) -> None:
        """Prepare the task."""
        self.task = task
        self._networks: dict[str, tuple[nn.Module, UnitScaling | None, Any]] = {}
        for rule in _RATES:
            model = task.model()
            scaling = None if rule == "plain" else UnitScaling(model, rule=rule)
            self._networks[rule] = model, scaling, torch.compile(model, backend=numc.backend())

    def run(self, name: str, seed: int, tick: Callable[[], None] = lambda: None, rate: float | None = None) -> Outcome:
        """Train from the weights and with the batches of a seed, and judge it. rate: instead of that of the arm."""
        start = time.process_time()
        arm = self.ARMS[name]
        model, scaling, forward = self._networks[arm.rule]
        torch.manual_seed(seed)
        fresh = self.task.model()
        if arm.rule != "plain":
            UnitScaling(fresh, rule=arm.rule)
        model.load_state_dict(fresh.state_dict())
        model.train()
        rate = _RATES[arm.rule] if rate is None else rate
        optimizer = torch.optim.Adam(scaling.groups(rate) if scaling else model.parameters(), lr=rate)
        scale = numc.DynamicLossScale(LARGEST) if arm.scaled else None
        recipe, losses = Static((SCALED if arm.scaled else FORMATS)[arm.arithmetic], seed=seed), []
        loss_of = scaling.cross_entropy if scaling else F.cross_entropy
        for x, y in islice(self.task.batches(seed), self.task.steps):
            while True:
                with recipe:
                    optimizer.zero_grad()
                    loss = loss_of(forward(x), y)
                    (scale.scale(loss) if scale else loss).backward()
                if scale is None:
                    optimizer.step()
                    break
                before = scale.skipped
                scale.step(optimizer)
                scale.update()
                if scale.skipped == before or scale.get_scale() <= 1:
                    break
            losses.append(float(loss.detach()))
            recipe.update(losses[-1])
            tick()
        inputs, classes = self.task.held_out()
        model.eval()
        with recipe, torch.no_grad():
            logits = forward(inputs).double()
        right = float((logits.argmax(1) == classes).double().mean())
        points = np.array_split(losses, min(POINTS, len(losses)))
        return Outcome(
            100 * right,
            float(F.cross_entropy(logits, classes)),
            [float(part.mean()) for part in points],
            {},
            time.process_time() - start,
        )
