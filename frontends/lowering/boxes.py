"""Non-maximum suppression as loops: boxes by falling scores, each compared with those that have been chosen.

ONNX and torchvision define the overlap of two boxes differently, and both are computed as they are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, tensor

from numc.frontends.lowering.sorting import sorted_with_places
from numc.frontends.lowering.tensor_code import index_of, part, repeat, sizes_of

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
    most, overlap, least = (next(scalars) if present else None for present in there)
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
            return _choose(
                b,
                c,
                found,
                ordered=ordered,
                places=places,
                table=table,
                sizes=(count, most),
                overlap=overlap,
                least=least,
            )

        return [*repeat(classes, carried[:2], of_class), table]

    chosen, total, _ = repeat(images, [chosen, index_of(0), table], image)
    return part(chosen, [0, 0], [total, 3])


def kept_boxes(operands: Values, _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Append which boxes torchvision keeps, as a mask; see pytorch/operators.py."""
    boxes, limit, classes = operands
    count, most = index_of(sizes_of(boxes)[0]), _scalar(limit)
    # A fixed size of 0 is refused.
    table = tensor.EmptyOp([arith.MaxUIOp(count, index_of(1)).result, 5], ir.RankedTensorType(boxes.type).element_type)
    mask = tensor.EmptyOp(sizes_of(boxes)[:1], ir.RankedTensorType(kind).element_type)
    word = ir.RankedTensorType(classes.type).element_type
    theirs = tensor.EmptyOp([arith.MaxUIOp(count, index_of(1)).result], word).result

    def step(place: ir.Value, carried: Values) -> list[ir.Value]:
        kept, table, theirs, total = carried
        low, high = ([tensor.ExtractOp(boxes, [place, index_of(n)]).result for n in pair] for pair in ((0, 1), (2, 3)))
        box, of = [*low, *high, _area(low, high)], tensor.ExtractOp(classes, [place]).result
        # A box that is not kept is written over by the next one.
        table, theirs = _put_row(box, table, total), tensor.InsertOp(of, theirs, [total]).result

        def hits(t: ir.Value) -> ir.Value:
            same = arith.CmpIOp(arith.CmpIPredicate.eq, tensor.ExtractOp(theirs, [t]).result, of).result
            return arith.AndIOp(same, _covers(_box(table, t), box, most)).result

        hit = _any(index_of(0), total, hits)
        keeps = arith.XOrIOp(hit, arith.ConstantOp(hit.type, 1).result).result
        kept = tensor.InsertOp(keeps, kept, [place]).result
        return [kept, table, theirs, arith.AddIOp(total, arith.IndexCastUIOp(total.type, keeps).result).result]

    return repeat(count, [mask.result, table.result, theirs, index_of(0)], step)[0]


def _covers(chosen: Values, box: Values, limit: ir.Value) -> ir.Value:
    """Whether the overlap of two boxes is above a share of what both cover, in torchvision's operations."""
    zero = arith.ConstantOp(box[0].type, 0.0).result
    sides = []
    for n in range(2):
        low = _selected(arith.CmpFPredicate.OLT, chosen[n], box[n])
        high = _selected(arith.CmpFPredicate.OGT, chosen[n + 2], box[n + 2])
        sides.append(_selected(arith.CmpFPredicate.OLT, zero, arith.SubFOp(high, low).result))
    common = arith.MulFOp(*sides).result
    union = arith.SubFOp(arith.AddFOp(chosen[4], box[4]).result, common).result
    return arith.CmpFOp(arith.CmpFPredicate.OGT, arith.DivFOp(common, union).result, limit).result


def _selected(predicate: arith.CmpFPredicate, one: ir.Value, other: ir.Value) -> ir.Value:
    """The other number if `predicate` holds, else the one, also if a number is NaN: std::max and std::min of C++."""
    return arith.SelectOp(arith.CmpFOp(predicate, one, other).result, other, one).result


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
        box_index = tensor.ExtractOp(places, [b, c, j]).result
        box = _box(table, box_index)
        chosen = rows
        hit = _any(
            first,
            total,
            lambda t: _overlap(box, _box(table, tensor.ExtractOp(chosen, [t, index_of(2)]).result), overlap),
        )
        row = [arith.IndexCastOp(word, b).result, arith.IndexCastOp(word, c).result, box_index]
        # What is not chosen is written over by the next row.
        for n, x in enumerate(row):
            rows = tensor.InsertOp(x, rows, [total, index_of(n)]).result
        step = arith.SelectOp(hit, zero, one).result
        scf.YieldOp([arith.AddIOp(j, one).result, rows, arith.AddIOp(total, step).result])
    return list(loop.results)[1:]


def _any(first: ir.Value, end: ir.Value, holds: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """Append whether a condition holds for one of the places from `first` to `end`, of which none is tried after it."""
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
        scf.YieldOp([arith.AddIOp(t, index_of(1)).result, holds(t)])
    return loop.results[1]


def _overlap(one: Values, other: Values, limit: ir.Value) -> ir.Value:
    """Whether the overlap of two boxes is above a share of what both cover, as ONNX defines it."""
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
    coordinates = [tensor.ExtractOp(boxes, [b, i, index_of(n)]).result for n in range(4)]
    if centred:
        x, y, *size = coordinates
        width, height = (arith.DivFOp(each, arith.ConstantOp(each.type, 2.0).result).result for each in size)
        pairs = [(y, height), (x, width)]
        low, high = ([make(*pair).result for pair in pairs] for make in (arith.SubFOp, arith.AddFOp))
    else:
        pairs = [(coordinates[n], coordinates[n + 2]) for n in range(2)]
        low, high = ([make(*pair).result for pair in pairs] for make in (arith.MinimumFOp, arith.MaximumFOp))
    return _put_row([*low, *high, _area(low, high)], table, i)


def _area(low: Values, high: Values) -> ir.Value:
    return arith.MulFOp(*(arith.SubFOp(b, a).result for a, b in zip(low, high, strict=True))).result


def _put_row(row: Values, table: ir.Value, place: ir.Value) -> ir.Value:
    for n, x in enumerate(row):
        table = tensor.InsertOp(x, table, [place, index_of(n)]).result
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
