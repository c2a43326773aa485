"""One row and few steps of k, a depthwise convolution above all: lanes are read where they are, nothing is packed.

An accumulator stays in its register from its initial value to the epilogue. The number of steps is a constant, so that
LLVM unrolls them. Where the cheap sequence has a condition, its bounds become comparisons of encodings, and a vector
that fails them is computed again by the exact sequence.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from numc.numerics.binary32 import INFINITY
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.datapath import NOTHING, Drawn, Guard, product_numbers
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.pack_code import converted
from numc.passes.kernels.packing.segments import Read, by_segments, lanes_below
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.straight import Index
from numc.passes.kernels.tasks.interface import SELF, Task, context, load, step, store, stream_places
from numc.passes.kernels.tasks.panels import width
from numc.passes.kernels.tasks.plane import Plane, offset_of
from numc.passes.kernels.values.rounding import emit_parts
from numc.passes.kernels.values.widths import run_time

UNPACKED_ROW = f"{SELF}_unpacked_row"
_EXACT = f"{UNPACKED_ROW}_exact"

# A block of a plane has at most so many rows, and two vectors of each if no cheap sequence takes registers of its own.
_ROWS = 8
# Of windows with more taps, the lines are in a loop.
_FEW_TAPS = 64

# What it takes: the context; the operand of the lanes; the packed row; where vectors of initial and final accumulators
# are stored as well, a tile each, or null; the place in the output and how many lanes there are; the vectors, counted
# from that place (in a plane, rows of lanes); the ranges of magnitudes of the row and, if it is known, of the lanes.
_ARGUMENTS = {
    **dict.fromkeys(("context", "source", "data", "seen"), PTR),
    **dict.fromkeys(("batch", "row", "lane", "lane_count", "begin", "end"), "i64"),
    **dict.fromkeys(("row_low", "row_high", "lane_low", "lane_high"), "i32"),
}


def unpacked_row_text(task: Task) -> str:
    """The function that computes vectors of a row, and another one if the cheap sequence has a condition."""
    text = _vectors_text if task.plane is None else _plane_text
    if task.kernel.limits is None:
        return text(task, UNPACKED_ROW, fast=False)
    return text(task, _EXACT, fast=False) + text(task, UNPACKED_ROW, fast=True)


def _vectors_text(task: Task, name: str, *, fast: bool) -> str:
    """Vectors ``begin`` to ``end`` of the ``lane_count`` lanes from ``lane`` on, of an operand where it is."""
    kernel, t = task.kernel, task.kernel.tile
    f = Function(name, _ARGUMENTS)
    code = f.lanes(t.width)
    kinds = [str(code.ty(element_type)) for element_type in (("f32", "i32", "i32") if fast else ("f32",))]
    edge, drawn = _Edge(f, task, fast=fast), _drawn(f, kernel)
    widths = run_time(f, width(f, "lanes"), kernel.conversion("lanes")) if kernel.is_open("lanes") else None
    offsets, first, segment, masks = context(f, "b_k", "lane_first", "lane_segment", "lane_mask")
    table = (f.at(first, f.i64("divui", f["lane"], t.width), "i64"), segment, masks)
    with f.loop(f["begin"], f["end"]) as v:
        lane = f.i64("muli", v, t.width)
        left = f.i64("minui", f.i64("subi", f["lane_count"], lane), t.width)
        before = edge.enter(lane, lanes_below(f, t.width, left))
        # The range of the lanes is found on the way.
        carried = [before, code.int(0xFFFFFFFF), code.int(0)] if fast else [before]

        def body(read: Read) -> list[Value]:
            with f.carry(0, task.unpacked_steps, 1, carried) as steps:
                acc, *lane_range = steps.values
                raw = read(f.at(f["source"], f.fetch(offsets, steps.index), kernel.element("lanes")))
                rounded = converted(code, kernel, "lanes", raw, widths)
                parts = emit_parts(code, rounded, kernel.conversion("lanes").format)
                after = _step(
                    code,
                    kernel,
                    parts,
                    rows=_row(code, kernel, f["data"], steps.index),
                    acc=acc,
                    drawn=drawn,
                    fast=fast,
                )
                if fast:
                    lane_range = list(magnitude_range(code, code.cast("bitcast", rounded, "i32"), *lane_range))
                steps.next = [after, *lane_range]
            return steps.results

        after, *lane_range = by_segments(f, kernel, "lanes", number=v, kinds=kinds, body=body, table=table)
        again = {"begin": v, "end": f.i64("addi", v, 1)}
        edge.leave(lane, before, after, lane_range, again, f.compare("eq", left, f.number(t.width)))
    return f.function()


def _plane_text(task: Task, name: str, *, fast: bool) -> str:
    """Rows ``begin`` to ``end`` of lanes of a plane, ``lane_count`` lanes each from ``lane`` on.

    In a plane every place is known, so that a block of vectors is updated at once. The exact sequence, where there is a
    cheap one, computes single vectors.
    """
    kernel, plane = task.kernel, task.plane
    assert plane is not None
    f = Function(name, _ARGUMENTS)
    columns = _PlaneColumns(f, task, plane, fast=fast)
    if kernel.limits is not None and not fast:
        columns.block(f["begin"], f["lane"], 1, 1)
        return f.function()
    height, length = plane.lanes[-2][0] if len(plane.lanes) > 1 else 1, plane.lanes[-1][0]
    width, count = kernel.tile.width, -(-length // kernel.tile.width)
    vectors = min(2 if height > 1 else 4, count) if kernel.fma.is_one_fma else 1
    # A quarter of the registers is for lanes and for elements of the row.
    most = min(_ROWS, kernel.instructions.registers * 3 // (4 * vectors))
    rows = -(-height // -(-height // most))

    def column(first: Value, x: Value, vectors: int) -> None:
        with f.loop(0, height - rows + 1, rows) as y:
            columns.block(f.i64("addi", first, y), x, rows, vectors)
        if height % rows:
            columns.block(f.i64("addi", first, height - height % rows), x, height % rows, vectors)

    with f.loop(f["begin"], f["end"], height) as first:
        with f.loop(0, (count - count % vectors) * width, vectors * width) as x:
            column(first, x, vectors)
        if rest := count % vectors:
            column(first, f.number((count - rest) * width), rest)
    return f.function()


class _PlaneColumns:
    """Blocks of vectors of a plane: some adjacent rows of some adjacent vectors."""

    def __init__(self, f: Function, task: Task, plane: Plane, *, fast: bool) -> None:
        self.f, self.task, self.plane, self.fast = f, task, plane, fast
        self.code = f.lanes(task.kernel.tile.width)
        self.edge, self.drawn = _Edge(f, task, fast=fast), _drawn(f, task.kernel)
        self.limits = [self.code.broadcast(f[name]) for name in ("lane_low", "lane_high")] if fast else []
        self.sums = f.alloca(2 * _ROWS * task.kernel.tile.width, "f32")

    def block(self, row: Value, x: Value, rows: int, vectors: int) -> None:
        """Compute `rows` rows from `row` on, `vectors` vectors of each from lane `x` on."""
        f, code, width = self.f, self.code, self.task.kernel.tile.width
        length, stride = self.plane.lanes[-1]
        line = f.i64("addi", f.i64("muli", row, length), x)
        left = f.i64("subi", length, x)

        def entered(r: Index, v: Index) -> tuple[Value, Value, Value]:
            """Before the first step: which lane, how many there are of it, and its initial accumulators."""
            lane = f.i64("addi", line, f.i64("addi", f.i64("muli", r, length), f.i64("muli", v, width)))
            count = f.i64("minui", f.i64("subi", left, f.i64("muli", v, width)), width)
            return lane, count, self.edge.enter(lane, lanes_below(f, width, count))

        start = [entered(r, v)[2] for r in range(rows) for v in range(vectors)]
        at = f.at(f.at(f["source"], offset_of(f, row, self.plane.lanes[:-1])), f.i64("muli", x, stride))
        for n, total in enumerate(self._steps(at, start, vectors)):
            code.store(total, f.at(self.sums, n * width))
        with f.loop(0, rows) as r, f.loop(0, vectors) as v:
            lane, count, before = entered(r, v)
            after = code.load(f.at(self.sums, f.i64("muli", f.i64("addi", f.i64("muli", r, vectors), v), width)))
            y, last = f.i64("addi", row, r), f.i64("addi", x, f.i64("muli", v, width))
            again = {"begin": y, "end": f.i64("addi", y, 1), "lane": last, "lane_count": count}
            self.edge.leave(lane, before, after, self.limits, again, f.compare("eq", count, f.number(width)))

    def _steps(self, at: Value, start: Sequence[Value], vectors: int) -> Sequence[Value]:
        """All steps of k on a block that begins at `at`: rows share the vectors that several of them read."""
        f, plane, data, taps = self.f, self.plane, self.f["data"], self.plane.taps
        rows, pitch = len(start) // vectors, plane.line
        steps = [(taps[k] + r * pitch, k, r) for k in range(len(taps)) for r in range(rows)]
        if list(taps) == sorted(taps):  # the steps of a row stay in their order
            steps.sort(key=lambda step: step[0])
        height, length = plane.window
        if len(taps) <= _FEW_TAPS or height < rows or self.task.kernel.parts("rows") > 1:
            return self._straight(at, data, steps, start, vectors)
        # All rows have the same steps on the lines of the plane that all of them read.
        above = [step for step in steps if step[0] // pitch < rows - 1]
        below = [step for step in steps if step[0] // pitch >= height]
        line = [(taps[x], x - r * length, r) for x in range(length) for r in range(rows)]
        with f.carry(rows - 1, height, 1, self._straight(at, data, above, start, vectors)) as lines:
            begin = f.at(at, f.i64("muli", lines.index, pitch))
            elements = f.at(data, f.i64("muli", lines.index, length))
            lines.next = self._straight(begin, elements, line, lines.values, vectors)
        return self._straight(at, data, below, lines.results, vectors)

    def _straight(
        self, at: Value, data: Value, steps: Sequence[tuple[int, int, int]], start: Sequence[Value], vectors: int
    ) -> Sequence[Value]:
        """Some steps: how far behind `at` their lanes are, the element behind `data`, the row of the block."""
        code, kernel, stride = self.code, self.task.kernel, self.plane.lanes[-1][1]

        @functools.cache
        def lanes(offset: int) -> list[Value]:
            return emit_parts(code, _strided(code, self.f.at(at, offset), stride), kernel.conversion("lanes").format)

        @functools.cache
        def row(k: int) -> list[Value]:
            return _row(code, kernel, data, self.f.number(k))

        totals = list(start)
        for offset, k, r in steps:
            for v in range(vectors):
                parts = lanes(offset + v * stride * code.width)
                n = r * vectors + v
                totals[n] = _step(code, kernel, parts, rows=row(k), acc=totals[n], drawn=self.drawn, fast=self.fast)
        return totals


def _strided(code: Code, address: Value, stride: int) -> Value:
    """A vector of every `stride`th element."""
    vector = code.lanes(stride * code.width).load(address)
    return vector if stride == 1 else code.shuffle(vector, range(0, stride * code.width, stride))


class _Edge:
    """Entry and exit of one vector: initial accumulators; the guard; epilogue and store."""

    def __init__(self, f: Function, task: Task, *, fast: bool) -> None:
        self.f, self.task, self.code = f, task, f.lanes(task.kernel.tile.width)
        self.limits = task.kernel.limits if fast else None
        self.bounds = None if self.limits is None else _bounds(f, task.kernel, self.limits)
        self.lines = stream_places(f, task, f["lane"] if task.plane is None else f.number(0), f["row"])
        self.watched = f.is_given(f["seen"])
        self.mask: Value | None = None
        self.places = self.lines

    def enter(self, lane: Value, mask: Value | None) -> Value:
        """The initial accumulators `lane` lanes behind where the streams begin, those in the mask."""
        f, task = self.f, self.task
        self.mask = mask
        self.places = [step(f, s, at, lane) for s, at in zip(task.streams, self.lines, strict=True)]
        inputs = [load(self.code, *x, mask) for x in zip(task.prologue_streams, self.places, strict=False)]
        return task.prologue(self.code, inputs)

    def leave(
        self,
        lane: Value,
        before: Value,
        after: Value,
        magnitudes: Sequence[Value],
        again: Mapping[str, Value],
        full: Value,
    ) -> None:
        """Store the results of the vector entered last, if the cheap sequence was exact; else compute them again.

        magnitudes: the range of those of the lanes; again: the arguments that make it one vector; full: whether all
        lanes are stored.
        """
        f, task, code = self.f, self.task, self.code
        holds = f.int(1, "i1")
        if self.limits is not None and self.bounds is not None:
            good = _within(code, self.limits, self.bounds, before, *magnitudes)
            holds = f.reduce("and", good)
            with f.when(f.negated(holds)):
                f.call(_EXACT, *(again.get(name, f[name]) for name in _ARGUMENTS))
        with f.when(holds):
            with f.when(self.watched):
                (tile,) = context(f, "lane_block")
                for value, at in ((before, f.at(f["seen"], lane)), (after, f.at(f.at(f["seen"], tile), lane))):
                    code.store(value, at, self.mask)
            places = self.places[len(task.prologue_streams) :]
            inputs = [load(code, *x, self.mask) for x in zip(task.epilogue_streams, places, strict=False)]
            result = task.epilogue(code, [after, *inputs])
            # Masked stores are slow on some processors.
            for condition, mask in ((full, None), (f.negated(full), self.mask)):
                with f.when(condition):
                    store(code, task.output, result, self.places[-1], mask)


def _drawn(f: Function, kernel: Kernel) -> Drawn:
    """The values that the steps take from the run."""
    if not kernel.has_open_product:
        return NOTHING
    return Drawn(widths=product_numbers(f, kernel.fma, *context(f, "product_width")))


def _step(
    code: Code, kernel: Kernel, lanes: Sequence[Value], rows: Sequence[Value], acc: Value, drawn: Drawn, *, fast: bool
) -> Value:
    """One step of k on the parts of converted lanes."""
    a, b = (lanes, rows) if kernel.swap else (rows, lanes)
    datapath, fma = kernel.datapath, kernel.fma
    if not fast:
        assert datapath.step is not None
        return datapath.step(code, fma, a, b, acc, drawn)
    assert datapath.cheap is not None
    return datapath.cheap(code, fma, kernel.instructions, a, b, acc, drawn, None)


def _row(code: Code, kernel: Kernel, data: Value, k: Value) -> list[Value]:
    """The parts of element `k` of the packed row, in all lanes."""
    width, parts = kernel.tile.width, kernel.parts("rows")
    scalar = code.scalar
    within = scalar.i64("andi", k, width - 1)
    block = scalar.i64("subi", k, within)
    at = code.at(data, scalar.i64("addi", scalar.i64("muli", block, parts), within))
    return [code.splat(code.at(at, p * width)) for p in range(parts)]


def _bounds(f: Function, kernel: Kernel, limits: Guard) -> tuple[Value, Value]:
    """The micro-kernel's guard for this row: the least magnitude less one that lanes may have; what all stay below."""
    bias = 127
    low, high = (f.cast("extui", f.binary("shrui", f[x], f.int(23)), "i64") for x in ("row_low", "row_high"))
    least = f.i64("minsi", f.i64("maxsi", f.i64("subi", limits.product + 2 * bias, low), 0), 511)
    most = f.i64("subi", limits.largest - 2 + 2 * bias - kernel.growth + 1, high)
    most = f.i64("minsi", f.i64("maxsi", most, 0), 255)
    finite = f.compare("ult", f["row_high"], f.int(INFINITY))
    most = f.select(finite, most, f.number(0))
    code = f.lanes(kernel.tile.width)
    bounds = [code.broadcast(f.cast("trunci", f.i64("shli", x, 23), "i32")) for x in (least, most)]
    return bounds[0], bounds[1]


def _within(code: Code, limits: Guard, bounds: tuple[Value, Value], before: Value, low: Value, high: Value) -> Value:
    """Where the cheap sequence was exact, given the accumulator at entry and the range of the lanes."""
    least, most = bounds
    bits = code.cast("bitcast", before, "i32")
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF))
    below = min(max(limits.largest - 2 + 127, 0), 255) << 23
    conditions = [
        code.compare("uge", low, least),
        code.compare("ult", high, most),
        code.compare("ult", magnitude, code.int(below)),
    ]
    if not limits.minus_zero:  # it would become +0 in the cheap sequence
        conditions.append(code.compare("ne", bits, code.int(0x80000000)))
    return functools.reduce(lambda a, b: code.binary("andi", a, b), conditions)
