"""The table of all rewriting functions, by domain and operator."""

from __future__ import annotations

from collections.abc import Callable

from numc.frontends.onnx.rewrites import (
    elementwise,
    extents,
    fourier,
    indexing,
    integers,
    linear,
    quantized,
    recurrent,
    reductions,
    selection,
)
from numc.frontends.onnx.rewrites.domains import (
    attention,
    contrib,
    contrib_images,
    contrib_quantized,
    learned,
    mixtures,
    optimizers,
    support_vectors,
)
from numc.frontends.onnx.rewrites.images import convolutions, deformed, pooling, regions, resize, unpooling
from numc.frontends.onnx.rewrites.node import Node
from numc.frontends.onnx.rewrites.structure import control, sequences
from numc.frontends.onnx.rewrites.structure.functions import expand

Rule = Callable[[Node], None]
Rules = dict[tuple[str, str], Rule]

_EXPANDED = (
    "Attention",
    "CausalConvWithState",
    "CenterCropPad",
    "GroupNormalization",
    "LinearAttention",
    "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
    "SwiGLU",
)
"""Operators for which ONNX's own definition is more right than torch-mlir's lowering."""
_REDUCTIONS = ("Max", "Mean", "Min", "Prod", "Sum")
_EXPANDED_REDUCTIONS = ("L1", "L2", "LogSum", "SumSquare")
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

CONTROL: Rules = {
    ("", "ConcatFromSequence"): sequences.concat,
    ("", "Identity"): sequences.identity,
    ("", "If"): control.branch,
    ("", "Loop"): control.loop,
    ("", "Optional"): sequences.optional,
    ("", "OptionalGetElement"): sequences.get_element,
    ("", "OptionalHasElement"): sequences.has_element,
    ("", "Scan"): control.scan,
    ("", "SequenceAt"): sequences.at,
    ("", "SequenceEmpty"): sequences.empty,
    ("", "SequenceErase"): sequences.erase,
    ("", "SequenceInsert"): sequences.insert,
    ("", "SequenceLength"): sequences.length,
    ("", "SequenceMap"): sequences.over_elements,
    ("", "SplitToSequence"): sequences.split,
}
"""What decides which nodes run, in which nodes of other operators can be, and what is in a sequence."""

QUANTISED: Rules = {
    ("", "DequantizeLinear"): quantized.dequantize,
    ("", "QuantizeLinear"): quantized.quantize,
    ("com.microsoft", "DequantizeLinear"): contrib.standard,
    ("com.microsoft", "QuantizeLinear"): contrib.standard,
}
"""What depends on the types of the file, which are carried in others later (carry.py)."""

