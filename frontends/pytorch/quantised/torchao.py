"""torchao: its kinds of tensors as it flattens them for safetensors, described in the header of the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from numc.frontends.pytorch.quantised.packing import fp4, power
from numc.frontends.pytorch.quantised.scheme import Layer, Scheme, Settings
from numc.support.errors import NumcError, quoted

_DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2)


def _described(settings: Settings) -> str:
    config = settings.get("quant_type")
    named = next(iter(config.values()), None) if isinstance(config, dict) and config else config
    return str(named.get("_type", "")) if isinstance(named, dict) else str(named or "kinds of tensors by weight")


def _weight(layer: Layer) -> torch.Tensor:
    about = _about(layer)
    type_name = about.get("_type")
    if type_name not in _KINDS:
        why = ": it has the order of a kernel's memory" if str(type_name).startswith("Int4") else ""
        wanted = ", ".join(_KINDS)
        raise NumcError(f"weight {quoted(layer.name)}: is a {quoted(type_name)} of torchao{why}: want {wanted}")
    data = about["_data"]
    if data.get("is_swizzled_scales"):
        raise NumcError(f"weight {quoted(layer.name)}: its scales have the order of a kernel's memory: "
                        "want is_swizzled_scales=False")  # fmt: skip
    if "._weight_act_pre_scale" in layer.parts:
        raise NumcError(f"weight {quoted(layer.name)}: its inputs are scaled before the product, which is no "
                        "property of weights: want a weight without act_pre_scale")  # fmt: skip
    dtype = _DTYPES.get(_named(data.get("dtype", data.get("orig_dtype"))))
    if dtype is None:
        raise layer.misfit()
    return _KINDS[type_name](layer, data, dtype)


def _about(layer: Layer) -> dict[str, Any]:
    try:
        about = json.loads(layer.about)
        if isinstance(about, dict) and isinstance(about.get("_data", {}), dict):
            return {"_data": {}, **about}
    except (ValueError, RecursionError):
        pass
    raise NumcError(f"weight {quoted(layer.name)}: the header of its file does not describe it: "
                    "want a checkpoint as torchao writes it")  # fmt: skip


def _named(value: object) -> str:
    return str(value.get("_data")) if isinstance(value, dict) else str(value)


def _float8(layer: Layer, _: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """The element times its scale in float32, rounded to the dtype before quantisation."""
    codes, scale = layer.part("._weight_qdata"), layer.scale("._weight_scale")
    if codes.dtype not in _FLOATS:
        raise layer.misfit()
    return (codes.to(torch.float32) * layer.spread(scale, codes.shape)).to(dtype)


def _affine(layer: Layer, data: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """(code - zero) in the dtype before quantisation, times the scale, rounded to that dtype."""
    codes, scale = layer.part("._weight_qdata"), layer.scale("._weight_scale")
    block = data.get("block_size")
    if codes.dtype != torch.int8 or not isinstance(block, list) or len(block) != codes.ndim or min(block) < 1:
        raise layer.misfit()
    counts = [-(-size // length) for size, length in zip(codes.shape, block, strict=True)]
    values = codes.to(dtype)
    if (zero := layer.parts.get("._weight_zero_point")) is not None:
        values = values - layer.spread(zero.reshape(counts).to(dtype), codes.shape, block)
    return (values * layer.spread(scale.reshape(counts), codes.shape, block)).to(dtype)


def _mx(layer: Layer, data: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """The element times its power of two, in the dtype before quantisation."""
    codes, scale = layer.part("._weight_qdata"), power(layer.scale("._weight_scale")).to(dtype)
    if codes.dtype in _FLOATS:
        values = codes.to(dtype)
    elif _named(data.get("elem_dtype")) == "float4_e2m1fn_x2":
        values = fp4(codes, dtype)
    else:
        raise layer.misfit()
    return values * layer.spread(scale, values.shape, (*(1,) * (values.ndim - 1), data["block_size"]))


def _nvfp4(layer: Layer, data: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """The element times (the tensor's scale times its block's) in float32, rounded to the dtype before quantisation."""
    values = fp4(layer.part("._weight_qdata"), torch.float32)
    scale = layer.scale("._weight_scale").to(torch.float32)
    if "._weight_per_tensor_scale" in layer.parts:
        scale = layer.scale("._weight_per_tensor_scale") * scale
    return (values * layer.spread(scale, values.shape, (*(1,) * (values.ndim - 1), data["block_size"]))).to(dtype)


_KINDS: dict[str, Callable[[Layer, dict[str, Any], torch.dtype], torch.Tensor]] = {
    "Float8Tensor": _float8,
    "Int8Tensor": _affine,
    "IntxUnpackedToInt8Tensor": _affine,
    "MXTensor": _mx,
    "NVFP4Tensor": _nvfp4,
}
_PARTS = ("qdata", "scale", "zero_point", "per_tensor_scale", "act_pre_scale")

SCHEME = Scheme(
    tuple(f"._weight_{part}" for part in _PARTS),
    _weight,
    _described,
    ignored=tuple(f"._weight_act_{what}" for what in ("quant_scale", "quant_zero_point", "per_tensor_scale")),
)
