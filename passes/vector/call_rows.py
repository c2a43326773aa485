"""call-rows: a chain that is computed by rows becomes calls that note its steps down, and one that computes them.

by-rows (passes/rows/by_rows.py) has put the chain into a region, and the runtime (runtime/src/execution/rows.cpp) runs
it: between ``numc_rows_begin``, or ``numc_batches_begin``, and ``numc_rows_end`` no step is computed, and buffers are
addresses without memory.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.parsed import parsed

ROWS = "numc.rows"
"""On the region of a chain: the numbers of its contractions. On a linalg.generic in it: how many of its first
dimensions are rows."""
BATCHES = "numc.batches"
"""On the region of a chain whose rows are the batches of its contractions."""
BEGIN, BATCHES_BEGIN, END = "numc_rows_begin", "numc_batches_begin", "numc_rows_end"


def is_chain(op: ir.Operation) -> bool:
    """Whether an operation is the region of a chain that is computed by rows."""
    return op.name == "scf.execute_region" and ROWS in op.attributes


def call_rows(module: ir.Operation) -> None:
    """Let the runtime compute the chains of by-rows, some rows of all steps after the other."""
    chains = [op for op in linalg.operations(linalg.main(module), "scf.execute_region") if is_chain(op)]
    if not chains:
        return
    with module.context, ir.Location.unknown():
        first = ir.InsertionPoint(module.regions[0].blocks[0])
        for name in (BEGIN, BATCHES_BEGIN, END):
            first.insert(parsed(f"llvm.func @{name}()").body.operations[0].operation.clone())
        for chain in chains:
            with ir.InsertionPoint(chain), chain.location:
                _call(BATCHES_BEGIN if BATCHES in chain.attributes else BEGIN)
                end = _call(END)
            *steps, _ = [op.operation for op in chain.regions[0].blocks[0].operations]
            for op in steps:
                op.move_before(end)
            chain.erase()


def _call(name: str) -> ir.Operation:
    callee = {"callee": ir.FlatSymbolRefAttr.get(name), "op_bundle_sizes": ir.DenseI32ArrayAttr.get([])}
    sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
    return ir.Operation.create("llvm.call", attributes={**callee, **sizes})
