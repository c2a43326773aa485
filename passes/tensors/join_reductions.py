"""join-reductions: reductions of the same operands become one, which reads them once.

The mean of a normalization is summed in float32, that of its variance in float64. Each sum keeps its own order and its
own roundings, so no bit changes.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import varies


def join_reductions(module: ir.Operation) -> None:
    """Make reductions that read the same operands alike one loop with several results."""
    with module.context, ir.Location.unknown():
        found: dict[tuple[object, ...], ir.Operation] = {}
        for generic in list(linalg.operations(module, "linalg.generic")):
            if not linalg.reduces(generic) or any(
                op.name in ("numc.fma", "linalg.index") or varies(op) for op in linalg.operations(generic)
            ):
                continue
            inputs = linalg.input_count(generic)
            maps = linalg.indexing_maps(generic)
            kinds = tuple(linalg.iterator_types(generic))
            key = (generic.block, *list(generic.operands)[:inputs], *maps[: inputs + 1], kinds)
            first = found.get(key)
            if first is None or len(generic.results) != 1 or not _starts_anywhere(generic):
                found[key] = generic
            else:
                found[key] = _joined(first, generic)


def _starts_anywhere(generic: ir.Operation) -> bool:
    """Whether `generic` can be moved to where its inputs are: it starts from a number and captures nothing else."""
    maker = linalg.maker(generic.operands[linalg.input_count(generic)])
    if maker is None or maker.name != "linalg.generic" or linalg.input_count(maker) != 1:
        return False
    ends = [op.operation for op in linalg.body(maker).operations]
    fills = len(ends) == 1 and ends[0].operands[0] == linalg.body(maker).arguments[0]
    return fills and all(map(_is_made_of_nothing, maker.operands)) and not linalg.captured(generic)[1]


def _is_made_of_nothing(value: ir.Value) -> bool:
    maker = linalg.maker(value)
    return maker is not None and maker.name in ("arith.constant", "tensor.empty") and not maker.operands


def _joined(first: ir.Operation, second: ir.Operation) -> ir.Operation:
    """One generic in the place of `first` that does both; returns it."""
    inputs = linalg.input_count(first)
    outside: dict[ir.Value, ir.Value] = {}  # copies of what `second` uses, where `first` is
    fill = second.operands[inputs].owner.operation
    for op in [*(v.owner.operation for v in fill.operands), fill, *linalg.captured(second)[0]]:
        linalg.copy(op, ir.InsertionPoint(first), outside)
    start = outside[second.operands[inputs]]
    maps = linalg.indexing_maps(first)
    old = [linalg.body(op) for op in (first, second)]
    new, block = linalg.generic_like(
        first,
        [*first.operands, start],
        [*maps, maps[inputs]],
        [*(a.type for a in old[0].arguments), old[1].arguments[inputs].type],
        [*(r.type for r in first.results), second.results[0].type],
    )
    given = list(block.arguments)
    yielded = []
    for body, arguments in ((old[0], given[:-1]), (old[1], [*given[:inputs], given[-1]])):
        values = {**outside, **dict(zip(body.arguments, arguments, strict=True))}
        yielded += linalg.copy_body(body, ir.InsertionPoint(block), values)
    with ir.InsertionPoint(block), first.location:
        ir.Operation.create("linalg.yield", operands=yielded)
    if "numc.layer" not in new.attributes and "numc.layer" in second.attributes:
        new.attributes["numc.layer"] = second.attributes["numc.layer"]
    linalg.replace(second, list(new.results)[-1:])
    linalg.replace(first, list(new.results)[:-1])
    return new
