"""The known facts of the memory of operands, for which the functions that pack them have fewer ways to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.setting import STRIDED, Adjacency
from numc.passes.plan.contraction import Found, Operand
from numc.passes.plan.plan import BUILT, PADDED_PLANE
from numc.passes.plan.region import Region


def with_adjacency(regions: Sequence[Region]) -> list[Region]:
    """The regions; what is known of the operands that a kernel packs is told to it.

    Regions whose kernels are equal otherwise keep one kernel: tasks that call it may be equal, too.
    """
    groups: dict[Kernel, list[Region]] = {}
    for region in regions:
        groups.setdefault(region.kernel, []).append(region)
    told = {
        kernel: replace(
            kernel,
            rows=replace(kernel.rows, adjacency=_common(kernel, map(_of_rows, group))),
            lanes=replace(kernel.lanes, adjacency=_common(kernel, map(_of_lanes, group))),
        )
        for kernel, group in groups.items()
    }
    return [replace(region, kernel=told[region.kernel]) for region in regions]


def _common(kernel: Kernel, each: Iterable[Adjacency | None]) -> Adjacency:
    """The order that all of them have; None is one that nothing packs."""
    adjacencies = {order for order in each if order is not None}
    if len(adjacencies) != 1:
        return Adjacency.UNKNOWN
    (order,) = adjacencies
    # Four elements are read as fast alone as out of four vectors.
    return Adjacency.NONE if order.stride > 2 and kernel.tile.width == 4 else order


def _of_rows(region: Region) -> Adjacency | None:
    found = region.found
    return None if region.plan.packing.rows in BUILT else adjacency(found, found.rows, found.shape.k)


def _of_lanes(region: Region) -> Adjacency | None:
    found, how = region.found, region.plan.packing.lanes
    return None if how in (*BUILT, PADDED_PLANE) else adjacency(found, found.lanes, found.shape.lanes)


def adjacency(found: Found, operand: Operand, dims: Sequence[int]) -> Adjacency:
    """Which elements of an operand along some dimensions of a contraction are adjacent in memory."""
    strides = [(operand.stride(d), found.sizes.get(d)) for d in dims if found.sizes.get(d) != 1]
    next_one: int | None = 1  # the stride of a dimension within which the elements seen so far are adjacent
    for stride, size in reversed(strides):
        if next_one is None or stride != next_one:
            break
        next_one = None if size is None else stride * size
    else:
        return Adjacency.ALL
    # A size of one that a run brings would leave another stride: none may be that of every other element.
    if any(stride in (None, 1, 2) for stride, _ in strides):
        return Adjacency.UNKNOWN
    return STRIDED.get(strides[-1][0] or 0, Adjacency.NONE)
