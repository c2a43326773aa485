"""Sizes that follow from data or from free sizes are what arithmetic without bounds gives, and no tensor is too large.

Products of sizes wrap at 64 bits: a tensor of 2^62 rows and 4 columns would get a buffer of 0 bytes. Here, before any
tensor is fused away, every operation that gives a tensor new sizes gets two checks: that no sum and no product on the
way to them has wrapped, and that the tensor has at most MOST elements. There a size of 0 counts as 1, so that strides
and sizes of views do not wrap either. The loops of an operation that no operand has all of are bounded, too. All
that later passes compute from sizes are products of few such numbers with small constants, which 64 bits hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.passes import linalg
from numc.passes.explicit.sizes import Size, Sizes, given_sizes, shape_sizes, size_of, slices, traced

MOST = 1 << 42  # with elements of 16 bytes, what one x86-64 process can address: numc_alloc gives no more
MOST_STEPS = 1 << 62
WRAPS = "a size is too large: its arithmetic exceeds 64 bits"
TOO_LARGE = "sizes are too large: a tensor would have more than 2^42 elements"
TOO_LONG = "sizes are too large: an operation would have more than 2^62 steps"

_WRAPPING = {"arith.addi": arith.AddIOp, "arith.subi": arith.SubIOp, "arith.muli": arith.MulIOp}
# What is as exact as its operands.
_FOLLOWING = {f"arith.{name}" for name in
              ("index_cast", "cmpi", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui",
               "divsi", "divui", "ceildivsi", "ceildivui", "floordivsi", "remsi", "remui")}  # fmt: skip


@dataclass
class Limits:
    """Writes these checks, each of them once.

    wraps: by value, the i1 that tells whether its arithmetic has wrapped; None where it cannot. exact: where
    such a one was checked. bounded: by sizes that
    are not fixed, in no order, where their product is bounded, and by what.
    """

    wraps: dict[ir.Value, ir.Value | None] = field(default_factory=dict)
    exact: dict[ir.Value, list[ir.Block]] = field(default_factory=dict)
    bounded: dict[frozenset[tuple[Size, int]], list[tuple[ir.Block, int]]] = field(default_factory=dict)

    @staticmethod
    def of(function: ir.Operation) -> Limits:
        """The limits in a function, whose caller has checked the arguments."""
        limits = Limits()
        entry = function.regions[0].blocks[0]
        for argument in entry.arguments:
            if isinstance(argument.type, ir.RankedTensorType):
                limits._bound(_sizes_of(argument), MOST, entry)
        return limits

    def check(self, op: ir.Operation) -> None:
        """Check the sizes that an operation gives its result, and the steps of one that has loops."""
        if op.name == "linalg.generic":
            maps = linalg.indexing_maps(op)
            if not any(len(_dims(indexing)) == indexing.n_dims for indexing in maps):
                self._check(op, _loop_sizes(op, maps), MOST_STEPS, TOO_LONG)
            return
        made = _MAKERS.get(op.name)
        if made is None:
            return
        writer = Sizes.before(op)
        sizes = made(op, writer)
        for number in sizes if op.name == "tensor.reshape" else op.operands:
            self.check_exact(writer, number)
        self._check(op, sizes, MOST, TOO_LARGE)

    def check_exact(self, writer: Sizes, size: Size) -> None:
        """No sum and no product that an index value was computed by has wrapped."""
        if not isinstance(size, ir.Value) or not isinstance(size.type, ir.IndexType):
            return
        wrapped = self._wrapped(size)
        if wrapped is None:
            return
        known = self.exact.setdefault(wrapped, [])
        if not any(_encloses(where, writer.at.block) for where in known):
            known.append(writer.at.block)
            writer.forbid(wrapped, WRAPS)

    def _check(self, op: ir.Operation, sizes: Sequence[Size], most: int, message: str) -> None:
        if not self._bound(sizes, most, op.block):
            return
        writer = Sizes.before(op)
        *others, last = (size for size in sizes if not isinstance(size, int))
        room: Size = _divided(most, sizes)
        for size in others:  # the quotients of quotients are those of the product, which might not fit
            room = writer.divide(room, writer.at_least_one(size))
        writer.require(writer.compare(arith.CmpIPredicate.sle, writer.at_least_one(last), room), message)

    def _bound(self, sizes: Sequence[Size], most: int, block: ir.Block) -> bool:
        """Note that a product of sizes is bounded from here on. False if it was before."""
        free = frozenset(Counter(size for size in sizes if not isinstance(size, int)).items())
        most = _divided(most, sizes)
        known = self.bounded.setdefault(free, [])
        if not free or any(other <= most and _encloses(where, block) for where, other in known):
            return False
        known.append((block, most))
        return True

    def _wrapped(self, value: ir.Value) -> ir.Value | None:
        if value not in self.wraps:
            self.wraps[value] = self._written(value)
        return self.wraps[value]

    def _written(self, value: ir.Value) -> ir.Value | None:
        """The i1, written after the operation, that tells whether its arithmetic has wrapped."""
        op = linalg.maker(value)
        if op is None:
            return None
        if op.name == "arith.select":
            condition, if_true, if_false = (self._wrapped(operand) for operand in op.operands)
            with ir.InsertionPoint.after(op), op.location:
                return _either(condition, _chosen(op.operands[0], if_true, if_false))
        if op.name not in _WRAPPING and op.name not in _FOLLOWING:
            return None
        operands = [self._wrapped(operand) for operand in op.operands]
        with ir.InsertionPoint.after(op), op.location:
            wraps = _wraps_itself(op) if op.name in _WRAPPING else None
            for each in operands:
                wraps = _either(wraps, each)
        return wraps


def _wraps_itself(op: ir.Operation) -> ir.Value | None:
    """Whether the result of a sum, a difference or a product differs from that of wide integers."""
    if all(linalg.integer(operand) is not None for operand in op.operands):
        return None

    def widened(value: ir.Value) -> ir.Value:
        if isinstance(value.type, ir.IndexType):
            value = arith.IndexCastOp(ir.IntegerType.get_signless(64), value).result
        return arith.ExtSIOp(ir.IntegerType.get_signless(128), value).result

    if not isinstance(op.results[0].type, ir.IndexType) and ir.IntegerType(op.results[0].type).width != 64:
        return None
    exact = _WRAPPING[op.name](*(widened(operand) for operand in op.operands)).result
    return arith.CmpIOp(arith.CmpIPredicate.ne, exact, widened(op.results[0])).result


def _either(one: ir.Value | None, other: ir.Value | None) -> ir.Value | None:
    if one is None or other is None:
        return one if other is None else other
    return arith.OrIOp(one, other).result


def _chosen(condition: ir.Value, one: ir.Value | None, other: ir.Value | None) -> ir.Value | None:
    if one is None and other is None:
        return None
    no = arith.ConstantOp(condition.type, 0).result
    return arith.SelectOp(condition, no if one is None else one, no if other is None else other).result


def _sizes_of(tensor: ir.Value) -> list[Size]:
    return [size_of(tensor, n) for n in range(ir.RankedTensorType(tensor.type).rank)]


def _padded(op: ir.Operation, writer: Sizes) -> list[Size]:
    """The sizes of the result of a tensor.pad; what is added is bounded before it is summed."""
    dynamic = iter(op.operands[1:])
    columns: list[list[Size]] = []
    for name in ("static_low", "static_high"):
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        columns.append([traced(next(dynamic)) if n == ir.ShapedType.get_dynamic_size() else int(n) for n in numbers])
    sizes: list[Size] = []
    for size, low, high in zip(_sizes_of(op.operands[0]), *columns, strict=True):
        for added in (low, high):
            writer.at_most(added, MOST, TOO_LARGE)
            writer.at_least(added, -MOST, TOO_LARGE)
        sizes.append(writer.add(writer.add(size, low), high))
    return sizes


def _joined(op: ir.Operation, writer: Sizes) -> list[Size]:
    """The sizes of the result of a tensor.concat."""
    along = ir.IntegerAttr(op.attributes["dim"]).value
    sizes = _sizes_of(op.operands[0])
    for other in list(op.operands)[1:]:
        sizes[along] = writer.add(sizes[along], size_of(other, along))
    return sizes


def _sliced(op: ir.Operation, writer: Sizes) -> list[Size]:
    return [size for _, size, _ in slices(op, 1)]


# The operations that give their result sizes of its own, and these sizes.
_MAKERS: Mapping[str, Callable[[ir.Operation, Sizes], list[Size]]] = {
    "tensor.empty": lambda op, _: given_sizes(op),
    "tensor.generate": lambda op, _: given_sizes(op),
    "tensor.splat": lambda op, _: given_sizes(op),
    "tensor.expand_shape": lambda op, _: given_sizes(op),
    "tensor.reshape": shape_sizes,
    "tensor.extract_slice": _sliced,
    "tensor.pad": _padded,
    "tensor.concat": _joined,
}


def _loop_sizes(generic: ir.Operation, maps: Sequence[ir.AffineMap]) -> list[Size]:
    sizes: dict[int, Size] = {}
    for operand, indexing in zip(generic.operands, maps, strict=True):
        for n, expr in enumerate(indexing.results):
            if isinstance(expr, ir.AffineDimExpr):
                sizes.setdefault(expr.position, size_of(operand, n))
    return list(sizes.values())


def _dims(indexing: ir.AffineMap) -> set[int]:
    return {ir.AffineDimExpr(expr).position for expr in indexing.results if isinstance(expr, ir.AffineDimExpr)}


def _divided(most: int, sizes: Sequence[Size]) -> int:
    for size in sizes:
        if isinstance(size, int):
            most //= max(size, 1)
    return most


def _encloses(outer: ir.Block, block: ir.Block) -> bool:
    """Whether a block is another one, or around it."""
    while block != outer:
        op = block.owner
        if op.name == "func.func" or op.operation.parent is None:
            return False
        block = op.operation.block
    return True
