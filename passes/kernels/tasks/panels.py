"""Packed panels of rows and of lanes: made by a task for a block of k, or found where they are packed already.

How they are laid out is layout.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numc.passes.kernels.abi import SCATTERED
from numc.passes.kernels.builder import Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.convert_groups import SOURCE, in_panel
from numc.passes.kernels.packing.expand_codes import expand_name, number_vectors, scale_vectors
from numc.passes.kernels.packing.fill import fill_lanes, fill_rows
from numc.passes.kernels.packing.layout import Layout, layout, stored_layout
from numc.passes.kernels.packing.pack_code import converts_open, row_vector
from numc.passes.kernels.packing.segments import adjacent
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import Task, context


@dataclass(frozen=True)
class Panel:
    """Rows or lanes of a micro-tile: the number of the first one, how many there are, their data.

    limits: the smallest non-zero magnitude less one and the largest one, as encodings (zeros if nobody asks). places:
    `ROWS_IN_PLACE`, `LANES_IN_PLACE` or `LANE_STEP`, of what takes them.
    """

    first: Value
    count: Value
    data: Value
    limits: Sequence[Value]
    places: Sequence[Value] = ()


# What transposing a square takes for each of its vectors, in reads of a segment.
_SQUARE = 2
# Steps of k for which all panels of rows that are adjacent are packed before the next ones.
_TURNED = 32
_LIMITS = ("i32", "i32")
_RESULTS = ", ".join(_LIMITS)


def pack_rows(
    f: Function, kernel: Kernel, data: Value, row: Value, count: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack `count` rows from `row` on, the `kc` steps from `k0` on; returns their limits."""
    limits = _rows_in_order(f, kernel, data, row=row, count=count, k0=k0, kc=kc, to=to)
    if layout(kernel, "rows").matrix:
        fill_rows(f, kernel, kc, to)
    return limits


