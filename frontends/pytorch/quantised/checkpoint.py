"""The weights of a folder whose configuration says that they are quantised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings
from numc.frontends.pytorch.quantised.schemes import SCHEMES
from numc.support.errors import NumcError, quoted

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Quantised:
    """A configuration whose weights are quantised: the name of their scheme, its settings, the dtype of the model."""

    method: str
    settings: Settings
    dtype: torch.dtype

    @property
    def scheme(self) -> Scheme:
        return SCHEMES[self.method]

    def __str__(self) -> str:
        return f"{self.method} ({self.scheme.described(self.settings)})"


def quantised(config: Mapping[str, Any]) -> Quantised | None:
    """Return how a configuration says that weights are quantised, None if they are not.

    Raises NumcError for a scheme that numc does not read, and for settings of a scheme that it does not know.
    """
    inner = config.get("text_config")
    levels = (config, inner) if isinstance(inner, Mapping) else (config,)
    keys = ("quantization_config", "compression_config")
    settings = next((level[key] for level in levels for key in keys if level.get(key)), None)
    if settings is None:
        return None
    known = ", ".join(SCHEMES)
    if not isinstance(settings, Mapping):
        raise NumcError(f"quantization_config is no object: want one with quant_method: {known}")
    old = "bitsandbytes" if settings.get("load_in_4bit") or settings.get("load_in_8bit") else None
    method = settings.get("quant_method", old)
    if method not in SCHEMES:
        said = "has no quant_method" if method is None else f"names the scheme {quoted(method)}"
        raise NumcError(f"quantization_config {said}: want {known}, or the model before it was quantised")
    named = next((level[key] for level in levels for key in ("dtype", "torch_dtype") if level.get(key)), "float32")
    if named not in _DTYPES:
        raise NumcError(f"dtype is {quoted(named)}: want {', '.join(_DTYPES)}")
    stored = Quantised(str(method), settings, _DTYPES[named])
    str(stored)  # settings that are not known raise
    return stored


def dequantised(files: list[Path], stored: Quantised) -> dict[str, torch.Tensor]:
    """Return all weights of files by name, in float32; the quantised ones as the library of their scheme makes them.

    Raises NumcError if a file cannot be read, and if a weight is not whole or its parts do not fit together.
    """
    weights: dict[str, torch.Tensor] = {}
    with ExitStack() as stack:
        opened = [stack.enter_context(_open(file)) for file in files]
        about = {name: text for file in opened for name, text in (file.metadata() or {}).items()}
        holders = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 it is no dictionary
        for prefix, endings in _layers(holders, stored.scheme).items():
            parts = {ending: _tensor(holders, prefix + ending) for ending in endings}
            if not endings - {stored.scheme.makes, ""}:
                weights |= _plain(prefix, parts)
                continue
            name = prefix + stored.scheme.makes
            weights[name] = _made(Layer(name, parts, stored.settings, about.get(name, ""), stored.dtype), stored.scheme)
    return weights


def check_plain(files: list[Path]) -> None:
    """Raise NumcError if weights are stored as numbers that mean nothing without a scale, and no scheme says which."""
    for file in files:
        with _open(file) as opened:
            for name in opened.keys():  # noqa: SIM118 it is no dictionary
                dtype = opened.get_slice(name).get_dtype()
                if name.endswith("weight") and dtype.startswith(("F8", "F4", "I", "U")):
                    wanted = "want one that says how they are quantised"
                    raise NumcError(f"weight {quoted(name)} is stored as {dtype}, but config.json has no "
                                    f"quantization_config: {wanted}")  # fmt: skip


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise NumcError(f"{quoted(file.name)} cannot be read: {error}: want a whole file of safetensors") from None


def _layers(holders: Mapping[str, Any], scheme: Scheme) -> dict[str, set[str]]:
    """Return the tensors of each weight: by the start of their names, their endings."""
    layers: dict[str, set[str]] = defaultdict(set)
    endings = sorted(scheme.parts, key=len, reverse=True)
    for name in holders:
        if name.endswith(scheme.ignored or ()):
            continue
        ending = next((ending for ending in endings if name.endswith(ending)), "")
        layers[name.removesuffix(ending)].add(ending)
    return layers


def _tensor(holders: Mapping[str, Any], name: str) -> torch.Tensor:
    tensor: torch.Tensor = holders[name].get_tensor(name)
    return tensor


def _plain(prefix: str, parts: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return tensors that are stored as they are, by name. Raises NumcError for a weight that would need a scale."""
    for ending, tensor in parts.items():
        name, dtype = prefix + ending, str(tensor.dtype).removeprefix("torch.")
        if name.endswith("weight") and not (tensor.is_floating_point() and tensor.itemsize > 1):
            raise NumcError(f"weight {quoted(name)} is stored as {dtype} without scales: the files are not whole")
    return {prefix + e: t.to(torch.float32) if t.is_floating_point() else t for e, t in parts.items()}


def _made(layer: Layer, scheme: Scheme) -> torch.Tensor:
    try:
        weight = scheme.weight(layer).to(torch.float32).contiguous()
    except (RuntimeError, IndexError, ValueError, TypeError, KeyError):  # of torch, for shapes that no check foresaw
        raise layer.misfit() from None
    if not bool(torch.isfinite(weight).all()):
        raise NumcError(f"weight {quoted(layer.name)} has numbers that are not finite: take another copy of the files")
    return weight
