"""FAST, algorithm 1: every tensor of every layer chooses in every step whether 2 or 4 magnitude bits will do."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from numc.compiler.torch_compile import open_widths
from numc.runtime.widths import WidthByRatio
from numc.studies.hardware.area import step_passes
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened, shown
from numc.train.recipes.recipe import Recipe

KINDS = "WAG"
"""Weights, activations, and the gradients of what a layer returns."""
_NARROW, _WIDE = 2, 4
# By role and operand; the second operand of a product of activations is one.
_KIND = {
    ("forward", "a"): "A", ("forward", "b"): "W", ("dgrad", "a"): "G", ("dgrad", "b"): "W",
    ("wgrad", "a"): "G", ("wgrad", "b"): "A",
}  # fmt: skip
_ARITHMETIC = (
    "default fma=fma(a={format},acc=fp32); role update, norm, softmax fp32; role dgrad, wgrad a={format}:{noise}"
)


@in_default_environment
class Fast(Recipe):
    """A recipe that gives each tensor 2 or 4 magnitude bits of block floating point (Zhang et al., HPCA 2022).

    A tensor X of layer l is converted with 2 bits if r(X) < epsilon(l, i) = alpha - beta i / I - beta l / L, else with
    4; numc.WidthByRatio says what r is. Gradients are rounded stochastically with 8 random bits, everything else by
    truncation; accumulators and all other operations are fp32. i counts steps, l layers in the order of the forward
    pass, both from 1.

    A layer is a module with weights. Where it has several tensors of a kind, as an LSTM has, the first that is read
    decides for all. A gradient is measured by the dgrad of its layer, or by the wgrad where there is no dgrad. In a
    product of activations, as in attention, both are A; it has the l of the layer before it.
    """

    needs_loss = False

    def __init__(
        self,
        total_steps: int,
        *,
        alpha: float = 0.6,
        beta: float = 0.3,
        g: int = 16,
        e: int = 3,
        every: int = 1,
        discard: bool = False,
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take I, `total_steps`; later steps have i = I.

        alpha, beta: of epsilon. g, e: values in a group, and exponent bits. every: widths hold for so many steps, the
        paper decides in each. discard: narrow gradients are those of 4 bits, rounded and then truncated, as the paper's
        converter makes them, which shrinks them. seed, log: see Recipe.
        Raises NumcError for values that are not allowed.
        """
        for name, value in {"alpha": alpha, "beta": beta}.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise NumcError(f"Fast: {name}: got {shown(value)}, want a number, such as the paper's 0.6 and 0.3")
        self.alpha, self.beta = float(alpha), float(beta)
        self.total_steps = checked_integer(total_steps, "Fast: total_steps", 1, 2**63 - 1)
        self._every = checked_integer(every, "Fast: every", 1, 2**63 - 1)
        form = f"bfp({checked_integer(g, 'Fast: g', 1, 4096)},{checked_integer(e, 'Fast: e', 1, 8)},{_NARROW}..{_WIDE})"
        noise = "sr8:discard" if checked(discard, "Fast: discard", bool, "True or False") else "sr8"
        super().__init__([_ARITHMETIC.format(format=form, noise=noise)], seed=seed, log=log)
        self._layers: dict[str, int] = {}  # l of every module
        self._block = -1  # of steps whose widths are the same
        self._tensors: dict[tuple[str, str], WidthByRatio] = {}  # of the block, by layer and kind
        self._operands: dict[str, dict[str, WidthByRatio]] = {}  # of the last step, by contraction

    @property
    def layers(self) -> tuple[str, ...]:
        """The modules with contractions in the order of the forward pass; none before `prepare` or the first step."""
        return tuple(self._layers)

    @property
    def ratios(self) -> dict[tuple[str, str], float | None]:
        """r of every tensor, by layer and one of KINDS, when its width was chosen."""
        return {key: tensor.ratio for key, tensor in self._tensors.items()}

    @property
    def bits(self) -> dict[str, dict[str, int]]:
        """The magnitude bits of the last step by contraction and operand, as TimeToAccuracy.step takes them."""
        return {
            name: {operand: tensor.width[1] for operand, tensor in operands.items() if tensor.width is not None}
            for name, operands in self._operands.items()
        }

    def epsilon(self, layer: int, step: int, layers: int | None = None) -> float:
        """Return epsilon(l, i), equation 1. layer, step: l and i, from 1; layers: L, by default that of the model."""
        count = max(self._layers.values()) if layers is None else layers
        return self.alpha - self.beta * (step / self.total_steps + layer / count)  # exactly 0 at the end

    def widths(self, contractions: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, WidthByRatio]]:
        """Return the widths of one program of the step; see numc.widths."""
        if not self._layers:
            self._layers = _numbered(contractions)
        if self._block != self.step // self._every:
            self._block, self._tensors, self._operands = self.step // self._every, {}, {}
        widths = {row["layer"]: {operand: self._tensor(row, operand) for operand in "ab"} for row in contractions}
        self._operands |= widths
        return widths

    def _tensor(self, row: Mapping[str, Any], operand: str) -> WidthByRatio:
        layer, kind = _layer_of(row), _KIND[row["role"], operand]
        if kind == "W" and _of_activations(row):
            kind = "A"
        if layer not in self._layers:
            raise NumcError(
                f"Fast: layer {quoted(layer)} is none of {shortened(', '.join(self._layers))}, which were found in the "
                "first graph: call recipe.prepare(step, ...) before the training, which finds those of all graphs"
            )
        if (layer, kind) not in self._tensors:
            epsilon = self.epsilon(self._layers[layer], min(self.step + 1, self.total_steps))
            self._tensors[layer, kind] = WidthByRatio(epsilon)
        return self._tensors[layer, kind]

    def prepare(self, step: Callable[..., Any], *batch: Any, keep: Sequence[Any] = ()) -> None:
        """Run the step twice, so that all is compiled and the layers are known; see Recipe.prepare."""
        rows: list[Mapping[str, Any]] = []
        with open_widths.widths(rows.extend):
            super().prepare(step, *batch, keep=keep)
        self._layers = self._layers or _numbered(rows)

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        (only,) = self.arithmetics
        bits = {key: tensor.width[1] for key, tensor in self._tensors.items() if tensor.width is not None}
        whole = [layer for layer in self._layers if all((layer, kind) in bits for kind in KINDS)]
        passes = sum(step_passes(*(bits[layer, kind] for kind in KINDS)).total for layer in whole)
        return only, {"passes": passes, **{f"{layer} {kind}": width for (layer, kind), width in bits.items()}}, ""

    def options(self) -> dict[str, Any]:
        numbers = {"alpha": self.alpha.hex(), "beta": self.beta.hex()}
        return {"total_steps": self.total_steps, "every": self._every, **numbers}

    def state(self) -> dict[str, Any]:
        widths = [[*key, *tensor.width] for key, tensor in self._tensors.items() if tensor.width is not None]
        return {"layers": dict(self._layers), "block": self._block, "widths": widths}

    def restore(self, state: Mapping[str, Any]) -> None:
        tensors = {}
        for layer, kind, exponent, significand in state["widths"]:
            tensors[str(layer), str(kind)] = tensor = WidthByRatio()
            tensor.width = int(exponent), int(significand)
        self._layers = {str(layer): int(number) for layer, number in state["layers"].items()}
        self._block = int(state["block"])
        self._tensors, self._operands = tensors, {}


def _numbered(contractions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of every layer, in the order of the forward pass."""
    numbers: dict[str, int] = {}
    count = 0
    for row in contractions:
        if _layer_of(row) not in numbers and row["role"] == "forward":
            count += not _of_activations(row)
            numbers[_layer_of(row)] = max(count, 1)
    return numbers


def _layer_of(row: Mapping[str, Any]) -> str:
    """Return the module that a contraction belongs to."""
    return str(row["layer"]).partition("/")[0]


def _of_activations(row: Mapping[str, Any]) -> bool:
    """Return whether a contraction has no weights: it is many products side by side, as in attention."""
    return row["kind"] == "matmul" and (row["b"] or 1) > 1
