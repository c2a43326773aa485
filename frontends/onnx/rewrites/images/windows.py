"""The windows of convolutions and pooling: how they lie in an image."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from numc.frontends.onnx.rewrites.node import Node, RefusedError

_PADDINGS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")

_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Windows:
    """The windows of a node. Each list has a number for every dimension of the image.

    before, after: the padding of the image. auto: SAME_UPPER or SAME_LOWER if there is so much of it that there are as
    many windows as strides in the image, else "". is_ceil: whether the last window may reach beyond the padding.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    auto: str
    is_ceil: bool

    @property
    def rank(self) -> int:
        """The number of dimensions of the image."""
        return len(self.kernel)

    @property
    def extents(self) -> list[int]:
        """The reach of a window by axis, with its dilation."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def on(self, image: Sequence[int]) -> Windows:
        """The windows on an image of fixed size, with the padding that makes every one of them whole.

        A window that would begin behind the image and the padding before it is left out, as in PyTorch and onnxruntime.
        One that is larger than the padded image is cut to that if the last one may reach beyond it.
        """
        kernel, before, after = list(self.kernel), list(self.before), list(self.after)
        for n, (size, extent, s) in enumerate(zip(image, self.extents, self.strides, strict=True)):
            if self.auto:
                total = max(0, (-(-size // s) - 1) * s + extent - size)
                small, large = total // 2, total - total // 2
                before[n], after[n] = (small, large) if self.auto == "SAME_UPPER" else (large, small)
            elif self.is_ceil:
                kernel[n] = min(kernel[n], size + before[n] + after[n])
                extent = (kernel[n] - 1) * self.dilations[n] + 1
                count = -(-(size + before[n] + after[n] - extent) // s) + 1
                if (count - 1) * s >= size + before[n]:
                    count -= 1
                after[n] = max(0, (count - 1) * s + extent - size - before[n])
        return replace(self, kernel=kernel, before=before, after=after, auto="", is_ceil=False)

    def counts(self, image: Sequence[int]) -> list[int]:
        """The number of windows in an image by axis, with the padding `before` and `after`."""
        rows = zip(image, self.extents, self.strides, self.before, self.after, strict=True)
        return [(size + low + high - extent) // s + 1 for size, extent, s, low, high in rows]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """The places of the elements in a window."""
        for position in itertools.product(*(range(k) for k in self.kernel)):
            yield tuple(p * d for p, d in zip(position, self.dilations, strict=True))


def windows_of(node: Node, kernel: Sequence[int], *, has_image: bool = True) -> Windows:
    """The windows of a node on an image, its first input. Raises RefusedError for attributes that do not make any."""
    rank, shape = len(kernel), node.known_shape(node.input(0)) if has_image else None
    if not rank or min(kernel) < 1:
        raise RefusedError(f"its window has sizes {list(kernel)}: each has to be 1 or more")
    if max(kernel) > _LARGEST:
        raise RefusedError(f"its window has sizes {list(kernel)}: each may be {_LARGEST}")
    if shape is not None and len(shape) != rank + 2:
        raise RefusedError(f"'{node.input(0)}' has {len(shape)} dimensions, and a window of {rank} needs {rank + 2}")
    auto = node.attribute("auto_pad", "NOTSET")
    if auto not in _PADDINGS:
        raise RefusedError(f"its auto_pad is '{auto}': want {', '.join(_PADDINGS)}")
    pads = _numbers(node, "pads", [0] * (2 * rank)) if auto == "NOTSET" else [0] * (2 * rank)
    return Windows(
        kernel=list(kernel),
        strides=_numbers(node, "strides", [1] * rank),
        dilations=_numbers(node, "dilations", [1] * rank),
        before=pads[:rank],
        after=pads[rank:],
        auto=auto if auto.startswith("SAME") else "",
        is_ceil=bool(node.attribute("ceil_mode", 0)),
    )


def _numbers(node: Node, name: str, least: list[int]) -> list[int]:
    """An attribute, which by default has its least values."""
    numbers = list(node.attribute(name, least)) or least
    if len(numbers) != len(least):
        raise RefusedError(f"its attribute {name} is {numbers}: it has to have {len(least)} numbers")
    if any(number < smallest for number, smallest in zip(numbers, least, strict=True)):
        raise RefusedError(f"its attribute {name} is {numbers}: each number has to be {least[0]} or more")
    return numbers


def fixed_image(node: Node) -> list[int]:
    """The sizes of the image that is the first input. Raises RefusedError if one is free."""
    shape = node.shape(node.input(0))[2:]
    image = [size for size in shape if size is not None]
    if len(image) != len(shape):
        raise RefusedError("it is available for images of fixed sizes only: give shapes={...} or --shape")
    return image
