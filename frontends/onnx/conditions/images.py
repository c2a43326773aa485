"""Images: convolutions, pooling, resizing, regions."""

from __future__ import annotations

from numc.frontends.onnx.conditions.moves import STRICT
from numc.frontends.onnx.conditions.sized import Conditions, Table, alike, between, image, sized
from numc.frontends.onnx.rewrites.images.windows import Windows, windows_of
from numc.frontends.onnx.rewrites.node import Node
from numc.passes.imported.run_time_checks import WINDOW


def _resize(node: Node) -> Conditions:
    yield "each(3) >= 1", "a size would be below 1"
    yield "each(2) > 0", "a scale is not positive"
    yield "each(2) < 4294967296", "a scale is 2^32 or more"
    if node.attribute(STRICT, 0):
        yield "each(2) >= 1", "a scale of an Upsample is below 1"


def _pool(node: Node) -> Conditions:
    windows = windows_of(node, node.attribute("kernel_shape", ()))
    if windows.auto:
        return
    for n, extent in enumerate(windows.extents):
        # The last window may reach beyond the image, and it may be the only one.
        padding, stride = windows.before[n] + windows.after[n], windows.strides[n]
        more = padding + (stride - 1 if windows.is_ceil else 0)
        size = f"size(0, {n + 2})"
        # Where a whole stride is missing, there are no windows; of less, onnxruntime makes one outside of the image.
        yield f"{size} + {more} >= {extent} or {size} + {padding} == {extent - stride}", WINDOW
        if more >= extent - stride:
            yield f"size(0, {n + 2}) >= 1", "an image has no elements"


def _max_unpool(node: Node) -> Conditions:
    yield from alike(node, 1, 0)
    yield "each(1) >= 0", "an index is out of range"


def _convolution(node: Node, weight: int = 1, bias: int | None = 2) -> Conditions:
    rank, group, kernel = image(node), node.attribute("group", 1), list(node.attribute("kernel_shape", []))
    if (kernel and len(kernel) != rank - 2) or group < 1:
        return  # refused by its rule
    yield from sized(node, weight, None, None, *(kernel or [None] * (rank - 2)))
    yield f"size({weight}, 0) % {group} == 0", f"its group, {group}, does not divide the rows of the weight"
    transposed = node.proto.op_type == "ConvTranspose"
    channels = f"size({weight}, 0)" if transposed else f"size({weight}, 1) * {group}"
    axis = rank - 1 if node.attribute("channels_last", 0) else 1
    yield f"size(0, {axis}) == {channels}", f"the image has other channels than the weight with a group of {group}"
    if axis == 1 and node.attribute("auto_pad", "NOTSET") == "NOTSET" and not node.attribute("output_shape", ()):
        yield from _some_windows(node, windows_of(node, kernel or [1] * (rank - 2)), weight, transposed)
    if bias is not None:
        yield from sized(node, bias, f"size({weight}, 1) * {group}" if transposed else f"size({weight}, 0)")


def _some_windows(node: Node, windows: Windows, weight: int, transposed: bool) -> Conditions:
    """A convolution has a result along each dimension of its image."""
    more = node.attribute("output_padding", ()) or [0] * windows.rank
    for n in range(windows.rank):
        padding = windows.before[n] + windows.after[n]
        size, last = f"size(0, {n + 2})", f"(size({weight}, {n + 2}) - 1) * {windows.dilations[n]}"
        if transposed:
            length = f"({size} - 1) * {windows.strides[n]} + {last} + {more[n]}"
            yield f"{length} >= {padding}", "a result would have no elements: its pads take all away"
        else:
            yield f"{size} + {padding} > {last}", WINDOW


def _quantised_convolution(node: Node) -> Conditions:
    yield from _convolution(node, weight=3, bias=8)


def _integer_convolution(node: Node) -> Conditions:
    yield from _convolution(node, bias=None)


def _deformed(node: Node) -> Conditions:
    yield from _convolution(node, bias=3)
    for n in (2, 4):
        yield from sized(node, n, "size(0, 0)", None, None, None)


def _image(node: Node) -> Conditions:
    image(node)
    yield from ()


def _grid_sample(node: Node) -> Conditions:
    rank = image(node)
    yield from sized(node, 1, "size(0, 0)", *[None] * (rank - 2), rank - 2)


def _affine_grid(node: Node) -> Conditions:
    yield from sized(node, 0, "at(1, 0)", None, None)
    yield "each(1) >= 0", "a size would be negative"


def _regions(node: Node) -> Conditions:
    image(node)
    yield from sized(node, 1, None, 4)
    yield from sized(node, 2, "size(1, 0)")
    yield from between(2, 0, "size(0, 0)")


IMAGES: Table = {
    "AffineGrid": _affine_grid,
    "Conv": _convolution,
    "ConvInteger": _integer_convolution,
    "ConvTranspose": _convolution,
    "DeformConv": _deformed,
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), _image),
    "GridSample": _grid_sample,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    "MaxUnpool": _max_unpool,
    "QLinearConv": _quantised_convolution,
    "Resize": _resize,
    "RoiAlign": _regions,
}
