"""AWQ: integers of 4 bits and zero points, packed along the outputs in an order of their own, as AutoAWQ's "gemm"."""

from __future__ import annotations

import torch

from numc.frontends.pytorch.quantised.packing import unpacked
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings, one_of, refused

_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # where the outputs of a word are in it


def _described(settings: Settings) -> str:
    one_of(settings, "bits", (4,), settings.get("w_bit", 4))
    version = str(settings.get("version", settings.get("format", "gemm"))).lower()
    if version != "gemm":
        raise refused("version", version, "want gemm, whose order of packing is known")
    size = _size(settings)
    return f"gemm, 4 bits, groups of {'all' if size == -1 else size} inputs"


def _size(settings: Settings) -> int:
    size = settings.get("group_size", settings.get("q_group_size", 128))
    if not isinstance(size, int) or size < -1 or size == 0:
        raise refused("group_size", size, "want a number of inputs, or -1")
    return size


def _weight(layer: Layer) -> torch.Tensor:
    """(code - zero) in integers, times the scale, rounded to the dtype of the scales."""
    words, scales, size = layer.part(".qweight"), layer.scale(".scales"), _size(layer.settings)
    codes, zeros = _in_order(layer, words), _in_order(layer, layer.part(".qzeros"))
    block = (len(codes) if size == -1 else size, 1)
    if scales.shape != zeros.shape:
        raise layer.misfit()
    spread, zeros = layer.spread(scales, codes.shape, block), layer.spread(zeros, codes.shape, block)
    return ((codes - zeros) * spread).t()


def _in_order(layer: Layer, words: torch.Tensor) -> torch.Tensor:
    if words.dtype != torch.int32:
        raise layer.misfit()
    codes = unpacked(words, 4, 8 * words.shape[1])
    return codes.unflatten(1, (-1, 8))[..., torch.tensor(_ORDER)].flatten(1)


SCHEME = Scheme((".qweight", ".qzeros", ".scales"), _weight, _described)
