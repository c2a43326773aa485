"""The factors of contractions of integers: what they are computed from, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch_mlir import ir

from numc.passes import linalg


@dataclass(frozen=True)
class Factor:
    """A factor of a contraction: `value`, computed in its body from one operand and scalars.

    argument: of the body. operand: the tensor, or what that repeats, which is read by the map `indexing`.
    """

    value: ir.Value
    argument: ir.BlockArgument
    operand: ir.Value
    indexing: ir.AffineMap


def factors_of(generic: ir.Operation) -> tuple[Factor, Factor] | None:
    """Return the factors of a contraction of integers; None for anything else."""
    inputs = linalg.input_count(generic)
    if len(generic.results) != 1 or not linalg.reduces(generic):
        return None
    block = linalg.body(generic)
    out = block.arguments[inputs]
    if not isinstance(out.type, ir.IntegerType) or out.type.width < 32:
        return None
    add = linalg.maker(list(block.operations)[-1].operands[0])
    if add is None or add.name != "arith.addi" or out not in list(add.operands):
        return None
    multiply = linalg.maker(next((value for value in add.operands if value != out), out))
    if multiply is None or multiply.name != "arith.muli":
        return None
    factors, maps = [], linalg.indexing_maps(generic)
    for value in map(_narrow, multiply.operands):
        read = _read(value, block)
        tensors = {n for n in read if isinstance(generic.operands[n].type, ir.RankedTensorType)}
        if len(tensors) != 1 or max(read) >= inputs:
            return None
        (number,) = tensors
        operand, indexing = _source(generic.operands[number], maps[number])
        factors.append(Factor(value, ir.BlockArgument(block.arguments[number]), operand, indexing))
    return factors[0], factors[1]


@dataclass(frozen=True)
class Offset:
    """A number that is subtracted from every element of a factor: `value`, in the body of `maker`, of its `operand`."""

    maker: ir.Operation
    value: ir.Value
    operand: ir.Value

    @property
    def argument(self) -> ir.Value:
        """The argument of the body that is `operand`."""
        return linalg.body(self.maker).arguments[list(self.maker.operands).index(self.operand)]


def without_offset(factor: Factor) -> tuple[Factor, Offset] | None:
    """Return a factor before one number was subtracted from all of its elements, and that number; None for others."""
    made = linalg.maker(factor.operand)
    if made is None or made.name != "linalg.generic" or linalg.reduces(made) or factor.value != factor.argument:
        return None
    block, maps = linalg.body(made), linalg.indexing_maps(made)
    less = linalg.maker(list(block.operations)[-1].operands[0])
    if less is None or less.name != "arith.subi" or less.operands[0] not in list(block.arguments):
        return None
    if ir.IntegerType(less.results[0].type).width != 32:
        return None
    number, read = ir.BlockArgument(less.operands[0]).arg_number, _read(less.operands[1], block)
    if number >= linalg.input_count(made) or len(read) != 1 or maps[number] != maps[-1]:
        return None
    (offset,) = read
    if offset >= linalg.input_count(made) or len(maps[offset].results):
        return None
    return replace(factor, operand=made.operands[number]), Offset(made, less.operands[1], made.operands[offset])


def copied(value: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
    """Copy what computes a value to the insertion point, with others for the arguments of its body."""
    made = linalg.maker(value)
    if value not in values and made is not None and made.parent.name == "linalg.generic":
        for operand in made.operands:
            copied(operand, values)
        linalg.copy(made, ir.InsertionPoint.current, values)
    return values.get(value, value)


def _narrow(value: ir.Value) -> ir.Value:
    """A number before it was made wider with its sign."""
    made = linalg.maker(value)
    return made.operands[0] if made is not None and made.name == "arith.extsi" else value


def _read(value: ir.Value, block: ir.Block) -> set[int]:
    """The numbers of the arguments of a body that a value depends on."""
    if isinstance(value.owner, ir.Block):
        return {ir.BlockArgument(value).arg_number} if value.owner == block else set()
    return set().union(*(_read(operand, block) for operand in value.owner.operation.operands))


def _source(value: ir.Value, indexing: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    """The tensor that an operand repeats or transposes, and the map by which a contraction reads it instead."""
    made = linalg.maker(value)
    while made is not None and _copies(made):
        read, written = linalg.indexing_maps(made)
        whole = written == ir.AffineMap.get_identity(written.n_dims)
        if not whole or not all(isinstance(expr, ir.AffineDimExpr) for expr in read.results):
            break
        places = [indexing.results[expr.position] for expr in read.results]
        value, indexing = made.operands[0], ir.AffineMap.get(indexing.n_dims, 0, places)
        made = linalg.maker(value)
    return value, indexing


def _copies(made: ir.Operation) -> bool:
    """Whether an operation puts the elements of one tensor somewhere else."""
    if made.name != "linalg.generic" or linalg.reduces(made) or linalg.input_count(made) != 1:
        return False
    operations = list(linalg.body(made).operations)
    only = len(operations) == 1 and operations[0].operands[0] == linalg.body(made).arguments[0]
    return only and isinstance(made.operands[0].type, ir.RankedTensorType)


def place_of(indexing: ir.AffineMap, loop: int) -> int | None:
    """The dimension of an operand that a loop is; None if it is none, or a part of one."""
    dims = [linalg.linear(expr) for expr in indexing.results]
    places = [n for n, linear in enumerate(dims) if linear is None or loop in linear[0]]
    whole = len(places) == 1 and isinstance(indexing.results[places[0]], ir.AffineDimExpr)
    return places[0] if whole else None
