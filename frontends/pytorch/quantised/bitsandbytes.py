"""bitsandbytes: 4 bits in blocks with a table of values (NF4, FP4), or LLM.int8() with a scale for each row."""

from __future__ import annotations

import json
from typing import Any

import torch

from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings, one_of

_STATE = (".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4")
_DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
_NUMBERS = (".weight.absmax", ".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map")


def _described(settings: Settings) -> str:
    if not settings.get("load_in_4bit"):
        return "8 bits"
    return f"4 bits, {one_of(settings, 'bnb_4bit_quant_type', ('nf4', 'fp4'), 'fp4')}"


def _weight(layer: Layer) -> torch.Tensor:
    return _of_rows(layer) if ".SCB" in layer.parts else _of_blocks(layer)


def _of_rows(layer: Layer) -> torch.Tensor:
    """The code times its row's scale, times 1/127, each in float32."""
    codes, scale = layer.part(".weight"), layer.scale(".SCB")
    if codes.dtype != torch.int8 or scale.shape != codes.shape[:1] or int(layer.parts.get(".weight_format", 0)) != 0:
        raise layer.misfit()
    return codes * scale.view(-1, 1) * 7.874015718698502e-3


def _of_blocks(layer: Layer) -> torch.Tensor:
    """The table's value times the block's largest in float32, rounded to the dtype before quantisation.

    With two levels, the largest is itself a value of a table times that of its own block, plus an offset.
    """
    ending = next((ending for ending in _STATE if ending in layer.parts), _STATE[0])
    state = _state(layer, ending)
    largest = layer.part(".weight.absmax")
    if ".weight.nested_absmax" in layer.parts:
        table, size = layer.scale(".weight.nested_quant_map"), state["nested_blocksize"]
        largest = _blocks(layer, table[largest.to(torch.int64)], layer.scale(".weight.nested_absmax"), size)
        largest = largest + torch.tensor(float(state["nested_offset"]))
    else:
        largest = layer.scale(".weight.absmax")
    codes = layer.part(".weight").contiguous().view(torch.uint8).flatten()
    both = torch.stack((codes >> 4, codes & 15), -1).flatten()
    table = layer.scale(".weight.quant_map")
    shape = torch.Size(state["shape"])
    if table.shape != (16,) or len(both) not in (shape.numel(), shape.numel() + 1):
        raise layer.misfit()
    if ending.endswith("fp4"):  # of its two zeros, the table in the file has only one, the library's kernels have both
        table = table.index_fill(0, torch.tensor(8), -0.0)
    values = _blocks(layer, table[both[: shape.numel()].to(torch.int64)], largest.to(torch.float32), state["blocksize"])
    return values.reshape(shape).to(_DTYPES[state["dtype"]])


def _state(layer: Layer, ending: str) -> dict[str, Any]:
    """Return what a layer says of itself as JSON."""
    try:
        state: dict[str, Any] = json.loads(bytes(layer.part(ending).tolist()))
        if state["dtype"] in _DTYPES and state["blocksize"] > 0 and state.get("nested_blocksize", 1) > 0:
            return state
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise layer.misfit()


def _blocks(layer: Layer, values: torch.Tensor, scales: torch.Tensor, size: int) -> torch.Tensor:
    if scales.shape != (-(-len(values) // size),):
        raise layer.misfit()
    return values * scales.repeat_interleave(size)[: len(values)]


SCHEME = Scheme((".weight", *_NUMBERS, *_STATE, ".SCB", ".weight_format"), _weight, _described)
