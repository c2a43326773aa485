"""Elements that the body of a linalg.generic looks up in a memref, by indices that are read from memory or count loops.

They become operands of the nest: a loop that an index counts moves them along, as it moves any operand, and an index
that is read is added to their place. So the body is left with arithmetic, and can be computed in lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.linalg import Linear

# Integers that indices are read as.
_INDICES = ("i32", "i64")


@dataclass(frozen=True)
class Lookup:
    """An element that is looked up: the operation, its memref, and where it is.

    places: the index in each dimension, as far as it is a loop or a constant. tables: the dimensions whose index is
    read, and the numbers of the inputs that it is read from.
    """

    op: ir.Operation
    source: ir.Value
    places: list[Linear]
    tables: list[tuple[int, int]]


def lookups_of(generic: ir.Operation) -> list[Lookup] | None:
    """The elements that a body looks up; None if one of them has an index of another kind.

    None, too, if the body does anything else with a memref: asks for its size, stores to it, or loads in a branch; and
    if it checks first that a constant index is inside.
    """
    lookups: list[Lookup] = []
    checks = has_checks(generic)
    for op in linalg.body(generic).operations:
        if op.operation.name != "memref.load":
            continue
        source, *indices = op.operation.operands
        positions: list[Linear] = []
        tables = []
        for p, index in enumerate(indices):
            position = _place(generic, index)
            if position is None or (checks and _may_be_outside(source.type, p, position)):
                return None
            if isinstance(position, int):
                tables.append((p, position))
                position = ({}, 0)
            positions.append(position)
        lookups.append(Lookup(op.operation, source, positions, tables))
    if not lookups:
        return lookups
    loads = {lookup.op for lookup in lookups}
    others = (op for op in linalg.operations(generic) if op != generic and op not in loads)
    uses_memref = any(isinstance(v.type, ir.MemRefType) for op in others for v in op.operands)
    return None if uses_memref else lookups


def has_checks(generic: ir.Operation) -> bool:
    """Whether a body checks something, as that an index is inside."""
    return any(op.operation.name == "cf.assert" for op in linalg.body(generic).operations)


def _may_be_outside(kind: ir.MemRefType, p: int, place: Linear | int) -> bool:
    """Whether a constant index is not known to be inside of dimension `p`."""
    if isinstance(place, int) or place[0]:
        return False
    return kind.is_dynamic_dim(p) or not 0 <= place[1] < kind.get_dim_size(p)


def _place(generic: ir.Operation, index: ir.Value) -> Linear | int | None:
    """An index as a loop or a constant, or the number of the input that it is; None for anything else."""
    number = linalg.integer(index)
    if number is not None:
        return {}, number
    if isinstance(index.owner, ir.Block):
        block, at = linalg.body(generic), ir.BlockArgument(index).arg_number
        is_input = index.owner == block and at < linalg.input_count(generic) and str(index.type) in _INDICES
        return at if is_input else None
    op = index.owner.operation
    if op.name == "linalg.index":
        return {ir.IntegerAttr(op.attributes["dim"]).value: 1}, 0
    widens = op.name == "arith.index_cast" or (op.name == "arith.extsi" and str(op.operands[0].type) == "i32")
    narrows = str(op.results[0].type) == "i32"
    return _place(generic, op.operands[0]) if widens and not narrows else None


def take_out(generic: ir.Operation, lookups: list[Lookup]) -> None:
    """Make what is looked up arguments of the body, after all others, and erase the operations that find it."""
    block = linalg.body(generic)
    for lookup in lookups:
        (result,) = lookup.op.results
        result.replace_all_uses_with(block.add_argument(result.type, lookup.op.location))
        lookup.op.erase()
    if lookups:
        for op in reversed([op.operation for op in block.operations]):
            if op.results and op.name.split(".")[0] in ("arith", "linalg") and all(map(linalg.is_unused, op.results)):
                op.erase()
