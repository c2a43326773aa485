"""The table of all rewriting functions, by domain and operator."""

from __future__ import annotations

from collections.abc import Callable

from numc.frontends.onnx.rewrites import control, elementwise, indexing, linear, normalization, pooling, recurrent
from numc.frontends.onnx.rewrites.functions import expand
from numc.frontends.onnx.rewrites.node import Node

Rule = Callable[[Node], None]
Rules = dict[tuple[str, str], Rule]

_EXPANDED = (
    "AffineGrid",
    "Attention",
    "CenterCropPad",
    "GroupNormalization",
    "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
)
"""Operators for which ONNX's own definition is more right than torch-mlir's lowering."""
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

CONTROL: Rules = {("", "If"): control.branch, ("", "Loop"): control.loop, ("", "Scan"): control.scan}
"""What decides which nodes run. Nodes of other operators can be inside."""

RULES: Rules = {
    **CONTROL,
    **{("", operator): expand for operator in _EXPANDED},
    **{("", operator): indexing.random for operator in _RANDOM},
    ("", "ArgMax"): indexing.extreme,
    ("", "ArgMin"): indexing.extreme,
    ("", "AveragePool"): pooling.average_pool,
    ("", "DepthToSpace"): indexing.depth_to_space,
    ("", "GRU"): recurrent.recurrent,
    ("", "Gemm"): linear.gemm,
    ("", "InstanceNormalization"): normalization.instance_normalization,
    ("", "LSTM"): recurrent.recurrent,
    ("", "MaxPool"): pooling.max_pool,
    ("", "RNN"): recurrent.recurrent,
    ("", "Sign"): elementwise.sign,
    ("", "Split"): indexing.split,
    ("", "TopK"): indexing.top_k,
    ("ai.onnx.preview", "FlexAttention"): expand,
}
