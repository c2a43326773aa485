"""Loops for what linalg has no operation for: numc's operators in torch (pytorch/operators.py), and scans.

torch-mlir refuses operators that it does not know, but lets calls of functions pass. So an operator is a call of a
function without a body before torch-mlir's first pipeline, and becomes a loop on tensors before the second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, func, math, scf, tensor

from numc.frontends.lowering.boxes import kept_boxes, non_max_suppression
from numc.frontends.lowering.checks import check
from numc.frontends.lowering.expansions import expand, stretch
from numc.frontends.lowering.marked_zeros import copy_inserted
from numc.frontends.lowering.regions import pooled_regions
from numc.frontends.lowering.reshapes import builtin_type, create
from numc.frontends.lowering.sorting import order
from numc.frontends.lowering.tensor_code import (
    Size,
    dynamic,
    elementwise,
    filled,
    index_of,
    inlined,
    part,
    put_part,
    repeat,
    sizes_of,
)
from numc.passes import dialect
from numc.passes.linalg import operations

_OPERATOR = "torch.numc."
_NUMBERS = "numc.numbers"
_CHECK = "check"
_CONDITIONS = "numc.conditions"
_CONSTANTS = ("torch.constant.int", "torch.constant.bool")
_OTHER_SIZE = "sizes do not fit: one that depends on data is not as the model was traced for"
_FAILED = (
    "a check of the model fails: a size or a number that depends on data is not as it wants",
    "the largest or smallest of no elements is asked for",
)
"""By number of the reason: see OF_MODEL in pytorch/operators.py."""


def to_calls(module: ir.Module) -> None:
    """Replace every operator of numc by a call; its numbers become an attribute of the function that is called."""
    operators = list(operations(module.operation, "torch.operator"))
    for count, op in enumerate(operators):
        name = str(ir.StringAttr(op.attributes["name"]).value)
        if not name.startswith(_OPERATOR):
            continue
        with module.context, op.location:
            constants = [v.owner for v in op.operands if _is_number(v)]
            tensors = [v for v in op.operands if not _is_number(v)]
            function_type = ir.FunctionType.get([v.type for v in tensors], [v.type for v in op.results])
            with ir.InsertionPoint(module.body):
                callee = func.FuncOp(f"{name}.{count}", function_type, visibility="private")
                callee.attributes[_NUMBERS] = ir.DenseI64ArrayAttr.get([int(_number(c)) for c in constants])
            with ir.InsertionPoint(op):
                call = func.CallOp(callee, tensors)
            op.results[0].replace_all_uses_with(call.results[0])
            op.erase()


def call_checks(op: ir.Operation, conditions: ir.Attribute, number: int) -> None:
    """Replace an operator by its first operand, and a call of a check of the others.

    conditions: a list of pairs of a condition (frontends/formulas.py) and a message, as text of JSON. number: of the
    check.
    """
    value, *tensors = op.operands
    module = op.parent
    while module.parent is not None:  # the operator may be in a loop
        module = module.parent
    with op.location, ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        function_type = ir.FunctionType.get([v.type for v in tensors], [])
        callee = func.FuncOp(f"{_OPERATOR}{_CHECK}.{number}", function_type, visibility="private")
        callee.attributes[_CONDITIONS] = conditions
    with op.location, ir.InsertionPoint(op):
        func.CallOp(callee, tensors)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _is_number(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name in _CONSTANTS


def _number(constant: ir.Operation) -> int:
    value = constant.attributes["value"]
    return int(ir.BoolAttr(value).value) if isinstance(value, ir.BoolAttr) else int(ir.IntegerAttr(value).value)


def lower_calls(module: ir.Module) -> None:
    """Replace every call that `to_calls` made by a loop."""
    calls = list(operations(module.operation, "func.call"))
    if calls:
        dialect.load_for(module.context, "torch-func-backend-type-conversion")  # torch_c
    callees = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in operations(module.operation, "func.func")}
    for op in calls:
        callee = callees[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
        with op.location, ir.InsertionPoint(op):
            tensors = [create("torch_c.to_builtin_tensor", _builtin(v.type), v) for v in op.operands]
            if _CONDITIONS in callee.attributes:
                for condition, message in json.loads(ir.StringAttr(callee.attributes[_CONDITIONS]).value):
                    check(condition, message, tensors)
            else:
                _write_loop(op, callee, tensors)
        op.erase()
        callee.erase()


def _builtin(type_: ir.Type) -> ir.RankedTensorType:
    tensor_type = builtin_type(type_)
    assert tensor_type is not None, "calls are made of tensors of known rank and dtype"
    return tensor_type


def _write_loop(op: ir.Operation, callee: ir.Operation, given: Sequence[ir.Value]) -> None:
    name = ir.StringAttr(callee.attributes["sym_name"]).value
    numbers = list(ir.DenseI64ArrayAttr(callee.attributes[_NUMBERS]))
    tensor_type = _builtin(op.results[0].type)
    made = _MADE[name.removeprefix(_OPERATOR).partition(".")[0]](given, numbers, tensor_type)
    op.results[0].replace_all_uses_with(create("torch_c.from_builtin_tensor", op.results[0].type, made))


def lower_scans(module: ir.Module) -> None:
    """Replace by a loop every tm_tensor.scan whose sums include the last element, and of which nothing else is read."""
    for op in list(operations(module.operation, "tm_tensor.scan")):
        if not ir.BoolAttr(op.attributes["inclusive"]).value or list(op.results[1].uses):
            continue
        with op.location, ir.InsertionPoint(op):
            op.results[0].replace_all_uses_with(_scan(op))
        op.erase()


def fill_starts(module: ir.Module) -> None:
    """Fill the splats that loops start with, which would be constants of the size of the tensor."""
    for op in list(operations(module.operation, "scf.for")):
        with op.location, ir.InsertionPoint(op):
            for n, start in enumerate(op.operands):
                op.operands[n] = _writable(start)


def _put_along(operands: Sequence[ir.Value], numbers: Sequence[int], _: ir.Type) -> ir.Value:
    """Write or combine the slices of `new` along a dimension of `value`, in their order."""
    value, index, new = operands
    dim, how = numbers
    _require_equal(sizes_of(index)[0], sizes_of(new)[dim])
    for n, (value_size, new_size) in enumerate(zip(sizes_of(value), sizes_of(new), strict=True)):
        if n != dim:
            _require_equal(value_size, new_size)
    size = index_of(sizes_of(value)[dim])

    def step(count: ir.Value, rows: Sequence[ir.Value]) -> list[ir.Value]:
        position = arith.IndexCastOp(ir.IndexType.get(), tensor.ExtractOp(index, [count]).result).result
        # Compared without sign: a negative index is a huge one.
        cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.ult, position, size).result, "an index is out of range")
        piece = _slice(new, dim, count)
        if combined := _COMBINED[how]:
            piece = elementwise(combined, [_slice(rows[0], dim, position), piece])
        return [_put(piece, rows[0], dim, position)]

    return repeat(index_of(sizes_of(new)[dim]), [value], step)[0]


def _grouped_mm(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Multiply parts of operands of rank 2, and matrices of those of rank 3, which are not read for empty groups."""
    left, right, ends = operands
    element = ir.RankedTensorType(kind).element_type
    zero = arith.ConstantOp(element, 0.0).result
    by_rows, by_columns = (ir.RankedTensorType(v.type).rank == 3 for v in (right, left))
    groups, height, width = sizes_of(ends)[0], sizes_of(left)[-2], sizes_of(right)[-1]

    def step(group: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        products, start = carried
        end = arith.IndexCastOp(ir.IndexType.get(), tensor.ExtractOp(ends, [group]).result).result
        count = arith.SubIOp(end, start).result
        some = arith.CmpIOp(arith.CmpIPredicate.ne, count, index_of(0)).result
        branch = scf.IfOp(some, [products.type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            left_matrix = _matrix(left, group) if by_columns else _slice(left, 0 if by_rows else 1, start, count)
            right_matrix = _matrix(right, group) if by_rows else _slice(right, 1 if by_columns else 0, start, count)
            zeros = filled(zero, [sizes_of(left_matrix)[0], sizes_of(right_matrix)[1]])
            product = _matmul(left_matrix, right_matrix, zeros)
            if by_rows or by_columns:
                scf.YieldOp([put_part(product, products, [start, 0] if by_rows else [0, start])])
            else:
                sizes = [1, *sizes_of(product)]
                wide = ir.RankedTensorType.get([1, *ir.RankedTensorType(product.type).shape], element)
                product = tensor.ExpandShapeOp(wide, product, [[0, 1], [2]], dynamic(sizes), wide.shape).result
                scf.YieldOp([put_part(product, products, [group, 0, 0])])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([products])
        return [branch.results[0], end]

    shape = [height, width] if by_rows or by_columns else [groups, height, width]
    return repeat(index_of(groups), [filled(zero, shape), index_of(0)], step)[0]


def _matrix(stack: ir.Value, number: ir.Value) -> ir.Value:
    """One matrix of a stack of them."""
    stack_type = ir.RankedTensorType(stack.type)
    matrix = part(stack, [number, 0, 0], [1, *sizes_of(stack)[1:]])
    flat = ir.RankedTensorType.get(stack_type.shape[1:], stack_type.element_type)
    return tensor.CollapseShapeOp(flat, matrix, [[0, 1], [2]]).result


def _scan(op: ir.Operation) -> ir.Value:
    """A tm_tensor.scan: each slice of the result is that of the operand combined with the slice before."""
    value, start, first = op.operands
    dim = ir.IntegerAttr(op.attributes["dimension"]).value
    block = op.regions[0].blocks[0]

    def step(count: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        rows, last = carried
        piece = elementwise(lambda new, before: inlined(block, [before, new]), [_slice(value, dim, count), last])
        return [_put(piece, rows, dim, count), piece]

    tensor_type = ir.RankedTensorType(value.type)
    shape = [1 if n == dim else size for n, size in enumerate(tensor_type.shape)]
    groups = _groups(tensor_type.rank, dim)
    wide = ir.RankedTensorType.get(shape, ir.RankedTensorType(first.type).element_type)
    sizes = [1 if n == dim else size for n, size in enumerate(sizes_of(value))]
    unit = tensor.ExpandShapeOp(wide, first, groups, dynamic(sizes), shape).result
    return repeat(index_of(sizes_of(value)[dim]), [start, unit], step)[0]


def _groups(rank: int, dim: int) -> list[list[int]]:
    """Which dimensions of a tensor with a dimension of size 1 at `dim` become one when that is left out."""
    kept = [[n] for n in range(rank) if n != dim]
    if kept:
        kept[min(dim, len(kept) - 1)] = sorted([*kept[min(dim, len(kept) - 1)], dim])
    return kept


def _bit_cast(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Take the bits of numbers for numbers of another type of the same width."""
    element = ir.RankedTensorType(kind).element_type
    source_type = ir.RankedTensorType(operands[0].type).element_type
    if element == source_type:
        return operands[0]
    # A bool is a byte of 0 or 1.
    if source_type == ir.IntegerType.get_signless(1):
        return elementwise(lambda x: arith.ExtUIOp(element, x).result, operands, element)
    if element == ir.IntegerType.get_signless(1):
        zero = arith.ConstantOp(source_type, 0).result
        return elementwise(lambda x: arith.CmpIOp(arith.CmpIPredicate.ne, x, zero).result, operands, element)
    return elementwise(lambda x: arith.BitcastOp(element, x).result, operands, element)


def _erfc(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """The complementary error function of floats."""
    return elementwise(lambda x: math.ErfcOp(x).result, operands, ir.RankedTensorType(kind).element_type)


_MOST_REMAINDERS = {32: 45, 64: 91}
"""By width: how many remainders Euclid's algorithm takes at most, which is of consecutive Fibonacci numbers."""


def _gcd(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Greatest common divisors by as many steps of Euclid's algorithm as any integers take; remainders keep signs."""
    element = ir.RankedTensorType(kind).element_type
    zero, unit = (arith.ConstantOp(element, number).result for number in (0, 1))

    def is_zero(x: ir.Value) -> ir.Value:
        return arith.CmpIOp(arith.CmpIPredicate.eq, x, zero).result

    def remainder(x: ir.Value, y: ir.Value) -> ir.Value:
        rest = arith.RemSIOp(x, arith.SelectOp(is_zero(y), unit, y).result).result
        return arith.SelectOp(is_zero(y), zero, rest).result

    def divisor(x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.SelectOp(is_zero(y), x, y).result

    def step(_: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        return [elementwise(divisor, carried), elementwise(remainder, carried)]

    return repeat(index_of(_MOST_REMAINDERS[ir.IntegerType(element).width]), operands[::-1], step)[0]


def _places(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """The places where a mask is true, in ascending order."""
    (mask,) = operands
    count, word = index_of(sizes_of(mask)[0]), ir.RankedTensorType(kind).element_type
    room = tensor.EmptyOp([arith.MaxUIOp(count, index_of(1)).result], word).result

    def step(place: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        indices, total = carried
        # A place that is not wanted is written over by the next one.
        indices = tensor.InsertOp(arith.IndexCastOp(word, place).result, indices, [total]).result
        wanted = arith.IndexCastUIOp(ir.IndexType.get(), tensor.ExtractOp(mask, [place]).result).result
        return [indices, arith.AddIOp(total, wanted).result]

    indices, total = repeat(count, [room, index_of(0)], step)
    return _found(indices, total, kind)


def _repeats(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Every place as often as a tensor of integers says, in ascending order."""
    (repetitions,) = operands
    count, word = index_of(sizes_of(repetitions)[0]), ir.RankedTensorType(kind).element_type

    def number(place: ir.Value) -> ir.Value:
        repetition_count = arith.IndexCastOp(ir.IndexType.get(), tensor.ExtractOp(repetitions, [place]).result).result
        positive = arith.CmpIOp(arith.CmpIPredicate.sge, repetition_count, index_of(0)).result
        cf.AssertOp(positive, "a number of repetitions is negative")
        return repetition_count

    total = repeat(count, [index_of(0)], lambda place, sums: [arith.AddIOp(sums[0], number(place)).result])[0]
    room = tensor.EmptyOp([arith.MaxUIOp(total, index_of(1)).result], word).result

    def step(place: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        indices, begun = carried
        times, value = number(place), arith.IndexCastOp(word, place).result

        def put(n: ir.Value, rows: Sequence[ir.Value]) -> list[ir.Value]:
            return [tensor.InsertOp(value, rows[0], [arith.AddIOp(begun, n).result]).result]

        return [repeat(times, [indices], put)[0], arith.AddIOp(begun, times).result]

    return _found(repeat(count, [room, index_of(0)], step)[0], total, kind)


def _found(room: ir.Value, total: ir.Value, kind: ir.Type) -> ir.Value:
    """The first `total` elements; a model that checks their number may have fixed it."""
    if ir.RankedTensorType(kind).has_static_shape:
        (size,) = ir.RankedTensorType(kind).shape
        cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.eq, total, index_of(size)).result, _OTHER_SIZE)
        return part(room, [0], [size])
    return part(room, [0], [total])


def _size_of(operands: Sequence[ir.Value], numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """A size of a tensor, as a tensor of rank 0."""
    word = ir.RankedTensorType(kind).element_type
    size = arith.IndexCastOp(word, index_of(sizes_of(operands[0])[numbers[0]])).result
    return tensor.FromElementsOp(kind, [size]).result


def _held(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """A condition of rank 0 that no pass folds, even if it is a constant: a loop negates it twice."""
    condition = tensor.ExtractOp(operands[0], []).result
    true = arith.ConstantOp(condition.type, 1).result
    twice = repeat(index_of(2), [condition], lambda _, before: [arith.XOrIOp(before[0], true).result])
    return tensor.FromElementsOp(kind, twice).result


def _require(operands: Sequence[ir.Value], numbers: Sequence[int], _: ir.Type) -> ir.Value:
    """End the run unless a condition of rank 0 holds."""
    (condition,) = operands
    cf.AssertOp(tensor.ExtractOp(condition, []).result, _FAILED[numbers[0]])
    return condition


_MADE = {
    "bit_cast": _bit_cast,
    "erfc": _erfc,
    "gcd": _gcd,
    "held": _held,
    "expand": expand,
    "require": _require,
    "size_of": _size_of,
    "stretch": stretch,
    "repeats": _repeats,
    "places": _places,
    "put_along": _put_along,
    "grouped_mm": _grouped_mm,
    "kept_boxes": kept_boxes,
    "pooled_regions": pooled_regions,
    "order": order,
    "non_max_suppression": non_max_suppression,
    "inserted": copy_inserted,
}


def _require_equal(one: Size, other: Size) -> None:
    if not (isinstance(one, int) and isinstance(other, int)):
        equal = arith.CmpIOp(arith.CmpIPredicate.eq, index_of(one), index_of(other)).result
        cf.AssertOp(equal, "sizes do not fit: what is written differs in size from its place")


def _slice(value: ir.Value, dim: int, place: ir.Value, count: Size = 1) -> ir.Value:
    """The slice of a tensor from a place along `dim` on, in which its size is `count`."""
    sizes = sizes_of(value)
    return part(value, *zip(*((place, count) if n == dim else (0, s) for n, s in enumerate(sizes)), strict=True))


def _put(piece: ir.Value, value: ir.Value, dim: int, place: ir.Value) -> ir.Value:
    """`value` with a slice at a place along `dim` replaced."""
    return put_part(piece, value, [place if n == dim else 0 for n in range(ir.RankedTensorType(value.type).rank)])


def _add(one: ir.Value, other: ir.Value) -> ir.Value:
    if not isinstance(one.type, ir.IntegerType):
        return arith.AddFOp(one, other).result
    return (arith.OrIOp if one.type.width == 1 else arith.AddIOp)(one, other).result


def _multiply(one: ir.Value, other: ir.Value) -> ir.Value:
    return (arith.MulIOp if isinstance(one.type, ir.IntegerType) else arith.MulFOp)(one, other).result


def _largest(one: ir.Value, other: ir.Value) -> ir.Value:
    return (arith.MaxSIOp if isinstance(one.type, ir.IntegerType) else arith.MaximumFOp)(one, other).result


def _smallest(one: ir.Value, other: ir.Value) -> ir.Value:
    return (arith.MinSIOp if isinstance(one.type, ir.IntegerType) else arith.MinimumFOp)(one, other).result


_COMBINED: tuple[Callable[..., ir.Value] | None, ...] = (None, _add, _multiply, _largest, _smallest)
"""By number of what put_along does: see WRITE in pytorch/operators.py."""


def _writable(start: ir.Value) -> ir.Value:
    """Return the initial value of a loop; a splat is not made a constant of the size of the tensor."""
    owner = start.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return start
    content = owner.attributes["value"]
    if not isinstance(content, ir.DenseElementsAttr) or not content.is_splat:
        return start
    tensor_type = ir.RankedTensorType(start.type)
    number = arith.ConstantOp(tensor_type.element_type, content.get_splat_value()).result
    return filled(number, tensor_type.shape)


def _matmul(a: ir.Value, b: ir.Value, start: ir.Value) -> ir.Value:
    from torch_mlir.dialects import linalg

    return linalg.matmul(a, b, outs=[start])
