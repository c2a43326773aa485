"""own-accumulators: a tensor that several contractions start from is computed for each of them.

Equal fills are one operation after common subexpression elimination. Each contraction computes its initial accumulators
inside its kernel; a shared tensor would be written to memory and copied instead.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import walk


def own_accumulators(module: ir.Operation) -> None:
    """Clone, in place, what fills the accumulators of reductions where it has other uses."""
    with module.context:
        for generic in walk.operations(module, "linalg.generic"):
            for number in range(walk.input_count(generic), len(generic.operands)):
                source = generic.operands[number].owner
                if isinstance(source, ir.Block) or "reduction" not in walk.iterator_types(generic):
                    continue
                if source.name != "linalg.generic" or walk.uses(source.results[0]) == 1 or len(source.results) > 1:
                    continue
                if "reduction" not in walk.iterator_types(source):
                    generic.operands[number] = source.clone(ir.InsertionPoint(generic)).results[0]
