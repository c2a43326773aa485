"""Numbers of 8 bits with a scale for each block, channel or tensor, as DeepSeek and vLLM have them ("fp8")."""

from __future__ import annotations

import torch

from numc.frontends.pytorch.quantised.packing import power
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings, refused

_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)


def _described(settings: Settings) -> str:
    block = settings.get("weight_block_size")
    if block is None:
        return "a scale for each tensor or channel"
    if not isinstance(block, list) or len(block) != 2 or not all(isinstance(size, int) and size > 0 for size in block):
        raise refused("weight_block_size", block, "want two sizes, such as [128, 128]")
    return f"a scale for each block of {block[0]}x{block[1]}"


def _weight(layer: Layer) -> torch.Tensor:
    """The element times its scale in float32, rounded to the dtype that the configuration names."""
    weight = layer.part(".weight")
    ending = ".weight_scale_inv" if ".weight_scale_inv" in layer.parts else ".weight_scale"
    scale = layer.scale(ending)
    if weight.dtype not in _DTYPES:
        raise layer.misfit()
    scale = power(scale) if scale.dtype == torch.uint8 else scale.to(torch.float32)
    block = layer.settings.get("weight_block_size") or (weight.shape if scale.numel() == 1 else (1, weight.shape[-1]))
    return (weight.to(torch.float32) * layer.spread(scale, weight.shape, block)).to(layer.dtype)


SCHEME = Scheme(
    (".weight", ".weight_scale_inv", ".weight_scale"),
    _weight,
    _described,
    ignored=(".input_scale", ".activation_scale", ".k_scale", ".v_scale"),
)
