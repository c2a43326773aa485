"""Products of float8 tensors with scales, and roundings to the integers of quantisers, of which scales are tensors."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten
_PLAIN = (0, 1)  # recipes: one scale, and one for each row; the others have scales of blocks
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def scaled_mm(
    one: torch.Tensor,
    other: torch.Tensor,
    scale: torch.Tensor,
    other_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    """aten._scaled_mm, as eager torch computes it on the CPU.

    The operands are multiplied by their scales in float32 first, the bias is added in float32, and a result of
    float8_e4m3fn saturates. A scale of a float8 result is refused: eager torch divides by it or leaves it out, as the
    other scales are.
    """
    dtype = out_dtype or one.dtype
    if scale_result is not None and dtype in _FLOAT8:
        return NotImplemented
    found = (one.float() * scale) @ (other.float() * other_scale)
    if bias is not None:
        found = found + bias.float()
    if dtype == torch.float8_e4m3fn:
        found = found.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    return found.to(dtype)


def scaled_mm_v2(
    one: torch.Tensor,
    other: torch.Tensor,
    scale: list[torch.Tensor],
    recipe: list[int],
    swizzle: list[int],
    other_scale: list[torch.Tensor],
    other_recipe: list[int],
    other_swizzle: list[int],
    bias: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """aten._scaled_mm_v2 of one scale, or of one for each row and column."""
    plain = all(each in _PLAIN for each in (*recipe, *other_recipe)) and not any((*swizzle, *other_swizzle))
    if not plain or len(scale) != 1 or len(other_scale) != 1 or contraction_dim:
        return NotImplemented
    return scaled_mm(one, other, scale[0], other_scale[0], bias, None, out_dtype)


def fake_quantize_per_channel(
    value: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.fake_quantize_per_channel_affine_cachemask."""
    shape = [1] * value.dim()
    shape[axis] = -1
    return fake_quantize(value, scale.view(shape), zero_point.view(shape), None, quant_min, quant_max)


def fake_quantize(
    value: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, enabled: Any, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams; `enabled` None is always."""
    zero = zero_point.float() if zero_point.is_floating_point() else zero_point.to(value.dtype)
    found = (value * (1 / scale) + zero).round()
    inside = (found >= quant_min) & (found <= quant_max)
    quantised = (found.clamp(quant_min, quant_max) - zero) * scale
    if enabled is None:
        return quantised, inside
    on = enabled != 0
    return torch.where(on, quantised, value), torch.where(on, inside, True)


def quantize(
    value: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: int, quant_max: int, dtype: Any
) -> torch.Tensor:
    """quantized_decomposed.quantize_per_tensor.tensor."""
    return ((value * (1.0 / scale)).round() + zero_point).clamp(quant_min, quant_max).to(dtype)


def dequantize(
    value: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """quantized_decomposed.dequantize_per_tensor.tensor."""
    return (value.to(out_dtype or torch.float32) - zero_point) * scale


def decompositions() -> dict[Any, Any]:
    """Return the decompositions by operation, also of those that torch's quantiser registers."""
    table = {
        aten._scaled_mm.default: scaled_mm,
        aten._scaled_mm_v2.default: scaled_mm_v2,
        aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_per_channel,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: fake_quantize,
    }
    others = torch.ops.quantized_decomposed
    for name, function in (("quantize_per_tensor", quantize), ("dequantize_per_tensor", dequantize)):
        if hasattr(others, name):
            table[getattr(others, name).tensor] = function
    return table
