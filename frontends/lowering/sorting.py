"""Sorting as loops that merge runs, in place of torch-mlir's loop over neighbours, which compares all pairs.

A row is sorted by passes over two buffers. A pass merges neighbouring runs of 1, 2, 4, ... elements of one buffer into
runs of twice as many in the other; of equal elements those of the left run come first, so that the order is stable.
Where only the first k elements are read, no run is merged beyond its first k. If k is small, elements are inserted into
a list of the first k instead, which most of them do not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, math, scf, tensor

from numc.frontends.lowering.tensor_code import DYNAMIC, Size, elementwise, index_of, inlined, part, repeat, sizes_of
from numc.passes.linalg import operations

Values = Sequence[ir.Value]
Order = Callable[[Values, Values], ir.Value]
MOST_INSERTED = 64
"""The longest list that elements are inserted into: at worst, every element moves the whole list."""


def lower_sorts(module: ir.Module) -> None:
    """Replace every tm_tensor.sort by loops; its block says whether two elements are in order as they are.

    NaN, which is in order with nothing there, is the largest number, as in onnxruntime.
    """
    for op in list(operations(module.operation, "tm_tensor.sort")):
        block = op.regions[0].blocks[0]

        def in_order(left: Values, right: Values, block: ir.Block = block) -> ir.Value:
            as_written = inlined(block, [each for pair in zip(left, right, strict=True) for each in pair])
            if not isinstance(left[0].type, ir.FloatType):
                return as_written
            larger = left[0] if _falls(block) else right[0]
            is_nan = arith.CmpFOp(arith.CmpFPredicate.UNO, larger, larger).result
            return arith.OrIOp(as_written, is_nan).result

        dim = ir.IntegerAttr(op.attributes["dimension"]).value
        with op.location, ir.InsertionPoint(op):
            sorted_values = _sorted(list(op.operands), dim, in_order, _first_read(op.results, dim))
        for old, new in zip(op.results, sorted_values, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _falls(block: ir.Block) -> bool:
    """Whether a block compares with the larger element first."""
    predicate = ir.IntegerAttr(block.operations[0].attributes["predicate"]).value
    return predicate in (arith.CmpFPredicate.OGE, arith.CmpFPredicate.OGT)


def order(operands: Values, numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """Append where integers are along the last dimension, the least first; see pytorch/operators.py."""
    (keys,), (count,) = operands, numbers
    element = ir.RankedTensorType(kind).element_type
    positions = sorted_with_places(keys, arith.CmpIPredicate.sle, element, count or None)[1]
    sizes = sizes_of(keys)
    return part(positions, [0] * len(sizes), [*sizes[:-1], count]) if count else positions


def sorted_with_places(
    keys: ir.Value,
    predicate: arith.CmpIPredicate | arith.CmpFPredicate,
    element: ir.Type,
    count: int | None = None,
) -> list[ir.Value]:
    """Append numbers sorted along the last dimension, and where they were, as integers of type `element`.

    predicate: holds for two that are in order, and for equal ones. Behind the first `count` may be anything.
    """
    last = ir.RankedTensorType(keys.type).rank - 1
    compare = arith.CmpIOp if isinstance(predicate, arith.CmpIPredicate) else arith.CmpFOp

    def place(_: ir.Value) -> ir.Value:
        attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), last)}
        number = ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes=attributes).result
        return arith.IndexCastOp(element, number).result

    def in_order(left: Values, right: Values) -> ir.Value:
        return compare(predicate, left[0], right[0]).result

    return _sorted([keys, elementwise(place, [keys], element)], last, in_order, count)


def _first_read(results: Values, dim: int) -> int | None:
    """The number of first elements along `dim` that are read; None for all."""
    most = 0
    for use in (use for result in results for use in result.uses):
        op = use.owner
        if op.name != "tensor.extract_slice":
            return None
        offsets, sizes, strides = (
            list(ir.DenseI64ArrayAttr(op.attributes[f"static_{what}"])) for what in ("offsets", "sizes", "strides")
        )
        if (offsets[dim], strides[dim]) != (0, 1) or sizes[dim] == DYNAMIC:
            return None
        most = max(most, sizes[dim])
    return most or None


def _sorted(values: Values, dim: int, in_order: Order, count: int | None) -> list[ir.Value]:
    """Append the sort of tensors of one shape along `dim`, together; behind the first `count` may be anything."""
    sizes = sizes_of(values[0])
    size, zero, one = index_of(sizes[dim]), index_of(0), index_of(1)
    end = sizes[dim] if count is None else _least(sizes[dim], count)

    def insert(elements: Callable[[ir.Value], list[ir.Value]], buffers: Values) -> list[ir.Value]:
        return repeat(size, buffers, lambda j, lists: _inserted(elements(j), j, lists, end, in_order))

    def merge(elements: Callable[[ir.Value], list[ir.Value]], buffers: Values) -> list[ir.Value]:
        buffers = repeat(size, buffers, lambda j, inner: _put_all(elements(j), inner, [zero, j]))
        return repeat(passes, buffers, lambda p, inner: _pass(p, inner, size, count, in_order))

    if count is not None and count <= MOST_INSERTED:
        sort, room, last = insert, [1, end], zero
    else:
        passes = _passes(sizes[dim])
        sort, room, last = merge, [2, sizes[dim]], arith.AndIOp(passes, one).result
    work = [tensor.EmptyOp(room, ir.RankedTensorType(value.type).element_type).result for value in values]

    def row(place: Values, carried: Values) -> list[ir.Value]:
        """Sort one row."""
        rows, buffers = carried[: len(values)], carried[len(values) :]

        def at(j: ir.Value) -> list[ir.Value]:
            return [*place[:dim], j, *place[dim:]]

        buffers = sort(lambda j: _get_all(rows, at(j)), buffers)
        rows = repeat(index_of(end), rows, lambda j, inner: _put_all(_get_all(buffers, [last, j]), inner, at(j)))
        return [*rows, *buffers]

    sorted_values = _for_each([s for n, s in enumerate(sizes) if n != dim], [*values, *work], row)
    return sorted_values[: len(values)]


def _inserted(new: Values, number: ir.Value, lists: Values, end: Size, in_order: Order) -> list[ir.Value]:
    """Append the insertion of an element, the `number`-th of its row, into sorted lists of at most `end` elements."""
    zero, one = index_of(0), index_of(1)
    length, end = index_of(_least(number, end)), index_of(end)

    def before(place: ir.Value, lists: Values) -> list[ir.Value]:
        """The elements before a place, or at 0."""
        return _get_all(lists, [zero, arith.SubIOp(arith.MaxUIOp(place, one).result, one).result])

    def moves(place: ir.Value, lists: Values) -> ir.Value:
        """Whether those before a place come behind the new element."""
        there = arith.CmpIOp(arith.CmpIPredicate.ugt, place, zero).result
        stay = in_order(before(place, lists), new)
        return arith.AndIOp(there, arith.XOrIOp(stay, arith.ConstantOp(stay.type, 1).result).result).result

    is_short = arith.CmpIOp(arith.CmpIPredicate.ult, number, end).result
    enters = scf.IfOp(arith.OrIOp(is_short, moves(length, lists)).result, [each.type for each in lists], has_else=True)
    with ir.InsertionPoint(enters.then_block):
        # Where the list is full, its last element leaves it.
        position = arith.SelectOp(is_short, length, arith.SubIOp(length, one).result).result
        loop = scf.WhileOp([position.type, *(each.type for each in lists)], [position, *lists])
        kinds = [position.type, *(each.type for each in lists)]
        condition, body = (region.blocks.append(*kinds) for region in (loop.before, loop.after))
        with ir.InsertionPoint(condition):
            scf.ConditionOp(moves(condition.arguments[0], list(condition.arguments)[1:]), condition.arguments)
        with ir.InsertionPoint(body):
            free, *inner = body.arguments
            scf.YieldOp([arith.SubIOp(free, one).result, *_put_all(before(free, inner), inner, [zero, free])])
        free, *inner = loop.results
        scf.YieldOp(_put_all(new, inner, [zero, free]))
    with ir.InsertionPoint(enters.else_block):
        scf.YieldOp(lists)
    return list(enters.results)


def _pass(number: ir.Value, buffers: Values, size: ir.Value, count: int | None, in_order: Order) -> list[ir.Value]:
    """Append a pass: runs of ``1 << number`` elements become runs of twice as many, of which `count` are merged."""
    one = index_of(1)
    width = arith.ShLIOp(one, number).result
    source = arith.AndIOp(number, one).result
    target = arith.XOrIOp(source, one).result
    limit = arith.SubIOp(size, one).result

    def cut(begin: ir.Value, end: ir.Value) -> ir.Value:
        """Where what has been merged of a run ends."""
        end = index_of(_least(end, size))
        return end if count is None else index_of(_least(end, arith.AddIOp(begin, index_of(count)).result))

    runs = scf.ForOp(index_of(0), size, arith.ShLIOp(width, one).result, list(buffers))
    with ir.InsertionPoint(runs.body):
        begin = runs.induction_variable
        middle = arith.AddIOp(begin, width).result
        behind = arith.AddIOp(middle, width).result
        left_end, right_end = cut(begin, middle), cut(middle, behind)
        merge = scf.ForOp(begin, cut(begin, behind), one, [begin, middle, *runs.inner_iter_args])
        with ir.InsertionPoint(merge.body):
            left, right, *inner = merge.inner_iter_args
            lefts, rights = (_get_all(inner, [source, index_of(_least(position, limit))]) for position in (left, right))
            is_there = arith.CmpIOp(arith.CmpIPredicate.ult, left, left_end).result
            no_other = arith.CmpIOp(arith.CmpIPredicate.uge, right, right_end).result
            takes_left = arith.AndIOp(is_there, arith.OrIOp(no_other, in_order(lefts, rights)).result).result
            taken = [arith.SelectOp(takes_left, *pair).result for pair in zip(lefts, rights, strict=True)]
            step = arith.IndexCastUIOp(ir.IndexType.get(), takes_left).result
            next_right = arith.AddIOp(right, arith.XOrIOp(step, one).result).result
            filled = _put_all(taken, inner, [target, merge.induction_variable])
            scf.YieldOp([arith.AddIOp(left, step).result, next_right, *filled])
        scf.YieldOp(merge.results[2:])
    return list(runs.results)


def _for_each(sizes: Sequence[Size], start: Values, step: Callable[[Values, Values], list[ir.Value]]) -> list[ir.Value]:
    """Append loops over all places in these sizes; `step` is given the place."""
    if not sizes:
        return step([], start)
    first, *rest = sizes
    return repeat(
        index_of(first),
        start,
        lambda n, carried: _for_each(rest, carried, lambda place, inner: step([n, *place], inner)),
    )


def _passes(size: Size) -> ir.Value:
    """The number of doublings after which a run is as long as a row."""
    if isinstance(size, int):
        return index_of(max(size - 1, 0).bit_length())
    word = ir.IntegerType.get_signless(64)
    last = arith.IndexCastOp(word, arith.SubIOp(arith.MaxUIOp(size, index_of(1)).result, index_of(1)).result).result
    bits = arith.SubIOp(arith.ConstantOp(word, 64).result, math.CountLeadingZerosOp(last).result).result
    return arith.IndexCastOp(ir.IndexType.get(), bits).result


def _least(one: Size, other: Size) -> Size:
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return arith.MinUIOp(index_of(one), index_of(other)).result


def _get_all(values: Values, place: Values) -> list[ir.Value]:
    return [tensor.ExtractOp(value, place).result for value in values]


def _put_all(elements: Values, values: Values, place: Values) -> list[ir.Value]:
    return [tensor.InsertOp(x, value, place).result for x, value in zip(elements, values, strict=True)]
