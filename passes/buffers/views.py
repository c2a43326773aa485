"""Which memory a memref is in: views of buffers, and what may be one of several."""

from __future__ import annotations

from torch_mlir import ir

VIEWS = ("memref.subview", "memref.cast", "memref.expand_shape", "memref.collapse_shape", "memref.reinterpret_cast")


def descriptor_type(kind: ir.Type) -> str:
    """The type that the descriptor of a memref has in the LLVM dialect."""
    rank = ir.MemRefType(kind).rank
    arrays = f", array<{rank} x i64>, array<{rank} x i64>" if rank else ""
    return f"!llvm.struct<(ptr, ptr, i64{arrays})>"


def root(value: ir.Value) -> ir.Value:
    """The buffer that `value` is a view of."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def buffers(value: ir.Value) -> set[ir.Value]:
    """All buffers that `value` may be in: what an operation makes of buffers may be any of them, or a new one."""
    aliases, waiting = {value}, [value]
    while waiting:
        maker = waiting.pop().owner
        if isinstance(maker, ir.Block):
            continue
        results = [end.operands for region in maker.regions for block in region for end in list(block.operations)[-1:]]
        for source in (*maker.operands, *(v for operands in results for v in operands)):
            if isinstance(source.type, ir.MemRefType) and source not in aliases:
                aliases.add(source)
                waiting.append(source)
    return aliases
