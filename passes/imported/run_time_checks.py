"""run-time-checks: sizes and indices are checked when the program runs, wherever types do not prove that they fit.

A model's free sizes meet only at run time: two operands of an addition, the rows of a weight and the columns of an
input, the window of a convolution and its image. Lowered to loops, a mismatch would read or write outside of a tensor.
Here every operation whose operands could disagree gets a ``cf.assert`` before it, named for its layer; a failed one
ends the run with an error (checks_to_failures.py). Fixed sizes cost nothing: MLIR has verified them. A comparison is
left out where both sizes are the same value.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, scf
from torch_mlir.dialects import tensor as tensor_dialect

from numc.passes import linalg
from numc.passes.explicit.integers import CASTS, DIVISIONS, SHIFTS, check_division, define_cast, define_shift
from numc.passes.explicit.sizes import Size, Sizes, given_sizes, shape_sizes, size_of, slices, traced
from numc.passes.imported.size_limits import Limits

MISMATCH = "sizes do not fit: {}"
OUT_OF_RANGE = "an index is out of range"
NEGATIVE = "a size would be negative"
WINDOW = "an input is smaller than the window that slides over it"
SLICE = "a slice reaches beyond its tensor"
RESHAPE = "a reshape does not keep the number of elements"
PADDING = "padding would be negative"
INSIDE = "numc.inside"
"""On a linalg.generic whose elements are at indices that are bounded by the sizes of their tensor."""


def run_time_checks(module: ir.Operation) -> None:
    """Check sizes and indices that types do not prove to fit, when the program runs."""
    with module.context:
        for function in list(linalg.operations(module, "func.func")):
            limits = Limits.of(function)
            for op in list(linalg.operations(function)):
                check = _CHECKS.get(op.name)
                with op.location:
                    limits.check(op)
                    if check is not None:
                        check(op)


def _check_generic(op: ir.Operation) -> None:
    """The sizes of all operands agree, and no window reaches beyond its operand."""
    writer = Sizes.before(op)
    maps = linalg.indexing_maps(op)
    operands = list(zip(op.operands, maps, strict=True))
    sizes: dict[int, Size] = {}
    windows = []
    for operand, indexing in operands:
        if not isinstance(operand.type, ir.RankedTensorType):
            continue
        for n, expr in enumerate(indexing.results):
            if isinstance(expr, ir.AffineDimExpr):
                size = size_of(operand, n)
                first = sizes.setdefault(expr.position, size)
                if isinstance(size, int) and not isinstance(first, int):
                    sizes[expr.position] = size
                writer.equal(first, size, MISMATCH.format("operands that share a dimension differ in it"))
            else:
                windows.append((operand, n, expr))
    for operand, n, expr in windows:
        linear = linalg.linear(expr)
        if linear is None or any(d not in sizes for d in linear[0]):
            continue
        last: Size = linear[1]
        for d, factor in linear[0].items():
            if factor > 0:
                last = writer.add(last, writer.multiply(writer.add(writer.at_least_one(sizes[d]), -1), factor))
        _check_window(writer, last, size_of(operand, n), [sizes[d] for d in linear[0]])
    if INSIDE not in op.attributes:
        for inner in linalg.operations(op, "tensor.extract"):
            _check_extract(inner, op, sizes)


def _check_window(writer: Sizes, last: Size, whole: Size, counts: list[Size]) -> None:
    """A window reaches no further than its operand, unless there is none."""
    if isinstance(last, int) and isinstance(whole, int):
        return
    fits = writer.compare(arith.CmpIPredicate.slt, last, whole)
    for count in counts:
        if not isinstance(count, int):
            none = writer.compare(arith.CmpIPredicate.eq, count, 0)
            with writer.at:
                fits = arith.OrIOp(fits, none).result
    writer.require(fits, WINDOW)


def _check_extract(op: ir.Operation, generic: ir.Operation | None = None, sizes: dict[int, Size] | None = None) -> None:
    """Indices of an element are inside of its tensor; those that a loop counts are checked once, before the loop."""
    tensor, *indices = op.operands
    for n, index in enumerate(indices):
        maker = linalg.maker(index)
        size = size_of(tensor, n)
        if generic is not None and sizes is not None and maker is not None and maker.name == "linalg.index":
            count = sizes.get(ir.IntegerAttr(maker.attributes["dim"]).value)
            if count is not None and count != size and not (isinstance(count, int) and isinstance(size, int)):
                before = Sizes.before(generic)
                fits = before.compare(arith.CmpIPredicate.sle, count, size)
                before.require(fits, MISMATCH.format("a tensor is smaller than the indices into it"))
            continue
        where = traced(index)
        if isinstance(where, int) and isinstance(size, int) and 0 <= where < size:
            continue
        writer = Sizes.before(op)
        # Compared without sign: a negative index is a huge one.
        writer.require(writer.compare(arith.CmpIPredicate.ult, where, size), OUT_OF_RANGE)


def _check_lone_extract(op: ir.Operation) -> None:
    parent = op.parent
    while parent is not None and parent.name != "linalg.generic":
        parent = parent.operation.parent
    if parent is None:  # those in a body are seen with it
        _check_extract(op)


def _check_empty(op: ir.Operation) -> None:
    writer = Sizes.before(op)
    for operand in op.operands:
        size = traced(operand)
        if not isinstance(size, tuple):  # the size of a tensor is none
            writer.at_least(size, 0, NEGATIVE)


def _check_cast(op: ir.Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if not isinstance(source, ir.RankedTensorType) or not isinstance(target, ir.RankedTensorType):
        return
    writer = Sizes.before(op)
    for n in range(target.rank):
        if source.is_dynamic_dim(n) and not target.is_dynamic_dim(n):
            size = target.get_dim_size(n)
            writer.equal(size_of(op.operands[0], n), size, MISMATCH.format(f"dimension {n} has to be {size}"))


def _check_slice(op: ir.Operation, tensor: ir.Value, first: int) -> list[Size]:
    """A slice is inside of a tensor; returns its sizes."""
    writer = Sizes.before(op)
    sizes = []
    for n, (offset, size, stride) in enumerate(slices(op, first)):
        sizes.append(size)
        whole = size_of(tensor, n)
        if offset == 0 and stride == 1 and size == whole:
            continue
        writer.at_least(offset, 0, SLICE)
        writer.at_least(size, 0, NEGATIVE)
        if isinstance(size, int) and size == 0:
            continue
        last = writer.add(offset, writer.multiply(writer.add(size, -1), stride))
        Limits().check_exact(writer, last)
        writer.below(last, whole, SLICE)
        if not isinstance(stride, int):  # it may be negative
            steps = writer.multiply(writer.add(writer.at_least_one(size), -1), stride)
            writer.at_least(writer.add(offset, steps), 0, SLICE)
    return sizes


def _check_extract_slice(op: ir.Operation) -> None:
    _check_slice(op, op.operands[0], 1)


def _check_insert_slice(op: ir.Operation) -> None:
    sizes = _check_slice(op, op.operands[1], 2)
    source = op.operands[0]
    source_type = ir.RankedTensorType(source.type)
    if source_type.rank != len(sizes):  # a slice of lower rank: its unit dimensions are dropped
        return
    writer = Sizes.before(op)
    for n, size in enumerate(sizes):
        writer.equal(size_of(source, n), size, MISMATCH.format("what is written into a slice differs from it in size"))


def _check_concat(op: ir.Operation) -> None:
    """All parts have the sizes of the first in every dimension but the one along which they are joined."""
    along = ir.IntegerAttr(op.attributes["dim"]).value
    first, *others = op.operands
    writer = Sizes.before(op)
    for other in others:
        for n in range(ir.RankedTensorType(first.type).rank):
            if n != along:
                writer.equal(size_of(first, n), size_of(other, n), MISMATCH.format(f"parts differ in dimension {n}"))


def _check_pad(op: ir.Operation) -> None:
    """Padding is not negative: that would be a slice."""
    writer = Sizes.before(op)
    for operand in list(op.operands)[1:]:
        if isinstance(operand.type, ir.IndexType):
            writer.at_least(traced(operand), 0, PADDING)


def _check_expand_shape(op: ir.Operation) -> None:
    writer = Sizes.before(op)
    source, sizes = op.operands[0], given_sizes(op)
    for n, group in enumerate(ir.ArrayAttr(op.attributes["reassociation"])):
        product: Size = 1
        for d in ir.ArrayAttr(group):
            size = sizes[ir.IntegerAttr(d).value]
            writer.at_least(size, 0, NEGATIVE)
            product = writer.multiply(product, size)
        writer.equal(size_of(source, n), product, RESHAPE)


def _check_reshape(op: ir.Operation) -> None:
    """A reshape to sizes known at run time keeps the number of elements, and no size is negative."""
    source = op.operands[0]
    writer = Sizes.before(op)
    source_type = ir.RankedTensorType(source.type)
    have: Size = 1
    for n in range(source_type.rank):
        have = writer.multiply(have, size_of(source, n))
    want: Size = 1
    for size in shape_sizes(op, writer):
        writer.at_least(size, 0, NEGATIVE)
        want = writer.multiply(want, size)
    writer.equal(have, want, RESHAPE)


def _check_scatter(op: ir.Operation) -> None:
    """Every row of indices of a tm_tensor.scatter is inside of the tensor that is written."""
    updates, indices, original = op.operands[:3]
    places = [int(d) for d in ir.DenseI64ArrayAttr(op.attributes["dimension_map"])]
    writer = Sizes.before(op)
    writer.equal(size_of(updates, 0), size_of(indices, 0), MISMATCH.format("updates and indices differ in number"))
    bounds = [writer.value(size_of(original, d)) for d in places]
    columns = [writer.value(n) for n in range(len(places))]
    zero, one, count = writer.value(0), writer.value(1), writer.value(size_of(indices, 0))
    with writer.at:
        loop = scf.ForOp(zero, count, one)
    with ir.InsertionPoint(loop.body):
        for column, bound in zip(columns, bounds, strict=True):
            index = tensor_dialect.ExtractOp(indices, [loop.induction_variable, column]).result
            index = arith.IndexCastOp(ir.IndexType.get(), index).result
            cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.ult, index, bound).result, OUT_OF_RANGE)
        scf.YieldOp([])


_CHECKS = {
    "linalg.generic": _check_generic,
    "tensor.extract": _check_lone_extract,
    "tensor.empty": _check_empty,
    "tensor.cast": _check_cast,
    "tensor.extract_slice": _check_extract_slice,
    "tensor.insert_slice": _check_insert_slice,
    "tensor.concat": _check_concat,
    "tensor.pad": _check_pad,
    "tensor.expand_shape": _check_expand_shape,
    "tensor.reshape": _check_reshape,
    "tm_tensor.scatter": _check_scatter,
    **dict.fromkeys(DIVISIONS, check_division),
    **dict.fromkeys(SHIFTS, define_shift),
    **dict.fromkeys(CASTS, define_cast),
}
