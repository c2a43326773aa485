"""NonMaxSuppression of ONNX as loops: boxes by falling scores, each compared with those that have been chosen."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, tensor

from numc.frontends.sorting import sorted_with_places
from numc.frontends.tensor_code import index_of, part, repeat, sizes_of

Values = Sequence[ir.Value]


def non_max_suppression(operands: Values, numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """Append the choice of boxes: a row for each, of the numbers of its image, its class and its place.

    operands: boxes [images, n, 4], scores [images, classes, n], and those of the limits that are there. numbers: 1 if
    boxes are given by their centre, then which of the limits are there: the most boxes of a class, the share of overlap
    and the score above which a box is left out or in.
    """
    boxes, scores, *limits = operands
    centred, *there = numbers
    scalars = iter([_scalar(limit) for limit in limits])
    most, overlap, least = (next(scalars) if given else None for given in there)
    images, classes, count = map(index_of, sizes_of(scores))
    word = ir.RankedTensorType(kind).element_type
    most = index_of(0) if most is None else _clamped(most, count)
    room = arith.MulIOp(arith.MulIOp(images, classes).result, most).result
    chosen = tensor.EmptyOp([arith.MaxUIOp(room, index_of(1)).result, 3], word).result  # a fixed size of 0 is refused
    number = ir.RankedTensorType(boxes.type).element_type
    overlap = arith.ConstantOp(number, 0.0).result if overlap is None else overlap
    ordered, places = sorted_with_places(scores, arith.CmpFPredicate.OGE, word)
    table = tensor.EmptyOp([count, 5], number).result

    def image(b: ir.Value, carried: Values) -> list[ir.Value]:
        table = repeat(count, [carried[2]], lambda i, inner: [_put_box(boxes, b, i, inner[0], bool(centred))])[0]

        def of_class(c: ir.Value, found: Values) -> list[ir.Value]:
            return _choose(b, c, found, ordered, places, table, (count, most), overlap, least)

        return [*repeat(classes, carried[:2], of_class), table]

    chosen, total, _ = repeat(images, [chosen, index_of(0), table], image)
    return part(chosen, [0, 0], [total, 3])


def _choose(
    b: ir.Value,
    c: ir.Value,
    found: Values,
    ordered: ir.Value,
    places: ir.Value,
    table: ir.Value,
    sizes: Values,
    overlap: ir.Value,
    least: ir.Value | None,
) -> list[ir.Value]:
    """Append the choice of a class's boxes; `found`: the rows that there are, and how many."""
    zero, one = index_of(0), index_of(1)
    count, most = sizes
    first = found[1]
    word = ir.RankedTensorType(places.type).element_type
    kinds = [zero.type, found[0].type, first.type]
    loop = scf.WhileOp(kinds, [zero, *found])
    condition, body = (region.blocks.append(*kinds) for region in (loop.before, loop.after))
    with ir.InsertionPoint(condition):
        j, _, total = condition.arguments
        mine = arith.SubIOp(total, first).result
        goes_on = arith.AndIOp(_below(j, count), _below(mine, most)).result
        if least is not None:
            # The read is in range: where j is not, it does not count.
            last = arith.SubIOp(arith.MaxUIOp(count, one).result, one).result
            score = tensor.ExtractOp(ordered, [b, c, arith.MinUIOp(j, last).result]).result
            above = arith.CmpFOp(arith.CmpFPredicate.OGT, score, least).result
            goes_on = arith.AndIOp(goes_on, above).result
        scf.ConditionOp(goes_on, condition.arguments)
    with ir.InsertionPoint(body):
        j, rows, total = body.arguments
        place = tensor.ExtractOp(places, [b, c, j]).result
        box = _box(table, place)
        hit = _overlaps_one(box, rows, first, total, table, overlap)
        row = [arith.IndexCastOp(word, b).result, arith.IndexCastOp(word, c).result, place]
        # What is not chosen is written over by the next row.
        for n, x in enumerate(row):
            rows = tensor.InsertOp(x, rows, [total, index_of(n)]).result
        step = arith.SelectOp(hit, zero, one).result
        scf.YieldOp([arith.AddIOp(j, one).result, rows, arith.AddIOp(total, step).result])
    return list(loop.results)[1:]


