"""fold-constants: what depends on weights alone is computed when the program is written.

The scale of a batch normalization, for example. The pass moves such operations into a module of their own, which the
compiler builds by the same passes and runs: the same code, so the same bits. Contractions stay: verify watches them.
Stochastic roundings stay, as each execution draws anew.
"""

from __future__ import annotations

from itertools import count

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.dialect import varies
from numc.passes.parsed import parsed

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice")
_COMPUTING = ("linalg.generic", "tensor.insert_slice", "tensor.concat")
_HELPERS = ("arith.constant", "tensor.empty")


def fold_constants(module: ir.Operation) -> None:
    """Move operations that depend on weights alone to the time when a program is written.

    The module's `numc.constants` are the text of a module that computes them, its lines, and the numbers of the
    arguments of the model's @main that its @main takes. Its results are new arguments of the model's @main: weights,
    whose `numc.folded` is the number of the result.
    """
    weights = facts.of_arguments(module, "numc.weight")
    if not weights:
        return
    main = linalg.main(module)
    block = main.regions[0].blocks[0]
    views: set[ir.Value] = {block.arguments[n] for n in weights}
    computed: dict[ir.Value, ir.Operation] = {}
    helping: set[ir.Value] = set()
    for op in [op.operation for op in block.operations]:
        values = [*op.operands, *linalg.captured(op)[1]]
        if _helps(op) and all(v in helping for v in values):
            helping.update(op.results)
            continue
        known = [v for v in values if v in views or v in computed]
        if not known or not all(v in views or v in computed or v in helping for v in values):
            continue
        if not all(_is_static(r) for r in op.results) or sum(map(_elements, op.results)) > sum(map(_elements, known)):
            continue  # a broadcast would make the program larger
        if op.name in _VIEWS:
            if all(v in views for v in known):
                views.update(op.results)
            else:
                computed.update(dict.fromkeys(op.results, op))
        elif op.name in _COMPUTING and not (op.name == "linalg.generic" and linalg.contracts(op)) and not _varies(op):
            computed.update(dict.fromkeys(op.results, op))
    moved = set(computed.values())
    leaving = [
        v for v in computed if _is_weight(v) and any(_in_block(u.owner.operation, block) not in moved for u in v.uses)
    ]
    if not leaving:
        return
    with module.context, ir.Location.unknown():
        prologue, arguments = _prologue(block, leaving)
        first = len(block.arguments)
        for value in leaving:
            value.replace_all_uses_with(block.add_argument(value.type, ir.Location.unknown()))
        for op in reversed([op.operation for op in block.operations]):
            if op in moved and all(linalg.is_unused(r) for r in op.results):
                op.erase()
        linalg.retype(main)
    facts.put(module, "numc.constants", {"arguments": list(arguments), "module": str(prologue).splitlines()})
    taken = set(weights.values())
    names = (name for name in map("folded_{}".format, count()) if name not in taken)
    results = range(first, len(block.arguments))
    facts.put_arguments(module, "numc.weight", weights | dict(zip(results, names, strict=False)))
    facts.put_arguments(module, "numc.folded", {argument: number for number, argument in enumerate(results)})


def _varies(op: ir.Operation) -> bool:
    return any(map(varies, linalg.operations(op)))


def _helps(op: ir.Operation) -> bool:
    """Whether an operation is a constant or a room, or is computed of nothing but such, a fill for example."""
    return op.name in _HELPERS or (op.name == "linalg.generic" and not linalg.contracts(op))


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape


def _is_weight(value: ir.Value) -> bool:
    """Whether a tensor is of a type that weights can have; others are only on the way to these."""
    return str(ir.RankedTensorType(value.type).element_type) in ("f32", "i32")


def _elements(value: ir.Value) -> int:
    count = 1
    for size in ir.RankedTensorType(value.type).shape:
        count *= size
    return count


def _in_block(op: ir.Operation, block: ir.Block) -> ir.Operation:
    while op.block != block:
        op = op.parent.operation
    return op


def _prologue(block: ir.Block, results: list[ir.Value]) -> tuple[ir.Module, tuple[int, ...]]:
    """A module that computes `results`, and the arguments of `block` that its ``@main`` takes."""
    needed: set[ir.Operation] = set()
    taken: set[int] = set()
    waiting = list(results)
    while waiting:
        value = waiting.pop()
        if isinstance(value.owner, ir.Block):
            taken.add(ir.BlockArgument(value).arg_number)
        elif value.owner.operation not in needed:
            op = value.owner.operation
            needed.add(op)
            constants, values = linalg.captured(op)
            waiting += [*op.operands, *values, *(c.results[0] for c in constants)]
    arguments = tuple(sorted(taken))
    kinds = ", ".join(f"%a{n}: {block.arguments[n].type}" for n in arguments)
    made = ", ".join(str(v.type) for v in results)
    text = f"func.func @main({kinds}) -> ({made}) {{\n"
    text += "".join(f"  %r{n} = tensor.empty() : {v.type}\n" for n, v in enumerate(results))
    text += f"  return {', '.join(f'%r{n}' for n in range(len(results)))} : {made}\n}}"
    module = parsed(text, block.owner.context)
    entry = module.body.operations[0].regions[0].blocks[0]
    placeholders = [op.operation for op in entry.operations]
    copies = {block.arguments[n]: entry.arguments[position] for position, n in enumerate(arguments)}
    at = ir.InsertionPoint(placeholders[0])
    for op in [op.operation for op in block.operations]:
        if op in needed:
            linalg.copy(op, at, copies)
    for value, placeholder in zip(results, placeholders[:-1], strict=True):
        linalg.replace(placeholder, [copies[value]])
    return module, arguments
