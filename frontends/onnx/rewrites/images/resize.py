"""Resize, and sampling of images at other places: sums of elements that are gathered, with factors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from numc.frontends.onnx.rewrites.images.resize_free import keeps, resize_free, rounding_of
from numc.frontends.onnx.rewrites.integers import compute_in
from numc.frontends.onnx.rewrites.node import FLOATS, Node, RefusedError
from numc.frontends.onnx.rewrites.structure.functions import expand

_WIDE = (TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64)
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Axis:
    """The resizing of an axis. Both lengths are at least 1; roi: where the part begins and ends that is resized."""

    axis: int
    before: int
    after: int
    scale: float
    roi: tuple[float, float]

    @property
    def exact(self) -> bool:
        """Whether the scale is the ratio of the lengths."""
        return self.scale * self.before == self.after


def resize(node: Node) -> None:
    """Resize: torch-mlir does only some modes, and takes the ratio of the sizes for the scales."""
    source, mode = node.input(0), node.attribute("mode", "nearest")
    shape = node.shape(source)
    coordinates = node.attribute("coordinate_transformation_mode", "half_pixel")
    axes = _axes(node, shape)
    is_whole = not node.is_float(source) and mode != "nearest"
    if is_whole and mode != "linear":
        raise RefusedError(f"its mode '{mode}' is available for floats only")
    if axes is None:
        if is_whole:
            compute_in(node, TensorProto.FLOAT, resize)
        elif not _is_free_lowered_rightly(node, mode, coordinates):
            resize_free(node, mode, coordinates)
        return
    if not is_whole and _is_lowered_rightly(node, mode, coordinates, axes, len(shape)):
        return
    # Integers are what their averages are cut off to, as in onnxruntime.
    value, outside = node.cast(source, TensorProto.FLOAT) if is_whole else source, ""
    for axis in axes:
        positions, out = _places(axis, coordinates)
        value = _along(node, value, axis, mode=mode, place=positions, rank=len(shape))
        if out.any():
            there = node.constant(out.reshape([-1, *[1] * (len(shape) - 1 - axis.axis)]), np.bool_)
            outside = node.op("Or", outside, there) if outside else there
    if outside:
        other = node.attribute("extrapolation_value", 0.0)
        filled = node.constant(other, np.float32) if is_whole else node.like(other, source)
        value = node.op("Where", outside, filled, value)
    if is_whole:
        node.cast(value, node.dtype(source), to=node.output(0))
    else:
        node.op("Identity", value, to=node.output(0))


def _axes(node: Node, shape: list[int | None]) -> list[_Axis] | None:
    """The axes that are resized; None if not all of their sizes are fixed."""
    chosen = [axis % len(shape) for axis in node.attribute("axes", range(len(shape)))]
    scales, sizes = node.constants.get(node.input(2)), node.constants.get(node.input(3))
    if (node.input(3) and sizes is None) or (not node.input(3) and (scales is None or scales.size == 0)):
        return None
    lengths = [shape[axis] for axis in chosen]
    if sizes is not None and sizes.size:
        if None in lengths:
            return None
        new_sizes = [int(size) for size in sizes.reshape(-1)]
        factors = [after / before for after, before in zip(new_sizes, lengths, strict=True) if before]
        if len(factors) != len(new_sizes):
            raise RefusedError("it resizes a dimension of size 0")
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = max(factors) if policy == "not_smaller" else min(factors)
            factors = [factor] * len(factors)
            new_sizes = [int(np.floor(factor * before + 0.5)) for before in lengths if before]
    else:
        assert scales is not None
        factors = [float(scale) for scale in scales.reshape(-1)]
        if any(size is None and scale != 1 for size, scale in zip(lengths, factors, strict=True)):
            return None
        new_sizes = [0 if size is None else _scaled(size, scale) for size, scale in zip(lengths, factors, strict=True)]
    cropped = node.attribute("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    region = _region(node, len(chosen)) if cropped else [0.0] * len(chosen) + [1.0] * len(chosen)
    axes = []
    for n, (axis, before, after, scale) in enumerate(zip(chosen, lengths, new_sizes, factors, strict=True)):
        roi = region[n], region[n + len(chosen)]
        if before is None or (scale == 1 and before == after and not (cropped and roi != (0.0, 1.0))):
            continue
        if before < 1 or after < 1:
            raise RefusedError(f"it resizes dimension {axis} from {before} to {after}: sizes start at 1")
        axes.append(_Axis(axis, before, after, scale, roi))
    return axes


def _region(node: Node, count: int) -> list[float]:
    """The part of an image that is resized: where it begins in each of the axes, and where it ends."""
    region = node.constants.get(node.input(1))
    if region is None:
        raise RefusedError("its roi is known only in a run: want a constant, or a value from --value")
    if region.size != 2 * count:
        raise RefusedError(f"its roi has {region.size} elements: want {2 * count}, two for each axis")
    return [float(x) for x in region.reshape(-1)]


def _scaled(size: int, scale: float) -> int:
    """A size times a scale in float32, as ONNX has it, rounded down: 10 times 0.9 are 9."""
    return int(np.float32(size) * np.float32(scale))


def _is_free_lowered_rightly(node: Node, mode: str, coordinates: str) -> bool:
    """Whether torch-mlir resizes images of free sizes rightly."""
    nearest = mode == "nearest" and coordinates == "asymmetric" and node.attribute("nearest_mode", "") == "floor"
    linear = mode == "linear" and coordinates in ("half_pixel", "asymmetric", "pytorch_half_pixel")
    options = node.attribute("antialias", 0) or node.attribute("axes", ()) or node.attribute("exclude_outside", 0)
    return node.rank(node.input(0)) == 4 and (nearest or linear) and not options and all(keeps(node, n) for n in (0, 1))


def _is_lowered_rightly(node: Node, mode: str, coordinates: str, axes: list[_Axis], rank: int) -> bool:
    """Whether torch-mlir does the usual case: planes that grow by an exact factor."""
    usual = {
        ("nearest", "asymmetric"): node.attribute("nearest_mode", "round_prefer_floor") == "floor",
        ("linear", "half_pixel"): True,
        ("linear", "asymmetric"): True,
    }
    exact = all(axis.axis >= 2 and axis.exact and axis.after > axis.before for axis in axes)
    options = node.attribute("antialias", 0) or node.attribute("axes", ()) or node.attribute("exclude_outside", 0)
    return rank == 4 and len(axes) == 2 and exact and not options and usual.get((mode, coordinates), False)


def _places(axis: _Axis, coordinates: str) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return where the elements of the result lie in the source, and which of them lie outside."""
    x: Floats = np.arange(axis.after, dtype=np.float64)
    last, length = axis.before - 1, axis.scale * axis.before
    if coordinates == "align_corners":
        positions = np.zeros_like(x) if length == 1 else x * last / (length - 1)
    elif coordinates == "asymmetric":
        positions = x / axis.scale
    elif coordinates == "tf_crop_and_resize":
        begin, end = axis.roi
        part = np.full_like(x, (end - begin) * last / 2) if length == 1 else x * (end - begin) * last / (length - 1)
        positions = part + begin * last
        return positions, (positions < 0) | (positions > last)
    elif coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        positions = (x + 0.5) / axis.scale - 0.5
        if coordinates == "pytorch_half_pixel" and length == 1:
            positions = np.full_like(x, -0.5)
        if coordinates == "half_pixel_symmetric":
            positions += axis.before / 2 * (1 - axis.after / length)
    else:
        raise RefusedError(f"its attribute coordinate_transformation_mode is '{coordinates}', which ONNX does not have")
    return positions, np.zeros(axis.after, dtype=np.bool_)


