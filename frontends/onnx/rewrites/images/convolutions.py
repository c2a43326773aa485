"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from numc.frontends.onnx.rewrites.images.free_padding import pad_free_image
from numc.frontends.onnx.rewrites.images.windows import Windows, fixed_image, windows_of
from numc.frontends.onnx.rewrites.node import END, Node, RefusedError

_MAX_GROUPS = 64
"""The largest number of groups that become convolutions of their own."""


def convolution(node: Node) -> None:
    """Conv: what does not fit together is refused, and images of free sizes are padded."""
    if (windows := convolved(node)) is None:
        return
    groups, channels = node.attribute("group", 1), node.shape(node.input(0))[1]
    if windows.rank == 3 and 1 < groups <= _MAX_GROUPS and channels is not None:
        _convolve_groups(node, groups, channels)
    else:
        pad_free_image(node, windows, 0)


def _convolve_groups(node: Node, groups: int, channels: int) -> None:
    """Emit one convolution for each group: torch-mlir has none of groups in three dimensions."""
    outputs, parts = node.shape(node.input(1))[0], []
    assert outputs is not None  # `convolved` knows the weight
    for group in range(groups):
        image = node.cut(node.input(0), 1, group * channels // groups, (group + 1) * channels // groups)
        own = group * outputs // groups, (group + 1) * outputs // groups
        others = [node.cut(name, 0, *own) for name in node.proto.input[1:] if name]
        copy = node.copy(group=None)
        copy.input[:] = [image, *others]
        copy.output[:] = [node.fresh()]
        parts.append(copy.output[0])
    node.op("Concat", *parts, axis=1, to=node.output(0))


def convolved(node: Node) -> Windows | None:
    """The windows of a convolution, None if its weight has no known sizes."""
    if (groups := node.attribute("group", 1)) < 1:
        raise RefusedError(f"its group is {groups}: it has to be 1 or more")
    known = node.known_shape(node.input(1)) or [None]
    sizes = [size for size in known if size is not None]
    return windows_of(node, sizes[2:]) if len(sizes) == len(known) else None


def conv_transpose(node: Node) -> None:
    """ConvTranspose: groups are transposed one by one, and padding to a size is written as numbers."""
    source, weight, bias = node.input(0), node.input(1), node.input(2)
    groups = node.attribute("group", 1)
    changed: dict[str, Any] = {}
    wanted, windows = list(node.attribute("output_shape", ())), convolved(node)
    if windows is not None:
        more = _output_padding(node, windows)
        if windows.auto or wanted:
            changed = {"auto_pad": None, "output_shape": None, **_fitting(node, windows, more, wanted)}
        elif windows.before != windows.after:
            changed = {"pads": windows.before + windows.after}
    elif wanted or node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        raise RefusedError("padding to a size is available for weights of fixed sizes only: give shapes={...}")
    cuts = windows is not None and any(map(int.__ge__, windows.before, windows.extents))
    channels = node.shape(weight)[0]
    if groups == 1 or channels is None or groups > _MAX_GROUPS:
        if changed or cuts:
            _cropped(node, [source, weight, *filter(None, [bias])], changed, node.output(0), cuts)
        return
    parts = []
    for group in range(groups):
        bounds = group * channels // groups, (group + 1) * channels // groups
        inputs = [node.cut(source, 1, *bounds), node.cut(weight, 0, *bounds)]
        if bias:
            wide = node.shape(weight)[1]
            assert wide is not None
            inputs.append(node.cut(bias, 0, group * wide, (group + 1) * wide))
        parts.append(_cropped(node, inputs, {**changed, "group": None}, node.fresh(), cuts))
    node.op("Concat", *parts, axis=1, to=node.output(0))


def _cropped(node: Node, inputs: list[str], changed: dict[str, Any], to: str, cuts: bool) -> str:
    """Emit the transposed convolution; torch-mlir crops as much before an image as after it only.

    cuts: whether that is more than windows reach over the ends of an image, which it does not crop.
    """
    pads = changed.get("pads", node.attribute("pads", ()))
    half = len(pads) // 2
    crops = cuts or list(pads[:half]) != list(pads[half:])
    copy = node.copy(**{**changed, "pads": None} if crops else changed)
    copy.input[:] = inputs
    copy.output[:] = [node.fresh() if crops else to]
    if crops:
        starts, ends = node.ints(*pads[:half]), node.ints(*(-pad if pad else END for pad in pads[half:]))
        node.op("Slice", copy.output[0], starts, ends, node.ints(*range(2, 2 + half)), to=to)
    return to


def _output_padding(node: Node, windows: Windows) -> list[int]:
    """The elements of the result behind the reach of its last window, by axis."""
    more = list(node.attribute("output_padding", ())) or [0] * windows.rank
    limits = [max(pair) for pair in zip(windows.strides, windows.dilations, strict=True)]
    if len(more) != windows.rank or any(not 0 <= number < limit for number, limit in zip(more, limits, strict=True)):
        raise RefusedError(f"its output_padding is {more}: it has to have {windows.rank} numbers from 0, smaller than "
                           f"{limits}")  # fmt: skip
    return more


def _fitting(node: Node, windows: Windows, more: list[int], wanted: list[int]) -> dict[str, list[int]]:
    """The padding with which a transposed convolution has the size that it says."""
    rank = windows.rank
    if wanted and (len(wanted) not in (rank, rank + 2) or min(wanted) < 1):
        raise RefusedError(f"its output_shape is {wanted}: it has to have {rank} sizes from 1")
    # With auto_pad, the padding does not depend on the size.
    image = fixed_image(node) if wanted else [size or 0 for size in node.shape(node.input(0))[2:]]
    before, after = [], []
    for n, (size, extent, stride) in enumerate(zip(image, windows.extents, windows.strides, strict=True)):
        target = wanted[len(wanted) - rank + n] if wanted else size * stride
        total = stride * (size - 1) + more[n] + extent - target
        if total < 0:
            more[n], total = more[n] - total, 0
        small, large = total // 2, total - total // 2
        before.append(small if windows.auto == "SAME_UPPER" else large)
        after.append(large if windows.auto == "SAME_UPPER" else small)
    return {"pads": before + after, "output_padding": more}
