"""The launches of a contraction: its operands are packed, and tiles of accumulators are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import triton.language as tl

from numc.support.errors import NumcError

DEEP = 16
"""How many steps of k are in shared memory at a time, of operators that take one product after the other."""
_MOST_ROWS, _LANES = 128, 64
_MOST_ROWS_OF_BLOCKS, _LANES_OF_BLOCKS = 64, 32
_LARGEST = 0x7FFFFFFF
_MOST_BATCHES = 65535  # of the second dimension of a grid


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """The kernels of a contraction, and what they are given.

    rows, lanes: of each operand the kernel that packs it and its own arguments; product: the same of the kernel of
    tiles. sizes: of batches, rows, lanes and k. shared: whether an operand is the same for all batches. parts: of the
    values of each operand. block: how many products are taken together. run: how many steps are summed apart, or 0.
    deep: how many steps a program instance packs. guarded: whether packing finds the extremes of panels.
    """

    rows: tuple[Any, Sequence[Any]]
    lanes: tuple[Any, Sequence[Any]]
    product: tuple[Any, Sequence[Any]]
    sizes: tuple[int, int, int, int]
    shared: tuple[bool, bool]
    parts: tuple[int, int]
    block: int
    run: int
    deep: int
    guarded: bool


def _deep(c: Contraction) -> int:
    """The steps of k that are in shared memory at a time: a block, or a group."""
    return c.block if c.block > 1 else c.run if c.run == c.deep else DEEP


class Launches(Protocol):
    """An execution that launches kernels on a device."""

    device: torch.device

    def call(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        """Launch a kernel."""


@dataclass(frozen=True)
class _Packed:
    memory: torch.Tensor
    ranges: torch.Tensor
    pitch: int
    batch: int
    range_batch: int


def contract(c: Contraction, run: Launches, places: Any) -> None:
    """Compute a contraction into its output, which holds the initial accumulators. places: the type of places."""
    batches, rows, lanes, depth = c.sizes
    if 0 in (batches, rows, lanes):
        return
    if batches > _MOST_BATCHES:
        raise NumcError(f"a contraction has {batches} batches: a GPU takes up to {_MOST_BATCHES} at once")
    warp = _warp_size(run.device)
    # Of a block, the operands of all its products are in registers.
    most, width = (_MOST_ROWS, _LANES) if c.block == 1 else (_MOST_ROWS_OF_BLOCKS, _LANES_OF_BLOCKS)
    height = min(most, max(16, 1 << (rows - 1).bit_length()))
    padded = -(-depth // c.block) * c.block
    a, b = (
        _pack(packing, batches=1 if shared else batches, size=size, side=side, depths=(depth, padded), parts=parts,
              deep=c.deep, run=run, places=places)
        for packing, size, side, shared, parts in zip(
            (c.rows, c.lanes), (rows, lanes), (height, width), c.shared, c.parts, strict=True
        )
    )  # fmt: skip
    kernel, arguments = c.product
    tiles = -(-rows // height)
    grid = (tiles * -(-lanes // width), batches)
    growth = max((c.run or depth) - 1, 0).bit_length() + 2
    if max(a.memory.numel(), b.memory.numel()) >= 2**31:
        places = tl.int64
    told = (rows, lanes, tiles, padded, c.run, growth, a.pitch, b.pitch, a.batch, b.batch, a.range_batch, b.range_batch)
    constants = {"I": places, "ROWS": height, "LANES": width, "DEEP": _deep(c), "WARP": warp}
    run.call(kernel, grid, (a.memory, b.memory, a.ranges, b.ranges, *arguments, *told), constants)


def _pack(
    packing: tuple[Any, Sequence[Any]],
    *,
    batches: int,
    size: int,
    side: int,
    depths: tuple[int, int],
    parts: int,
    deep: int,
    run: Launches,
    places: Any,
) -> _Packed:
    (kernel, arguments), (depth, padded), device = packing, depths, run.device
    panels = -(-size // side)
    pitch = panels * side
    memory = torch.empty((batches, parts, padded, pitch), dtype=torch.float32, device=device)
    if memory.numel() >= 2**31:
        places = tl.int64
    ranges = torch.tensor([_LARGEST, 0], dtype=torch.int32, device=device).repeat(batches * panels)
    if padded:
        grid = (panels * -(-padded // deep), batches)
        told = (size, panels, depth, padded, pitch)
        constants = {"I": places, "SIDE": side, "DEEP": deep, "WARP": _warp_size(device)}
        run.call(kernel, grid, (memory, ranges, *arguments, *told), constants)
    whole = 0 if batches == 1 else parts * padded * pitch
    return _Packed(memory, ranges, pitch, whole, 0 if batches == 1 else 2 * panels)


def _warp_size(device: torch.device) -> int:
    if device.type != "cuda":
        return 32
    from triton.runtime import driver

    return int(driver.active.get_current_target().warp_size)
