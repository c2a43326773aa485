"""The conditions on the sizes and the elements of inputs, by domain and operator.

Sizes and attributes are those of the newest opset: older models have been converted. What a type already says, such as
that the operands of a sum fit together, a run checks anyway (passes/imported/run_time_checks.py).
"""

from __future__ import annotations

from collections.abc import Callable

from numc.frontends.onnx.conditions.contrib import CONTRIB, LEARNED, OPTIMIZERS
from numc.frontends.onnx.conditions.images import IMAGES
from numc.frontends.onnx.conditions.layers import LAYERS
from numc.frontends.onnx.conditions.moves import MOVES
from numc.frontends.onnx.conditions.sized import Conditions
from numc.frontends.onnx.rewrites.node import Node

_STANDARD = {**IMAGES, **LAYERS, **MOVES}
_SHARED = ("DequantizeLinear", "GatherND", "GridSample", "Pad", "QLinearConv", "QuantizeLinear", "Range")

CONDITIONS: dict[tuple[str, str], Callable[[Node], Conditions]] = {
    **{("", operator): conditions for operator, conditions in _STANDARD.items()},
    **{("com.microsoft", operator): _STANDARD[operator] for operator in _SHARED},
    ("com.microsoft", "FusedConv"): IMAGES["Conv"],
    **{("com.microsoft", operator): conditions for operator, conditions in CONTRIB.items()},
    **{("ai.onnx.ml", operator): conditions for operator, conditions in LEARNED.items()},
    **{("ai.onnx.preview.training", operator): conditions for operator, conditions in OPTIMIZERS.items()},
}
