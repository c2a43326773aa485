"""Decompositions of operations that torch-mlir does not lower, or lowers to other results than torch's.

One table for all graphs of PyTorch: those of torch.export and those of torch.compile, to which
compiler/torch_compile/graphs/decompositions.py adds what only training has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._export import utils
from torch._export.utils import _collect_all_valid_cia_ops, _get_decomp_for_cia
from torch.utils import _pytree as pytree
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from numc.frontends.pytorch.rewrites import (
    activations,
    cumulative,
    determinants,
    distinct,
    elementwise,
    experts,
    extremes,
    losses,
    moments,
    orders,
    scalars,
    scaled,
    scatters,
    spectra,
    views,
)
from numc.frontends.pytorch.rewrites.embeddings import embedding_bag, one_hot
from numc.frontends.pytorch.rewrites.floats import parts
from numc.frontends.pytorch.rewrites.images import boxes, regions, resizing, sampling
from numc.frontends.pytorch.rewrites.images.adaptive_pools import adaptive_avg_pool
from numc.frontends.pytorch.rewrites.images.convolutions import constant_pad_nd, conv_tbc, convolution
from numc.frontends.pytorch.rewrites.images.gradients import gradients
from numc.frontends.pytorch.rewrites.images.pools import poolings
from numc.frontends.pytorch.rewrites.integers import divisors, matrix_products, ranges
from numc.frontends.pytorch.rewrites.integers.narrowest import in_int32
from numc.frontends.pytorch.rewrites.scalars import OF_ONE_DTYPE, in_one_dtype
from numc.support.replaced import replaced

aten = torch.ops.aten


# What these do in narrow dtypes is rounded once, as in eager torch, and not after each operation that they become.
_ROUNDED_ONCE = (
    *(aten.elu_backward.default, aten.hardswish_backward.default, aten.smooth_l1_loss_backward.default),
    *(aten.rrelu_with_noise_backward.default,),
    *(aten.erfc.default, aten.special_erfcx.default, aten.erfinv.default, aten.lgamma.default, aten.digamma.default),
    *(aten.softshrink.default, aten.elu.default, aten.gelu.default, aten.hypot.default, aten.logcumsumexp.default),
    *(aten.std.correction, aten.logaddexp2.default),
    *(aten.addcmul.default, aten.addcdiv.default, aten.lerp.Scalar, aten.lerp.Tensor),
    *(aten.div.Tensor_mode, aten.div.Scalar_mode),
)
# Torch's own decompositions that neither its core nor torch-mlir asks for.
_OF_TORCH = (aten.dist, aten.elu, aten.ldexp, aten.fft_fftshift, aten.fft_ifftshift, *spectra.TRANSFORMS)


def lerp(start: torch.Tensor, end: torch.Tensor, weight: Any) -> torch.Tensor:
    """aten.lerp.Scalar, computed from the nearer end as in eager torch."""
    difference = end - start
    return add(start, difference, weight) if abs(weight) < 0.5 else add(end, difference, weight - 1)


def add(value: torch.Tensor, addend: torch.Tensor, factor: Any) -> torch.Tensor:
    """Return value + factor * addend, a multiply-add."""
    total: torch.Tensor = aten.add.Tensor(value, addend, alpha=factor)
    return total


def softmax(value: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """aten._softmax of a single element, for which torch-mlir runs out of memory."""
    return value - value + 1 if value.dim() == 0 else NotImplemented


def rounded_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a decomposition of operands of one narrow dtype compute in float32, and round its result."""

    def decomposed(*args: Any, **options: Any) -> Any:
        leaves = (leaf for leaf in pytree.tree_leaves((args, options)) if isinstance(leaf, torch.Tensor))
        dtypes = {leaf.dtype for leaf in leaves if leaf.is_floating_point()}
        if len(dtypes) != 1 or not dtypes <= {torch.float16, torch.bfloat16}:
            return function(*args, **options)
        (dtype,) = dtypes
        args, options = pytree.tree_map_only(
            torch.Tensor, lambda x: x.float() if x.dtype == dtype else x, (args, options)
        )
        unrounded = function(*args, **options)
        return unrounded if unrounded is NotImplemented else unrounded.to(dtype)

    return decomposed


def _of_packages() -> dict[Any, Callable[..., Any]]:
    """Operators of packages that consist of others, as torchao's do; torch-mlir knows those of before its first use."""
    return {op: _get_decomp_for_cia(op) for op in _collect_all_valid_cia_ops() if op.namespace != "aten"}


def listed_once() -> contextlib.AbstractContextManager[None]:
    """Let torch list its composite operators now, and not for each namespace of operators: none comes meanwhile."""
    utils._materialize_cpp_cia_ops()
    return replaced(utils, _materialize_cpp_cia_ops=lambda: None)


