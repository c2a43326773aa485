"""MXFP4 as gpt-oss has it: blocks of 32 numbers of 4 bits with the exponent of their scale."""

from __future__ import annotations

import torch

from numc.frontends.pytorch.quantised.packing import fp4, power
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings


def _described(_: Settings) -> str:
    return "blocks of 32 with a power of two"


def _weight(layer: Layer) -> torch.Tensor:
    """The element times 2**(scale - 127), which is a number of bfloat16, or infinite if it is too large for one."""
    blocks, scales = layer.part("_blocks"), layer.scale("_scales")
    if blocks.dtype != torch.uint8 or scales.dtype != torch.uint8 or blocks.shape[:-1] != scales.shape:
        raise layer.misfit()
    values = fp4(blocks, torch.float32) * power(scales).unsqueeze(-1)
    return values.flatten(-2).transpose(-2, -1)  # experts, inputs, outputs


SCHEME = Scheme(("_blocks", "_scales"), _weight, _described, makes="")