def _along(node: Node, value: str, axis: _Axis, mode: str, place: Floats, rank: int) -> str:
    """Emit the elements at some places along an axis."""
    base = np.ceil(place) - 1
    ratio = place - base  # in (0, 1]
    if mode == "nearest":
        rounding = rounding_of(node, shrinks=axis.scale < 1)
        nearest = {
            "round_prefer_floor": np.ceil(place - 0.5),
            "round_prefer_ceil": np.floor(place + 0.5),
            "floor": np.floor(place),
            "ceil": np.ceil(place),
        }.get(rounding)
        if nearest is None:
            raise RefusedError(f"its attribute nearest_mode is '{rounding}', which ONNX does not have")
        return node.op("Gather", value, _indices(node, nearest, axis.before), axis=axis.axis)
    shrink = min(axis.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    reach = int(-np.floor(-(1 if mode == "linear" else 2) / shrink))
    offsets = np.arange(1 - reach, reach + 1)
    distance = np.abs(offsets[:, None] - ratio[None, :]) * shrink
    if mode == "linear":
        factors = np.clip(1 - distance, 0, 1)
    elif mode == "cubic":
        factors = _cubic(distance, node.attribute("cubic_coeff_a", -0.75))
    else:
        raise RefusedError(f"its attribute mode is '{mode}', which ONNX does not have")
    taps = base[None, :] + offsets[:, None]
    if node.attribute("exclude_outside", 0):
        factors = np.where((taps < 0) | (taps >= axis.before), 0, factors)
    if node.attribute("exclude_outside", 0) or node.attribute("antialias", 0):
        factors = factors / factors.sum(axis=0)
    total = ""
    for tap, factor in zip(taps, factors, strict=True):
        if not factor.any():
            continue
        element = node.op("Gather", value, _indices(node, tap, axis.before), axis=axis.axis)
        if (factor != 1).any():
            wide = factor.reshape([-1, *[1] * (rank - 1 - axis.axis)])
            element = node.op("Mul", element, node.constant(wide, np.float32))
        total = node.op("Add", total, element) if total else element
    return total


def _indices(node: Node, places: Floats, length: int) -> str:
    return node.constant(np.clip(places, 0, length - 1), np.int64)


def _cubic(distance: Floats, a: float) -> Floats:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def affine_grid(node: Node) -> None:
    """AffineGrid: ONNX's function of one image takes the batch away with its Squeeze, so that this is written out."""
    sizes = node.constants.get(node.input(1))
    if sizes is None or sizes.size != 4 or int(sizes.reshape(-1)[0]) != 1:
        expand(node)
        return
    _, _, height, width = (int(size) for size in sizes.reshape(-1))
    one, two = np.float32(1), np.float32(2)

    def along(count: int) -> npt.NDArray[np.float32]:
        """The places of pixels from -1 to 1, in the steps of ONNX's function: float32 numbers, each rounded."""
        aligned, size = node.attribute("align_corners", 0), np.float32(count)
        step = two / (size - one) if aligned and count > 1 else two / size
        start = -one if aligned else step / two - one
        return np.asarray(start + np.arange(count, dtype=np.float32) * step, np.float32)

    x, y = np.meshgrid(along(width), along(height))
    places = np.stack([x, y, np.ones_like(x)], -1).reshape(1, -1, 3)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(node.dtype(node.input(0)) or TensorProto.FLOAT)
    moved = node.op("MatMul", node.constant(places, dtype), node.transpose(node.input(0), 0, 2, 1))
    node.reshape(moved, [1, height, width, 2], to=node.output(0))


def grid_sample(node: Node) -> None:
    """GridSample: every tap of the interpolation is gathered from the flat image.

    Integers are what their averages are cut off to, as in the reference of ONNX.
    """
    source, grid = node.input(0), node.input(1)
    rank = node.rank(source) - 2
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attribute("mode", "linear"), node.attribute("mode", ""))
    mode = mode or "linear"
    padding = node.attribute("padding_mode", "zeros")
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise RefusedError(f"its mode '{mode}' with padding_mode '{padding}' is none that ONNX has")
    own, result = node.dtype(source), node.output(0)
    work = (
        own if own in (0, *FLOATS) or mode == "nearest" else TensorProto.DOUBLE if own in _WIDE else TensorProto.FLOAT
    )
    sampler = Sampler(node, padding, bool(node.attribute("align_corners", 0)), _precision(node, grid))
    batch, channels, *image = node.sizes(source)
    placed = node.sizes(grid)[1:-1]
    count = node.product(*placed)
    taps = []
    for n in range(rank):
        coordinate = node.op("Gather", grid, node.constant(rank - 1 - n, np.int64), axis=-1)
        taps.append(sampler.taps(node.reshape(coordinate, [batch, 1, count]), image[n], mode))
    flat = node.reshape(source, [batch, channels, node.product(*image)])
    if work != own:
        flat, result = node.cast(flat, work), node.fresh()
    shape = node.list_of([batch, channels, count])
    total = ""
    for chosen in itertools.product(*taps):
        index = factor = inside = ""
        for n, tap in enumerate(chosen):
            rows = node.op("Mul", index, node.list_of([image[n]])) if index else ""
            index = node.op("Add", rows, tap.index) if rows else tap.index
            factor = node.op("Mul", factor, tap.factor) if factor and tap.factor else factor or tap.factor
            inside = node.op("And", inside, tap.inside) if inside and tap.inside else inside or tap.inside
        value = node.op("GatherElements", flat, node.op("Expand", index, shape), axis=2)
        if inside:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(work or TensorProto.FLOAT)
            value = node.op("Where", inside, value, node.constant(0, dtype))
        if factor:
            factor = factor if sampler.precision != TensorProto.DOUBLE else node.cast(factor, work)
            value = node.op("Mul", value, factor)
        total = node.op("Add", total, value) if total else value
    node.reshape(total, [batch, channels, *placed], to=result)
    if work != own:
        node.cast(result, own, to=node.output(0))


