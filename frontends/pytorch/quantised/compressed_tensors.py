"""compressed-tensors, which llm-compressor writes: integers and small floats with scales of any shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from numc.frontends.pytorch.quantised.packing import fp4, power, unpacked
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings, matches, one_of, refused
from numc.support.errors import NumcError, quoted

_STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")  # of scales
_TYPES = {("int", n): torch.int8 for n in range(1, 9)} | {("float", 8): torch.float8_e4m3fn}


def _described(settings: Settings) -> str:
    for key in ("sparsity_config", "transform_config"):
        setting = settings.get(key)
        if setting and not (isinstance(setting, dict) and setting.get("format") == "dense"):
            raise refused(key, setting, "want weights that are quantised and nothing else")
    groups = settings.get("config_groups")
    if not isinstance(groups, dict) or not all(isinstance(group, dict) for group in groups.values()):
        raise refused("config_groups", groups, "want groups with weights, as compressed-tensors writes them")
    if not (of_weights := _groups(settings)):
        raise refused("config_groups", groups, "want groups with weights, as compressed-tensors writes them")
    return ", ".join(dict.fromkeys(_of_group(settings, group) for group in of_weights))


def _groups(settings: Settings) -> list[dict[str, Any]]:
    """Return the groups of layers whose weights are quantised: others say only how activations are rounded."""
    return [group for group in settings["config_groups"].values() if group.get("weights") is not None]


def _of_group(settings: Settings, group: dict[str, Any]) -> str:
    form, weights = _format(settings, group), group.get("weights")
    if not isinstance(weights, dict):
        raise refused("weights", weights, "want num_bits, type and strategy, as compressed-tensors writes them")
    strategy = _strategy(weights)
    bits = one_of(weights, "num_bits", tuple(range(1, 9)), 8)
    size = weights.get("group_size")
    if strategy == "group" and not (type(size) is int and size > 0):
        raise refused("group_size", size, "want a number of inputs")
    size = f" of {size}" if strategy == "group" else ""
    return f"{form}, {bits} bits, a scale for each {strategy}{size}"


def _strategy(about: dict[str, Any]) -> str:
    return str(one_of(about, "strategy", _STRATEGIES, "group" if about.get("group_size") else "tensor"))


def _format(settings: Settings, group: dict[str, Any]) -> str:
    form = group.get("format") or settings.get("format")
    return str(one_of({"format": form}, "format", tuple(_FORMATS)))


def _weight(layer: Layer) -> torch.Tensor:
    group = _group_of(layer)
    return _FORMATS[_format(layer.settings, group)](layer, group["weights"])


def _group_of(layer: Layer) -> dict[str, Any]:
    """Return the group that names a layer: by its name, by a pattern, or else by the kind of its module."""
    groups = _groups(layer.settings)
    if len(groups) == 1:
        return groups[0]
    module = layer.name.removesuffix(".weight")

    def named(target: str) -> int:
        if target.startswith("re:"):
            return 1 if matches("targets", target[3:], module) else 3
        return 0 if target == module else 2 if target == "Linear" else 3

    ranked = [(min((named(str(t)) for t in group.get("targets", ())), default=3), n) for n, group in enumerate(groups)]
    rank, number = min(ranked)
    if rank == 3:
        raise NumcError(f"weight {quoted(layer.name)}: no group of config_groups has it among its targets: want one")
    return groups[number]


def _scaled(layer: Layer, codes: torch.Tensor, scale: torch.Tensor, about: dict[str, Any]) -> torch.Tensor:
    """(code - zero) times the scale, each rounded to the dtype of the scale."""
    zero = layer.parts.get(".weight_zero_point") if about.get("symmetric", True) else layer.part(".weight_zero_point")
    if zero is not None and zero.dtype == torch.int32:
        bits = about["num_bits"]
        zero = unpacked(zero, bits, codes.shape[0], axis=0) - (1 << (bits - 1))
    values = codes.to(scale.dtype)
    if zero is not None:
        values = values - _spread(layer, zero.to(scale.dtype), codes.shape, about)
    return values * _spread(layer, scale, codes.shape, about)


def _spread(layer: Layer, scale: torch.Tensor, shape: torch.Size, about: dict[str, Any]) -> torch.Tensor:
    order = layer.parts.get(".weight_g_idx")
    if order is not None and int(order.min()) >= 0:  # the inputs were quantised in the order of their importance
        if order.shape != shape[-1:] or scale.ndim != 2 or int(order.max()) >= scale.shape[1]:
            raise layer.misfit()
        return scale[:, order.to(torch.int64)]
    size, block = about.get("group_size"), about.get("block_structure")
    blocks = {"tensor": shape, "channel": (1, shape[-1]), "block": block}
    return layer.spread(scale, shape, blocks.get(_strategy(about), (1, size)))


def _plain(layer: Layer, about: dict[str, Any]) -> torch.Tensor:
    codes = layer.part(".weight")
    if codes.dtype != _TYPES.get((str(about.get("type", "int")), about.get("num_bits", 8))):
        raise layer.misfit()
    return _scaled(layer, codes, layer.scale(".weight_scale"), about)


def _packed(layer: Layer, about: dict[str, Any]) -> torch.Tensor:
    words, shape = layer.part(".weight_packed"), torch.Size(layer.part(".weight_shape").tolist())
    bits = about["num_bits"]
    if words.dtype != torch.int32 or words.shape != (*shape[:-1], -(-shape[-1] * bits // 32)):
        raise layer.misfit()
    codes = unpacked(words, bits, shape[-1]) - (1 << (bits - 1))
    return _scaled(layer, codes, layer.scale(".weight_scale"), about)


def _nvfp4(layer: Layer, about: dict[str, Any]) -> torch.Tensor:
    """The element times (its block's scale divided by the tensor's) in float32, rounded to bfloat16."""
    scale = layer.scale(".weight_scale").to(torch.bfloat16) / layer.scale(".weight_global_scale")
    values = fp4(layer.part(".weight_packed"), torch.bfloat16).to(scale.dtype)
    return (values * layer.spread(scale, values.shape, (1, 16))).to(torch.bfloat16)


def _mxfp4(layer: Layer, about: dict[str, Any]) -> torch.Tensor:
    values = fp4(layer.part(".weight_packed"), torch.bfloat16)
    return values * layer.spread(power(layer.scale(".weight_scale")).to(torch.bfloat16), values.shape, (1, 32))


def _mxfp8(layer: Layer, about: dict[str, Any]) -> torch.Tensor:
    scale = power(layer.scale(".weight_scale")).to(torch.bfloat16)
    return _scaled(layer, layer.part(".weight"), scale, about)


_FORMATS: dict[str, Callable[[Layer, dict[str, Any]], torch.Tensor]] = {
    "pack-quantized": _packed,
    "int-quantized": _plain,
    "float-quantized": _plain,
    "naive-quantized": _plain,
    "nvfp4-pack-quantized": _nvfp4,
    "mxfp4-pack-quantized": _mxfp4,
    "mxfp8-quantized": _mxfp8,
}
_PARTS = ("weight", "weight_packed", "weight_shape", "weight_scale", "weight_zero_point", "weight_g_idx")

SCHEME = Scheme(
    (*(f".{part}" for part in _PARTS), ".weight_global_scale"),
    _weight,
    _described,
    ignored=(
        *(f".{of}_{what}" for of in ("input", "output") for what in ("scale", "zero_point", "global_scale", "g_idx")),
        *(f".{of}_{what}" for of in ("k", "v", "q") for what in ("scale", "zero_point")),
    ),
)
