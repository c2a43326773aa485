"""Programs for GPUs, emulated, beside those of this processor: every bit of the results is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import numc

NEEDS = "Triton, which emulates kernels of GPUs, is not installed: pip install 'numc[gpu]'"


def both(model: Any, inputs: Sequence[Any], *, target: str = "host", seed: int | None = None, **how: Any) -> list[str]:
    """Compile a model for target ``cuda`` and for this processor, and run both; returns what differs, in hex."""
    examples = {} if isinstance(model, (str, bytes)) or hasattr(model, "__fspath__") else {"example_inputs": inputs}
    emulated = numc.compile(model, target="cuda", **examples, **how).to("cpu")
    here = numc.compile(model, target=target, **examples, **how)
    told = {} if seed is None else {"seed": seed}
    found = (_listed(program(*inputs, **told)) for program in (emulated, here))
    return [text for pair in zip(*found, strict=True) if (text := difference(*pair))]


def _listed(results: Any) -> list[np.ndarray]:
    values = list(results.values()) if isinstance(results, dict) else [results]
    return [_array(v.detach()) if isinstance(v, torch.Tensor) else np.asarray(v) for v in values]


def _array(tensor: torch.Tensor) -> np.ndarray:
    """An array, with the bits of what numpy has no numbers of."""
    array: np.ndarray = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def difference(gpu: np.ndarray, here: np.ndarray) -> str:
    """The first place where two arrays differ, with the bits of both; NaN are one value."""
    if gpu.shape != here.shape or gpu.dtype != here.dtype:
        return f"{gpu.dtype}{gpu.shape} and {here.dtype}{here.shape}"
    bits = [np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}") for a in (gpu, here)]
    differs = bits[0] != bits[1]
    if gpu.dtype.kind == "f":
        differs &= ~(np.isnan(gpu) & np.isnan(here))
    if not differs.any():
        return ""
    place = tuple(int(n) for n in np.argwhere(differs)[0])
    theirs, ours = (f"0x{each[place]:x}" for each in bits)
    return f"{int(differs.sum())} of {gpu.size} differ, the first at {place}: {theirs}, here {ours}"


def operands(kind: str, shape: Sequence[int], seed: int) -> torch.Tensor:
    """Numbers: ``normal``, ``wide`` over 120 binades, or ``special`` with zeros, infinities, NaN and subnormals."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "wide":
        x *= np.exp2(rng.integers(-60, 60, size=shape)).astype(np.float32)
    if kind == "special":
        which = rng.integers(0, 40, size=shape)
        for n, value in enumerate((0.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-42, 3e38)):
            x[which == n] = value
    return torch.from_numpy(x)
