"""A part of a module as LLVM gets it: every function is internal, and those that other parts call have an alias.

MLIR's execution engine writes a wrapper for every visible function, but none for an alias.
"""

from __future__ import annotations

from collections.abc import Collection

from torch_mlir import ir

from numc.passes.kernels.backend.partition import operations

# The entry runs once, and LLVM's time grows faster than its size: a large one is not optimised, and its blocks are cut.
# Instruction selection and register allocation take half the time for blocks of at most so many operations.
_LARGE_ENTRY = 1000
_LARGE_BLOCK = 1000
_UNOPTIMISED = '["noinline", "optnone"]'


def link(part: ir.Module, exported: Collection[str], entry: str) -> tuple[tuple[str, ...], bool]:
    """Make all but the functions `exported` of a part in the llvm dialect invisible from outside, in place.

    Return the names of the functions that it needs from others, and whether LLVM should optimise it: not if it has the
    function `entry`, and that is large.
    """
    needed, is_large = [], False
    with part.context, ir.Location.unknown():
        for op in [op.operation for op in part.body.operations]:
            is_function = op.name == "llvm.func"
            name = str(ir.StringAttr(op.attributes["sym_name"]).value)
            if is_function and not op.regions[0].blocks:
                _only_declared(op)
                needed.append(name)
                continue
            if name == entry and len(operations(op)) > _LARGE_ENTRY:
                is_large = True
                _unoptimised(op)
            if name in exported:
                _visible(op, name)
            _with_linkage(op, "internal")
    return tuple(needed), not is_large


def _visible(op: ir.Operation, name: str) -> None:
    """Give a function another name, and an alias that has its own."""
    attributes = {"sym_name": op.attributes["sym_name"], "alias_type": op.attributes["function_type"]}
    op.attributes["sym_name"] = ir.StringAttr.get(f"{name}.body")
    with ir.InsertionPoint(op):
        alias = _with_linkage(ir.Operation.create("llvm.mlir.alias", attributes=attributes, regions=1), "external")
    with ir.InsertionPoint(alias.regions[0].blocks.append()):
        target = {"global_name": ir.FlatSymbolRefAttr.get(f"{name}.body")}
        address = ir.Operation.create("llvm.mlir.addressof", results=[ir.Type.parse("!llvm.ptr")], attributes=target)
        ir.Operation.create("llvm.return", operands=[address.result])


def _with_linkage(op: ir.Operation, linkage: str) -> ir.Operation:
    op.attributes["linkage"] = ir.Attribute.parse(f"#llvm.linkage<{linkage}>")
    return op


def _only_declared(op: ir.Operation) -> None:
    for name in ("passthrough", "sym_visibility"):
        if name in op.attributes:
            del op.attributes[name]
    _with_linkage(op, "external")


def _unoptimised(function: ir.Operation) -> None:
    """No passes over the IR, and the cheap ones of the code generator."""
    function.attributes["passthrough"] = ir.Attribute.parse(_UNOPTIMISED)
    for block in list(function.regions[0].blocks):
        _cut(block)


def _cut(block: ir.Block) -> None:
    """Cut a block into several, each of which jumps to the next."""
    operations = [op.operation for op in block.operations]
    following = None
    for first in reversed(range(0, len(operations), _LARGE_BLOCK)):
        piece = block
        if first:  # what stays is the first piece
            piece = block.create_after()
            for op in operations[first : first + _LARGE_BLOCK]:
                piece.append(op)
        if following is not None:
            with ir.InsertionPoint(piece):
                ir.Operation.create("llvm.br", successors=[following])
        following = piece
