"""Unit Scaling and u-muP: a network whose values and gradients have the variance 1, so that few exponents hold them."""

from __future__ import annotations

import math
import os
from numbers import Real
from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shown
from numc.train.published.unit_layers import UnitConv2d, UnitLinear, UnitReLU, times
from numc.train.recipes.arithmetics import Given
from numc.train.recipes.static import Static

_RULES = ("unit", "u-mup")
_REFUSED = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Bilinear, nn.modules.conv._ConvNd)


@in_default_environment
class UnitScaling(Static):
    """Gives a network weights, results and gradients of variance 1 at the start of a training (Blake et al., 2023).

        recipe = numc.train.UnitScaling(model, "fma(a=e4m3fn,acc=fp32) with update=fp32 norm=fp32 softmax=fp32")
        optimizer = torch.optim.Adam(recipe.groups(rate=0.01))
        forward = torch.compile(model, backend="numc")
        for x, y in loader:
            with recipe:
                loss = recipe.cross_entropy(forward(x), y)
                loss.backward()
            ...

    It stands in the place of a loss scale. The rule "u-mup" (Blake et al., 2024) has the same for widths that grow: the
    result of the last layer is divided by its width, and rates of hidden weights by the root of theirs.
    """

    def __init__(
        self,
        model: nn.Module,
        arithmetic: Given = "fp32",
        *,
        rule: str = "unit",
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Replace Linear, Conv2d and ReLU modules in `model`, with new random weights, before it is compiled.

        rule: "unit" or "u-mup". arithmetic, seed, log: see Recipe. Raises NumcError for a model without such layers, or
        with recurrent, grouped or other layers that would have other variances.
        """
        checked(model, "UnitScaling: model", nn.Module, "a module with Linear or Conv2d modules inside")
        if rule not in _RULES:
            raise NumcError(f"UnitScaling: rule: got {shown(rule)}, want unit or u-mup")
        super().__init__(arithmetic, seed=seed, log=log)
        self._rule = rule
        self._layers = _replaced(model, rule)
        self._others = [p for p in model.parameters() if not any(p is layer.weight for layer in self._layers.values())]

    @property
    def layers(self) -> dict[str, nn.Module]:
        """The layers with weights of variance 1, by name, in the order of the model; the last one is the readout."""
        return dict(self._layers)

    def cross_entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross entropy of logits (n, classes), whose gradient has the variance 1 where all are alike.

        The gradient is that of the sum, times classes / sqrt(classes - 1).
        """
        count, classes = logits.shape
        back = count * classes / max(1, classes - 1) ** 0.5
        return F.cross_entropy(times(logits, 1, back), target)

    def groups(self, rate: float) -> list[dict[str, Any]]:
        """Return the parameters with their learning rates, as Adam and AdamW take them.

        By "u-mup", hidden weights have rate / sqrt(fan in), the readout and all other parameters have `rate`.
        """
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < float(rate) < math.inf:
            raise NumcError(f"UnitScaling: rate: got {shown(rate)}, want a number above 0")
        *hidden, readout = self._layers.values()
        groups = [
            {"params": [layer.weight], "lr": rate * (layer.weight[0].numel() ** -0.5 if self._rule == "u-mup" else 1)}
            for layer in hidden
        ]
        return [*groups, {"params": [readout.weight, *self._others], "lr": rate}]

    def options(self) -> dict[str, Any]:
        return {"rule": self._rule}


def _replaced(model: nn.Module, rule: str) -> dict[str, Any]:
    names = [name for name, module in model.named_modules() if name and isinstance(module, nn.Linear | nn.Conv2d)]
    for name, module in list(model.named_modules()):
        new: Any = None
        if isinstance(module, nn.Linear):
            new = UnitLinear.of(module, rule, name == names[-1:][0]) if name else None
        elif isinstance(module, nn.Conv2d) and module.groups == 1 and module.padding_mode == "zeros":
            new = None if isinstance(module.padding, str) or not name else UnitConv2d.of(module, rule)
        elif isinstance(module, nn.ReLU) and name:
            new = UnitReLU(rule)
        if new is None and isinstance(module, _REFUSED):
            raise NumcError(
                f"UnitScaling: module {quoted(name)} is a {type(module).__name__}: want Linear, or Conv2d of one group "
                "with zeros in numbers around it"
            )
        if new is not None:
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, new)
    layers = {name: model.get_submodule(name) for name in names}
    if not layers:
        raise NumcError("UnitScaling: model: it has no Linear or Conv2d modules inside: want one at least")
    return layers
