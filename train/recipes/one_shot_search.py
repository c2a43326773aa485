"""A search for the format of every layer during one training, by policy gradients.

After J. Dotzel et al., "FLIQS: One-Shot Mixed-Precision Floating-Point and Integer Quantization Search" (2023,
arXiv:2308.03290). docs/one-shot-search.md says what is the paper's and what is chosen here.
"""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from numc.numerics.grammar import parse_conversion, parse_operand_conversion
from numc.numerics.policy.layer import pattern_of
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shown
from numc.train.recipes.recipe import Recipe

_ARITHMETIC = "default fma=fma(a={form},acc=fp32); role update, norm, softmax fp32; role dgrad, wgrad a={gradients}"
_FORMAT = re.compile(r"(?:bfp\((\d+),(?=\d+,\d+\))|e(?=\d+m))(\d+)[m,](\d+)\)?")
_KEPT = 0.95
"""Of the mean and the variance of rewards, in every step."""


@in_default_environment
class OneShotSearch(Recipe):
    """Draws a format for each layer in every step, and learns from the loss and the cost which one each should have.

    A layer, which is a module with contractions, has one format for the weights and activations of all of them. Steps
    are drawn uniformly in the first `explore` of the training; then, from probabilities that policy gradients change;
    in the last `settle`, every layer has its most probable format. Nothing is compiled after the first steps, because
    one program leaves the widths open (numc.widths).

    The reward of a step is ``exp(-loss) - weight * abs(C / cost - 1)``; a loss below 0 counts as 0. C is its cost: the
    multiply-adds of the forward pass times the product of the significands of both factors, in bits with the hidden
    one, over what the format with the most bits would cost in all layers.
    """

    def __init__(
        self,
        total_steps: int,
        formats: Sequence[str] = ("e4m1", "e4m3", "e4m7"),
        *,
        cost: float = 0.25,
        weight: float = 0.5,
        rate: float = 0.1,
        entropy: float = 0.1,
        explore: float = 0.2,
        settle: float = 0.3,
        gradients: str = "bf16",
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take the number of steps, and what layers choose from: formats ``eXmY``, or ``bfp(G,E,M)`` of one G and E.

        cost: the C that is aimed at, between 0 and 1. weight: of its penalty. rate: of the changes of
        log-probabilities. entropy: of the bonus for it, which falls to 0 by a half period of a cosine. gradients: the
        format of gradients, which multiply in the backward pass. seed, log: see Recipe; the seed is that of what is
        drawn, too.
        Raises NumcError for values that are not allowed.
        """
        self.total_steps = checked_integer(total_steps, "OneShotSearch: total_steps", 1, 2**63 - 1)
        self._formats = tuple(checked(formats, "OneShotSearch: formats", (list, tuple), "a list of texts"))
        self._widths = [_widths_of(text) for text in self._formats]
        if len(set(self._widths)) < max(2, len(self._widths)):
            raise NumcError(f"OneShotSearch: formats: got {shown(list(formats))}, want two or more, all different")
        shares = {"cost": (cost, 1.0), "explore": (explore, 1.0), "settle": (settle, 1.0)}
        numbers = {**shares, "weight": (weight, math.inf), "rate": (rate, math.inf), "entropy": (entropy, math.inf)}
        self._numbers = {name: _number(name, value, most) for name, (value, most) in numbers.items()}
        if self._numbers["cost"] == 0 or explore + settle > 1:
            raise NumcError("OneShotSearch: want a cost above 0, and explore + settle of at most 1")
        if len({stem for stem, *_ in self._widths}) > 1:
            raise NumcError(f"OneShotSearch: formats: got {shown(list(formats))}, want one kind, of one G and one E")
        form = _open_form(self._widths)
        parse_conversion(checked(gradients, "OneShotSearch: gradients", str, "a format"))
        super().__init__([_ARITHMETIC.format(form=form, gradients=gradients)], seed=seed, log=log)
        self._gradients = gradients
        self._logits: dict[str, list[float]] = {}  # by layer
        self._fmas_of: dict[str, dict[str, int]] = {}  # of the forward pass, by layer and contraction
        self._mean, self._variance = 0.0, 0.0
        self._seen = 0  # rewards

    @property
    def probabilities(self) -> dict[str, dict[str, float]]:
        """The probability of each format, by layer. Layers are known after the first step."""
        return {
            layer: dict(zip(self._formats, map(float, _softmax(logits)), strict=True))
            for layer, logits in self._logits.items()
        }

    @property
    def chosen(self) -> dict[str, str]:
        """The most probable format of each layer, of equally probable ones the cheapest."""
        return {layer: self._formats[self._best(logits)] for layer, logits in self._logits.items()}

    def cost_of(self, formats: Mapping[str, str]) -> float:
        """Return C of formats by layer, such as `chosen`. Raises NumcError for others than those of the search."""
        for layer, form in formats.items():
            if layer not in self._logits or form not in self._formats:
                near = did_you_mean(layer, list(self._logits))
                raise NumcError(f"OneShotSearch: {quoted(layer)}: {quoted(form)} is no choice of the search{near}")
        return self._cost({layer: self._formats.index(form) for layer, form in formats.items()})

    @property
    def policy(self) -> str:
        """The policy of a model with the formats that are chosen, such as numc.compile takes it."""
        return self._policy(pattern_of)

    @property
    def training_policy(self) -> str:
        """The policy of training steps, whose layers have gradients, too."""
        return self._policy(lambda layer: f'{pattern_of(layer)}, {pattern_of(layer)[:-1]}/*"')

    def _policy(self, places: Callable[[str], str]) -> str:
        lines = [f"default fma = fma(a={self._formats[self._widest]}, acc=fp32)"]
        for layer, form in self.chosen.items():
            lines.append(f"layer {places(layer)} fma = fma(a={form}, acc=fp32)")
        lines += ["role update, norm, softmax fp32", f"role dgrad, wgrad a = {self._gradients}"]
        return "\n".join(lines) + "\n"

    def widths(self, contractions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the widths of one program of the step; see numc.widths."""
        widths: dict[str, Any] = {}
        for row in contractions:
            layer = str(row["layer"]).partition("/")[0]
            self._logits.setdefault(layer, [0.0] * len(self._formats))
            if row["role"] == "forward":
                sizes = (row[name] or 1 for name in "bmnk")
                self._fmas_of.setdefault(layer, {})[str(row["layer"])] = math.prod(sizes)
            operands = "b" if row["role"] in ("dgrad", "wgrad") else "ab"
            widths[row["layer"]] = dict.fromkeys(operands, self._given(self._choice(layer)))
        return widths

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        (only,), reason = self.arithmetics, ""
        assert loss is not None
        choices = {layer: self._choice(layer) for layer in self._logits}
        values = {"cost": self._cost(choices)}
        quality = math.exp(-max(loss, 0.0)) if loss == loss else 0.0  # a likelihood may be above 1
        numbers = self._numbers
        values["reward"] = reward = quality - numbers["weight"] * abs(values["cost"] / numbers["cost"] - 1)
        advantage = self._advantage(reward)
        if self._phase(self.step) == "search":
            searched = self._share(self.step) - numbers["explore"]
            whole = 1 - numbers["explore"] - numbers["settle"]
            bonus = numbers["entropy"] * (1 + math.cos(math.pi * searched / whole)) / 2
            for layer, choice in choices.items():
                self._logits[layer] = _learned(self._logits[layer], choice, advantage, numbers["rate"], bonus)
        if self._phase(self.step) != self._phase(self.step + 1):
            reason = {"search": "the search begins", "settled": "every layer has its most probable format"}[
                self._phase(self.step + 1)
            ]
        return only, values, reason

    def options(self) -> dict[str, Any]:
        numbers = {name: value.hex() for name, value in self._numbers.items()}
        return {"total_steps": self.total_steps, "formats": list(self._formats), **numbers}

    def state(self) -> dict[str, Any]:
        logits = {layer: [each.hex() for each in row] for layer, row in self._logits.items()}
        moments = [self._mean.hex(), self._variance.hex(), self._seen]
        return {"logits": logits, "fmas": {k: dict(v) for k, v in self._fmas_of.items()}, "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        logits = {str(k): [float.fromhex(each) for each in row] for k, row in state["logits"].items()}
        if any(len(row) != len(self._formats) for row in logits.values()):
            raise ValueError("probabilities of other formats")
        fmas = {str(k): {str(n): int(count) for n, count in row.items()} for k, row in state["fmas"].items()}
        mean, variance, seen = state["moments"]
        self._mean, self._variance, self._seen = float.fromhex(mean), float.fromhex(variance), int(seen)
        self._logits, self._fmas_of = logits, fmas

    @property
    def _widest(self) -> int:
        return max(range(len(self._widths)), key=self._bits)

    def _bits(self, choice: int) -> int:
        """The product of the significands of two factors, in bits."""
        stem, _, significand = self._widths[choice]
        return (significand if stem else significand + 1) ** 2

    def _best(self, logits: Sequence[float]) -> int:
        return min(range(len(logits)), key=lambda n: (-logits[n], self._bits(n)))

    def _share(self, step: int) -> float:
        return min(step / self.total_steps, 1.0)

    def _phase(self, step: int) -> str:
        share = self._share(step)
        if share < self._numbers["explore"]:
            return "explore"
        return "search" if share < 1 - self._numbers["settle"] else "settled"

    def _choice(self, layer: str) -> int:
        """The number of a layer's format in this step, which depends on nothing but the seed, the step and its name."""
        if self._phase(self.step) == "settled":
            return self._best(self._logits[layer])
        seed = [self._seed & 0xFFFFFFFF, self._seed >> 32, self.step, zlib.crc32(layer.encode())]
        draw = float(np.random.default_rng(seed).random())
        return min(int(np.searchsorted(np.cumsum(_softmax(self._logits[layer])), draw)), len(self._formats) - 1)

    def _given(self, choice: int) -> int | tuple[int, int]:
        """The argument `widths` for a format: one number where the other is the same for all."""
        _, exponent, significand = self._widths[choice]
        exponents, significands = ({each[n] for each in self._widths} for n in (1, 2))
        if len(exponents) == 1:
            return significand
        return exponent if len(significands) == 1 else (exponent, significand)

    def _cost(self, choices: Mapping[str, int]) -> float:
        """C of a choice for each layer."""
        whole = sum(sum(row.values()) for row in self._fmas_of.values()) * self._bits(self._widest)
        spent = sum(sum(self._fmas_of.get(layer, {}).values()) * self._bits(n) for layer, n in choices.items())
        return spent / whole if whole else 1.0

    def _advantage(self, reward: float) -> float:
        """A reward beside those before it, in standard deviations; the mean and the variance then take it up."""
        apart = reward - self._mean if self._seen else 0.0
        advantage = apart / math.sqrt(self._variance) if self._variance else 0.0
        self._seen += 1
        new = max(1 - _KEPT, 1 / self._seen)
        self._mean = self._mean + new * apart if self._seen > 1 else reward
        self._variance = (1 - new) * (self._variance + new * apart * apart)
        return max(-3.0, min(3.0, advantage))


def _learned(logits: Sequence[float], choice: int, advantage: float, rate: float, bonus: float) -> list[float]:
    """Log-probabilities after one step of REINFORCE with a bonus for entropy."""
    p = _softmax(logits)
    entropy = -float((p * np.log(p)).sum())
    steps = advantage * (np.arange(len(p)) == choice) - advantage * p - bonus * p * (np.log(p) + entropy)
    return [float(each) for each in np.asarray(logits) + rate * steps]


def _softmax(logits: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    powers = np.exp(np.asarray(logits, np.float64) - max(logits))
    shares: np.ndarray[Any, np.dtype[np.float64]] = np.maximum(powers / powers.sum(), 1e-12)
    return shares


def _widths_of(text: object) -> tuple[str, int, int]:
    """The kind of a format, and its exponent and significand bits. Raises NumcError for other kinds."""
    told = str(checked(text, "OneShotSearch: a format of formats", str, "a format such as 'e4m3'")).replace(" ", "")
    parts = _FORMAT.fullmatch(told)
    if parts is None:
        raise NumcError(f"OneShotSearch: a format of formats: got {quoted(told)}, want eXmY or bfp(G,E,M)")
    parse_operand_conversion(told)
    group, *widths = parts.groups()
    exponent, significand = (int(each) for each in widths if each is not None)
    return f"bfp({group},{exponent}" if group else "", exponent, significand


def _open_form(widths: Sequence[tuple[str, int, int]]) -> str:
    """The format that leaves open what formats differ in."""
    (stem, *_), exponents, significands = ([*dict.fromkeys(each)] for each in zip(*widths, strict=True))
    exponent, significand = (
        str(min(each)) if len(each) == 1 else f"{min(each)}..{max(each)}" for each in (exponents, significands)
    )
    return f"{stem},{significand})" if stem else f"e{exponent}m{significand}"


def _number(name: str, value: Any, most: float) -> float:
    """A number from 0 to `most`. Raises NumcError for anything else."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= most or math.isinf(number):
        want = "a number that is not negative" if math.isinf(most) else "a number from 0 to 1"
        raise NumcError(f"OneShotSearch: {name}: got {shown(value)}, want {want}")
    return number
