"""Resize of free sizes: the elements and factors of every place follow from the sizes in each run, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError

_COORDINATES = ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel")
BY_SCALE = "by_scale"
"""The attribute nearest_mode before there was one: an axis that shrinks has the place rounded up, another one down."""
_HOW = "images of fixed sizes only: give shapes={...} or --shape"


_WHOLE = 2**30
"""What computed scales are fractions of."""


def rounding_of(node: Node, *, shrinks: bool | None) -> str:
    """The attribute nearest_mode, as it is for an axis; BY_SCALE if it depends on a scale that a run computes."""
    rounding: str = node.attribute("nearest_mode", "round_prefer_floor")
    if rounding == BY_SCALE and shrinks is not None:
        return "ceil" if shrinks else "floor"
    return rounding


def keeps(node: Node, axis: int) -> bool:
    """Whether an axis is known to keep its size."""
    source, result = node.input(0), node.types.get(node.output(0))
    if not node.input(3):
        scales = node.constants.get(node.input(2))
        return scales is not None and bool(scales.reshape(-1)[axis] == 1)
    if result is None or source not in node.types or not result.tensor_type.HasField("shape"):
        return False
    before, after = (each.tensor_type.shape.dim[axis] for each in (node.types[source], result))
    if before.HasField("dim_value"):
        return bool(after.HasField("dim_value") and before.dim_value == after.dim_value)
    return bool(after.dim_param and after.dim_param == (before.dim_param or f"{source}[{axis}]"))


def resize_free(node: Node, mode: str, coordinates: str) -> None:
    """Resize to sizes, or by scales, that are constants or computed."""
    if mode not in ("nearest", "linear", "cubic") or coordinates not in _COORDINATES:
        raise RefusedError(f"mode '{mode}' with coordinates '{coordinates}' is available for {_HOW}")
    for name, default in (("antialias", 0), ("exclude_outside", 0), ("keep_aspect_ratio_policy", "stretch")):
        if (setting := node.attribute(name, default)) != default:
            raise RefusedError(f"its attribute {name} {setting} is available for {_HOW}")
    source = node.input(0)
    if not node.is_float(source) and mode != "nearest":
        raise RefusedError(f"its mode '{mode}' for integers is available for {_HOW}")
    rank, value = node.rank(source), source
    chosen = [axis % rank for axis in node.attribute("axes", range(rank))]
    scales = None if node.input(3) else node.constants.get(node.input(2))
    for n, axis in enumerate(chosen):
        length, shrinks = node.list_of([node.size(source, axis)]), None
        if scales is not None:
            scale = Fraction(float(scales.reshape(-1)[n]))
            if scale == 1:
                continue
            ratio, shrinks = (node.ints(scale.numerator), node.ints(scale.denominator)), scale < 1
            after = _emit_scaled(node, length, *ratio)
        elif len(chosen) == rank and keeps(node, axis):
            continue
        elif node.input(3):
            after, shrinks = node.cut(node.input(3), 0, n, n + 1), False
            ratio = after, length
        else:
            wide = node.cast(node.cut(node.input(2), 0, n, n + 1), TensorProto.DOUBLE)
            whole = node.op("Mul", wide, node.constant(_WHOLE, np.float64))
            ratio = node.cast(whole, TensorProto.INT64), node.ints(_WHOLE)
            after = _emit_scaled(node, length, *ratio)
        value = _Axis(
            node=node,
            axis=axis,
            rank=rank,
            before=length,
            after=after,
            scale=ratio,
            coordinates=coordinates,
            shrinks=shrinks,
        ).resized(value, mode)
    if node.input(3) and len(chosen) == rank:
        node.op("Reshape", value, node.input(3), to=node.output(0))
    else:
        node.op("Identity", value, to=node.output(0))


def _emit_scaled(node: Node, before: str, grown: str, shrunk: str) -> str:
    """Emit a length times a scale as a float32 number, as ONNX has it, rounded down: 10 times 0.9 are 9.

    The exact product of 10 and the float32 number next to 0.9 is less.
    """
    op = node.op
    product = op("Mul", before, grown)
    least = op("Div", product, shrunk)
    missing = op("Sub", op("Mul", op("Add", least, node.ints(1)), shrunk), product)
    powers = node.ints(*(2**n for n in range(31)))
    power = op("ReduceMax", op("Where", op("LessOrEqual", powers, least), powers, node.ints(0)), node.ints(0))
    # Whether what is missing of the next integer is at most half of the last bit.
    rounds = op("LessOrEqual", op("Mul", missing, node.ints(2**24)), op("Mul", shrunk, power))
    return op("Add", least, node.cast(rounds, TensorProto.INT64))


@dataclass(frozen=True)
class _Axis:
    """The resizing of an axis. before, after: its lengths; scale: a numerator and a denominator. All are lists of one.

    rank: of the image. coordinates: the attribute coordinate_transformation_mode. shrinks: whether its scale is below
    1; None if a run computes the scale.
    """

    node: Node
    axis: int
    rank: int
    before: str
    after: str
    scale: tuple[str, str]
    coordinates: str
    shrinks: bool | None

    def resized(self, value: str, mode: str) -> str:
        """Emit the elements of a value at the places of the result."""
        places = self._places()
        if mode == "nearest":
            return self._element(value, self._nearest(*places))
        node, op, source = self.node, self.node.op, self.node.input(0)
        above, below = places
        base = self._floor(op("Sub", above, node.ints(1)), below)  # the last element before a place
        dtype = node.dtype(source) or TensorProto.FLOAT
        rest = op("Sub", above, op("Mul", base, below))
        ratio = op("Div", node.cast(rest, dtype), node.cast(below, dtype))  # in (0, 1]
        total = ""
        for offset in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            distance = op("Abs", op("Sub", ratio, node.like(offset, source)))
            factor = op("Sub", node.like(1, source), distance) if mode == "linear" else self._cubic(distance, offset)
            column = node.reshape(factor, [-1, *[1] * (self.rank - 1 - self.axis)])
            element = op("Mul", self._element(value, op("Add", base, node.ints(offset))), column)
            total = op("Add", total, element) if total else element
        return total

    def _places(self) -> tuple[str, str]:
        """Emit where the elements of the result lie in the source: a list of integers, over an integer."""
        node, op = self.node, self.node.op
        x = node.steps(self.after)
        grown, shrunk = self.scale
        if self.coordinates == "asymmetric":
            return op("Mul", x, shrunk), grown
        one, two = node.ints(1), node.ints(2)
        length = op("Mul", grown, self.before)  # of the result, over the denominator of the scale
        if self.coordinates == "align_corners":
            above = op("Mul", op("Mul", x, op("Sub", self.before, one)), shrunk)
            return above, op("Max", op("Sub", length, shrunk), one)
        above = op("Sub", op("Mul", op("Add", op("Mul", x, two), one), shrunk), grown)
        below = op("Mul", grown, two)
        if self.coordinates == "pytorch_half_pixel":
            single = op("Equal", length, shrunk)
            above = op("Where", single, node.ints(-1), above)
            below = op("Where", single, two, below)
        return above, below

    def _nearest(self, above: str, below: str) -> str:
        """Emit the elements that are nearest to places."""
        node, op = self.node, self.node.op
        one, two = node.ints(1), node.ints(2)
        rounding = rounding_of(node, shrinks=self.shrinks)
        up = op("Add", self._floor(op("Sub", above, one), below), one) if rounding in ("ceil", BY_SCALE) else ""
        if rounding == "ceil":
            return up
        if rounding == BY_SCALE:
            return op("Where", op("Less", *self.scale), up, self._floor(above, below))
        if rounding == "floor":
            return self._floor(above, below)
        twice, period = op("Mul", above, two), op("Mul", below, two)
        if rounding == "round_prefer_ceil":
            return self._floor(op("Add", twice, below), period)
        if rounding == "round_prefer_floor":
            return op("Add", self._floor(op("Sub", op("Sub", twice, below), one), period), one)
        raise RefusedError(f"its attribute nearest_mode is '{rounding}', which ONNX does not have")

    def _floor(self, above: str, below: str) -> str:
        """Emit the floor of quotients from -2: Div of integers cuts off."""
        op, two = self.node.op, self.node.ints(2)
        return op("Sub", op("Div", op("Add", above, op("Mul", below, two)), below), two)

    def _element(self, value: str, place: str) -> str:
        """Emit the elements at places, those outside of the source being its first or its last."""
        op = self.node.op
        last = op("Sub", self.before, self.node.ints(1))
        inside = op("Min", op("Max", place, self.node.ints(0)), last)
        return op("Gather", value, inside, axis=self.axis)

    def _cubic(self, distance: str, offset: int) -> str:
        """Emit the factors of a tap of cubic interpolation; the distance of offsets 0 and 1 is at most 1."""
        op, source, a = self.node.op, self.node.input(0), self.node.attribute("cubic_coeff_a", -0.75)
        coefficients = (a + 2, -(a + 3), 0.0, 1.0) if offset in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        total = self.node.like(coefficients[0], source)
        for coefficient in coefficients[1:]:
            total = op("Add", op("Mul", total, distance), self.node.like(coefficient, source))
        return total