def _rows_in_order(
    f: Function, kernel: Kernel, data: Value, row: Value, count: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack rows, nothing behind the last step, in the order in which they are in memory; returns their limits."""
    if not kernel.rows.turned:
        return _pack_rows(f, kernel, data, row=row, count=count, k0=k0, kc=kc, to=to)
    offsets, steps = context(f, "a_row", "a_k")
    offsets = f.at(offsets, row, "i64")
    with f.choose(_are_apart(f, offsets, count, f.number(1)), *_LIMITS) as choice:
        with choice.then():
            first = f.at(data, f.fetch(offsets, 0), kernel.element("rows"))
            arguments = first, f.at(steps, k0, "i64"), count, kc, to
            choice.next = f.call(f"{kernel.name}_pack_turned", *arguments, *_width(f, kernel, "rows"), results=_RESULTS)
        with choice.otherwise():
            choice.next = _pack_rows(f, kernel, data, row=row, count=count, k0=k0, kc=kc, to=to)
    return choice.results


def rows_are_adjacent(f: Function, row: Value, count: Value) -> Value:
    """Whether `count` rows from `row` on, at least one, are adjacent in memory."""
    return _are_apart(f, f.at(context(f, "a_row")[0], row, "i64"), count, f.number(1))


def turn_panels(
    f: Function,
    kernel: Kernel,
    data: Value,
    rows: tuple[Value, Value],
    steps: tuple[Value, Value],
    to: tuple[Value, Value, Value],
) -> None:
    """Pack rows that are adjacent: the panels of a few steps of k, then those of the next ones.

    A panel takes less of a step than a cache line has, which would be gone before the next panel takes the rest. rows:
    the first one and the end. steps: the first one, and how many. to: the panels, how far they are from each other in
    f32 numbers, and their limits.
    """
    (begin, end), (k0, kc), (panels, pitch, limits), packed = rows, steps, to, layout(kernel, "rows")
    offsets, k_offsets = context(f, "a_row", "a_k")
    first = f.at(data, f.fetch(offsets, begin), kernel.element("rows"))
    with f.loop(0, kc, _TURNED) as step:
        size, is_first = f.i64("minui", f.i64("subi", kc, step), _TURNED), f.compare("eq", step, f.number(0))
        of_steps = f.at(k_offsets, f.i64("addi", k0, step), "i64")
        inside = row_vector(f, packed, f.i64("divui", step, packed.width))
        with f.loop(begin, end, packed.count) as row:
            n, count = f.i64("subi", row, begin), f.i64("minui", f.i64("subi", end, row), packed.count)
            number = f.i64("divui", n, packed.count)
            panel = f.at(panels, f.i64("addi", f.i64("muli", number, pitch), inside))
            arguments = f.at(first, n, kernel.element("rows")), of_steps, count, size, panel
            step_limits = f.call(f"{kernel.name}_pack_turned", *arguments, *_width(f, kernel, "rows"), results=_RESULTS)
            limits_at = f.at(limits, f.i64("addi", number, number), "i32")
            before = [f.select(is_first, f.int(v), f.fetch(limits_at, w, "i32")) for w, v in enumerate((0xFFFFFFFF, 0))]
            store_limits(
                f, [f.binary(*each) for each in zip(("minui", "maxui"), before, step_limits, strict=True)], limits_at
            )


def _are_apart(f: Function, offsets: Value, count: Value, step: Value) -> Value:
    """Whether `count` offsets, at least one, are `step` apart."""
    first = f.fetch(offsets, 0)
    with f.carry(1, count, 1, [f.int(1, "i1")]) as loop:
        there = f.i64("subi", f.fetch(offsets, loop.index), first)
        loop.next = [f.binary("andi", loop.values[0], f.compare("eq", there, f.i64("muli", loop.index, step)))]
    return loop.results[0]


def _pack_rows(
    f: Function, kernel: Kernel, data: Value, row: Value, count: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack rows wherever they are in memory; returns their limits."""
    offsets, first, segment, mask = context(f, "a_row", "k_first", "k_segment", "k_mask")
    width = kernel.tile.width
    first = f.at(first, f.i64("divui", k0, width), "i64")
    offsets, rows = f.at(offsets, row, "i64"), f.number(kernel.tile.rows)
    vectors = f.i64("ceildivui", kc, width)
    arguments = (data, offsets, count, rows, first, segment, mask, vectors, to, *_width(f, kernel, "rows"))
    return f.call(f"{kernel.name}_pack_rows", *arguments, results=_RESULTS)


def make_rows(
    f: Function,
    task: Task,
    source: Value,
    batch: Value,
    rows: tuple[Value, Value],
    steps: tuple[Value, Value],
    to: Value,
    limits: Value,
) -> None:
    """Pack and convert a panel, and store its limits. rows, steps: the first row and step of k, and how many."""
    kernel, (row, count), (k0, kc) = task.kernel, rows, steps
    if kernel.grouped("rows") is None:
        store_limits(f, pack_rows(f, kernel, source, row=row, count=count, k0=k0, kc=kc, to=to), limits)
        return
    where = _rows_before(f, kernel, source, rows=rows, steps=steps, to=to)
    store_limits(
        f, convert_groups(f, task, "rows", kc=kc, panel=to, batch=batch, place=row, k0=k0, source=where), limits
    )


def _rows_before(
    f: Function, kernel: Kernel, source: Value, rows: tuple[Value, Value], steps: tuple[Value, Value], to: Value
) -> Sequence[Value]:
    """Where rows are converted from, as `SOURCE`: from where they are if all are there and in order, or packed now."""
    (row, count), (k0, kc), t = rows, steps, kernel.tile
    offsets, of_steps, run, depth = context(f, "a_row", "a_k", "a_run", "depth")
    offsets = f.at(offsets, row, "i64")
    first = f.fetch(offsets, 0)
    apart = f.i64("subi", f.fetch(offsets, f.i64("minui", 1, f.i64("subi", count, 1))), first)
    whole = f.compare("eq", f.i64("remui", kc, t.width), f.number(0))
    there = _are_apart(f, offsets, count, apart)
    for each in (f.compare("uge", run, depth), f.compare("eq", count, f.number(t.rows)), whole):
        there = f.binary("andi", there, each)
    with f.choose(there, *SOURCE.values()) as choice:
        with choice.then():
            choice.next = [f.at(f.at(source, first), f.fetch(of_steps, k0)), apart, f.number(t.width)]
        with choice.otherwise():
            pack_rows(f, kernel, source, row=row, count=count, k0=k0, kc=kc, to=to)
            choice.next = in_panel(f, layout(kernel, "rows"), to)
    return choice.results


def store_limits(f: Function, limits: Sequence[Value], to: Value) -> None:
    """Store the limits of a panel."""
    for word, limit in enumerate(limits):
        f.line(f"llvm.store {limit}, {f.at(to, word, 'i32')} : i32, {PTR}")


def _width(f: Function, kernel: Kernel, side: str) -> Sequence[Value]:
    """The widths that an operand is packed with, if they are open."""
    return [width(f, side)] if converts_open(kernel, side) else []


def width(f: Function, side: str) -> Value:
    """The widths that a run chose for an operand (an i64)."""
    return context(f, "a_width" if side == "rows" else "b_width")[0]


def pack_lanes(
    f: Function, kernel: Kernel, data: Value, panel: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack panel number `panel` of lanes, the `kc` steps from `k0` on; returns its limits."""
    limits = _lanes_in_order(f, kernel, data, panel=panel, k0=k0, kc=kc, to=to)
    if layout(kernel, "lanes").matrix:
        fill_lanes(f, kernel, kc, to)
    return limits


def _lanes_in_order(
    f: Function, kernel: Kernel, data: Value, panel: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack lanes, nothing behind the last step, in the order in which they are in memory; returns their limits."""
    if not kernel.lanes.turned:
        return _pack_lanes(f, kernel, data, panel=panel, k0=k0, kc=kc, to=to)
    with f.choose(_pays(f, kernel, panel), *_LIMITS) as choice:
        with choice.then():
            choice.next = _pack_transposed(f, kernel, data, panel=panel, k0=k0, kc=kc, to=to)
        with choice.otherwise():
            choice.next = _pack_lanes(f, kernel, data, panel=panel, k0=k0, kc=kc, to=to)
    return choice.results


def place_lanes(
    f: Function, kernel: Kernel, data: Value, panel: Value, k0: Value, kc: Value, to: Value, vectors: Value
) -> None:
    """Write into `vectors` where the vectors of panel number `panel` are; pack those that are not adjacent to `to`."""
    offsets, *table = context(f, "b_k", "lane_first", "lane_segment", "lane_mask")
    t, first = kernel.tile, f.i64("muli", panel, kernel.tile.vectors)
    offsets = f.at(offsets, k0, "i64")
    with f.loop(0, t.vectors) as v:
        number, packed = f.i64("addi", first, v), f.at(to, f.i64("muli", v, t.width))
        start, is_there = adjacent(f, t.width, number, table)
        with f.when(f.negated(is_there)):
            segments = f.at(table[0], number, "i64"), *table[1:]
            f.call(f"{kernel.name}_pack_lanes", data, offsets, kc, kc, *segments, f.number(1), packed, results=_RESULTS)
        entry = f.at(vectors, f.i64("addi", v, v), "i64")
        f.line(f"llvm.store {f.select(is_there, f.at(data, start), packed)}, {entry} : {PTR}, {PTR}")
        f.line(f"llvm.store {f.cast('extui', is_there, 'i64')}, {f.at(entry, 1, 'i64')} : i64, {PTR}")


def _pays(f: Function, kernel: Kernel, panel: Value) -> Value:
    """Whether squares of adjacent steps are read in less time than lanes, by the number of segments of these.

    Words would reach from one run into the next: they need a single one.
    """
    run, depth, first = context(f, "b_run", "depth", "lane_first")
    if layout(kernel, "lanes").alone:
        return f.compare("uge", run, depth)
    width = kernel.tile.width
    vector = f.i64("muli", panel, kernel.tile.vectors)
    segments = f.i64("subi", f.fetch(first, f.i64("addi", vector, 1)), f.fetch(first, vector))
    steps = f.i64("muli", f.i64("minui", run, width), segments)
    several = f.compare("ugt", steps, f.number(_SQUARE * width))
    return f.binary("ori", several, f.compare("uge", run, depth))


def _pack_transposed(
    f: Function, kernel: Kernel, data: Value, panel: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack lanes by reading adjacent steps of k, run after run: a square may reach into the next run's place."""
    run, offsets, steps, lanes = context(f, "b_run", "b_lane", "b_k", "lanes")
    first = f.i64("muli", panel, kernel.tile.lanes)
    count = f.i64("minui", f.i64("subi", lanes, first), kernel.tile.lanes)
    offsets, step_words = f.at(offsets, first, "i64"), layout(kernel, "lanes").step_words
    begin, end = f.i64("subi", k0, f.i64("remui", k0, run)), f.i64("addi", k0, kc)
    with f.carry(begin, end, run, [f.int(0xFFFFFFFF), f.int(0)]) as runs:
        here = f.i64("maxui", runs.index, k0)
        left = f.i64("subi", f.i64("minui", f.i64("addi", runs.index, run), end), here)
        target = f.at(to, f.i64("muli", f.i64("subi", here, k0), step_words))
        source = f.at(data, f.fetch(steps, here), kernel.element("lanes"))
        arguments = source, offsets, count, left, target
        name = f"{kernel.name}_pack_transposed"
        low, high = f.call(name, *arguments, *_width(f, kernel, "lanes"), results=_RESULTS)
        runs.next = [f.binary("minui", runs.values[0], low), f.binary("maxui", runs.values[1], high)]
    if layout(kernel, "lanes").alone:  # words have zeros where steps are missing
        return runs.results
    code = f.lanes(kernel.tile.width)
    with f.loop(kc, f.rounded_up(kc, layout(kernel, "lanes").unit)) as step:
        for n in range(0, step_words, kernel.tile.width):
            code.store(code.f32(0.0), f.at(to, f.i64("addi", f.i64("muli", step, step_words), n)))
    return runs.results


def _pack_lanes(
    f: Function, kernel: Kernel, data: Value, panel: Value, k0: Value, kc: Value, to: Value
) -> Sequence[Value]:
    """Pack lanes in whatever order they are in memory; returns their limits."""
    names = ("b_k", "lane_first", "lane_segment", "lane_mask", "lane_dense")
    offsets, first, segment, mask, dense = context(f, *names)
    vectors = kernel.tile.vectors
    offsets = f.at(offsets, k0, "i64")
    padded = f.rounded_up(kc, layout(kernel, "lanes").unit)
    origin, open_width = f.fetch(dense, panel), _width(f, kernel, "lanes")
    scattered = f.compare("eq", origin, f.number(SCATTERED))
    with f.choose(scattered, *_LIMITS) as choice:
        with choice.then():
            first = f.at(first, f.i64("muli", panel, vectors), "i64")
            arguments = (data, offsets, kc, padded, first, segment, mask, f.number(vectors), to, *open_width)
            choice.next = f.call(f"{kernel.name}_pack_lanes", *arguments, results=_RESULTS)
        with choice.otherwise():
            origin = f.at(data, origin, kernel.element("lanes"))
            choice.next = f.call(
                f"{kernel.name}_pack_dense", origin, offsets, kc, padded, to, *open_width, results=_RESULTS
            )
    return choice.results


def convert_groups(
    f: Function,
    task: Task,
    side: str,
    kc: Value,
    panel: Value,
    batch: Value,
    place: Value,
    k0: Value,
    source: Sequence[Value] = (),
) -> Sequence[Value]:
    """Convert a panel, which begins at row or lane `place` and at step `k0`, to groups; returns its limits.

    source: where its rows are, as `SOURCE`; lanes are packed.
    """
    arguments = [panel, kc, largest(f, task, side, batch, place)]
    if task.kernel.is_open(side):
        arguments.append(width(f, side))
    arguments += [*drawn(f, task, side, batch=batch, place=place, k0=k0), *source]
    return f.call(f"{task.kernel.name}_quantize_{side}", *arguments, results=_RESULTS)


def drawn(f: Function, task: Task, side: str, batch: Value, place: Value, k0: Value) -> list[Value]:
    """The sources from which the conversion of that panel draws, if it does."""
    if task.kernel.groups_of(side).noise is None:
        return []
    random, batches, places = context(f, "random", "e_batch", "e_row" if side == "rows" else "e_lane")
    return [random, k0, f.fetch(batches, batch), f.at(places, place, "i64")]


def largest(f: Function, task: Task, side: str, batch: Value, place: Value) -> Value:
    """The largest magnitude of an operand, an i32; of channels, the address of that of row or lane `place`."""
    kernel = task.kernel
    word, size = context(f, "a_largest" if side == "rows" else "b_largest", side)
    if not kernel.groups_of(side).channel:
        return f.cast("trunci", word, "i32")
    if task.packed != side:  # a packed weight has one list for all batches
        extent = layout(kernel, side).extent
        padded = f.i64("muli", f.i64("ceildivui", size, extent), extent)
        place = f.i64("addi", place, f.i64("muli", batch, padded))
    return f.at(f.op(f"llvm.inttoptr {word} : i64 to {PTR}", PTR), place, "i32")


def expand(f: Function, kernel: Kernel, packed: tuple[Value, Sequence[Value]], kc: Value, to: Value) -> Sequence[Value]:
    """Expand the codes of `kc` steps of a packed panel; returns its limits. packed: where it is, and these."""
    codes, limits = packed
    f.call(expand_name(kernel), codes, to, kc)
    return limits


def packed_panel_words(f: Function, task: Task, depth: Value) -> Value:
    """The size of a panel of the operand that is packed already, over all of k: `Layout.panel_words`."""
    to = stored_layout(task.kernel, task.packed)
    rest = _block_vectors(f, to, f.i64("remui", depth, to.k_block))
    whole = f.i64("muli", f.i64("divui", depth, to.k_block), to.block_words(to.k_block))
    return f.i64("addi", whole, f.i64("muli", rest, to.width))


def _block_vectors(f: Function, to: Layout, depth: Value) -> Value:
    """The number of vectors of words of one block of k of a panel, if it is the last one: `Layout.block_words`."""
    if to.code:
        codes = f.i64("ceildivui", f.i64("muli", number_vectors(f, to, depth), to.bits), 32)
        return f.i64("addi", codes, scale_vectors(f, to, depth))
    if to.side == "rows":
        return f.i64("addi", number_vectors(f, to, depth), scale_vectors(f, to, depth))
    steps = f.rounded_up(depth, to.unit)
    if to.dense:
        steps = f.i64("divui", steps, to.dot)
    behind = to.block_steps(to.k_block) - to.word_steps(to.k_block)
    if behind:  # of as many groups as there are
        each = behind // (to.k_block // to.scale_steps)
        steps = f.i64("addi", steps, f.i64("muli", f.i64("ceildivui", depth, to.scale_steps), each))
    return f.i64("muli", steps, to.step_vectors)


def packed_panel(
    f: Function, task: Task, data: Value, start: Value, panel: Value, kb: Value
) -> tuple[Value, Sequence[Value]]:
    """Where block number `kb` of panel number `panel` of the operand that is packed already is, and its limits.

    start: where its batch begins, in f32 numbers.
    """
    address, limits_at = packed_places(f, task, data, start=start, panel=panel, kb=kb)
    if limits_at is None:
        return address, (f.int(0), f.int(0))
    return address, (f.fetch(limits_at, 0, "i32"), f.fetch(limits_at, 1, "i32"))


def packed_places(
    f: Function, task: Task, data: Value, start: Value, panel: Value, kb: Value
) -> tuple[Value, Value | None]:
    """Where that block is, and where its limits are, if the micro-kernels have any."""
    to = stored_layout(task.kernel, task.packed)
    depth, ranges = context(f, "depth", "ranges")
    words = packed_panel_words(f, task, depth)
    before = f.i64("muli", kb, to.block_words(to.k_block))
    address = f.at(data, f.i64("addi", f.i64("muli", panel, words), f.i64("addi", before, start)))
    if task.kernel.limits is None:
        return address, None
    blocks = f.i64("ceildivui", depth, to.k_block)
    index = f.i64("addi", f.i64("muli", f.i64("addi", f.i64("divui", start, words), panel), blocks), kb)
    return address, f.at(data, f.i64("addi", f.i64("addi", index, index), ranges), "i32")
