"""The cache of a language model's keys and values in 8 bits: they are rounded when they are written."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numc.support.errors import NumcError, quoted

_LARGEST = {"e4m3fn": 448.0, "e5m2": 57344.0, "int8": 127.0}
_DTYPES = {"e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2", "int8": "int8"}
# What shares a scale: axes of [batch, heads, tokens, size of a head].
_AXES = {"token": (3,), "head": (2, 3), "tensor": (0, 1, 2, 3)}


@dataclass(frozen=True)
class CacheFormat:
    """The format of a cache. shared: what has one scale, "token", "head" or "tensor"; "" where there are no scales."""

    format: str
    shared: str

    def __str__(self) -> str:
        return f"{self.format}:{self.shared}" if self.shared else self.format


def cache_format(text: str) -> CacheFormat:
    """Return the format that a text names. Raises NumcError for any other text."""
    name, _, shared = text.partition(":")
    if name == "int8" and ":" not in text:
        shared = "token"
    if name not in _LARGEST or (shared not in _AXES and text != name):
        trap = ": PyTorch and NVIDIA mean e4m3fn by e4m3" if name in ("e4m3", "fp8_e4m3") else ""
        raise NumcError(f"--kv-cache {quoted(text)}{trap}: want e4m3fn, e5m2 or int8, and for scales :token, :head or "
                        ":tensor after it, such as e4m3fn:head")  # fmt: skip
    return CacheFormat(name, shared)


def cache_of(model: Any, fmt: CacheFormat) -> Any:
    """Return an empty cache for a model, whose arrays have one byte for each element, beside the scales.

    Raises NumcError if the model keeps anything else than keys and values.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    type_name = type(model).__name__
    if argument_of(model) is None:
        raise NumcError(f"{type_name} has no cache of keys and values: leave --kv-cache out")
    cache = DynamicCache(config=model.config)
    kept = {type(layer) for layer in cache.layers}
    if others := sorted(layer.__name__ for layer in kept - {DynamicLayer, DynamicSlidingWindowLayer}):
        raise NumcError(f"{type_name} keeps more than keys and values ({', '.join(others)}): leave --kv-cache out")
    classes = {layer: _rounded(layer, fmt) for layer in kept}
    for layer in cache.layers:
        layer.scales = copy.copy(layer)  # a layer of the same kind, which keeps the scales of the same tokens
        layer.__class__ = classes[type(layer)]
    return cache


def argument_of(model: Any) -> str | None:
    """Return the name of the argument by which a model takes its cache: transformers has changed it; None for none."""
    names = inspect.signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in names), None)


def cache_bytes(cache: Any) -> int:
    """Return the size of the arrays of a cache, with their scales."""
    arrays = [array for layer in cache.layers for array in (layer.keys, layer.values)]
    arrays += [array for layer in cache.layers for array in (layer.scales.keys, layer.scales.values)]
    return sum(array.nbytes for array in arrays if array is not None)


def _rounded(layer: type[Any], fmt: CacheFormat) -> type[Any]:
    """Return a kind of layer that keeps what it is given in a format, and gives the rounded numbers back."""
    written = _writer(fmt)

    class RoundedLayer(layer):  # type: ignore[misc]
        def update(self, key_states: Any, value_states: Any, *others: Any, **named: Any) -> tuple[Any, Any]:
            keys, key_scales = written(key_states)
            values, value_scales = written(value_states)
            keys, values = super().update(keys, values, *others, **named)
            keys, values = keys.to(key_states.dtype), values.to(value_states.dtype)
            if not fmt.shared:
                return keys, values
            key_scales, value_scales = self.scales.update(key_scales, value_scales, *others, **named)
            return keys * key_scales, values * value_scales

    return RoundedLayer


def _writer(fmt: CacheFormat) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function from numbers to codes and scales, [batch, heads, tokens, 1], by the definition of `mx`."""
    import torch

    dtype, largest = getattr(torch, _DTYPES[fmt.format]), _LARGEST[fmt.format]

    def written(x: Any) -> tuple[Any, Any]:
        if not fmt.shared:
            return x.to(dtype), None
        peak = x.abs().amax(_AXES[fmt.shared], keepdim=True)
        scale = torch.where(peak > 0, (peak / largest).clamp(min=2.0**-149), peak)
        scale = torch.where(peak < torch.inf, scale, torch.nan)
        quotient = torch.where(scale == 0, x, x / scale)
        if not dtype.is_floating_point:
            quotient = torch.where(scale.isnan(), 0, quotient.round().clamp(-largest, largest))
        return quotient.to(dtype), scale.expand(*x.shape[:-1], 1)

    return written