def _overlaps_one(
    box: Values, rows: ir.Value, first: ir.Value, end: ir.Value, table: ir.Value, overlap: ir.Value
) -> ir.Value:
    """Append whether a box overlaps one of the rows from `first` to `end` by more than a share of what both cover."""
    no = arith.ConstantOp(ir.IntegerType.get_signless(1), 0).result
    kinds = [first.type, no.type]
    loop = scf.WhileOp(kinds, [first, no])
    condition, body = (region.blocks.append(*kinds) for region in (loop.before, loop.after))
    with ir.InsertionPoint(condition):
        t, hit = condition.arguments
        free = arith.CmpIOp(arith.CmpIPredicate.eq, hit, no).result
        scf.ConditionOp(arith.AndIOp(_below(t, end), free).result, condition.arguments)
    with ir.InsertionPoint(body):
        t, _ = body.arguments
        other = _box(table, tensor.ExtractOp(rows, [t, index_of(2)]).result)
        scf.YieldOp([arith.AddIOp(t, index_of(1)).result, _overlap(box, other, overlap)])
    return loop.results[1]


def _overlap(one: Values, other: Values, limit: ir.Value) -> ir.Value:
    zero = arith.ConstantOp(limit.type, 0.0).result
    sides = []
    for n in range(2):
        low = arith.MaximumFOp(one[n], other[n]).result
        high = arith.MinimumFOp(one[n + 2], other[n + 2]).result
        sides.append(arith.MaximumFOp(arith.SubFOp(high, low).result, zero).result)
    common = arith.MulFOp(*sides).result
    union = arith.SubFOp(arith.AddFOp(one[4], other[4]).result, common).result
    # No quotient: boxes may have no area.
    exceeds = arith.CmpFOp(arith.CmpFPredicate.OGT, common, arith.MulFOp(union, limit).result).result
    return arith.AndIOp(exceeds, arith.CmpFOp(arith.CmpFPredicate.OGT, common, zero).result).result


def _box(table: ir.Value, place: ir.Value) -> list[ir.Value]:
    """A box of the table: its least y and x, its largest y and x, and its area."""
    at = arith.IndexCastOp(ir.IndexType.get(), place).result
    return [tensor.ExtractOp(table, [at, index_of(n)]).result for n in range(5)]


def _put_box(boxes: ir.Value, b: ir.Value, i: ir.Value, table: ir.Value, centred: bool) -> ir.Value:
    given = [tensor.ExtractOp(boxes, [b, i, index_of(n)]).result for n in range(4)]
    if centred:
        x, y, *size = given
        width, height = (arith.DivFOp(each, arith.ConstantOp(each.type, 2.0).result).result for each in size)
        pairs = [(y, height), (x, width)]
        low, high = ([make(*pair).result for pair in pairs] for make in (arith.SubFOp, arith.AddFOp))
    else:
        pairs = [(given[n], given[n + 2]) for n in range(2)]
        low, high = ([make(*pair).result for pair in pairs] for make in (arith.MinimumFOp, arith.MaximumFOp))
    area = arith.MulFOp(*(arith.SubFOp(b, a).result for a, b in zip(low, high, strict=True))).result
    for n, x in enumerate((*low, *high, area)):
        table = tensor.InsertOp(x, table, [i, index_of(n)]).result
    return table


def _scalar(value: ir.Value) -> ir.Value:
    """The only element of a tensor."""
    return tensor.ExtractOp(value, [index_of(0)] * ir.RankedTensorType(value.type).rank).result


def _clamped(most: ir.Value, count: ir.Value) -> ir.Value:
    """A number of boxes between 0 and how many there are."""
    zero = arith.ConstantOp(most.type, 0).result
    most = arith.IndexCastOp(ir.IndexType.get(), arith.MaxSIOp(most, zero).result).result
    return arith.MinUIOp(most, count).result


def _below(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.ult, one, other).result
