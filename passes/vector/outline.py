"""outline: every linalg operation on memrefs becomes a function of its own, shared by equal ones.

LLVM's time grows faster than the size of a function, and main passes expanded memref descriptors around: with the loops
in small functions, main needs no optimisation, and the functions can be compiled in parallel.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import func

from numc.passes import facts, linalg


def outline(module: ir.Operation) -> None:
    """Put every linalg operation on memrefs into a function of its own, ``@region_N``, shared by equal ones."""
    with module.context, ir.Location.unknown():
        block = module.regions[0].blocks[0]
        known: dict[str, str] = {}
        for op in [
            op for op in linalg.operations(module) if op.name.startswith("linalg.") and op.regions and not op.results
        ]:
            facts.drop(op, "numc.layer")  # operations of several layers may be equal
            constants, captured = linalg.captured(op)
            arguments = list(dict.fromkeys([*op.operands, *captured]))
            function = _function(block, op, arguments, constants)
            text = function.get_asm(assume_verified=True, use_local_scope=True)
            if text in known:
                function.erase()
            else:
                known[text] = f"region_{len(known)}"
                function.attributes["sym_name"] = ir.StringAttr.get(known[text])
            with ir.InsertionPoint(op), op.location:
                ir.Operation.create(
                    "func.call", operands=arguments, attributes={"callee": ir.FlatSymbolRefAttr.get(known[text])}
                )
            op.erase()


def _function(
    block: ir.Block, op: ir.Operation, arguments: list[ir.Value], constants: list[ir.Operation]
) -> ir.Operation:
    with ir.InsertionPoint(block):
        function = func.FuncOp("region", ([a.type for a in arguments], []), visibility="private")
        entry = function.add_entry_block()
        with ir.InsertionPoint(entry):
            inner_constants = [constant.clone() for constant in constants]
            clone = op.clone()
            func.ReturnOp([])
    new = dict(zip(arguments, entry.arguments, strict=True))
    new.update(
        {old.results[0]: fresh.operation.results[0] for old, fresh in zip(constants, inner_constants, strict=True)}
    )
    for inner in linalg.operations(clone.operation):
        for n, value in enumerate(inner.operands):
            if value in new:
                inner.operands[n] = new[value]
    return function.operation
