"""The layers of a model, and the insertion of normalisations before them and into their weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.rnn import RNNBase, RNNCellBase
from torch.nn.utils.parametrize import register_parametrization

from numc.support.errors import NumcError, shortened
from numc.train.trainbf.cr_norm import CRNorm
from numc.train.trainbf.weights import RangeWeight

KINDS = (nn.Linear, _ConvNd, RNNCellBase, RNNBase)
NORM = "cr_norm"
"""The attribute of a layer that holds the norm of its input."""
# Between a batch norm and the layer whose input it normalises.
_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Identity)


def is_normalised(model: nn.Module) -> bool:
    """Return whether a model has norms or weights of TrainBF."""
    return any(isinstance(module, CRNorm | RangeWeight) for module in model.modules())


def normalise(model: nn.Module, name: str, batch: Sequence[Any], *, norm: bool, weights: bool) -> None:
    """Normalise a layer, in place.

    norm: put a CRNorm before it. Where a batch norm makes its input, perhaps with an activation between, the CRNorm
    replaces that, by channel; it then serves all layers behind it. Otherwise it normalises the whole tensor. weights:
    normalise its weights with the R of the CRNorm, with the gain that keeps the variance of its output on `batch`.
    """
    layer = model.get_submodule(name)
    before = _norm_before(model, name, batch) if norm else None
    if weights:
        value = inputs_of(model, batch)[0].get(name)
        for weight in _weights(layer):
            _normalise_weight(layer, weight, value, None if before is None else before.R)


def _norm_before(model: nn.Module, name: str, batch: Sequence[Any]) -> CRNorm:
    """Return the CRNorm that makes a layer's input, which is inserted if there is none."""
    sources = inputs_of(model, batch)[1]
    source = sources.get(name, "")
    while source and isinstance(model.get_submodule(source), _ACTIVATIONS):
        source = sources.get(source, "")
    module = model.get_submodule(source) if source else None
    if isinstance(module, CRNorm):
        return module
    if isinstance(module, _BatchNorm):
        norm = _placed(CRNorm(module.num_features), module)
        parent, _, attribute = source.rpartition(".")
        setattr(model.get_submodule(parent), attribute, norm)
        return norm
    layer = model.get_submodule(name)
    norm = _placed(CRNorm(), layer)
    layer.add_module(NORM, norm)
    layer.register_forward_pre_hook(_apply_norm)
    return norm


def _apply_norm(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (layer.cr_norm(inputs[0]), *inputs[1:])


def _placed(norm: CRNorm, module: nn.Module) -> CRNorm:
    """Put a norm into the mode of a module, and onto its device."""
    tensors = (*module.parameters(), *module.buffers())
    norm.to(next((tensor.device for tensor in tensors), torch.device("cpu")))
    norm.train(module.training)
    return norm


def _weights(layer: nn.Module) -> list[str]:
    """Return the names of a layer's weights; none for nn.LSTM and its like, which keep a list of their own."""
    if isinstance(layer, RNNCellBase):
        return ["weight_ih", "weight_hh"]
    return [] if isinstance(layer, RNNBase) else ["weight"]


def _normalise_weight(layer: nn.Module, name: str, value: Tensor | None, R: nn.Parameter | None) -> None:  # noqa: N803
    weight = getattr(layer, name).detach().clone()
    linear = value is not None and not isinstance(layer, RNNCellBase)
    before = _spread(layer, value) if linear else 0.0
    parametrization = RangeWeight(R).to(weight.device)
    parametrization.keep_spread(weight)
    register_parametrization(layer, name, parametrization)
    after = _spread(layer, value) if linear else 0.0
    if after:
        # The weights have the spread of before, but their mean is gone, which the output may show.
        parametrization.gain.mul_(before / after)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _spread(layer: nn.Module, value: Tensor | None) -> float:
    """Return the standard deviation of a linear layer's output on its normalised input, without its bias."""
    alone = copy.deepcopy(layer)
    alone._forward_pre_hooks.clear()
    if alone.bias is not None:
        alone.bias.zero_()
    return float(alone(value).double().std(unbiased=False))


def inputs_of(model: nn.Module, batch: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Run a copy of a model on a batch; return the inputs of its layers, and the names of the modules that made them.

    Raises NumcError if the model fails.
    """
    copied = copy.deepcopy(model)
    values: dict[str, Tensor] = {}
    sources: dict[str, str] = {}
    made: dict[int, tuple[str, Any]] = {}  # by identity of a tensor, which stays alive

    def watch(name: str, module: nn.Module) -> None:
        def before(_: nn.Module, given: tuple[Any, ...]) -> None:
            if given and isinstance(given[0], Tensor):
                sources.setdefault(name, made.get(id(given[0]), ("", None))[0])
                if isinstance(module, KINDS):
                    values.setdefault(name, given[0].detach().clone())

        def after(_: nn.Module, __: Any, result: Any) -> None:
            made[id(result)] = name, result

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)

    for name, module in copied.named_modules():
        if isinstance(module, KINDS) or not any(True for _ in module.children()):
            watch(name, module)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            copied(*batch)
        except Exception as error:
            raise NumcError(f"TrainBF: the model fails on the batch ({shortened(error)})") from None
    return values, sources
