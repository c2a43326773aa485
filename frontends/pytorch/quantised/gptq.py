"""GPTQ: integers of few bits and zero points, packed along the inputs, of AutoGPTQ and GPTQModel."""

from __future__ import annotations

import torch

from numc.frontends.pytorch.quantised.packing import unpacked
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings, one_of, refused

_FORMATS = ("gptq", "gptq_v2")


def _format(settings: Settings) -> str:
    key = "format" if "format" in settings else "checkpoint_format"
    return str(one_of(settings, key, _FORMATS, "gptq"))


def _described(settings: Settings) -> str:
    bits = one_of(settings, "bits", (2, 3, 4, 8))
    size = settings.get("group_size", -1)
    if not isinstance(size, int) or size < -1 or size == 0:
        raise refused("group_size", size, "want a number of inputs, or -1")
    if settings.get("dynamic"):
        raise refused("dynamic", settings["dynamic"], "want the same number of bits in all layers, none by layer")
    return f"{_format(settings)}, {bits} bits, groups of {'all' if size == -1 else size} inputs"


def _weight(layer: Layer) -> torch.Tensor:
    """(code - zero) in integers, times the scale, rounded to the dtype of the scales."""
    bits, size = layer.settings["bits"], layer.settings.get("group_size", -1)
    words, scales = layer.part(".qweight"), layer.scale(".scales")
    if words.dtype != torch.int32 or layer.part(".qzeros").dtype != torch.int32:
        raise layer.misfit()
    inputs, outputs = words.shape[0] * 32 // bits, words.shape[1]
    codes = unpacked(words, bits, inputs, axis=0)
    zeros = unpacked(layer.part(".qzeros"), bits, outputs)
    if _format(layer.settings) == "gptq":
        zeros = (zeros + 1) & ((1 << bits) - 1)  # the first version stored them less one
    group = torch.arange(inputs) // (inputs if size == -1 else size)
    group = layer.parts.get(".g_idx", group).to(torch.int64)
    if (
        scales.shape != zeros.shape
        or group.shape != (inputs,)
        or not 0 <= int(group.min()) <= int(group.max()) < len(scales)
    ):
        raise layer.misfit()
    return (scales[group] * (codes - zeros[group])).t()


SCHEME = Scheme((".qweight", ".qzeros", ".scales", ".g_idx"), _weight, _described)
