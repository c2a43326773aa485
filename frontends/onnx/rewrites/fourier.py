"""Fourier transforms, as products with the matrix of their sines and cosines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from numc.frontends.lowering.fourier import of_half, transform
from numc.frontends.onnx.rewrites.node import Node, RefusedError


def dft(node: Node) -> None:
    """DFT along an axis of fixed size."""
    source = node.input(0)
    rank = node.rank(source)
    if node.opset < 20:
        axis = int(node.attribute("axis", 1))
    else:
        axis_input = node.constant_input(2, "axis")
        axis = -2 if axis_input is None else int(axis_input.item())
    axis %= rank
    size = node.shape(source)[axis]
    parts = node.shape(source)[-1]
    length = node.constant_input(1, "dft_length")
    if size is None or parts is None or axis == rank - 1:
        raise RefusedError("it is available along dimensions of fixed size only: give shapes={...} or --shape")
    matrix = _matrix(
        size,
        parts,
        size if length is None and not _is_half(node) else _length(node, size, length),
        inverse=bool(node.attribute("inverse", 0)),
        onesided=bool(node.attribute("onesided", 0)),
    )
    order = [d for d in range(rank) if d != axis]
    order.insert(rank - 2, axis)
    back = [order.index(d) for d in range(rank)]
    moved = source if order == list(range(rank)) else node.transpose(source, *order)
    sizes = [node.size(source, d) for d in order[:-2]]
    flat = node.reshape(moved, [*sizes, size * parts])
    _, bins, wide = matrix.shape
    product = node.op("MatMul", flat, node.constant(matrix.reshape(size * parts, bins * wide), np.float32))
    node.transpose(node.reshape(product, [*sizes, bins, wide]), *back, to=node.output(0))


def _is_half(node: Node) -> bool:
    """Whether the input is the half of the spectrum of real numbers."""
    return bool(node.attribute("inverse", 0) and node.attribute("onesided", 0))


def _length(node: Node, size: int, given: npt.NDArray[np.generic] | None) -> int:
    if given is not None:
        return int(given.item())
    return 2 * (size - 1) if _is_half(node) else size


def _matrix(size: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> npt.NDArray[np.float64]:
    """The matrix of a transform, of the shape [size * parts, bins, 2], or 1 in the place of 2 for real results.

    parts: 1 for real numbers, 2 for complex ones.
    """
    if inverse and onesided:
        if parts != 2 or size != length // 2 + 1:
            raise RefusedError(f"{size} bins of {parts} parts are not the half of a spectrum of {length}")
        return of_half(size, length).reshape(size * 2, length, 1) / length
    bins = length // 2 + 1 if onesided else length
    matrix = transform(size, bins, parts, length, inverse=inverse).reshape(size * parts, bins, 2)
    return matrix / length if inverse else matrix


def stft(node: Node) -> None:
    """STFT with frames of fixed length, of a signal of any: frames are gathered, and each is transformed."""
    source, window = node.input(0), node.input(2)
    step = node.constant_input(1, "frame_step")
    length = node.constant_input(3, "frame_length")
    shape = node.shape(source)
    parts = shape[2] if len(shape) == 3 else 1
    frame = int(length.item()) if length is not None else (node.shape(window)[0] if window else None)
    if parts is None or frame is None or step is None:
        raise RefusedError("it is available for frames of fixed size only: give shapes={...} or --shape")
    count, indices = _frames(node, source, frame, int(step.item()))
    batch = node.size(source, 0)
    frames = node.op("Gather", source, indices, axis=1)
    frames = node.reshape(frames, [batch, count, frame, parts])
    if window:
        frames = node.op("Mul", frames, node.reshape(window, [frame, 1]))
    matrix = _matrix(frame, parts, frame, inverse=False, onesided=bool(node.attribute("onesided", 1)))
    _, bins, wide = matrix.shape
    weights = node.constant(matrix.reshape(frame * parts, bins * wide), np.float32)
    product = node.op("MatMul", node.reshape(frames, [batch, count, frame * parts]), weights)
    node.reshape(product, [batch, count, bins, wide], to=node.output(0))


def _frames(node: Node, source: str, frame: int, step: int) -> tuple[int | str, str]:
    """Return the number of frames of a signal, and the places of all their values, one frame after the other."""
    size = node.size(source, 1)
    if isinstance(size, int):
        count = (size - frame) // step + 1
        indices = np.arange(count)[:, None] * step + np.arange(frame)[None, :]
        return count, node.constant(indices.reshape(-1), np.int64)
    zero, one = node.constant(0, np.int64), node.constant(1, np.int64)
    whole = node.op("Div", node.op("Sub", size, node.ints(frame - step)), node.ints(step))
    starts = node.op("Range", zero, node.op("Squeeze", whole, node.ints(0)), one)
    starts = node.op("Reshape", node.op("Mul", starts, node.ints(step)), node.ints(-1, 1))
    places = node.op("Add", starts, node.constant(np.arange(frame)[None, :], np.int64))
    return whole, node.op("Reshape", places, node.ints(-1))
