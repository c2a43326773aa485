"""update-in-place, return-updated: results that may take the memory of an input are written there, where that is safe.

A training step's optimizer gives every weight and momentum anew: in memory of their own they would be held twice.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg

_RESHAPES = frozenset({"memref.reshape", "memref.expand_shape", "memref.collapse_shape", "memref.cast"})
# What may follow the copies of returned arguments.
_ENDS = frozenset({"memref.alloc", "memref.copy", "memref.dealloc", "func.return"})


def update_in_place(module: ir.Operation) -> None:
    """Let an operation that makes the new value of an argument write into it, if it would write into an empty tensor.

    `numc.updates` of an argument is the number of the result that is its new value. The argument is marked as writable
    (read_only_arguments.py): one-shot-bufferize takes another buffer where somebody still reads the old value.
    """
    updates = facts.of_arguments(module, "numc.updates")
    if not updates:
        return
    main = linalg.main(module).regions[0].blocks[0]
    returned = list(main.operations)[-1].operation.operands
    for number, result in updates.items():
        value, argument = returned[result], main.arguments[number]
        maker = linalg.maker(value)
        if maker is None or maker.name != "linalg.generic" or value.type != argument.type:
            continue
        place = linalg.input_count(maker) + ir.OpResult(value).result_number
        destination = linalg.maker(maker.operands[place])
        if destination is not None and destination.name == "tensor.empty":
            maker.operands[place] = argument


def _whole(value: ir.Value) -> ir.Value:
    """The buffer of which `value` is a reshape, or `value`."""
    maker = linalg.maker(value)
    return _whole(maker.operands[0]) if maker is not None and maker.name in _RESHAPES else value


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
