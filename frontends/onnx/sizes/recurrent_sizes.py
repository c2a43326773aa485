"""Free sizes of GRU and RNN, which torch-mlir writes as the number -1: steps, sequences and the rows of states."""

from __future__ import annotations

from torch_mlir import ir

from numc.frontends.lowering.reshapes import create, torch_constant, torch_integer
from numc.frontends.lowering.torch_mlir_passes import operations


def take_free_sizes(module: ir.Module) -> None:
    """Let loops over the steps of a sequence, and the zeros that they begin with, have the sizes of the sequence."""
    for loop in operations(module):
        if loop.name != "torch.prim.Loop":
            continue
        source = _sequence(loop)
        if source is None:
            continue
        with module.context, loop.location:
            if _is_free(loop.operands[0]):
                loop.operands[0] = _size(source, 0, loop)
            for start in list(loop.operands)[2:]:
                _size_zeros(start, source)


def _sequence(loop: ir.Operation) -> ir.Value | None:
    """The tensor of which a loop takes a slice in each step."""
    block = loop.regions[0].blocks[0]
    for op in block.operations:
        if op.operation.name == "torch.aten.select.int" and op.operands[2] == block.arguments[0]:
            return op.operands[0]
    return None


def _size_zeros(start: ir.Value, source: ir.Value) -> None:
    """Give the free sizes of the zeros that a value is made of to the sizes of the same dimensions of `source`."""
    made = _owner(start)
    while made is not None and made.name == "torch.aten.select.int":
        made = _owner(made.operands[0])
    if made is None or made.name != "torch.aten.zeros":
        return
    sizes = made.operands[0].owner
    for n, size in enumerate(sizes.operands):
        if _is_free(size):
            sizes.operands[n] = _size(source, n, sizes)


def _size(source: ir.Value, dim: int, before: ir.Operation) -> ir.Value:
    with ir.InsertionPoint(before):
        return create("torch.aten.size.int", ir.Type.parse("!torch.int"), source, torch_constant(dim))


def _is_free(value: ir.Value) -> bool:
    return torch_integer(value) == -1


def _owner(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner
