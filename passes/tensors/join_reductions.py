"""join-reductions: a reduction that reads what another one reads becomes one with it, so that it is read once.

The mean of a normalization is summed in float32, that of its variance in float64; its gradient is summed alone, and
multiplied by the normalized input. Each sum keeps its own order and its own roundings, so no bit changes.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import varies


def join_reductions(module: ir.Operation) -> None:
    """Make reductions one loop with several results where one reads all that another one reads, alike."""
    with module.context, ir.Location.unknown():
        groups: dict[tuple[object, ...], list[ir.Operation]] = {}
        for generic in list(linalg.operations(module, "linalg.generic")):
            if not linalg.reduces(generic) or any(
                op.name in ("numc.fma", "linalg.index") or varies(op) for op in linalg.operations(generic)
            ):
                continue
            output = linalg.indexing_maps(generic)[linalg.input_count(generic)]
            key = (generic.block, output, *linalg.iterator_types(generic))
            before = groups.setdefault(key, [])
            joined = None
            for n, first in enumerate(before):
                joined = _joined(first, generic)
                if joined is not None:
                    before[n] = joined
                    break
            if joined is None:
                before.append(generic)


def _joined(first: ir.Operation, second: ir.Operation) -> ir.Operation | None:
    """One generic that does both, where `first` is or where `second` is; None if there is no such place."""
    first_reads, second_reads = _reads(first), _reads(second)
    if second_reads.keys() <= first_reads.keys() and len(second.results) == 1 and _starts_anywhere(second):
        inputs = linalg.input_count(second)
        outside: dict[ir.Value, ir.Value] = {}  # copies of what `second` uses, where `first` is
        fill = second.operands[inputs].owner.operation
        for op in [*(v.owner.operation for v in fill.operands), fill, *linalg.captured(second)[0]]:
            linalg.copy(op, ir.InsertionPoint(first), outside)
        return _with(first, second, [outside[second.operands[inputs]]], outside)
    later = (use.owner.operation for result in first.results for use in result.uses)
    if first_reads and first_reads.keys() <= second_reads.keys() and all(_is_after(second, user) for user in later):
        return _with(second, first, list(first.operands)[linalg.input_count(first) :], {})
    return None


def _reads(generic: ir.Operation) -> dict[tuple[ir.Value, ir.AffineMap], int]:
    """The operands that a reduction reads, each with its map, and their numbers."""
    inputs = list(generic.operands)[: linalg.input_count(generic)]
    return {pair: n for n, pair in enumerate(zip(inputs, linalg.indexing_maps(generic), strict=False))}


def _is_after(op: ir.Operation, user: ir.Operation) -> bool:
    return bool(user.block == op.block and op.is_before_in_block(user))


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


def _with(
    base: ir.Operation, guest: ir.Operation, starts: list[ir.Value], outside: dict[ir.Value, ir.Value]
) -> ir.Operation:
    """One generic in the place of `base` that does what `guest` does, too; returns it.

    starts: what the results of `guest` start from there. outside: copies of what else it uses.
    """
    inputs, maps = linalg.input_count(base), linalg.indexing_maps(base)
    old, body = linalg.body(base), linalg.body(guest)
    read, count = _reads(base), linalg.input_count(guest)
    new, block = linalg.generic_like(
        base,
        [*base.operands, *starts],
        [*maps, *[maps[inputs]] * len(starts)],
        [*(a.type for a in old.arguments), *(s.type.element_type for s in starts)],
        [*(r.type for r in base.results), *(r.type for r in guest.results)],
    )
    new_arguments = list(block.arguments)
    places = [read[pair] for pair in zip(guest.operands, linalg.indexing_maps(guest)[:count], strict=False)]
    arguments = [*(new_arguments[n] for n in places), *new_arguments[len(old.arguments) :]]
    yielded = []
    for each, values in ((old, new_arguments), (body, arguments)):
        yielded += linalg.copy_body(
            each, ir.InsertionPoint(block), outside | dict(zip(each.arguments, values, strict=False))
        )
    with ir.InsertionPoint(block), base.location:
        ir.Operation.create("linalg.yield", operands=yielded)
    if "numc.layer" not in new.attributes and "numc.layer" in guest.attributes:
        new.attributes["numc.layer"] = guest.attributes["numc.layer"]
    own = len(base.results)
    linalg.replace(guest, list(new.results)[own:])
    linalg.replace(base, list(new.results)[:own])
    return new