RULES: Rules = {
    **CONTROL,
    **QUANTISED,
    **{("", operator): expand for operator in _EXPANDED},
    **{("", f"Reduce{kind}"): reductions.reduce for kind in _REDUCTIONS},
    **{("", f"Reduce{kind}"): reductions.expanded_reduce for kind in _EXPANDED_REDUCTIONS},
    ("", "ReduceLogSumExp"): reductions.log_sum_exp,
    **{("", operator): indexing.random for operator in _RANDOM},
    ("", "Abs"): integers.absolute,
    ("", "AffineGrid"): resize.affine_grid,
    ("", "ArgMax"): indexing.extreme,
    ("", "ArgMin"): indexing.extreme,
    ("", "AveragePool"): pooling.average_pool,
    ("", "BatchNormalization"): elementwise.batch_normalization,
    ("", "Col2Im"): unpooling.col_to_image,
    ("", "Compress"): indexing.compress,
    ("", "Conv"): convolutions.convolution,
    ("", "ConvInteger"): quantized.conv_integer,
    ("", "ConvTranspose"): convolutions.conv_transpose,
    ("", "CumProd"): indexing.cumulative_product,
    ("", "CumSum"): indexing.cumulative_sum,
    ("", "DFT"): fourier.dft,
    ("", "DeformConv"): deformed.deform_conv,
    ("", "DepthToSpace"): indexing.depth_to_space,
    ("", "Det"): linear.determinant,
    ("", "Div"): integers.in_int32(),
    ("", "Dropout"): elementwise.dropout,
    ("", "Einsum"): integers.in_int32(linear.einsum, integers.BYTES),
    ("", "DynamicQuantizeLinear"): quantized.quantize_dynamically,
    **{("", operator): elementwise.compared for operator in ("Equal", "GreaterOrEqual", "LessOrEqual")},
    ("", "EyeLike"): indexing.eye_like,
    ("", "GRU"): recurrent.recurrent,
    ("", "GatherND"): indexing.gather_nd,
    ("", "Gemm"): linear.gemm,
    ("", "GridSample"): resize.grid_sample,
    ("", "Hardmax"): indexing.hardmax,
    ("", "InstanceNormalization"): elementwise.instance_normalization,
    ("", "LRN"): elementwise.local_response,
    ("", "LSTM"): recurrent.recurrent,
    ("", "LogSoftmax"): elementwise.softmax,
    ("", "LpNormalization"): elementwise.lp_normalization,
    ("", "LpPool"): pooling.lp_pool,
    ("", "MatMul"): linear.mat_mul,
    ("", "MatMulInteger"): quantized.mat_mul_integer,
    ("", "MaxPool"): integers.in_int32(pooling.max_pool, integers.BYTES),
    ("", "MaxUnpool"): unpooling.max_unpool,
    ("", "Mod"): integers.in_int32(elementwise.mod),
    ("", "PRelu"): elementwise.parametric_relu,
    ("", "Pad"): indexing.pad,
    ("", "Pow"): integers.power,
    ("", "QLinearConv"): quantized.linear_conv,
    ("", "QLinearMatMul"): quantized.linear_mat_mul,
    ("", "RNN"): recurrent.recurrent,
    ("", "Range"): extents.numbers,
    ("", "Resize"): resize.resize,
    ("", "RoiAlign"): regions.roi_align,
    ("", "STFT"): fourier.stft,
    ("", "ScatterElements"): indexing.scatter_elements,
    ("", "ScatterND"): indexing.scatter_nd,
    ("", "Sign"): elementwise.sign,
    ("", "Slice"): indexing.slice_backwards,
    ("", "Softmax"): elementwise.softmax,
    ("", "SpaceToDepth"): indexing.space_to_depth,
    ("", "Split"): indexing.split,
    ("", "Squeeze"): indexing.squeeze,
    ("", "TensorScatter"): indexing.tensor_scatter,
    ("", "TfIdfVectorizer"): selection.term_frequencies,
    ("", "Tile"): extents.tile,
    ("", "TopK"): integers.in_int32(indexing.top_k),
    ("", "Trilu"): extents.triangle,
    ("", "Unique"): selection.unique,
    **{("ai.onnx.ml", operator): rule for operator, rule in (learned.RULES | support_vectors.RULES).items()},
    ("ai.onnx.preview", "FlexAttention"): expand,
    ("ai.onnx.preview.training", "Adagrad"): optimizers.adagrad,
    ("ai.onnx.preview.training", "Adam"): optimizers.adam,
    ("ai.onnx.preview.training", "Momentum"): optimizers.momentum,
    ("", "SimplifiedLayerNormalization"): contrib.simplified_layer_normalization,
    **{
        ("com.microsoft", operator): rule
        for operator, rule in {
            "Attention": attention.attention,
            "BiasGelu": contrib.gelu,
            **contrib_images.RULES,
            **contrib_quantized.RULES,
            **mixtures.RULES,
            "EmbedLayerNormalization": contrib.embed_layer_normalization,
            "ExpandDims": contrib.expand_dims,
            "FastGelu": contrib.fast_gelu,
            "FusedMatMul": contrib.fused_mat_mul,
            "Gelu": contrib.gelu,
            "GroupQueryAttention": attention.group_query_attention,
            "MatMulBnb4": contrib.mat_mul_bnb4,
            "MatMulNBits": contrib.mat_mul_n_bits,
            "MultiHeadAttention": attention.multi_head_attention,
            "QuickGelu": contrib.quick_gelu,
            **dict.fromkeys(("Pad", "Range", "Trilu", "GatherND", "GridSample"), contrib.standard),
            "RotaryEmbedding": attention.rotary_embedding,
            "SimplifiedLayerNormalization": contrib.simplified_layer_normalization,
            "SkipLayerNormalization": contrib.skip_layer_normalization,
            "SkipSimplifiedLayerNormalization": contrib.skip_simplified_layer_normalization,
            "TransposeMatMul": contrib.fused_mat_mul,
            "Unique": contrib.unique,
        }.items()
    },
}
