"""The launches of a contraction: its operands are packed, and tiles of accumulators are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import triton.language as tl

from numc.support.errors import NumcError

_DEEP = 32
"""The steps of k that a program instance packs."""
_LARGEST = 0x7FFFFFFF
_NARROW = 64
_MOST_BATCHES = 65535  # of the second dimension of a grid

Kernel = tuple[Any, Sequence[Any]]
"""A kernel, and its own arguments."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The groups of an operand.

    kernel: what finds `planes` numbers of every group. steps: how many share a scale, or 0 for all. largest: the
    largest magnitude of the tensor (a tensor of one int32), if that is asked for. width, random: the word of an open
    width, and the stream of random bits, if there are any.
    """

    kernel: Kernel
    steps: int
    planes: int
    largest: torch.Tensor | None = None
    width: int | None = None
    random: int | None = None


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One operand: the kernel that packs it, whether it is the same for all batches, and the parts of its values."""

    kernel: Kernel
    shared: bool
    parts: int
    groups: Groups | None = None


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """The operands of a contraction, and the kernel of its tiles.

    sizes: of batches, rows, lanes and k. block: how many products are taken together. run: how many steps are summed
    apart, or 0. deep: how many steps are in shared memory at a time. tile: the most rows and lanes of a tile.
    random: the stream of random bits, of steps that draw.
    """

    rows: Operand
    lanes: Operand
    product: Kernel
    sizes: tuple[int, int, int, int]
    block: int
    run: int
    deep: int
    tile: tuple[int, int]
    random: int | None = None


class Launches(Protocol):
    """An execution that launches kernels on a device."""

    device: torch.device

    def call(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        """Launch a kernel."""


@dataclass(frozen=True)
class _Packed:
    """An operand in panels, the extremes of these, and the numbers of its groups: how far planes and batches are."""

    memory: torch.Tensor
    ranges: torch.Tensor
    pitch: int
    batch: int
    range_batch: int
    scales: torch.Tensor
    plane: int
    scale_batch: int


def contract(c: Contraction, run: Launches, places: Any) -> None:
    """Compute a contraction into its output, which holds the initial accumulators. places: the type of places."""
    batches, rows, lanes, depth = c.sizes
    if 0 in (batches, rows, lanes):
        return
    if batches > _MOST_BATCHES:
        raise NumcError(f"a contraction has {batches} batches: a GPU takes up to {_MOST_BATCHES} at once")
    warp = _warp_size(run.device)
    most, widest = c.tile
    height = min(most, max(16, 1 << (rows - 1).bit_length()))
    tiles = -(-rows // height)
    width = min(widest, _NARROW)
    if lanes > width and batches * tiles * -(-lanes // widest) >= _processors(run.device):
        width = widest  # there is a wide tile for every processor
    padded = -(-depth // c.block) * c.block
    a, b = (
        _pack(operand, batches=1 if operand.shared else batches, size=size, side=side, depths=(depth, padded), run=run,
              places=places)
        for operand, size, side in ((c.rows, rows, height), (c.lanes, lanes, width))
    )  # fmt: skip
    kernel, arguments = c.product
    grid = (tiles * -(-lanes // width), batches)
    growth = max((c.run or depth) - 1, 0).bit_length() + 2
    if max(a.memory.numel(), b.memory.numel()) >= 2**31:
        places = tl.int64
    told = [rows, lanes, tiles, padded, c.run, growth, a.pitch, b.pitch, a.batch, b.batch, a.range_batch, b.range_batch]
    if c.rows.groups is not None or c.lanes.groups is not None:
        told += [a.scales, b.scales, a.plane, b.plane, a.scale_batch, b.scale_batch]
    if c.random is not None:
        told.append(c.random)
    constants = {"I": places, "ROWS": height, "LANES": width, "DEEP": c.deep, "WARP": warp}
    run.call(kernel, grid, (a.memory, b.memory, a.ranges, b.ranges, *arguments, *told), constants)


def _pack(
    operand: Operand, *, batches: int, size: int, side: int, depths: tuple[int, int], run: Launches, places: Any
) -> _Packed:
    (kernel, arguments), (depth, padded), device = operand.kernel, depths, run.device
    panels, parts, groups = -(-size // side), operand.parts, operand.groups
    pitch = panels * side
    memory = torch.empty((batches, parts, padded, pitch), dtype=torch.float32, device=device)
    if memory.numel() >= 2**31:
        places = tl.int64
    ranges = torch.full((batches * panels, 2), _LARGEST, dtype=torch.int32, device=device)
    ranges[:, 1] = 0
    constants = {"I": places, "SIDE": side, "DEEP": _DEEP, "WARP": _warp_size(device)}
    scales, inner = ranges, ()
    steps = count = planes = 0
    if groups is not None:
        steps = groups.steps or max(depth, 1)
        count, planes = max(-(-depth // steps), 1), groups.planes
        scales = torch.empty((batches, planes, count, pitch), dtype=torch.float32, device=device)
        asked = tuple(x for x in (groups.largest, groups.width) if x is not None)
        find, own = groups.kernel
        told = (scales, ranges, *asked, *own, size, panels, depth, count, steps, pitch)
        run.call(find, (panels * count, batches), told, constants)
        inner = (scales, count, steps, *(x for x in (groups.width, groups.random) if x is not None))
    if padded:
        told = (memory, ranges, *inner, *arguments, size, panels, depth, padded, pitch)
        run.call(kernel, (panels * -(-padded // _DEEP), batches), told, constants)
    whole = 0 if batches == 1 else 1
    return _Packed(
        memory=memory,
        ranges=ranges,
        pitch=pitch,
        batch=whole * parts * padded * pitch,
        range_batch=whole * 2 * panels,
        scales=scales,
        plane=count * pitch,
        scale_batch=whole * planes * count * pitch,
    )


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _warp_size(device: torch.device) -> int:
    if device.type != "cuda":
        return 32
    from triton.runtime import driver

    return int(driver.active.get_current_target().warp_size)
