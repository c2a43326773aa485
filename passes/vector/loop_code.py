"""The code of a nest of loops: a function that shares its iterations out, and a task that computes some of them.

The task gets one context of 64-bit words: the pointers to the operands, the captured values, the symbols, and how many
iterations a task has. Where the body of the linalg.generic belongs, the text has calls of the function BODY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Literal

from torch_mlir import ir

from numc.passes.buffers.loop_nest import ONE, TWO, WIDTHS, ZERO, Loop, Nest, Symbol, element
from numc.passes.kernels.builder import Function
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.vector.loop_elements import (
    STEPS,
    Elements,
    Near,
    Number,
    Place,
    body_declaration,
    gets_in_lanes,
    in_rows,
    trips,
    value_of,
)
from numc.passes.vector.loop_extremes import extreme, extremes

# Loop iterations, weighted by the cost of a body, that are worth a task of their own: a microsecond or more.
_TASK_WORK = 1 << 17
# Rows whose sums are computed together, so that the latency of an addition does not count.
_ROWS = 8
# Steps of reductions, as in the windows of pooling, over which a vector of sums stays in registers.
_FEW_STEPS = 64
# Inputs, and neighbours as in a line of a small image: with more of the one and fewer of the other, to ask whether
# memory overlaps, as LLVM does before a loop, takes longer than the loop.
_FEW_INPUTS, _FEW_LANES = 2, 128
# Vectors of a row whose elements are looked up before the first row, where all rows have the same indices: each takes
# two registers.
_ROW_VECTORS = 8
# Vectors next to each other that a task has at least where reductions are around them: memory is read in lines.
_STRIP = 8


def loops_text(nest: Nest, isa: InstructionSet) -> str:
    """The functions ``@loops`` and ``@loops_task``, and the declarations of what they call."""
    widths = (0, *_widths(nest, isa)) if nest.in_lanes else (0,)
    declared = "llvm.func @numc_parallel(!llvm.ptr, !llvm.ptr, i64, i64)"
    if nest.rows:
        declared = "llvm.func @numc_rows_loops(!llvm.ptr, !llvm.ptr, i64, i64, i64, i64)"
    bodies = (body_declaration(nest, width) for width in widths)
    return "\n".join([*bodies, declared, _region(nest, isa), _Task(nest, isa).text()])


def _widths(nest: Nest, isa: InstructionSet) -> list[int]:
    """The numbers of lanes that neighbours are computed in: those of a vector, then of the smallest one.

    Functions are computed on two vectors at once, because an operation in one waits for the one before it. Where it is
    known how many neighbours are left over, vectors of all sizes between are worth their code, unless one vector leaves
    lanes out.
    """
    lanes = isa.width
    pair = [2 * lanes] if nest.has_functions and not (nest.reductions or nest.lookups or nest.across) else []
    if _leaves_out(nest, isa):
        return [*pair, lanes]
    halves = [lanes >> n for n in range(1, lanes.bit_length()) if lanes >> n > STEPS] if _known(nest) else []
    return sorted({*pair, lanes, *halves, STEPS}, reverse=True)


def _leaves_out(nest: Nest, isa: InstructionSet) -> bool:
    """Whether what is left over of neighbours is computed in one vector, of which lanes are left out in memory.

    A single one takes less time on its own.
    """
    count, last = _known(nest), nest.parallel[-1]
    several = count is None or count % isa.width > 1
    whole = nest.reductions or nest.across
    return isa.masks and several and not whole and all(stride in (ZERO, ONE) for stride in last.strides)


def _known(nest: Nest) -> int | None:
    """The trip count of the last parallel loop, if it is known and only the end of it is no multiple of all lanes."""
    count = nest.parallel[-1].count
    is_cut = nest.rows is not None and nest.outer == nest.parallel
    return None if count.symbols or is_cut else count.number


def _way(nest: Nest) -> Literal["around", "lanes", "rows"]:
    """The computation of the last parallel loop.

    Inside of the reductions, if any, where LLVM vectorises it; in lanes; or around the reductions, some rows at a time.
    """
    last = nest.parallel[-1]
    near = all(s in (ZERO, ONE, TWO) for k, s in enumerate(last.strides[: nest.inputs]) if k not in nest.lookups)
    if not nest.reductions:
        count = _known(nest)
        few = nest.inputs > _FEW_INPUTS and count is not None and len(nest.parallel) > 1 and count <= _FEW_LANES
        apart = nest.has_functions or nest.lookups or few or TWO in last.strides[: nest.inputs]
        return "lanes" if apart and nest.in_lanes and near else "around"
    steps = prod((r.count for r in nest.reductions), start=ONE)
    short = not steps.symbols and steps.number <= _FEW_STEPS
    if near and not short and all(s == ONE for s in last.strides[nest.inputs :]):
        return "around"
    return "lanes" if nest.in_lanes and all(gets_in_lanes(nest, k) for k in range(nest.inputs)) else "rows"


def _region(nest: Nest, isa: InstructionSet) -> str:
    """``@loops``: describe the operands in a context, and run the task on all iterations, on threads or right here."""
    arguments = {f"o{k}": str(t) for k, t in enumerate(nest.types)}
    arguments |= {f"x{n}": str(v.type) for n, v in enumerate(nest.captured)}
    f = Function("loops", arguments, attributes="attributes {llvm.no_inline}")
    words: list[Value] = []
    known: dict[Symbol, Value] = {}
    for k, operand_type in enumerate(nest.types):
        operand = f[f"o{k}"]
        if not isinstance(operand_type, ir.MemRefType):
            words.append(_as_i64(f, operand))
            continue
        offset, sizes, strides = _described(f, operand, operand_type)
        known |= {Symbol("size", k, n): size for n, size in enumerate(sizes)}
        known |= {Symbol("stride", k, n): stride for n, stride in enumerate(strides)}
        for n, number in nest.starts[k]:
            offset = f.i64("addi", offset, f.i64("muli", strides[n], number))
        aligned = f.op(f"memref.extract_aligned_pointer_as_index {operand} : {operand_type} -> index", "index")
        words.append(f.i64("addi", _as_i64(f, aligned), f.i64("muli", offset, WIDTHS[element(operand_type)])))
    words += [_as_i64(f, f[f"x{n}"]) for n in range(len(nest.captured))]
    words += [known[symbol] for symbol in nest.symbols]
    total, work = trips(f, nest.outer, known), nest.work
    grain = f.i64("maxui", f.i64("divui", _TASK_WORK, f.i64("maxui", value_of(f, work, known), 1)), 1)
    if nest.in_lanes and nest.outer == nest.parallel:  # no task but the last one has lanes left over
        strips = nest.reductions and _way(nest) == "around"
        least = isa.width * _STRIP if strips else _widths(nest, isa)[0]
        grain = f.i64("muli", f.i64("ceildivui", grain, least), least)
    context = f.alloca(len(words) + 1, "i64")
    for n, word in enumerate([*words, grain]):
        f.store(word, f.at(context, n, "i64"), alignment=8)
    if nest.rows:
        task = f.op(f"llvm.mlir.addressof @loops_task : {PTR}", PTR)
        pointers = sum(1 << k for k, operand_type in enumerate(nest.types) if isinstance(operand_type, ir.MemRefType))
        counts = [f.number(n) for n in (len(words) + 1, pointers, total)] + [value_of(f, nest.rows, known)]
        f.call("numc_rows_loops", task, context, *counts, dialect="llvm")
    elif isinstance(total, int) and not work.symbols and total <= max(1, _TASK_WORK // max(1, work.number)):
        f.call("loops_task", context, f.number(0), f.number(1), dialect="llvm")
    else:
        task = f.op(f"llvm.mlir.addressof @loops_task : {PTR}", PTR)
        tasks = f.i64("ceildivui", total, grain)
        f.call("numc_parallel", task, context, tasks, f.number(-1), dialect="llvm")
    return f.function()


def _described(f: Function, operand: Value, kind: ir.MemRefType) -> tuple[Value, list[Value], list[Value]]:
    """The offset, the sizes and the strides of a memref (i64)."""
    base = f"memref<{kind.element_type}>"
    types = [base, *["index"] * (1 + 2 * kind.rank)]
    _, *numbers = f.several(f"memref.extract_strided_metadata {operand} : {kind} -> {', '.join(types)}", *types)
    offset, *rest = (_as_i64(f, number) for number in numbers)
    return offset, rest[: kind.rank], rest[kind.rank :]


def _as_i64(f: Function, value: Value) -> Value:
    """A number in the lower bits of a word."""
    if value.type.element == "index":
        return f.cast("index_cast", value, "i64")
    if value.type.is_float:
        value = f.cast("bitcast", value, f"i{value.type.bits}")
    return value if value.type.element == "i64" else f.cast("extui", value, "i64")


class _Task(Elements):
    """Writes ``@loops_task``, which computes the iterations of tasks `begin` to `end`."""

    def __init__(self, nest: Nest, isa: InstructionSet) -> None:
        arguments = {"context": PTR, "begin": "i64", "end": "i64"}
        code = Function("loops_task", arguments, attributes="attributes {no_inline}", dialect="llvm")
        word_types = [PTR if isinstance(t, ir.MemRefType) else str(t) for t in nest.types]
        word_types += [str(v.type) for v in nest.captured]
        word_types += ["i64"] * (len(nest.symbols) + 1)
        words = [
            code.load(code.at(code["context"], n, "i64"), element=word_type, alignment=WIDTHS.get(word_type, 8))
            for n, word_type in enumerate(word_types)
        ]
        count, captured = len(nest.types), len(nest.captured)
        symbols = dict(zip(nest.symbols, words[count + captured :], strict=False))
        operands = [words[first] for first in nest.firsts]
        super().__init__(code, nest, operands, words[count : count + captured], symbols, isa)
        self.code: Function = code
        self.grain, self.lanes = words[-1], isa.width
        self.row: list[dict[int, Near]] = []  # of every whole vector of a row, if all rows have the same indices

    def text(self) -> str:
        """The function."""
        f, nest = self.code, self.nest
        low, last = (f.i64("muli", f[edge], self.grain) for edge in ("begin", "end"))
        high = f.i64("minui", last, trips(f, nest.outer, self.symbols))
        start = Place((0,) * len(nest.types), {})
        self.row = self._looked_up(start)
        if nest.outer == nest.parallel:
            self._inner(nest.parallel[0], low, high, start)
            return f.function()
        with f.loop(low, high) as iteration:
            place, rest = start, iteration
            for loop in reversed(nest.outer):
                here = rest
                if loop is not nest.outer[0]:
                    count = trips(f, [loop], self.symbols)
                    here, rest = f.i64("remui", rest, count), f.i64("divui", rest, count)
                if loop is nest.across:
                    first = f.i64("muli", here, loop.together)
                else:
                    place = self.moved(place, loop, here)
            if nest.across:
                self._across(nest.across, first, place)
            else:
                self._inner(nest.parallel[-1], 0, self.size(nest.parallel[-1].count), place)
        return f.function()

    def _across(self, across: Loop, first: Value, place: Place) -> None:
        """The last parallel loop in lanes, around some steps of the one that operands are contiguous along."""
        f, last = self.code, self.nest.parallel[-1]
        end = f.i64("minui", f.i64("addi", first, across.together), self.size(across.count))
        for lanes, low, high in self._parts(last, 0, self.size(last.count)):
            with f.loop(low, high, max(1, lanes)) as i:
                self._steps_across(across, first, end, self.moved(place, last, i), lanes)

    def _steps_across(self, across: Loop, first: Value, end: Value, place: Place, lanes: int) -> None:
        f, nest = self.code, self.nest

        def compute(values: dict[int, Value], there: Place) -> None:
            taken = [values[k] if k in values else self.load(k, there, lanes) for k in range(len(nest.types))]
            for k, result in enumerate(self.call(taken, there, lanes), nest.inputs):
                self.store(k, there, result)

        if lanes:
            whole = f.i64("addi", first, f.i64("muli", f.i64("divui", f.i64("subi", end, first), STEPS), STEPS))
            with f.loop(first, whole, STEPS) as s:
                for values, there in self.blocks(across, place, s, lanes):
                    compute(values, there)
            first = whole
        with f.loop(first, end) as s:
            compute({}, self.moved(place, across, s))

    def _parts(self, last: Loop, low: Number, high: Value) -> Iterator[tuple[int, Number, Number]]:
        """Ranges of the last parallel loop, and in how many lanes they are computed.

        `low` is a multiple of all lanes, and `high`, too, unless it is the end or the nest is computed by rows: what
        cannot be left over has no code.
        """
        f = self.code
        rest = _known(self.nest)
        for lanes in (*_widths(self.nest, self.isa), 0):
            if rest is not None and lanes > rest:
                continue
            end: Number = high
            if lanes and rest != lanes:
                end = f.i64("addi", low, f.i64("muli", f.i64("divui", f.i64("subi", high, low), lanes), lanes))
            yield lanes, low, end
            low = end
            if rest is not None:
                rest %= max(lanes, 1)
                if rest == 0:
                    return

    def _inner(self, last: Loop, low: Number, high: Value, place: Place) -> None:
        """The last parallel loop from `low` to `high`, and the reductions around it or inside."""
        f, nest, way = self.code, self.nest, _way(self.nest)
        if way == "around":
            self._around(nest.reductions, last, low, high, place)
            return
        if way == "lanes":
            for lanes, start, end in self._parts(last, low, high):
                if lanes == self.lanes and self.row:
                    for n, near in enumerate(self.row):
                        self.near = near
                        self._at(self.moved(place, last, f.number(n * lanes)), lanes)
                    self.near = {}
                elif lanes == 0 and _leaves_out(nest, self.isa):
                    self._rest(last, start, end, place)
                elif nest.reductions:
                    self._rows(last, start, end, rows=1, place=place, lanes=lanes)
                else:
                    self._around((), last, start, high=end, place=place, lanes=lanes)
            return
        rows = _ROWS if last.count.symbols else min(_ROWS, last.count.number)
        if rows > 1:
            whole = f.i64("muli", f.i64("divui", f.i64("subi", high, low), rows), rows)
            middle = f.i64("addi", low, whole)
            self._rows(last, low, middle, rows, place)
            low = middle
        self._rows(last, low, high, 1, place)

    def _around(
        self, reductions: Sequence[Loop], last: Loop, low: Number, high: Number, place: Place, lanes: int = 0
    ) -> None:
        """The reductions, and inside of them the last parallel loop."""
        f = self.code
        if reductions:
            with f.loop(0, self.size(reductions[0].count)) as r:
                self._around(reductions[1:], last, low, high, self.moved(place, reductions[0], r))
            return
        with f.loop(low, high, max(1, lanes)) as i:
            self._at(self.moved(place, last, i), lanes)

    def _at(self, here: Place, lanes: int) -> None:
        """Write what the body gives at a place: an element, or a vector."""
        nest = self.nest
        values = [self.load(k, here, lanes) for k in range(len(nest.types))]
        for k, result in enumerate(self.call(values, here, lanes), nest.inputs):
            self.store(k, here, result)

    def _looked_up(self, start: Place) -> list[dict[int, Near]]:
        """Where the elements of every whole vector of a row are, if all rows have the same few indices."""
        nest, last, count = self.nest, self.nest.parallel[-1], _known(self.nest)
        outside = [loop for loop in nest.parallel if loop is not last]
        rows = {k: [t for t in tables if last.strides[t[0]] != ZERO] for k, tables in nest.lookups.items()}
        if not rows or not outside or self.isa.permute is None or _way(nest) != "lanes":
            return []
        if count is None or count // self.lanes > _ROW_VECTORS:
            return []
        for k, tables in rows.items():
            if not self.is_row(k, tables) or any(loop.strides[tables[0][0]] != ZERO for loop in outside):
                return []
        places = [self.moved(start, last, self.code.number(n)) for n in range(0, count - self.lanes + 1, self.lanes)]
        return [{k: self.looked_up(t, place, self.lanes) for k, (t,) in rows.items()} for place in places]

    def _rest(self, last: Loop, low: Number, high: Number, place: Place) -> None:
        """The last parallel loop from `low` to `high`, which are less than a vector: in one that leaves lanes out."""
        f, v = self.code, self.code.lanes(self.lanes)
        self.left = f.i64("subi", high, low)
        self.mask = v.compare("slt", v.counting(), v.broadcast(f.cast("trunci", self.left, "i32")))
        self._around((), last, low, high=high, place=place, lanes=self.lanes)
        self.mask = self.left = None

    def _rows(self, last: Loop, low: Number, high: Number, rows: int, place: Place, lanes: int = 0) -> None:
        """The last parallel loop, `rows` sums at a time, or a vector of sums, in registers."""
        f, outs = self.code, range(self.nest.inputs, len(self.nest.types))
        with f.loop(low, high, max(rows, lanes)) as i:
            row = [i, *(f.i64("addi", i, n) for n in range(1, rows))]
            places = [self.moved(place, last, r) for r in row]
            sums = [self.load(k, here, lanes) for here in places for k in outs]
            results = iter(self._reduced(self.nest.reductions, places, sums, lanes))
            for here in places:
                for k in outs:
                    self.store(k, here, next(results))

    def _reduced(
        self, reductions: Sequence[Loop], places: list[Place], sums: Sequence[Value], lanes: int
    ) -> list[Value]:
        """The sums of several rows after the reductions, in their order in every sum."""
        f, (first, *rest) = self.code, reductions
        high = self.size(first.count)
        low: Number = 0
        if lanes and not rest and self.contiguous(first):
            if self.nest.extreme and in_rows(self.nest, first, self.lanes):
                row_extremes, low = extremes(self, self.nest.extreme, first, size=high, place=places[0], lanes=lanes)
                sums = [extreme(f, self.nest.extreme, row_extremes, *sums)]
                if low is high:
                    return sums
            for steps in sorted({lanes, STEPS}, reverse=True):  # first, whole lines of the cache
                if not first.count.symbols and first.count.number < steps:
                    continue
                whole = f.i64("muli", f.i64("divui", high, steps), steps)
                with f.carry(low, whole, steps, sums) as loop:
                    loop.next = loop.values
                    for values, there in self.blocks(first, places[0], loop.index, lanes, steps):
                        loop.next = self._step([there], loop.next, lanes, values)
                low, sums = whole, loop.results
        with f.carry(low, high, 1, sums) as loop:
            inside = [self.moved(place, first, loop.index) for place in places]
            loop.next = (
                self._reduced(rest, inside, loop.values, lanes) if rest else self._step(inside, loop.values, lanes)
            )
        return loop.results

    def _step(
        self, places: list[Place], sums: Sequence[Value], lanes: int, known: Mapping[int, Value] | None = None
    ) -> list[Value]:
        """The sums after one step of the reductions; `known`: operands that have been read."""
        nest, results = self.nest, []
        outs = len(nest.types) - nest.inputs
        for n, place in enumerate(places):
            values = [known[k] if known and k in known else self.load(k, place, lanes) for k in range(nest.inputs)]
            results += self.call([*values, *sums[n * outs : (n + 1) * outs]], place, lanes)
        return results
