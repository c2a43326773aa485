"""scalar-loops: loops in whose bodies values spread along very many paths are kept from LLVM's vectoriser.

It asks of every value whether all of its users need one lane only, follows their users, and remembers no answer: its
time is the number of paths. A rounding to a narrow float reads its argument several times, so that six of them in a row
have more paths than minutes can follow. Loops in lanes (parallel_loops.py) are vectors already, and have no such time.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.facts import KERNEL

MOST_PATHS = 100_000
"""The number of paths from a value to the ends of a loop's body that LLVM gets through in a fraction of a second."""
_FEW = 32  # operations have no more paths than 2^32, and hardly any loop has so many without many operations
_ON_LOOPS, _ON_BRANCHES = "llvm.loop_annotation", "loop_annotation"
_MARKED = "numc.scalar_loops"  # on a module that has such loops
_SCALAR = "#llvm.loop_annotation<vectorize = <disable = true>>"


def scalar_loops(module: ir.Operation) -> None:
    """Keep loops of scalars in whose bodies values have very many paths from LLVM's vectoriser."""
    for function in module.regions[0].blocks[0].operations:
        if KERNEL in function.operation.attributes:  # whose loops are of vectors
            continue
        for loop in linalg.operations(function.operation, "scf.for"):
            body = _scalars(loop)
            if len(body) > _FEW and _paths(body) > MOST_PATHS:
                loop.attributes[_ON_LOOPS] = ir.Attribute.parse(_SCALAR, module.context)
                module.attributes[_MARKED] = ir.UnitAttr.get(module.context)


def annotate_branches(module: ir.Operation) -> None:
    """Give branches of LLVM the annotations of the loops that they were: MLIR carries these by a name of its own."""
    if _MARKED not in module.attributes:  # most modules: nothing to look for
        return
    del module.attributes[_MARKED]
    for branch in linalg.operations(module, "llvm.br"):
        if _ON_LOOPS in branch.attributes:
            branch.attributes[_ON_BRANCHES] = branch.attributes[_ON_LOOPS]
            del branch.attributes[_ON_LOOPS]


def _scalars(loop: ir.Operation) -> list[ir.Operation]:
    """The operations of an innermost loop of scalars; none of any other, which LLVM does not make vectors of."""
    for op in loop.regions[0].blocks[0].operations:
        if op.name == "scf.for" or any(isinstance(result.type, ir.VectorType) for result in op.results):
            return []
    body = [op for op in linalg.operations(loop) if op != loop]
    return [] if any(op.name == "scf.for" for op in body) else body


def _paths(body: list[ir.Operation]) -> int:
    """The largest number of paths from a result of a body to the end of it."""
    paths: dict[ir.Value, int] = {}
    for op in reversed(body):  # users come after what they read, those inside of a user included
        for result in op.results:
            users = [use.owner for use in result.uses]
            paths[result] = sum(max((paths.get(each, 1) for each in user.results), default=1) for user in users)
    return max(paths.values(), default=0)
