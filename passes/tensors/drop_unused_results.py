"""drop-unused-results: a linalg.generic stops computing what nobody reads, like the positions a maximum comes with.

What fills a tensor that another linalg.generic then writes as a whole is left out, too.
"""

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
        for generic in linalg.operations(module, "linalg.generic"):
            if len(generic.results) == 1 and linalg.fills_with(generic) is not None:
                _leave_out(generic)


def _leave_out(fill: ir.Operation) -> None:
    """Leave out what fills a tensor if whoever uses that writes every element of it and reads none."""
    uses = list(fill.results[0].uses)
    if all(_writes_all(use.owner.operation, use.operand_number) for use in uses):
        fill.results[0].replace_all_uses_with(fill.operands[len(fill.operands) - 1])
        fill.erase()


def _writes_all(op: ir.Operation, number: int) -> bool:
    """Whether an operation is a linalg.generic that writes every element of this operand without reading it."""
    if op.name != "linalg.generic" or number < linalg.input_count(op):
        return False
    return bool(linalg.indexing_maps(op)[number].is_permutation) and linalg.is_unused(linalg.body(op).arguments[number])


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
    values = {old.arguments[n]: block.arguments[place] for place, n in enumerate(operands)}
    yielded = linalg.copy_body(old, ir.InsertionPoint(block), values)
    with ir.InsertionPoint(block), generic.location:
        ir.Operation.create("linalg.yield", operands=[yielded[n] for n in kept])
    dead = [op.operation for op in block.operations][:-1]
    for op in reversed(dead):
        if all(linalg.is_unused(r) for r in op.results):
            op.erase()
    for place, n in enumerate(kept):
        generic.results[n].replace_all_uses_with(new.results[place])
    generic.erase()
