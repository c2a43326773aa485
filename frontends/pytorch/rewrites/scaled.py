"""Products of float8 tensors with scales, and roundings to the integers of quantisers, of which scales are tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from numc.frontends.pytorch.operators import grouped_mm

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
    """aten._scaled_mm: one contraction of the numbers as they are stored, times the scales of rows, then of columns.

    So accelerators compute it: an operator whose operands hold float8 multiplies what is stored, without a rounding.
    Products, sums and scales are float32; the bias is added, and a result of float8_e4m3fn saturates, before it is
    rounded once. Eager torch on the CPU multiplies the operands by their scales instead, which differs in roundings
    unless these are powers of two. A scale of a float8 result is refused: eager torch divides by it or leaves it out,
    as the other scales are.
    """
    dtype = out_dtype or one.dtype
    if scale_result is not None and dtype in _FLOAT8:
        return NotImplemented
    rows, columns = (one.shape[0], 1), (1, other.shape[1])
    if not _is_plain(scale, rows) or not _is_plain(other_scale, columns):
        return NotImplemented
    product = (one.float() @ other.float()) * scale * other_scale
    return _rounded(product if bias is None else product + bias.float(), dtype)


def _is_plain(scale: torch.Tensor, each: tuple[int, int]) -> bool:
    """Whether a scale is one float32, or one for each row or column."""
    return scale.dtype == torch.float32 and bool(scale.numel() == 1 or scale.shape == each)


def _rounded(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    most = torch.finfo(dtype).max
    return (value.clamp(-most, most) if dtype == torch.float8_e4m3fn else value).to(dtype)


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
    if not _are_plain(scale, recipe, swizzle) or not _are_plain(other_scale, other_recipe, other_swizzle):
        return NotImplemented
    if contraction_dim:
        return NotImplemented
    return scaled_mm(
        one, other, scale[0], other_scale=other_scale[0], bias=bias, scale_result=None, out_dtype=out_dtype
    )


def scaled_grouped_mm(
    rows: torch.Tensor,
    matrices: torch.Tensor,
    scale: torch.Tensor,
    other_scale: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    """aten._scaled_grouped_mm of groups of rows [m, k], matrices [groups, k, n] and float32 scales [m], [groups, n].

    Each product is that of the numbers as they are stored, times the scale of its row, then that of its column in the
    group. What is in no group is 0.
    """
    plain = rows.dim() == 2 and matrices.dim() == 3 and offs is not None and bias is None and scale_result is None
    if not plain or scale.dtype != torch.float32 or scale.shape != rows.shape[:1] or other_scale.dim() != 2:
        return NotImplemented
    assert offs is not None
    groups = matrices.shape[0]
    # Rows after the last group are 0, whatever the scales of theirs.
    group = (torch.arange(rows.shape[0]).unsqueeze(1) >= offs.unsqueeze(0)).sum(1).clamp(max=groups - 1)
    products = grouped_mm(rows.float(), matrices.float(), offs)
    return (products * scale.unsqueeze(1) * other_scale[group]).to(out_dtype or torch.bfloat16)


def scaled_grouped_mm_v2(
    rows: torch.Tensor,
    matrices: torch.Tensor,
    scale: list[torch.Tensor],
    recipe: list[int],
    swizzle: list[int],
    other_scale: list[torch.Tensor],
    other_recipe: list[int],
    other_swizzle: list[int],
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    *others: Any,
) -> Any:
    """aten._scaled_grouped_mm_v2 of one scale for each row and column; others: contraction_dim and use_fast_accum."""
    if not _are_plain(scale, recipe, swizzle) or not _are_plain(other_scale, other_recipe, other_swizzle):
        return NotImplemented
    if any(others[:1]):
        return NotImplemented
    return scaled_grouped_mm(rows, matrices, scale[0], other_scale[0], offs=offs, bias=bias, out_dtype=out_dtype)


def _are_plain(scale: list[torch.Tensor], recipe: list[int], swizzle: list[int]) -> bool:
    return len(scale) == 1 and all(each in _PLAIN for each in recipe) and not any(swizzle)


def fake_quantize_per_channel(
    value: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.fake_quantize_per_channel_affine_cachemask."""
    shape = [1] * value.dim()
    shape[axis] = -1
    return fake_quantize(
        value, scale.view(shape), zero_point.view(shape), enabled=None, quant_min=quant_min, quant_max=quant_max
    )


def fake_quantize(
    value: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, enabled: Any, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams; `enabled` None is always."""
    zero = zero_point.float() if zero_point.is_floating_point() else zero_point.to(value.dtype)
    rounded = (value * (1 / scale) + zero).round()
    inside = (rounded >= quant_min) & (rounded <= quant_max)
    quantised = (rounded.clamp(quant_min, quant_max) - zero) * scale
    if enabled is None:
        return quantised, inside
    on = enabled != 0
    return torch.where(on, quantised, value), torch.where(on, inside, True)


def quantize(
    value: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: int, quant_max: int, dtype: Any
) -> torch.Tensor:
    """quantized_decomposed.quantize_per_tensor.tensor."""
    inverse = (1.0 / scale).to(value.dtype).reshape(())  # a number in torch, which may be float64
    return ((value * inverse).round() + zero_point).clamp(quant_min, quant_max).to(dtype)


def choose_scale(
    value: torch.Tensor, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """quantized_decomposed.choose_qparams.tensor: the scale of the range of all elements, and its zero point."""
    low, high = value.amin().clamp(max=0), value.amax().clamp(min=0)
    scale = ((high - low) / float(quant_max - quant_min)).float().clamp(min=float(np.float32(eps)))
    zero = (quant_min - (low / scale).round().to(torch.int32)).clamp(quant_min, quant_max)
    return scale.to(torch.float64).reshape(1), zero.to(torch.int64).reshape(1)


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
    real = value.to(out_dtype or torch.float32)
    return (real - zero_point) * scale.to(real.dtype).reshape(())


def int_mm(a: torch.Tensor, b: torch.Tensor) -> Any:
    """aten._int_mm of bytes without a sign, which torch computes on processors that have an instruction for it."""
    if a.dtype != torch.uint8 and b.dtype != torch.uint8:
        return NotImplemented
    return torch.matmul(a.to(torch.int32), b.to(torch.int32))


def decompositions() -> dict[Any, Any]:
    """Return the decompositions by operation, also of those that torch's quantiser registers."""
    table = {
        aten._scaled_mm.default: scaled_mm,
        aten._scaled_mm_v2.default: scaled_mm_v2,
        aten._scaled_grouped_mm.default: scaled_grouped_mm,
        aten._scaled_grouped_mm_v2.default: scaled_grouped_mm_v2,
        aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_per_channel,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: fake_quantize,
        aten._int_mm.default: int_mm,
    }
    others = torch.ops.quantized_decomposed
    named = {"quantize_per_tensor": quantize, "dequantize_per_tensor": dequantize, "choose_qparams": choose_scale}
    for name, function in named.items():
        if hasattr(others, name):
            table[getattr(others, name).tensor] = function
    return table
