"""drop-unused-results: a linalg.generic stops computing what nobody reads, like the positions a maximum comes with."""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg


def drop_unused_results(module: ir.Operation) -> None:
    """Let linalg.generic operations stop computing results that nobody reads."""
    with module.context, ir.Location.unknown():
        for generic in linalg.operations(module, "linalg.generic"):
            kept = [n for n in range(len(generic.results)) if not _dead(generic, n)]
            if 0 < len(kept) < len(generic.results):
                _keep(generic, kept)


def _dead(generic: ir.Operation, number: int) -> bool:
    """Whether neither the users of `generic` nor its other results depend on a result."""
    if not linalg.is_unused(generic.results[number]):
        return False
    terminator = list(linalg.body(generic).operations)[-1].operation
    waiting = [v for n, v in enumerate(terminator.operands) if n != number]
    argument = linalg.body(generic).arguments[linalg.input_count(generic) + number]
    seen: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value == argument:
            return False
        if value not in seen and not isinstance(value.owner, ir.Block):
            seen.add(value)
            waiting += value.owner.operands
    return True


def _keep(generic: ir.Operation, kept: list[int]) -> None:
    inputs = linalg.input_count(generic)
    operands = [*range(inputs), *(inputs + n for n in kept)]
    maps, old = linalg.indexing_maps(generic), linalg.body(generic)
    types = [old.arguments[n].type for n in operands]
    results = [generic.results[n].type for n in kept]
    new, block = linalg.generic_like(
        generic, [generic.operands[n] for n in operands], [maps[n] for n in operands], types, results
    )
    values = {old.arguments[n]: block.arguments[position] for position, n in enumerate(operands)}
    yielded = linalg.copy_body(old, ir.InsertionPoint(block), values)
    with ir.InsertionPoint(block), generic.location:
        ir.Operation.create("linalg.yield", operands=[yielded[n] for n in kept])
    dead = [op.operation for op in block.operations][:-1]
    for op in reversed(dead):
        if all(linalg.is_unused(r) for r in op.results):
            op.erase()
    for position, n in enumerate(kept):
        generic.results[n].replace_all_uses_with(new.results[position])
    generic.erase()
