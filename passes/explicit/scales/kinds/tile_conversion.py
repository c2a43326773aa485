"""Matrices converted to formats whose scales are those of tiles: elements, scales, words of both, and values."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from numc.numerics.binary32 import INFINITY, NAN
from numc.numerics.formats import FORMATS, Conversion, Fixed
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds.scaled_groups import ROW, ScaledGroups, saturating
from numc.numerics.kinds.zero_points import ZeroPoints
from numc.passes.dialect import RoundOp
from numc.passes.explicit.group_codes import MAGNITUDE
from numc.passes.explicit.inlined import inlined
from numc.passes.explicit.scales.matrices import computed, filled, filled_up, first_steps, reduced, shaped
from numc.passes.explicit.scales.run_sizes import Size, at_least_one, ceil_div, equal, product, sizes
from numc.passes.explicit.stored_bits import integer
from numc.passes.kernels.builder import Function
from numc.passes.kernels.values.group_values import Scaling
from numc.passes.kernels.values.kinds import code_of

_LARGEST = float(FORMATS["fp32"].max_finite)
_INTEGERS = Fixed(9, 0)  # more of them than there are quotients
# Of tiles [down, height, along, width]: those loops that a tile has one value for.
_ALL, _TILE = (0, 1, 2, 3), (0, 2)


@dataclass(frozen=True)
class Tiling:
    """A matrix (rows, steps), cut into tiles of `height` rows and `width` steps; counts: of them, down and along."""

    rows: Size
    steps: Size
    height: Size
    width: Size
    counts: tuple[Size, Size]

    @staticmethod
    def of(matrix: ir.Value, fmt: ScaledGroups) -> Tiling:
        """The tiling of a matrix by a format."""
        rows, steps = sizes(matrix)
        height = _part(rows, fmt.rows)
        width = _part(steps, None if fmt.group == ROW else fmt.group)
        return Tiling(rows, steps, height, width, (ceil_div(rows, height), ceil_div(steps, width)))


def _part(size: Size, most: int | None) -> Size:
    """The size of a tile where a matrix has this one; most: None for all of it."""
    if most is None:
        return at_least_one(size)
    return max(min(most, size), 1) if isinstance(size, int) else most


@dataclass(frozen=True)
class Converted:
    """A converted matrix.

    elements: [down, height, along, width], zeros where a tile has fewer rows or steps. scales: [down, along], those of
    tiles without the scale of the tensor; tensor: that scale, a tensor without dimensions, None where there is none.
    """

    to: GroupConversion
    tiling: Tiling
    elements: ir.Value
    scales: ir.Value
    tensor: ir.Value | None

    def factors(self) -> ir.Value:
        """The factors of elements, [down, along]: scales, times that of the tensor."""
        if self.tensor is None:
            return self.scales
        shape = sizes(self.scales)
        return computed([(self.scales, (0, 1)), (self.tensor, ())], shape, lambda s, t: _at_most(_mul(s, t)))

    def values(self) -> ir.Value:
        """Elements times what they are multiplied by, as the matrix."""
        inputs = [(self.elements, _ALL), (self.factors(), _TILE)]
        return self.matrix(computed(inputs, sizes(self.elements), _mul))

    def words(self) -> ir.Value:
        """Words of an element and the scale of its tile, as the matrix."""
        inputs = [(self.elements, _ALL), (self.scales, _TILE)]
        return self.matrix(computed(inputs, sizes(self.elements), _joined))

    def matrix(self, tiles: ir.Value) -> ir.Value:
        """Tiles as the matrix, without what they were filled up with."""
        down, height, along, width = sizes(tiles)
        whole = shaped(tiles, [product([down, height]), product([along, width])])
        return first_steps(whole, self.tiling.rows, self.tiling.steps)

    def per_row(self, values: ir.Value) -> ir.Value:
        """Numbers of tiles, [down, along], for every row: [rows, along]."""
        (down, along), height = self.tiling.counts, self.tiling.height
        if equal(height, 1):
            return values
        each = computed([(values, (0, 2))], [down, height, along], lambda x: x)
        return first_steps(shaped(each, [product([down, height]), along]), self.tiling.rows, along)

    def groups(self) -> ir.Value:
        """The elements of every row in groups, [rows, along, width]."""
        down, height, along, width = sizes(self.elements)
        steps = product([along, width])
        flat = first_steps(shaped(self.elements, [product([down, height]), steps]), self.tiling.rows, steps)
        return shaped(flat, [self.tiling.rows, along, width])


def converted(matrix: ir.Value, to: GroupConversion, number: int) -> Converted:
    """Convert a matrix (rows, steps) at the insertion point; number: of the operation that its elements draw from."""
    fmt = to.format
    assert isinstance(fmt, ScaledGroups)
    tiling = Tiling.of(matrix, fmt)
    down, along = tiling.counts
    whole = filled_up(matrix, product([down, tiling.height]), product([along, tiling.width]))
    tiles = shaped(whole, [down, tiling.height, along, tiling.width])
    most = _largest(tiles)
    if isinstance(fmt, ZeroPoints):
        return Converted(to, tiling, *_by_range(tiles, most, to, number), None)
    if fmt.rule == "inverse":
        by = computed([(most, (0, 1))], [down, along], lambda m: _multiplier(m, fmt))
        both = [(by, (0, 1)), (most, (0, 1))]
        scales = computed(both, [down, along], lambda x, m: _or_nan(_div(_f32(1.0), x), m))
        elements = _rounded(tiles, by, to, number, _mul)
        return Converted(to, tiling, elements, scales, None)
    largest = _largest_finite(matrix) if fmt.tensor else filled([], integer(32), 0)
    kept = [(most, (0, 1)), (largest, ())]
    divisor, scale = (computed(kept, [down, along], inlined(_scaling(to, what))) for what in ("divisor", "scale"))
    tensor = computed([(largest, ())], [], inlined(_scaling(to, "tensor"))) if fmt.tensor else None
    return Converted(to, tiling, _rounded(tiles, divisor, to, number, _div), scale, tensor)


def _scaling(to: GroupConversion, what: str) -> str:
    """A function from the largest magnitude of a tile, and that of its tensor, to a number of its scaling."""
    arguments = {"largest": "i32"} if what == "tensor" else {"most": "i32", "largest": "i32"}
    code, conversion = Function("scaling", arguments, "f32", attributes=""), code_of(to, factors="elements")
    shared = conversion.shared(code, code["largest"])
    if what == "tensor":
        assert shared is not None
        return code.function(shared)
    scaling: Scaling = conversion.scaling(code, code["most"], shared)
    assert scaling.unit is not None
    return code.function(scaling.down[0] if what == "divisor" else scaling.unit)


def _rounded(tiles: ir.Value, by: ir.Value, to: GroupConversion, number: int, scaled: object) -> ir.Value:
    """Elements: values scaled by the numbers of their tiles, and rounded."""
    assert isinstance(to.format, ScaledGroups)
    rounding = saturating(to.format.element, to.rounding)

    def element(x: ir.Value, factor: ir.Value) -> ir.Value:
        return rounded(scaled(x, factor), rounding, number)  # type: ignore[operator]

    return computed([(tiles, _ALL), (by, _TILE)], sizes(tiles), element)


def rounded(x: ir.Value, to: Conversion, number: int) -> ir.Value:
    """Append a rounding that draws from the operation of this number, if it draws."""
    op = RoundOp(ir.F32Type.get(), x, to=ir.StringAttr.get(str(to)))
    if to.noise is not None:
        op.operation.attributes["number"] = ir.IntegerAttr.get(integer(64), number)
    result: ir.Value = op.result
    return result


def _by_range(tiles: ir.Value, most: ir.Value, to: GroupConversion, number: int) -> tuple[ir.Value, ir.Value]:
    """Differences of integers and zero points, and scales."""
    fmt = to.format
    assert isinstance(fmt, ZeroPoints)
    down, _, along, _ = sizes(tiles)
    ends = []
    for extreme in (arith.MinimumFOp, arith.MaximumFOp):
        start = filled([down, along], ir.F32Type.get(), 0.0)
        ends.append(reduced([(tiles, _ALL)], (1, 3), start, _TILE, lambda x, m, e=extreme: e(m, x).result))
    pairs = [(ends[0], (0, 1)), (ends[1], (0, 1)), (most, (0, 1))]
    top, shape = float(fmt.largest), [down, along]

    def scale(low: ir.Value, high: ir.Value, m: ir.Value) -> ir.Value:
        width = _at_most(arith.SubFOp(high, low).result)
        made = rounded(_div(width, _f32(top)), saturating(fmt.scale, "rne"), 0)
        made = _select("oeq", made, _f32(0.0), _f32(float(fmt.scale.min_subnormal)), made)
        return _or_nan(_select("oeq", width, _f32(0.0), _f32(0.0), made), m)

    scales = computed(pairs, shape, scale)

    def divisor(s: ir.Value) -> ir.Value:
        return _select("oeq", s, _f32(0.0), _f32(float("inf")), s)

    divisors = computed([(scales, (0, 1))], shape, divisor)

    def zero(low: ir.Value, s: ir.Value) -> ir.Value:
        whole = math.RoundEvenOp(_div(arith.SubFOp(_f32(0.0), low).result, s)).result
        return arith.MinimumFOp(whole, _f32(top)).result

    zeros = computed([(ends[0], (0, 1)), (divisors, (0, 1))], shape, zero)
    integers = Conversion(_INTEGERS, to.rounding)

    def element(x: ir.Value, s: ir.Value, z: ir.Value) -> ir.Value:
        q = arith.AddFOp(rounded(_div(x, s), integers, number), z).result
        q = arith.MaximumFOp(arith.MinimumFOp(q, _f32(top)).result, _f32(0.0)).result
        return arith.AddFOp(arith.SubFOp(q, z).result, _f32(0.0)).result

    inputs = [(tiles, _ALL), (divisors, _TILE), (zeros, _TILE)]
    return computed(inputs, sizes(tiles), element), scales


def _largest(tiles: ir.Value) -> ir.Value:
    """The largest magnitudes of tiles, [down, along], as encodings."""
    shape, i32 = sizes(tiles), integer(32)
    start = filled([shape[0], shape[2]], i32, 0)
    return reduced([(tiles, _ALL)], (1, 3), start, _TILE, lambda x, m: arith.MaxUIOp(m, _encoded(x)).result)


def _largest_finite(matrix: ir.Value) -> ir.Value:
    """The largest finite magnitude of a matrix, as an encoding: a tensor without dimensions."""
    shape, i32 = sizes(matrix), integer(32)

    def larger(x: ir.Value, most: ir.Value) -> ir.Value:
        bits = _encoded(x)
        known = arith.CmpIOp(arith.CmpIPredicate.ult, bits, arith.ConstantOp(i32, INFINITY).result).result
        return arith.MaxUIOp(most, arith.SelectOp(known, bits, arith.ConstantOp(i32, 0).result).result).result

    rows = reduced([(matrix, (0, 1))], (1,), filled([shape[0]], i32, 0), (0,), larger)
    whole = filled([], i32, 0)
    return reduced([(rows, (0,))], (0,), whole, (), lambda x, most: arith.MaxUIOp(most, x).result)


def _multiplier(most: ir.Value, fmt: ScaledGroups) -> ir.Value:
    """The factor of values under the rule "inverse": 1 where all are zeros, or not all are finite."""
    i32 = integer(32)
    known = arith.CmpIOp(arith.CmpIPredicate.ult, most, arith.ConstantOp(i32, INFINITY).result).result
    some = arith.CmpIOp(arith.CmpIPredicate.ne, most, arith.ConstantOp(i32, 0).result).result
    top = _f32(float(fmt.largest))
    amax = arith.SelectOp(arith.AndIOp(known, some).result, arith.BitcastOp(ir.F32Type.get(), most).result, top).result
    return _at_most(_div(top, amax))


def _joined(element: ir.Value, scale: ir.Value) -> ir.Value:
    """A word with a scale in its upper half and an element in its lower one."""
    i32 = integer(32)
    upper = arith.AndIOp(arith.BitcastOp(i32, scale).result, arith.ConstantOp(i32, -65536).result).result
    lower = arith.ShRUIOp(arith.BitcastOp(i32, element).result, arith.ConstantOp(i32, 16).result).result
    return arith.BitcastOp(ir.F32Type.get(), arith.OrIOp(upper, lower).result).result


def _encoded(x: ir.Value) -> ir.Value:
    i32 = integer(32)
    return arith.AndIOp(arith.BitcastOp(i32, x).result, arith.ConstantOp(i32, MAGNITUDE).result).result


def _or_nan(x: ir.Value, most: ir.Value) -> ir.Value:
    """NaN for a tile that has an infinity or a NaN."""
    i32 = integer(32)
    known = arith.CmpIOp(arith.CmpIPredicate.ult, most, arith.ConstantOp(i32, INFINITY).result).result
    nan = arith.BitcastOp(ir.F32Type.get(), arith.ConstantOp(i32, NAN).result).result
    return arith.SelectOp(known, x, nan).result


def _f32(value: float) -> ir.Value:
    return arith.ConstantOp(ir.F32Type.get(), value).result


def _mul(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.MulFOp(x, y).result


def _div(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.DivFOp(x, y).result


def _at_most(x: ir.Value) -> ir.Value:
    """The largest finite number in place of an infinity."""
    return arith.MinimumFOp(x, _f32(_LARGEST)).result


def _select(predicate: str, x: ir.Value, y: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    holds = arith.CmpFOp(getattr(arith.CmpFPredicate, predicate.upper()), x, y).result
    return arith.SelectOp(holds, yes, no).result
