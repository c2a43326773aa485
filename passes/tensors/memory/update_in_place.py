"""update-in-place: results that may take the memory of an input are written there, where that is safe.

A training step's optimizer gives every weight and momentum anew: in memory of their own they would be held twice.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg


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
        index = linalg.input_count(maker) + ir.OpResult(value).result_number
        destination = linalg.maker(maker.operands[index])
        if destination is not None and destination.name == "tensor.empty":
            maker.operands[index] = argument
