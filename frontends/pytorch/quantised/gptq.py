"""GPTQ: integers of few bits and zero points, packed along the inputs, of AutoGPTQ and GPTQModel."""

from __future__ import annotations

import torch

from numc.frontends.pytorch.quantised.packing import unpacked
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings, matches, one_of, refused

_FORMATS = ("gptq", "gptq_v2")
_LEFT_OUT = "-:"  # before a pattern of layers that are not quantised


def _format(settings: Settings) -> str:
    key = "format" if "format" in settings else "checkpoint_format"
    return str(one_of(settings, key, _FORMATS, "gptq"))


def _described(settings: Settings) -> str:
    dynamic = settings.get("dynamic") or {}
    if not isinstance(dynamic, dict) or not all(isinstance(other, dict) for other in dynamic.values()):
        raise refused("dynamic", dynamic, "want settings by pattern of the names of layers, as GPTQModel writes them")
    _other_settings({**settings, "dynamic": dynamic}, "")  # a pattern that is none raises
    ways = (settings, *({**settings, **other} for key, other in dynamic.items() if not key.startswith(_LEFT_OUT)))
    return ", ".join(dict.fromkeys(map(_of_layers, ways)))


def _of_layers(settings: Settings) -> str:
    bits = one_of(settings, "bits", (2, 3, 4, 8))
    size = settings.get("group_size", -1)
    if not isinstance(size, int) or size < -1 or size == 0:
        raise refused("group_size", size, "want a number of inputs, or -1")
    return f"{_format(settings)}, {bits} bits, groups of {'all' if size == -1 else size} inputs"


def _other_settings(settings: Settings, module: str) -> Settings:
    """Return the settings of a layer: the first pattern that its name begins with may change them."""
    dynamic = settings.get("dynamic") or {}
    matching = [key for key in dynamic if matches("dynamic", key.removeprefix(_LEFT_OUT).removeprefix("+:"), module)]
    return {**settings, **dynamic[matching[0]]} if matching else settings


def _weight(layer: Layer) -> torch.Tensor:
    """(code - zero) in integers, times the scale, rounded to the dtype of the scales."""
    settings = _other_settings(layer.settings, layer.name.removesuffix(".weight"))
    bits, size = settings["bits"], settings.get("group_size", -1)
    words, scales = layer.part(".qweight"), layer.scale(".scales")
    if words.dtype != torch.int32 or layer.part(".qzeros").dtype != torch.int32:
        raise layer.misfit()
    inputs = words.shape[0] * 32 // bits
    group = torch.arange(inputs) // (inputs if size == -1 else size)
    group = layer.parts.get(".g_idx", group).to(torch.int64)
    if scales.ndim != 2 or group.ndim != 1 or words.shape != (-(-len(group) * bits // 32), scales.shape[1]):
        raise layer.misfit()
    codes = unpacked(words, bits, len(group), axis=0)
    zeros = unpacked(layer.part(".qzeros"), bits, scales.shape[1])
    if _format(settings) == "gptq":
        zeros = (zeros + 1) & ((1 << bits) - 1)  # the first version stored them less one
    if scales.shape != zeros.shape or not 0 <= int(group.min()) <= int(group.max()) < len(scales):
        raise layer.misfit()
    return (scales[group] * (codes - zeros[group])).t()


SCHEME = Scheme((".qweight", ".qzeros", ".scales", ".g_idx"), _weight, _described)
