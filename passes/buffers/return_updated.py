"""return-updated: @main returns the arguments that hold results (update_in_place.py), and not copies of them."""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg

_RESHAPES = frozenset({"memref.reshape", "memref.expand_shape", "memref.collapse_shape", "memref.cast"})
# What may follow the copies of returned arguments.
_ENDS = frozenset({"memref.alloc", "memref.copy", "memref.dealloc", "func.return"})


def return_updated(module: ir.Operation) -> None:
    """Return the arguments that hold results: after bufferization @main returns copies of them."""
    updates = facts.of_arguments(module, "numc.updates")
    if not updates:
        return
    main = linalg.main(module).regions[0].blocks[0]
    operations = [op.operation for op in main.operations]
    end = operations[-1]
    last = max((n for n, op in enumerate(operations) if op.name not in _ENDS), default=-1)
    for copy in operations[last + 1 :]:
        if copy.name != "memref.copy":
            continue
        source, made = copy.operands
        for number, result in updates.items():
            argument = main.arguments[number]
            if end.operands[result] == made and _whole(source) == argument and source.type == argument.type:
                end.operands[result] = argument
                if [use.owner.operation for use in made.uses] == [copy]:
                    copy.erase()
                    made.owner.erase()
                    break


def _whole(value: ir.Value) -> ir.Value:
    """The buffer of which `value` is a reshape, or `value`."""
    maker = linalg.maker(value)
    return _whole(maker.operands[0]) if maker is not None and maker.name in _RESHAPES else value