def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operation, also of operators that a package has registered if it is imported."""
    table: dict[Any, Callable[..., Any]] = {
        **get_decompositions(_OF_TORCH),
        **get_decomposition_table(),
        **_of_packages(),
        **gradients(),
        **views.copies(),
        **scalars.comparisons(),
        **scalars.of_tensors(),
        aten.eq.Tensor: scalars.equal,
        aten.rsub.Scalar: scalars.from_number,
        aten._neg_view.default: torch.neg,
        aten.stft.default: spectra.stft,
        aten.istft.default: spectra.istft,
        aten.convolution.default: convolution,
        aten.constant_pad_nd.default: constant_pad_nd,
        aten.index_put.default: scatters.index_put,
        aten.index.Tensor: scatters.index,
        aten.scatter.src: scatters.scatter,
        aten.scatter.value: scatters.scatter_value,
        aten.scatter_add.default: scatters.scatter_add,
        aten.put.default: scatters.put,
        aten.scatter_reduce.two: scatters.scatter_reduce,
        aten.index_reduce.default: scatters.index_reduce,
        aten.index_add.default: scatters.index_add,
        aten.index_copy.default: scatters.index_copy,
        aten.index_fill.int_Scalar: scatters.index_fill,
        aten.index_fill.int_Tensor: scatters.index_fill,
        aten.masked_scatter.default: scatters.masked_scatter,
        aten.view.default: views.view,
        aten.view.dtype: views.view_dtype,
        aten.split_with_sizes.default: views.split_with_sizes,
        aten.tensor_split.sections: views.tensor_split,
        aten.as_strided.default: views.as_strided,
        aten.slice.Tensor: views.slice_tensor,
        aten.as_strided_scatter.default: views.as_strided_scatter,
        aten.diagonal_scatter.default: views.diagonal_scatter,
        aten.empty_strided.default: views.empty_strided,
        aten.one_hot.default: one_hot,
        aten._embedding_bag.default: embedding_bag,
        aten._embedding_bag_forward_only.default: embedding_bag,
        aten.topk.default: orders.topk,
        aten.sort.default: orders.sort,
        aten.sort.stable: orders.sort_stable,
        aten.kthvalue.default: orders.kthvalue,
        aten.median.dim: orders.median,
        aten.median.default: orders.median_of_all,
        aten.nanmedian.dim: orders.nanmedian,
        aten.nanmedian.default: orders.nanmedian_of_all,
        aten.mode.default: orders.mode,
        aten._unique2.default: distinct.unique,
        aten.unique_consecutive.default: distinct.unique_consecutive,
        aten.searchsorted.Tensor: orders.searchsorted,
        aten.searchsorted.Scalar: orders.searchsorted,
        aten.bucketize.Tensor: orders.bucketize,
        aten.bucketize.Scalar: orders.bucketize,
        aten.isin.Tensor_Tensor: orders.isin,
        aten.isin.Tensor_Scalar: orders.isin,
        aten.isin.Scalar_Tensor: orders.isin,
        aten.histc.default: orders.histc,
        aten.upsample_nearest1d.vec: resizing.nearest(aten.upsample_nearest1d.vec),
        aten.upsample_nearest2d.vec: resizing.nearest(aten.upsample_nearest2d.vec),
        aten.upsample_nearest3d.vec: resizing.nearest(aten.upsample_nearest3d.vec, always=True),
        **resizing.linear(),
        **resizing.cubic_of_bytes(),
        aten.grid_sampler_2d.default: sampling.grid_sampler_2d,
        aten._upsample_bilinear2d_aa.default: resizing.smooth_linear,
        aten._upsample_bicubic2d_aa.default: resizing.smooth_cubic,
        aten.cummax.default: cumulative.cummax,
        aten.cummin.default: cumulative.cummin,
        aten.cumsum.default: cumulative.cumsum,
        aten.cumprod.default: cumulative.cumprod,
        aten.logcumsumexp.default: cumulative.logcumsumexp,
        aten.var.correction: moments.var,
        aten.std.correction: moments.std_in_double,
        aten.std_mean.correction: moments.std_mean,
        aten.var_mean.correction: moments.var_mean,
        aten.signbit.default: elementwise.signbit,
        aten.copysign.Tensor: elementwise.copysign,
        aten.fmod.Tensor: elementwise.fmod,
        aten.trunc.default: elementwise.trunc,
        aten.div.Tensor_mode: elementwise.div_mode,
        aten.div.Scalar_mode: elementwise.div_mode,
        aten.leaky_relu.default: activations.leaky_relu,
        aten.threshold.default: activations.threshold,
        aten.relu6.default: activations.relu6,
        aten.rrelu_with_noise_functional.default: activations.rrelu,
        aten.threshold_backward.default: activations.threshold_backward,
        aten.elu_backward.default: activations.elu_backward,
        aten.hardswish_backward.default: activations.hardswish_backward,
        aten.hardtanh_backward.default: activations.hardtanh_backward,
        aten.smooth_l1_loss_backward.default: activations.smooth_l1_loss_backward,
        aten.logit.default: activations.logit,
        aten.logit_backward.default: activations.logit_backward,
        aten.sigmoid_backward.default: activations.sigmoid_backward,
        aten.glu_backward.default: activations.glu_backward,
        aten.rrelu_with_noise_backward.default: activations.rrelu_backward,
        **dict.fromkeys((aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other), elementwise.xlogy),
        **dict.fromkeys(
            (aten.special_xlog1py.default, aten.special_xlog1py.self_scalar, aten.special_xlog1py.other_scalar),
            elementwise.xlog1py,
        ),
        aten.special_entr.default: elementwise.entr,
        aten.softshrink.default: activations.softshrink,
        aten.hardshrink.default: activations.hardshrink,
        aten.softshrink_backward.default: activations.shrink_backward,
        aten.hardshrink_backward.default: activations.shrink_backward,
        aten.native_dropout.default: elementwise.native_dropout,
        aten.copysign.Scalar: elementwise.copysign,
        aten.logaddexp2.default: elementwise.logaddexp2,
        aten.isfinite.default: elementwise.isfinite,
        aten.isclose.default: elementwise.isclose,
        aten.fmax.default: elementwise.fmax,
        aten.fmin.default: elementwise.fmin,
        aten.hypot.default: elementwise.hypot,
        aten.angle.default: elementwise.angle,
        aten.erfc.default: elementwise.erfc,
        aten._cdist_forward.default: elementwise.cdist,
        **determinants.decompositions(),
        **{op: in_int32(op) for op in (aten.max.default, aten.min.default, aten.mm.default, aten.bmm.default)},
        aten.max.dim: extremes.max_dim,
        aten.min.dim: extremes.min_dim,
        aten.argmax.default: extremes.argmax,
        aten.argmin.default: extremes.argmin,
        aten.clamp.default: extremes.clamp,
        aten.clamp.Tensor: extremes.clamp_to,
        aten.clamp_min.Tensor: extremes.clamp_to,
        aten.clamp_max.Tensor: extremes.clamp_below,
        aten.maximum.default: extremes.maximum,
        aten.minimum.default: extremes.minimum,
        **dict.fromkeys((aten.any.default, aten.any.dim, aten.any.dims), extremes.any_dims),
        aten._is_all_true.default: lambda x: aten.all(x),
        aten._is_any_true.default: lambda x: aten.any(x),
        **dict.fromkeys((aten.all.default, aten.all.dim, aten.all.dims), extremes.all_dims),
        aten.gelu.default: activations.gelu,
        aten.erfinv.default: elementwise.erfinv,
        aten.lgamma.default: elementwise.lgamma,
        aten.digamma.default: elementwise.digamma,
        aten.special_erfcx.default: elementwise.erfcx,
        aten.pow.Tensor_Scalar: elementwise.pow_scalar,
        aten.pow.Tensor_Tensor: elementwise.pow_tensor,
        aten._softmax.default: softmax,
        aten.addmv.default: matrix_products.addmv,
        aten.addbmm.default: matrix_products.addbmm,
        aten.arange.start_step: ranges.arange,
        aten.linspace.default: ranges.linspace,
        aten.gcd.default: divisors.gcd,
        aten.lcm.default: divisors.lcm,
        aten.nextafter.default: parts.nextafter,
        aten.frexp.Tensor: parts.frexp,
        aten.conv_tbc.default: conv_tbc,
        torch.ops.prims.scalar_tensor.default: lambda number, *, dtype, device: torch.full((), number, dtype=dtype),
        **boxes.suppressions(),
        **regions.regions(),
        **experts.products(),
        **scaled.decompositions(),
        aten.multi_margin_loss.default: losses.multi_margin_loss,
        aten.multilabel_margin_loss_forward.default: losses.multilabel_margin_loss_forward,
        **poolings(),
        **{
            operation: adaptive_avg_pool(operation)
            for operation in (aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
        },
        aten.linalg_norm.default: torch._refs.linalg.norm,
        aten.linalg_norm.ord_str: torch._refs.linalg.norm,
        aten.amax.default: extremes.of_single,
        aten.amin.default: extremes.of_single,
        aten.addcmul.default: lambda x, a, b, value=1: add(x, a * b, value),
        aten.addcdiv.default: lambda x, a, b, value=1: add(x, a / b, value),
        aten.lerp.Scalar: lerp,
    }
    table |= {operation: rounded_once(table[operation]) for operation in _ROUNDED_ONCE}
    return table | {operation: in_one_dtype(operation, table.get(operation)) for operation in OF_ONE_DTYPE}
