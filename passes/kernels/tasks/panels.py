"""Packed panels of rows and of lanes: made by a task for a block of k, or found where they were packed at compile time.

How they are laid out is layout.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numc.passes.kernels.builder import Function
from numc.passes.kernels.micro_kernel import Kernel
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.packing.panel_draws import DRAWN
from numc.passes.kernels.tasks.edges import SCATTERED, Driver, context


@dataclass(frozen=True)
class Panel:
    """Rows or lanes of a micro-tile: the number of the first one, how many there are, their data.

    limits: the smallest non-zero magnitude less one and the largest one, as encodings (zeros if nobody asks).
    """

    first: str
    count: str
    data: str
    limits: Sequence[str]


_PACK_TYPES = "!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr"
_LIMITS = "i32, i32"


def pack_rows(f: Function, kernel: Kernel, data: str, row: str, count: str, k0: str, kc: str, to: str) -> Sequence[str]:
    """Pack `count` rows from `row` on, the `kc` steps from `k0` on; returns their limits."""
    offsets, first, segment, mask = context(f, "a_row", "k_first", "k_segment", "k_mask")
    width = kernel.tile.width
    first = f.at(first, f.i64("divui", k0, width), "i64")
    arguments = (
        data,
        f.at(offsets, row, "i64"),
        count,
        f.number(kernel.tile.rows),
        first,
        segment,
        mask,
        f.i64("ceildivui", kc, width),
        to,
    )
    return f.call(f"{kernel.name}_pack_rows", *arguments, types=_PACK_TYPES, results=_LIMITS)


def pack_lanes(f: Function, kernel: Kernel, data: str, panel: str, k0: str, kc: str, to: str) -> Sequence[str]:
    """Pack panel number `panel` of lanes, the `kc` steps from `k0` on; returns its limits."""
    offsets, first, segment, mask, dense = context(
        f, "b_k", *(f"lane_{n}" for n in ("first", "segment", "mask", "dense"))
    )
    vectors = kernel.tile.vectors
    offsets = f.at(offsets, k0, "i64")
    even = f.i64("addi", kc, f.i64("andi", kc, 1))
    origin = f.fetch(dense, panel)
    scattered = f.compare("eq", origin, f.number(SCATTERED), "i64")
    limits = f.several(f"scf.if {scattered} -> ({_LIMITS}) {{", 2)
    first = f.at(first, f.i64("muli", panel, vectors), "i64")
    arguments = (data, offsets, kc, even, first, segment, mask, f.number(vectors), to)
    slow = f.call(f"{kernel.name}_pack_lanes", *arguments, types=_PACK_TYPES, results=_LIMITS)
    f.line(f"scf.yield {', '.join(slow)} : {_LIMITS}")
    f.line("} else {")
    types = "!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr"
    fast = f.call(f"{kernel.name}_pack_dense", f.at(data, origin), offsets, kc, even, to, types=types, results=_LIMITS)
    f.line(f"scf.yield {', '.join(fast)} : {_LIMITS}")
    f.line("}")
    return limits


def quantize(
    f: Function, driver: Driver, side: str, kc: str, panel: str, batch: str, place: str, k0: str
) -> Sequence[str]:
    """Convert a packed panel, which begins at row or lane `place` and at step `k0`, to groups; returns its limits."""
    most, kind = largest(f, driver, side, batch, place)
    name = f"{driver.kernel.name}_quantize_{side}"
    arguments, types = [panel, kc, most], ["!llvm.ptr", "i64", kind]
    if driver.kernel.groups_of(side).noise is not None:
        random, batches, places = context(f, "random", "e_batch", "e_row" if side == "rows" else "e_lane")
        arguments += [random, k0, f.fetch(batches, batch), f.at(places, place, "i64")]
        types += DRAWN.values()
    return f.call(name, *arguments, types=", ".join(types), results=_LIMITS)


def largest(f: Function, driver: Driver, side: str, batch: str, place: str) -> tuple[str, str]:
    """The largest magnitude of an operand and its type; of channels, where that of row or lane `place` is."""
    kernel = driver.kernel
    word, size = context(f, "a_largest" if side == "rows" else "b_largest", side)
    if not kernel.groups_of(side).channel:
        return f.cast("trunci", word, "i64", "i32"), "i32"
    if driver.packed != side:  # a packed weight has one list for all batches
        extent = layout(kernel, side).extent
        padded = f.i64("muli", f.i64("ceildivui", size, extent), extent)
        place = f.i64("addi", place, f.i64("muli", batch, padded))
    return f.at(f.op(f"llvm.inttoptr {word} : i64 to !llvm.ptr"), place, "i32"), "!llvm.ptr"


def ready_words(f: Function, driver: Driver, depth: str) -> str:
    """The size of a panel of the operand packed at compile time, over all of k: `Layout.panel_words`."""
    to = layout(driver.kernel, driver.packed)
    if to.side == "rows":
        return f.i64("muli", f.i64("ceildivui", depth, to.width), to.step_words)
    rest = f.i64("remui", depth, to.k_block)
    steps = f.i64("addi", rest, f.i64("andi", rest, 1))
    if to.pairs and to.group:
        steps = f.i64("addi", steps, f.i64("ceildivui", rest, to.group))
    steps = f.i64("addi", steps, f.i64("muli", f.i64("divui", depth, to.k_block), to.block_steps(to.k_block)))
    return f.i64("muli", steps, to.step_words)


def ready(
    f: Function, driver: Driver, data: str, start: str, panel: str, k0: str, kb: str
) -> tuple[str, Sequence[str]]:
    """Where panel number `panel` of the operand packed at compile time is, from `k0` on, and its limits.

    start: where its batch begins, in f32 numbers; kb: the number of the block of k.
    """
    to = layout(driver.kernel, driver.packed)
    depth, ranges = context(f, "depth", "ranges")
    words = ready_words(f, driver, depth)
    by_rows = to.side == "rows"
    before = f.i64("divui", k0, to.width) if by_rows else f.i64("muli", kb, to.block_steps(to.k_block))
    offset = f.i64("addi", f.i64("muli", panel, words), f.i64("addi", f.i64("muli", before, to.step_words), start))
    found = f.at(data, offset)
    if driver.kernel.limits is None:
        return found, (f.int(0), f.int(0))
    blocks = f.i64("ceildivui", depth, to.k_block)
    index = f.i64("addi", f.i64("muli", f.i64("addi", f.i64("divui", start, words), panel), blocks), kb)
    place = f.i64("addi", f.i64("addi", index, index), ranges)
    return found, (f.fetch(data, place, "i32"), f.fetch(data, f.i64("addi", place, 1), "i32"))
