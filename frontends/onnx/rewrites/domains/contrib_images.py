"""Operators of the domain com.microsoft on quantised images, whose channels may be the last dimension.

Source: docs/ContribOperators.md of onnxruntime, and what its NhwcTransformer writes.
"""

from __future__ import annotations

from typing import Any

import onnx

from numc.frontends.onnx.rewrites.domains.contrib_quantized import real, stored
from numc.frontends.onnx.rewrites.images.windows import windows_of
from numc.frontends.onnx.rewrites.node import Node, RefusedError


def _channels_first(node: Node, value: str) -> str:
    """Emit [batch, ..., channels] as [batch, channels, ...]."""
    rank = node.rank(node.input(0))
    return node.transpose(value, 0, rank - 1, *range(1, rank - 1))


def _channels_last(node: Node, value: str) -> None:
    """Emit [batch, channels, ...] as the result, [batch, ..., channels]."""
    rank = node.rank(node.input(0))
    node.transpose(value, 0, *range(2, rank), 1, to=node.output(0))


def _attributes(node: Node) -> dict[str, Any]:
    """The attributes of an operator as ONNX has it."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute if a.name != "channels_last"}


def pool(node: Node) -> None:
    """QLinearAveragePool, QLinearGlobalAveragePool."""
    operator = node.proto.op_type.removeprefix("QLinear")
    attributes = _attributes(node)
    whole = operator == "AveragePool" and node.attribute("ceil_mode", 0) and node.attribute("count_include_pad", 0)
    if whole and not node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        attributes |= _whole_windows(node)
    last = node.attribute("channels_last", 0)
    source = _channels_first(node, node.input(0)) if last else node.input(0)
    to = node.fresh() if last else node.output(0)
    stored(node, node.op(operator, real(node, 0, source), **attributes), 3, node.input(0), to)
    if last:
        _channels_last(node, to)


def _whole_windows(node: Node) -> dict[str, Any]:
    """Return padding with which rounding down makes the windows of rounding up, each divided by its whole size.

    AveragePool does not count what rounding up makes a window reach beyond the padding; QLinearAveragePool does.
    """
    windows = windows_of(node, node.attribute("kernel_shape", ()))
    after = [pad + stride - 1 for pad, stride in zip(windows.after, windows.strides, strict=True)]
    if any(pad >= size for pad, size in zip(after, windows.kernel, strict=True)):
        raise RefusedError("ceil_mode and count_include_pad where a window may begin behind the image; use ceil_mode=0")
    return {"ceil_mode": 0, "pads": [*windows.before, *after]}


def max_pool(node: Node) -> None:
    """NhwcMaxPool: MaxPool of bytes with channels in the last dimension."""
    attributes = _attributes(node)
    _channels_last(node, node.op("MaxPool", _channels_first(node, node.input(0)), **attributes))


def convolution(node: Node) -> None:
    """QLinearConv of this domain: that of ONNX, or with images whose channels are last."""
    last = node.attribute("channels_last", 0)
    attributes = _attributes(node)
    source = _channels_first(node, node.input(0)) if last else node.input(0)
    to = node.fresh() if last else node.output(0)
    node.ops("QLinearConv", [source, *node.proto.input[1:]], [to], **attributes)
    if last:
        _channels_last(node, to)


RULES = {
    "NhwcMaxPool": max_pool,
    "QLinearAveragePool": pool,
    "QLinearConv": convolution,
    "QLinearGlobalAveragePool": pool,
}
