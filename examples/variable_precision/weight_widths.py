"""How many bits the weights of a trained net need: figures 6.2 (exponent) and 6.4 (significand) of the thesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import measure
import numpy as np
import numpy.typing as npt
import onnx
import published

PARTS = ("exponent", "significand")


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Weights of a model that need so many bits for a part of them, and the published share for a net like it."""

    model: str
    part: str
    bits: int
    weights: int
    share: float
    published: float | None


def exponent_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the fewest exponent bits, 2 to 8, whose normal numbers have the exponents of `x`; 0 for zeros.

    Also for the subnormal numbers of float32, which no format has as normal numbers.
    """
    exponents = np.frexp(x)[1] - 1
    bits = np.zeros(x.shape, np.int64)
    for width in range(8, 1, -1):
        bias = 2 ** (width - 1) - 1
        bits[(x != 0) & (exponents >= 1 - bias) & (exponents <= bias)] = width
    return bits


def significand_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the significand bits that are stored up to the last one that is set, 0 to 23."""
    fraction = x.view(np.uint32).astype(np.int64) & 0x7FFFFF
    lowest = np.frexp((fraction & -fraction).astype(np.float64))[1] - 1
    return np.where(fraction == 0, 0, 23 - lowest)


def run(models: Sequence[str]) -> list[Bin]:
    """Return the bins of every model, those with the most bits first."""
    bins = []
    for model in models:
        tensors = onnx.load(measure.FILES[model]).graph.initializer
        values = [onnx.numpy_helper.to_array(one) for one in tensors]
        weights = np.concatenate([one.reshape(-1) for one in values if one.dtype == np.float32])
        for part, bits in zip(PARTS, (exponent_bits(weights), significand_bits(weights)), strict=True):
            for width, count in sorted(Counter(bits.tolist()).items(), reverse=True):
                known = published.SIGNIFICANDS[model].get(width) if part == "significand" else None
                bins.append(
                    Bin(model=model, part=part, bits=width, weights=count, share=count / weights.size, published=known)
                )
    return bins
