"""narrow-tensors: tensors of bfloat16, float16 and float8 become float32, and what they store is rounded explicitly.

A narrow dtype is a format that values are rounded to when they are stored (docs/arithmetic.md). An operation on it is
the float32 operation and a ``numc.round`` of its result. A multiply-add follows the operator: only its result is
rounded, behind the last step of a reduction. The arguments and the results of @main, and constants, keep their dtypes:
they are widened where they are read, and what is returned is narrowed, without rounding by then, where @main ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.numerics.dtypes import NARROW_ELEMENTS, Narrow
from numc.passes import linalg
from numc.passes.dialect import rounded
from numc.support.errors import NumcError

# Operations whose result is one of their operands, or its negative or its magnitude: it is in the format already.
_EXACT = frozenset(
    {f"arith.{name}" for name in ("constant", "select", "negf", "maximumf", "minimumf", "maxnumf", "minnumf")}
    | {"math.absf"}
)


def narrow_tensors(module: ir.Operation, respect: bool) -> None:
    """Compute on tensors of narrow dtypes in float32, and round what they store explicitly.

    respect: False leaves these roundings out, except for those of the results of @main. Raises NumcError for an
    operation that reads the bits of a narrow value.
    """
    with module.context, ir.Location.unknown():
        values = [value for value in _values(module) if _narrow(value.type)]
        if not values:
            return
        main = linalg.main(module)
        stored = {value for value in values if _is_stored(value, main)}
        computed = [
            (op, narrow)
            for op in linalg.operations(module)
            if op.name.split(".")[0] in ("arith", "math") and op.name not in _EXACT and len(op.results) == 1
            if (narrow := NARROW_ELEMENTS.get(str(op.results[0].type)))
        ]
        widening = [op for op in linalg.operations(module, "arith.extf") if _narrow(op.operands[0].type)]
        _check_bits(values)
        exact, totals = _multiply_adds(computed)
        for value in values:
            if value not in stored:
                _retype(value)
        for value in values:
            if value in stored:
                _read_widened(value)
        for op in widening:
            if linalg.is_f32(op.results[0]):
                linalg.replace(op, op.operands)
        for op, narrow in computed:
            if op.name == "arith.truncf" or (respect and op.name in ("arith.sitofp", "arith.uitofp")):
                _round_cast(op, narrow, respect)
            elif respect and op.results[0] not in exact:
                _round_behind(op.results[0], narrow)
        for result, narrow in totals if respect else ():
            _replace_by(result, partial(rounded, to=narrow.stored), result.type)
        _narrow_results(main)


def _values(module: ir.Operation) -> list[ir.Value]:
    """All results and all arguments of blocks."""
    values: list[ir.Value] = []
    for op in linalg.operations(module):
        values += op.results
        values += [argument for region in op.regions for block in region.blocks for argument in block.arguments]
    return values


def _narrow(kind: ir.Type) -> Narrow | None:
    """The narrow dtype of a scalar or of the elements of a tensor."""
    return NARROW_ELEMENTS.get(str(kind.element_type if isinstance(kind, ir.ShapedType) else kind))


def _is_stored(value: ir.Value, main: ir.Operation) -> bool:
    """Whether a value stays in memory in its dtype: an argument of @main, or a constant of several numbers."""
    if isinstance(value.owner, ir.Block):
        return bool(value.owner == main.regions[0].blocks[0])
    return value.owner.name == "arith.constant" and _is_tensor(value) and linalg.splat(value) is None


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _check_bits(values: list[ir.Value]) -> None:
    """Refuse operations that take the bits of a narrow value for something else, or make one of bits."""
    for value in values:
        for op in [use.owner for use in value.uses] + ([] if isinstance(value.owner, ir.Block) else [value.owner]):
            if op.name.endswith("bitcast"):
                name, narrow = linalg.name_of(op.operation), _narrow(value.type)
                assert narrow is not None
                raise NumcError(
                    f"'{name or op.name}' takes the bits of {narrow.name} for another type, or makes {narrow.name} of "
                    "bits, which is not available: convert the values instead"
                )


def _retype(value: ir.Value) -> None:
    """Make a value one of float32; a constant keeps its number."""
    f32 = ir.F32Type.get()
    value_type = value.type
    if isinstance(value_type, ir.RankedTensorType):
        value.set_type(ir.RankedTensorType.get(value_type.shape, f32, value_type.encoding))
    else:
        value.set_type(f32)
    op = linalg.maker(value)
    if op is not None and op.name == "arith.constant":
        number = linalg.splat(value) or op.attributes["value"]
        scalar = ir.FloatAttr.get(f32, ir.FloatAttr(number).value)
        op.attributes["value"] = ir.DenseElementsAttr.get_splat(value.type, scalar) if _is_tensor(value) else scalar


def _read_widened(stored: ir.Value) -> None:
    """Let all users of a tensor that stays narrow read it widened to float32."""
    stored_type = ir.RankedTensorType(stored.type)
    f32 = ir.F32Type.get()
    wide = ir.RankedTensorType.get(stored_type.shape, f32, stored_type.encoding)
    _replace_by(stored, lambda x: arith.ExtFOp(f32, x).result, wide)


def _replace_by(value: ir.Value, body: Callable[[ir.Value], ir.Value], kind: ir.Type) -> None:
    """Let all users of a tensor read what an elementwise operation of this type makes of it."""
    op = linalg.maker(value)
    users = list(value.uses)
    point = ir.InsertionPoint.at_block_begin(value.owner) if op is None else ir.InsertionPoint.after(op)
    with point, ir.Location.unknown() if op is None else op.location:
        made = _elementwise(value, body, kind)
    for use in users:
        use.owner.operands[use.operand_number] = made


def _elementwise(value: ir.Value, body: Callable[[ir.Value], ir.Value], kind: ir.Type) -> ir.Value:
    made = ir.RankedTensorType(kind)
    maps = [ir.AffineMap.get_identity(made.rank)] * 2
    return linalg.generic([value], linalg.room(value, made), maps, ["parallel"] * made.rank, lambda x, _: body(x))


def _narrowed(narrow: Narrow, value: ir.Value) -> ir.Value:
    return arith.TruncFOp(ir.Type.parse(narrow.element), rounded(value, narrow.stored)).result


def _round_cast(op: ir.Operation, narrow: Narrow, respect: bool) -> None:
    """A conversion to a narrow dtype: of float32 by now, of float64, or of an integer."""
    with ir.InsertionPoint(op), op.location:
        value = op.operands[0]
        if respect:
            value = rounded(value, narrow.stored, unsigned=op.name == "arith.uitofp")
        elif not linalg.is_f32(value):
            value = arith.TruncFOp(ir.F32Type.get(), value).result
        linalg.replace(op, [value])


def _round_behind(value: ir.Value, narrow: Narrow) -> None:
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        stored = rounded(value, narrow.stored)
    value.replace_all_uses_except(stored, stored.owner.operation)


def _multiply_adds(
    computed: list[tuple[ir.Operation, Narrow]],
) -> tuple[set[ir.Value], list[tuple[ir.Value, Narrow]]]:
    """The products and the running sums of multiply-adds on narrow numbers, and the results of their reductions."""
    exact: set[ir.Value] = set()
    totals: list[tuple[ir.Value, Narrow]] = []
    for op, narrow in computed:
        for product, addend in linalg.multiply_adds(op)[:1]:
            exact.add(product.results[0])
            total = linalg.accumulated(op.parent.operation, addend)
            if total is not None:
                exact.add(op.results[0])
                totals.append((op.parent.results[total], narrow))
    return exact, totals


def _narrow_results(main: ir.Operation) -> None:
    """Return what the type of @main says. A value that is in the format already, a NaN too, keeps its bits."""
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    end = list(main.regions[0].blocks[0].operations)[-1].operation
    with ir.InsertionPoint(end), end.location:
        for number, result_type in enumerate(results):
            narrow = _narrow(result_type)
            if narrow is not None:
                end.operands[number] = _elementwise(end.operands[number], partial(_narrowed, narrow), result_type)
