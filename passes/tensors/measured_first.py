"""measured-first: the contraction that the definition lets measure a gradient is the first of a layer that reads it.

A run chooses the width of a tensor where a contraction reads it first. The gradient of what a layer returns is read by
its dgrad and by its wgrad, whose groups lie along different axes, so that r differs: the dgrad measures it, or the
wgrad of a layer that has no dgrad. Among several of a role, the first of the model does. Later passes do not move a
contraction that may measure past another one.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.explicit.width_slots import measures, slots_of

_ORDER = ("dgrad", "wgrad")


def measured_first(module: ir.Operation) -> None:
    """Move the first dgrad of a layer, and what it is computed from, before the first wgrad, if widths are open."""
    if not slots_of(module):
        return
    ranks = {
        row["layer"]: (_ORDER.index(row["role"]), row["position"])
        for row in reversed(facts.get(module, "numc.layers", []))
        if row["position"] is not None and row["role"] in _ORDER
    }
    readers: dict[tuple[ir.Block, str], list[ir.Operation]] = {}
    for generic in linalg.operations(module, "linalg.generic"):
        if measures(generic) and linalg.name_of(generic) in ranks:
            layer = linalg.name_of(generic).partition("/")[0]
            readers.setdefault((generic.block, layer), []).append(generic)
    for group in readers.values():
        measuring = min(group, key=lambda one: ranks[linalg.name_of(one)])
        if measuring != group[0]:
            _move_before(group[0], measuring)


def _move_before(place: ir.Operation, op: ir.Operation) -> None:
    """Move an operation of the block of `place` before it, with all that it needs; not if it needs `place`."""
    every = [each.operation for each in place.block.operations]
    between = every[every.index(place) : every.index(op) + 1]
    needed: list[ir.Operation] = []
    wanted = {op}
    for each in reversed(between):
        if each in wanted:
            needed.append(each)
            values = [value for inner in linalg.operations(each) for value in inner.operands]
            wanted |= {made for value in values if (made := linalg.maker(value)) is not None}
    if place in wanted:
        return
    for each in reversed(needed):
        each.move_before(place)
