"""Sizes of tensors: numbers, index values, or dimensions; traced to where they come from, compared, checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, cf
from torch_mlir.dialects import tensor as tensor_dialect

from numc.passes import linalg

# The size of a dimension: a number, an index value, or the size of dimension n of a tensor.
Size: TypeAlias = "int | ir.Value | tuple[ir.Value, int]"


@dataclass
class Sizes:
    """Writes index arithmetic before an operation."""

    at: ir.InsertionPoint
    known: dict[int, ir.Value] = field(default_factory=dict)

    @staticmethod
    def before(op: ir.Operation) -> Sizes:
        """Checks that stand before an operation."""
        return Sizes(ir.InsertionPoint(op))

    def value(self, size: Size) -> ir.Value:
        """The size as an index value."""
        with self.at:
            if isinstance(size, int):
                if size not in self.known:
                    self.known[size] = arith.ConstantOp(ir.IndexType.get(), size).result
                return self.known[size]
            if isinstance(size, tuple):
                return tensor_dialect.DimOp(size[0], self.value(size[1])).result
            return size

    def compare(self, predicate: arith.CmpIPredicate, a: Size, b: Size) -> ir.Value:
        """The i1 that tells whether two sizes compare so."""
        left, right = self.value(a), self.value(b)
        with self.at:
            return arith.CmpIOp(predicate, left, right).result

    def add(self, a: Size, b: Size) -> Size:
        """The sum of two sizes."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        left, right = self.value(a), self.value(b)
        with self.at:
            return arith.AddIOp(left, right).result

    def multiply(self, a: Size, b: Size) -> Size:
        """The product of two sizes."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 1 in (a, b):
            return b if a == 1 else a
        left, right = self.value(a), self.value(b)
        with self.at:
            return arith.MulIOp(left, right).result

    def divide(self, a: Size, b: Size) -> Size:
        """The quotient of two sizes, rounded down; the divisor is not 0."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        left, right = self.value(a), self.value(b)
        with self.at:
            return arith.DivUIOp(left, right).result

    def at_least_one(self, size: Size) -> Size:
        """The size, or 1 if it is 0: an output without elements does not make a window fit."""
        if isinstance(size, int):
            return max(size, 1)
        value, one = self.value(size), self.value(1)
        with self.at:
            return arith.MaxSIOp(value, one).result

    def require(self, condition: ir.Value, message: str) -> None:
        """End the run with `message` unless the condition holds."""
        with self.at:
            cf.AssertOp(condition, message)

    def forbid(self, condition: ir.Value, message: str) -> None:
        """End the run with `message` if the condition holds."""
        with self.at:
            false = arith.ConstantOp(condition.type, 0).result
            cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.eq, condition, false).result, message)

    def equal(self, a: Size, b: Size, message: str) -> None:
        """Two sizes are equal. Nothing is written where that is known; the verifier refuses fixed ones that differ."""
        if a == b or (isinstance(a, int) and isinstance(b, int)):
            return
        self.require(self.compare(arith.CmpIPredicate.eq, a, b), message)

    def at_least(self, a: Size, least: int, message: str) -> None:
        """a >= least, as signed numbers."""
        if not isinstance(a, int):
            self.require(self.compare(arith.CmpIPredicate.sge, a, least), message)

    def at_most(self, a: Size, most: int, message: str) -> None:
        """a <= most, as signed numbers."""
        if not isinstance(a, int):
            self.require(self.compare(arith.CmpIPredicate.sle, a, most), message)

    def below(self, a: Size, b: Size, message: str) -> None:
        """a < b as signed numbers."""
        if not (isinstance(a, int) and isinstance(b, int)):
            self.require(self.compare(arith.CmpIPredicate.slt, a, b), message)


def size_of(tensor: ir.Value, n: int) -> Size:
    """The size of dimension `n` of a tensor, traced to where it comes from."""
    tensor_type = ir.RankedTensorType(tensor.type)
    if not tensor_type.is_dynamic_dim(n):
        return int(tensor_type.get_dim_size(n))
    maker = linalg.maker(tensor)
    if maker is not None:
        if maker.name == "tensor.empty":
            dynamic = [d for d in range(tensor_type.rank) if tensor_type.is_dynamic_dim(d)]
            return traced(maker.operands[dynamic.index(n)])
        if maker.name == "linalg.generic":
            number = ir.OpResult(tensor).result_number
            return size_of(maker.operands[linalg.input_count(maker) + number], n)
        if maker.name in ("tensor.insert_slice", "tensor.insert"):
            return size_of(maker.operands[1], n)
        if maker.name == "tensor.cast" and isinstance(maker.operands[0].type, ir.RankedTensorType):
            return size_of(maker.operands[0], n)
    return tensor, n


def traced(value: ir.Value) -> Size:
    """An index value, traced to a constant or to the size of a tensor."""
    number = linalg.integer(value)
    if number is not None:
        return number
    maker = linalg.maker(value)
    if maker is None:
        return value
    if maker.name == "tensor.dim":
        dim = traced(maker.operands[1])
        if isinstance(dim, int):
            return size_of(maker.operands[0], dim)
    if maker.name == "arith.index_cast":
        inner = linalg.maker(maker.operands[0])
        if inner is not None and inner.name == "arith.index_cast":  # there and back
            return traced(inner.operands[0])
    return value


def given_sizes(op: ir.Operation) -> list[Size]:
    """The sizes of the result of an operation whose operands from the second on, or all, are its free ones."""
    result_type = ir.RankedTensorType(op.results[0].type)
    free = sum(result_type.is_dynamic_dim(n) for n in range(result_type.rank))
    dynamic = iter(list(op.operands)[len(op.operands) - free :])
    return [
        traced(next(dynamic)) if result_type.is_dynamic_dim(n) else result_type.get_dim_size(n)
        for n in range(result_type.rank)
    ]


def shape_sizes(reshape: ir.Operation, writer: Sizes) -> list[Size]:
    """The sizes of the result of a tensor.reshape, read from its second operand."""
    shape = reshape.operands[1]
    maker = linalg.maker(shape)
    sizes: list[Size] = []
    for n in range(ir.RankedTensorType(reshape.results[0].type).rank):
        index = writer.value(n)
        with writer.at:
            known = maker is not None and maker.name == "tensor.from_elements"
            size = maker.operands[n] if maker is not None and known else tensor_dialect.ExtractOp(shape, [index]).result
            if not isinstance(size.type, ir.IndexType):
                size = arith.IndexCastOp(ir.IndexType.get(), size).result
        sizes.append(traced(size))
    return sizes


def slices(op: ir.Operation, first: int) -> Iterator[tuple[Size, Size, Size]]:
    """Offset, size and stride of every dimension of a slice; operands from `first` on are its dynamic ones."""
    dynamic = iter(list(op.operands)[first:])
    columns: list[list[Size]] = []
    for name in ("static_offsets", "static_sizes", "static_strides"):
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        columns.append([traced(next(dynamic)) if n == ir.ShapedType.get_dynamic_size() else int(n) for n in numbers])
    return zip(*columns, strict=True)
