"""Small questions about linalg IR that several passes ask."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir


def operations(root: ir.Operation, name: str | None = None) -> Iterator[ir.Operation]:
    """Yield every operation below `root` (inner ones before outer ones), or those called `name`; erasure is safe."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if name is None or op.name == name:
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.POST_ORDER)
    return iter(found)


def body(generic: ir.Operation) -> ir.Block:
    """The body of a linalg.generic."""
    return generic.regions[0].blocks[0]


def input_count(generic: ir.Operation) -> int:
    """The number of `ins` operands of a linalg.generic."""
    return int(ir.DenseI32ArrayAttr(generic.attributes["operandSegmentSizes"])[0])


def iterator_types(generic: ir.Operation) -> list[str]:
    """``parallel`` or ``reduction`` for each dimension of a linalg.generic."""
    return [
        "reduction" if "reduction" in str(a) else "parallel" for a in ir.ArrayAttr(generic.attributes["iterator_types"])
    ]


def indexing_maps(generic: ir.Operation) -> list[ir.AffineMap]:
    """The indexing maps of a linalg.generic, one an operand."""
    return [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(generic.attributes["indexing_maps"])]


def uses(value: ir.Value) -> int:
    """How often a value is used."""
    return sum(1 for _ in value.uses)


def is_unused(value: ir.Value) -> bool:
    """Whether nothing uses a value."""
    return next(iter(value.uses), None) is None


def is_f32(value: ir.Value) -> bool:
    """Whether a value is an f32 scalar."""
    return isinstance(value.type, ir.F32Type)