def _precision(node: Node, places: str) -> int:
    return int(TensorProto.DOUBLE if node.dtype(places) == TensorProto.DOUBLE else TensorProto.FLOAT)


@dataclass(frozen=True)
class Tap:
    """An element that is read: its index, its factor, and whether it lies inside; "" for 1 and for always."""

    index: str
    factor: str
    inside: str


@dataclass
class Sampler:
    """Interpolation. padding: what is read outside of an image. aligned: whether -1 and 1 are centres of elements.

    precision: the type of places and factors.
    """

    node: Node
    padding: str
    aligned: bool
    precision: int = TensorProto.FLOAT

    def number(self, value: float) -> str:
        return self.node.constant(value, onnx.helper.tensor_dtype_to_np_dtype(self.precision))

    def taps(self, place: str, length: int | str, mode: str) -> list[Tap]:
        """Emit the taps along one axis. place: from -1 to 1 in the image, of the shape [batch, 1, count]."""
        op = self.node.op
        size = (
            self.number(length)
            if isinstance(length, int)
            else self.node.cast(self.node.op("Squeeze", length, self.node.ints(0)), self.precision)
        )
        last = op("Sub", size, self.number(1))
        moved = op("Add", place, self.number(1))
        if self.aligned:
            x = op("Mul", op("Div", moved, self.number(2)), last)
            low, high = self.number(0), last
        else:
            x = op("Div", op("Sub", op("Mul", moved, size), self.number(1)), self.number(2))
            low, high = self.number(-0.5), op("Sub", size, self.number(0.5))
        if mode == "nearest":
            x = op("Round", x)
        # With a border, cubic interpolation only clamps its taps, as in onnxruntime and PyTorch.
        if self.padding == "reflection" or (self.padding == "border" and mode != "cubic"):
            outside = op("Or", op("Less", x, low), op("Greater", x, high))
            x = op("Where", outside, self.back(x, low, high, last), x)
        if mode == "nearest":
            return [self.tap(x, "", low, high, last)]
        if self.padding != "zeros" and mode == "linear":  # the place of NaN is 0, as in onnxruntime and PyTorch
            x = op("Where", op("IsNaN", x), self.number(0), x)
        base = op("Floor", x)
        ratio = op("Sub", x, base)
        offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        taps = []
        for offset in offsets:
            distance = op("Abs", op("Sub", ratio, self.number(offset)))
            factor = (
                op("Sub", self.number(1), distance) if mode == "linear" else self.cubic(distance, abs(offset - 0.5))
            )
            taps.append(self.tap(op("Add", base, self.number(offset)), factor, low, high, last))
        return taps

    def at(self, place: str, length: int) -> list[Tap]:
        """Emit the taps of linear interpolation along one axis. place: in elements, from 0."""
        op, low, high = self.node.op, self.number(0), self.number(length - 1)
        base = op("Floor", place)
        after = op("Sub", place, base)
        factors = (op("Sub", self.number(1), after), after)
        moved = (base, op("Add", base, self.number(1)))
        return [self.tap(x, factor, low, high, high) for x, factor in zip(moved, factors, strict=True)]

    def back(self, x: str, low: str, high: str, last: str) -> str:
        """Emit where a place outside of the image lies inside of it."""
        op = self.node.op
        if self.padding == "border":
            return op("Min", op("Max", x, self.number(0)), last)
        span = op("Sub", high, low)
        period = op("Max", op("Mul", span, self.number(2)), self.number(1))
        far = op("Sub", x, low)
        part = op("Sub", far, op("Mul", op("Floor", op("Div", far, period)), period))
        return op("Add", op("Where", op("Greater", part, span), op("Sub", period, part), part), low)

    def tap(self, x: str, factor: str, low: str, high: str, last: str) -> Tap:
        op, zero = self.node.op, self.number(0)
        inside = ""
        if self.padding == "zeros":
            inside = op("And", op("GreaterOrEqual", x, zero), op("LessOrEqual", x, last))
        if self.padding == "reflection":
            outside = op("Or", op("Less", x, low), op("Greater", x, high))
            x = op("Where", outside, self.back(x, low, high, last), x)
        index = op("Min", op("Where", op("Greater", x, zero), x, zero), last)  # NaN is 0
        return Tap(self.node.cast(index, onnx.TensorProto.INT64), factor, inside)

    def cubic(self, distance: str, centre: float) -> str:
        """Emit the factor of a tap of cubic interpolation at a distance below 1, or between 1 and 2."""
        op, a = self.node.op, -0.75
        coefficients = (a + 2, -(a + 3), 0.0, 1.0) if centre < 1 else (a, -5 * a, 8 * a, -4 * a)
        total = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = op("Add", op("Mul", total, distance), self.number(coefficient))
        return total
