"""Regions of images as loops: samples in the bins of a grid over each, interpolated between four elements."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, math, tensor

from numc.frontends.lowering.tensor_code import elementwise, filled, index_of, part, put_part, repeat, sizes_of

Values = Sequence[ir.Value]
_MOST_SAMPLES = 2.0**30
"""Of a bin, along one side: what is more is the same endless loop."""


def pooled_regions(operands: Values, numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """Append the means of the samples of each bin of regions, as torchvision's roi_align; see pytorch/operators.py."""
    image, which, *firsts, spans = operands
    (samples,) = numbers
    images, *extents, channels = sizes_of(image)
    bins = [sizes_of(first)[1] for first in firsts]
    across = index_of(bins[1])
    zero = arith.ConstantOp(ir.RankedTensorType(kind).element_type, 0.0).result
    empty = arith.CmpIOp(arith.CmpIPredicate.eq, arith.MulIOp(*map(index_of, extents)).result, index_of(0)).result

    def region(k: ir.Value, carried: Values) -> list[ir.Value]:
        source = _place(tensor.ExtractOp(which, [k]).result, images)
        sizes = [tensor.ExtractOp(spans, [k, index_of(n)]).result for n in range(2)]
        counts = [_samples(size, samples, empty) for size in sizes]
        total = arith.MulIOp(*counts).result
        divisor = _float(arith.MaxUIOp(total, index_of(1)).result, zero.type)

        def of_bin(number: ir.Value, means: Values) -> list[ir.Value]:
            cell = [arith.DivUIOp(number, across).result, arith.RemUIOp(number, across).result]
            starts = [tensor.ExtractOp(first, [k, at]).result for first, at in zip(firsts, cell, strict=True)]

            def sample(count: ir.Value, sums: Values) -> list[ir.Value]:
                at = [arith.DivUIOp(count, counts[1]).result, arith.RemUIOp(count, counts[1]).result]
                points = [_point(*each) for each in zip(starts, sizes, counts, at, strict=True)]
                return [_added(sums[0], image, source, points)]

            summed = repeat(total, [filled(zero, [1, 1, 1, channels])], sample)[0]
            mean = elementwise(lambda x: arith.DivFOp(x, divisor).result, [summed])
            return [put_part(mean, means[0], [k, *cell, 0])]

        return repeat(arith.MulIOp(*map(index_of, bins)).result, carried, of_bin)

    room = tensor.EmptyOp([sizes_of(which)[0], *bins, channels], zero.type).result
    return repeat(index_of(sizes_of(which)[0]), [room], region)[0]


def _samples(size: ir.Value, samples: int, empty: ir.Value) -> ir.Value:
    """The samples that a bin of a size has along a side: a fixed number, or one for each element that it covers."""
    if samples > 0:
        count = index_of(samples)
    else:
        zero, most = (_number(size.type, value) for value in (0.0, _MOST_SAMPLES))
        ceiling = math.CeilOp(size).result
        for predicate, bound in ((arith.CmpFPredicate.OGT, zero), (arith.CmpFPredicate.OLT, most)):
            ceiling = arith.SelectOp(arith.CmpFOp(predicate, ceiling, bound), ceiling, bound).result
        word = ir.IntegerType.get_signless(64)
        count = arith.IndexCastOp(ir.IndexType.get(), arith.FPToSIOp(word, ceiling).result).result
    return arith.SelectOp(empty, index_of(0), count).result


def _place(which: ir.Value, images: int | ir.Value) -> ir.Value:
    """The number of a region's image; the run ends where there is none."""
    zero, end = _number(which.type, 0.0), _float(index_of(images), which.type)
    known = arith.AndIOp(
        arith.CmpFOp(arith.CmpFPredicate.OGE, which, zero).result,
        arith.CmpFOp(arith.CmpFPredicate.OLT, which, end).result,
    ).result
    cf.AssertOp(known, "an index is out of range")
    word = ir.IntegerType.get_signless(64)
    return arith.IndexCastOp(ir.IndexType.get(), arith.FPToSIOp(word, which).result).result


def _point(start: ir.Value, size: ir.Value, count: ir.Value, at: ir.Value) -> ir.Value:
    """Where a sample of a bin lies along a side."""
    half = _number(start.type, 0.5)
    step = arith.MulFOp(arith.AddFOp(_float(at, start.type), half).result, size).result
    return arith.AddFOp(start, arith.DivFOp(step, _float(count, start.type)).result).result


def _added(sums: ir.Value, image: ir.Value, source: ir.Value, points: Values) -> ir.Value:
    """`sums` and what a sample is in each channel; one that is more than an element outside of the image counts 0."""
    element = points[0].type
    _, *extents, channels = sizes_of(image)
    zero, whole, before = (_number(element, value) for value in (0.0, 1.0, -1.0))
    inside = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
    for point, extent in zip(points, extents, strict=True):
        after = _float(index_of(extent), element)
        for predicate, end in ((arith.CmpFPredicate.OGE, before), (arith.CmpFPredicate.OLE, after)):
            inside = arith.AndIOp(inside, arith.CmpFOp(predicate, point, end).result).result
    lines = []
    for point, extent in zip(points, extents, strict=True):
        last = arith.SubIOp(index_of(extent), index_of(1)).result
        here = arith.AndIOp(inside, arith.CmpFOp(arith.CmpFPredicate.OGT, point, zero).result).result
        bounded = arith.SelectOp(here, point, zero).result
        word = ir.IntegerType.get_signless(64)
        low = arith.IndexCastOp(ir.IndexType.get(), arith.FPToSIOp(word, bounded).result).result
        ends_here = arith.CmpIOp(arith.CmpIPredicate.uge, low, last).result
        low = arith.SelectOp(ends_here, last, low).result
        high = arith.SelectOp(ends_here, last, arith.AddIOp(low, index_of(1)).result).result
        rest = arith.SelectOp(ends_here, zero, arith.SubFOp(bounded, _float(low, element)).result).result
        lines.append(((low, arith.SubFOp(whole, rest).result), (high, rest)))
    products = []
    for row, upper in lines[0]:
        for column, left in lines[1]:
            weight = arith.SelectOp(inside, arith.MulFOp(upper, left).result, zero).result
            values = part(image, [source, row, column, 0], [1, 1, 1, channels])
            products.append(elementwise(lambda x, w=weight: arith.MulFOp(w, x).result, [values]))
    sample = products[0]
    for product in products[1:]:
        sample = elementwise(lambda x, y: arith.AddFOp(x, y).result, [sample, product])
    return elementwise(lambda x, y: arith.AddFOp(x, y).result, [sums, sample])


def _number(element: ir.Type, value: float) -> ir.Value:
    return arith.ConstantOp(element, value).result


def _float(number: ir.Value, element: ir.Type) -> ir.Value:
    """An index as a number of a float type."""
    word = arith.IndexCastOp(ir.IntegerType.get_signless(64), number).result
    return arith.SIToFPOp(element, word).result
