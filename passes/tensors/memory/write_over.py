"""write-over: a sum with a contraction, as of a residual, takes the memory of an addend that nobody reads later.

The lines of the addend are in the cache when the results are written. Other memory would be fetched only to be
overwritten, and the peak would be higher.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg


def write_over(module: ir.Operation) -> None:
    """Let elementwise operations on the result of a contraction write where an operand of theirs is read last."""
    for block in {generic.block for generic in linalg.operations(module, "linalg.generic")}:
        places = {op.operation: n for n, op in enumerate(block.operations)}
        for op in places:
            if op.name == "linalg.generic" and len(op.results) == 1 and not linalg.reduces(op):
                _write_over(op, places)


def _write_over(generic: ir.Operation, places: dict[ir.Operation, int]) -> None:
    count, maps = linalg.input_count(generic), linalg.indexing_maps(generic)
    inputs = list(generic.operands)[:count]
    destination = linalg.maker(generic.operands[count])
    contraction = _last_contraction(inputs, places)
    # Its kernel will do this operation, too.
    if contraction is None or destination is None or destination.name != "tensor.empty":
        return
    for value, map_ in zip(inputs, maps, strict=False):
        same = map_ == maps[count] and map_.is_permutation and value.type == generic.results[0].type
        if same and value != contraction.results[0] and _is_free(value, generic, contraction, places):
            generic.operands[count] = value
            return


def _last_contraction(inputs: list[ir.Value], places: dict[ir.Operation, int]) -> ir.Operation | None:
    """The last of the contractions that make `inputs`."""
    makers = [maker for value in inputs if (maker := linalg.maker(value)) is not None and maker in places]
    contractions = [maker for maker in makers if maker.name == "linalg.generic" and linalg.contracts(maker)]
    return max(contractions, key=places.__getitem__, default=None)


def _is_free(value: ir.Value, reader: ir.Operation, contraction: ir.Operation, places: dict[ir.Operation, int]) -> bool:
    """Whether `value` has memory of its own, the contraction does not read it, and `reader` is its last reader."""
    maker = linalg.maker(value)
    if maker is None or maker.name != "linalg.generic":
        return False
    waiting = [value]
    while waiting:
        for use in waiting.pop().uses:
            user = use.owner.operation
            if user == contraction or places.get(user, len(places)) > places[reader]:
                return False
            if not user.name.startswith("linalg."):  # what it returns may be a view of the value
                waiting += user.results
    return True
