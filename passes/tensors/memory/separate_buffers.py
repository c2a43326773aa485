"""separate-buffers: every place that writes into an empty or filled tensor gets one of its own, made right before it.

cse merges equal ones, and front ends share them. Bufferization then copies a shared fill for each writer, and keeps a
shared buffer alive from its first use to its last.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import draws

_VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def separate_buffers(module: ir.Operation) -> None:
    """Give every operation that writes into an empty or filled tensor one of its own, made right before it."""
    for op in reversed(list(linalg.operations(module))):  # users first: a clone of a fill needs an empty of its own
        if not _is_fresh(op):
            continue
        for use in list(op.results[0].uses):
            user = use.owner.operation
            clone = op.clone(ir.InsertionPoint(user))
            user.operands[use.operand_number] = clone.results[0]
        op.erase()


def _is_fresh(op: ir.Operation) -> bool:
    """Whether `op` makes a tensor out of scalars only: cheaper to make twice than to copy."""
    if op.name == "tensor.empty":
        return True
    if op.name in _VIEWS:
        source = linalg.maker(op.operands[0])
        return source is not None and _is_fresh(source)
    if op.name != "linalg.generic" or len(op.results) != 1 or any(map(draws, linalg.operations(op))):
        return False
    if any(use.owner.operation.block != op.block for use in op.results[0].uses):
        return False  # read element by element in a body: there it would be made anew for each of them
    return all(not isinstance(v.type, ir.RankedTensorType) for v in list(op.operands)[: linalg.input_count(op)]) and (
        linalg.is_unused(linalg.body(op).arguments[linalg.input_count(op)])
    )
