"""The code of a nest of loops: a function that shares its iterations out, and a task that computes some of them.

The task gets one context of 64-bit words: the pointers to the operands, the captured values, the symbols, and how many
iterations a task has. Where the body of the linalg.generic belongs, the text has calls of the function BODY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes.buffers.loop_nest import ONE, WIDTHS, ZERO, Loop, Nest, Size, Symbol, element, in_memory
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import PTR, Value

BODY = "numc_body"

# Loop iterations, weighted by the cost of a body, that are worth a task of their own: a microsecond or more.
_TASK_WORK = 1 << 17
# Rows whose sums are computed together, so that the latency of an addition does not count.
_ROWS = 8

Number = int | Value


def loops_text(nest: Nest) -> str:
    """The functions ``@loops`` and ``@loops_task``, and the declarations of what they call."""
    given = [element(t) for t in nest.types] + [str(v.type) for v in nest.captured] + ["index"] * len(nest.indices)
    made = ", ".join(element(t) for t in nest.types[nest.inputs :])
    declared = (
        f"func.func private @{BODY}({', '.join(given)}) -> ({made})",
        "llvm.func @numc_parallel(!llvm.ptr, !llvm.ptr, i64, i64)",
    )
    return "\n".join([*declared, _region(nest), _Task(nest).text()])


def _size(f: Function, size: Size, symbols: dict[Symbol, Value]) -> Value:
    """The value of a size (i64)."""
    values: list[Number] = [symbols[symbol] for symbol in size.symbols]
    if size.number != 1 or not values:
        values.insert(0, size.number)
    result = values[0]
    for value in values[1:]:
        result = f.i64("muli", result, value)
    return f.number(result)


def _region(nest: Nest) -> str:
    """``@loops``: describe the operands in a context, and run the task on all iterations, on threads or right here."""
    arguments = {f"o{k}": str(t) for k, t in enumerate(nest.types)}
    arguments |= {f"x{n}": str(v.type) for n, v in enumerate(nest.captured)}
    f = Function("loops", arguments, attributes="attributes {llvm.no_inline}")
    words: list[Value] = []
    known: dict[Symbol, Value] = {}
    for k, kind in enumerate(nest.types):
        operand = f[f"o{k}"]
        if not isinstance(kind, ir.MemRefType):
            words.append(_as_i64(f, operand))
            continue
        offset, sizes, strides = _described(f, operand, kind)
        known |= {Symbol("size", k, n): size for n, size in enumerate(sizes)}
        known |= {Symbol("stride", k, n): stride for n, stride in enumerate(strides)}
        for n, number in nest.starts[k]:
            offset = f.i64("addi", offset, f.i64("muli", strides[n], number))
        aligned = f.op(f"memref.extract_aligned_pointer_as_index {operand} : {kind} -> index", "index")
        words.append(f.i64("addi", _as_i64(f, aligned), f.i64("muli", offset, WIDTHS[element(kind)])))
    words += [_as_i64(f, f[f"x{n}"]) for n in range(len(nest.captured))]
    words += [known[symbol] for symbol in nest.symbols]
    total, work = nest.iterations, nest.work
    grain = f.i64("maxui", f.i64("divui", _TASK_WORK, f.i64("maxui", _size(f, work, known), 1)), 1)
    context = f.alloca(len(words) + 1, "i64")
    for n, word in enumerate([*words, grain]):
        f.store(word, f.at(context, n, "i64"), alignment=8)
    if not total.symbols and not work.symbols and total.number <= max(1, _TASK_WORK // max(1, work.number)):
        f.call("loops_task", context, f.number(0), f.number(1), dialect="llvm")
    else:
        task = f.op(f"llvm.mlir.addressof @loops_task : {PTR}", PTR)
        tasks = f.i64("ceildivui", _size(f, total, known), grain)
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


@dataclass(frozen=True)
class _Place:
    """Where the loops stand: the offset in every operand, and the index in each linalg dimension that a loop is."""

    offsets: tuple[Number, ...]
    indices: dict[int, Value]


class _Task:
    """Writes ``@loops_task``, which computes the iterations of tasks `begin` to `end`."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        arguments = {"context": PTR, "begin": "i64", "end": "i64"}
        self.code = Function("loops_task", arguments, attributes="attributes {no_inline}", dialect="llvm")
        kinds = [PTR if isinstance(t, ir.MemRefType) else str(t) for t in nest.types]
        kinds += [str(v.type) for v in nest.captured]
        kinds += ["i64"] * (len(nest.symbols) + 1)
        words = [self._word(n, kind) for n, kind in enumerate(kinds)]
        count = len(nest.types)
        self.operands, self.captured = words[:count], words[count : count + len(nest.captured)]
        self.symbols = dict(zip(nest.symbols, words[count + len(nest.captured) :], strict=False))
        self.grain = words[-1]

    def _word(self, n: int, kind: str) -> Value:
        address = self.code.at(self.code["context"], n, "i64")
        return self.code.load(address, element=kind, alignment=WIDTHS.get(kind, 8))

    def text(self) -> str:
        """The function."""
        f, nest = self.code, self.nest
        low, last = (f.i64("muli", f[edge], self.grain) for edge in ("begin", "end"))
        high = f.i64("minui", last, self._size(nest.iterations))
        start = _Place((0,) * len(nest.types), {})
        if nest.outer == nest.parallel:
            self._inner(nest.parallel[0], low, high, start)
            return f.function()
        with f.loop(low, high) as iteration:
            place, rest = start, iteration
            for loop in reversed(nest.outer):
                here = rest
                if loop is not nest.outer[0]:
                    count = self._size(loop.count)
                    here, rest = f.i64("remui", rest, count), f.i64("divui", rest, count)
                place = self._moved(place, loop, here)
            self._inner(nest.parallel[-1], 0, self._size(nest.parallel[-1].count), place)
        return f.function()

    def _size(self, size: Size) -> Value:
        return _size(self.code, size, self.symbols)

    def _moved(self, place: _Place, loop: Loop, by: Value) -> _Place:
        """The place after `by` steps of `loop`."""
        f, offsets = self.code, []
        for offset, stride in zip(place.offsets, loop.strides, strict=True):
            if stride != ZERO:
                step = by if stride == ONE else f.i64("muli", by, self._size(stride))
                offset = step if isinstance(offset, int) else f.i64("addi", offset, step)
            offsets.append(offset)
        indices = place.indices if loop.dim is None else {**place.indices, loop.dim: by}
        return _Place(tuple(offsets), indices)

    def _inner(self, last: Loop, low: Number, high: Value, place: _Place) -> None:
        """The last parallel loop from `low` to `high`, and the reductions around it or inside."""
        f, nest = self.code, self.nest
        # Neighbouring elements, as in the windows of pooling: LLVM vectorises the parallel loop.
        near = all(s in (ZERO, ONE, Size(2)) for s in last.strides[: nest.inputs])
        if not nest.reductions or (near and all(s == ONE for s in last.strides[nest.inputs :])):
            self._around(nest.reductions, last, low, high, place)
            return
        rows = _ROWS if last.count.symbols else min(_ROWS, last.count.number)
        if rows > 1:
            whole = f.i64("muli", f.i64("divui", f.i64("subi", high, low), rows), rows)
            middle = f.i64("addi", low, whole)
            self._rows(last, low, middle, rows, place)
            low = middle
        self._rows(last, low, high, 1, place)

    def _around(self, reductions: Sequence[Loop], last: Loop, low: Number, high: Value, place: _Place) -> None:
        """The reductions, and inside of them the last parallel loop."""
        f, nest = self.code, self.nest
        if reductions:
            with f.loop(0, self._size(reductions[0].count)) as r:
                self._around(reductions[1:], last, low, high, self._moved(place, reductions[0], r))
            return
        with f.loop(low, high) as i:
            here = self._moved(place, last, i)
            values = [self._load(k, here) for k in range(len(nest.types))]
            for k, result in enumerate(self._call(values, here), nest.inputs):
                self._store(k, here, result)

    def _rows(self, last: Loop, low: Number, high: Value, rows: int, place: _Place) -> None:
        """The last parallel loop, `rows` sums at a time, in registers."""
        f, outs = self.code, range(self.nest.inputs, len(self.nest.types))
        with f.loop(low, high, rows) as i:
            row = [i, *(f.i64("addi", i, n) for n in range(1, rows))]
            places = [self._moved(place, last, r) for r in row]
            sums = [self._load(k, here) for here in places for k in outs]
            results = iter(self._reduced(self.nest.reductions, places, sums))
            for here in places:
                for k in outs:
                    self._store(k, here, next(results))

    def _reduced(self, reductions: Sequence[Loop], places: list[_Place], sums: Sequence[Value]) -> list[Value]:
        """The sums of several rows after the reductions, in their order in every sum."""
        f, nest = self.code, self.nest
        if reductions:
            with f.carry(0, self._size(reductions[0].count), 1, sums) as loop:
                inside = [self._moved(place, reductions[0], loop.index) for place in places]
                loop.next = self._reduced(reductions[1:], inside, loop.values)
            return loop.results
        results, outs = [], len(nest.types) - nest.inputs
        for n, place in enumerate(places):
            values = [self._load(k, place) for k in range(nest.inputs)]
            results += self._call([*values, *sums[n * outs : (n + 1) * outs]], place)
        return results

    def _address(self, k: int, place: _Place) -> Value:
        kind = in_memory(element(self.nest.types[k]))
        return self.code.at(self.operands[k], self.code.number(place.offsets[k]), kind)

    def _load(self, k: int, place: _Place) -> Value:
        kind = element(self.nest.types[k])
        if not isinstance(self.nest.types[k], ir.MemRefType):
            return self.operands[k]
        value = self.code.load(self._address(k, place), element=in_memory(kind), alignment=WIDTHS[kind])
        return value if value.type.element == kind else self.code.cast("bitcast", value, kind)

    def _store(self, k: int, place: _Place, value: Value) -> None:
        kind = in_memory(value.type.element)
        stored = value if value.type.element == kind else self.code.cast("bitcast", value, kind)
        self.code.store(stored, self._address(k, place), alignment=WIDTHS[element(self.nest.types[k])])

    def _call(self, values: Sequence[Value], place: _Place) -> list[Value]:
        """The body on `values`, the operands' elements."""
        f, nest = self.code, self.nest
        zero = f.number(0)
        indices = [f.cast("index_cast", place.indices.get(d, zero), "index") for d in nest.indices]
        made = ", ".join(element(t) for t in nest.types[nest.inputs :])
        return f.call(BODY, *values, *self.captured, *indices, results=made)
