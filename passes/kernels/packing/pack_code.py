"""The code that packs operands while a program runs (layout.py).

Element addresses are sums of offsets, a table for each direction, so every matmul and convolution packs by the same
code, whatever its strides, and nothing like im2col is ever stored for a whole tensor. Along a vector, elements are
read as segments (segments.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numc.numerics.binary32 import NAN
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, layout
from numc.passes.kernels.packing.segments import ARGUMENTS, Read, by_segments, lanes_below
from numc.passes.kernels.ssa import PTR, Type, Value
from numc.passes.kernels.values.codes import emit_widened
from numc.passes.kernels.values.rounding import emit_parts, emit_round
from numc.passes.kernels.values.widths import Numbers, run_time

_NUMBERS = ("count", "size", "vectors")


def pack_text(kernel: Kernel, side: str) -> str:
    """The MLIR function ``@<kernel>_pack_<side>``, which packs one panel for one block of k.

    Arguments: the operand; the offsets along the direction that is not vectorised, how many there are and up to how
    many are filled with +0; the segments of the vectors; the number of vectors; the panel; open widths. Returns the
    smallest non-zero magnitude less one and the largest one, as encodings.
    """
    to = layout(kernel, side)
    vector, step = to.parts * to.width, to.step_words
    across = vector if side == "rows" else step
    order = ("src", "offsets", "count", "size", *ARGUMENTS, "vectors", "panel")
    f = _function(kernel, side, f"{kernel.name}_pack_{side}", order)
    code, widths = f.lanes(to.width), _widths(kernel, side, f)
    with f.carry(0, f["vectors"], 1, _widest(code)) as vectors:
        if side == "rows":
            panel = f.at(f["panel"], row_vector(f, to, vectors.index))
        else:
            panel = f.at(f["panel"], f.i64("muli", vectors.index, vector))

        def body(read: Read) -> Sequence[Value]:
            if side == "lanes" and to.alone:
                _words(f, kernel, lambda k: read(f.at(f["src"], f.fetch(f["offsets"], k), kernel.element(side))), panel)
                return vectors.values
            with f.carry(0, f["count"], 1, vectors.values) as steps:
                raw = read(f.at(f["src"], f.fetch(f["offsets"], steps.index), kernel.element(side)))
                target = f.at(panel, f.i64("muli", steps.index, across))
                steps.next = _convert(kernel, side, code, raw=raw, place=target, limits=steps.values, widths=widths)
            return steps.results

        kinds = [code.ty("i32")] * 2
        vectors.next = by_segments(f, kernel, side, number=vectors.index, kinds=kinds, body=body)
        if side == "rows" or not to.alone:
            _fill(f, code, panel, across=across, vectors=to.parts, zero=_zero(code, to))
    return f.function(*_reduced(f, vectors.results))


def pack_dense_text(kernel: Kernel) -> str:
    """The function ``@<kernel>_pack_dense``: pack_lanes for a panel whose lanes are all there and adjacent.

    It reads whole rows of memory; a stride of a page a vector would wait for the TLB. Arguments: where lane 0 is, the
    offsets along k, how many there are and up to how many are filled with +0, the panel, open widths.
    """
    to = layout(kernel, "lanes")
    order = ("src", "offsets", "count", "size", "panel")
    f = _function(kernel, "lanes", f"{kernel.name}_pack_dense", order)
    code, widths = f.lanes(to.width), _widths(kernel, "lanes", f)
    if to.alone:
        for v in range(to.count):
            first = _at(f, kernel, "lanes", f["src"], v * to.width)

            def read(k: Value, first: Value = first) -> Value:
                return load_operand(code, kernel, "lanes", _at(f, kernel, "lanes", first, f.fetch(f["offsets"], k)))

            _words(f, kernel, read, f.at(f["panel"], v * to.width))
        return f.function(*_reduced(f, _widest(code)))
    with f.carry(0, f["count"], 1, _widest(code)) as steps:
        source = _at(f, kernel, "lanes", f["src"], f.fetch(f["offsets"], steps.index))
        target = f.at(f["panel"], f.i64("muli", steps.index, to.step_words))
        limits: Sequence[Value] = steps.values
        for v in range(to.count):
            raw = load_operand(code, kernel, "lanes", _at(f, kernel, "lanes", source, v * to.width))
            limits = _convert(
                kernel,
                "lanes",
                code,
                raw=raw,
                place=f.at(target, v * to.parts * to.width),
                limits=limits,
                widths=widths,
            )
        steps.next = limits
    _fill(f, code, f["panel"], across=to.step_words, vectors=to.count * to.parts, zero=code.f32(0.0))
    return f.function(*_reduced(f, steps.results))


def pack_transposed_text(kernel: Kernel) -> str:
    """The function ``@<kernel>_pack_transposed``: pack_lanes for a panel whose steps of k are all adjacent.

    It transposes squares of the width of a vector, in registers. Arguments: where step 0 is, the offsets of the lanes,
    how many lanes and steps there are, the panel, open widths.
    """
    to = layout(kernel, "lanes")
    order = ("src", "offsets", "count", "size", "panel")
    f = _function(kernel, "lanes", f"{kernel.name}_pack_transposed", order)
    code, widths = f.lanes(to.width), _widths(kernel, "lanes", f)
    with f.carry(0, to.count, 1, _widest(code)) as vectors:
        first = f.i64("muli", vectors.index, to.width)
        last = f.i64("subi", f["count"], 1)
        starts = [
            _at(f, kernel, "lanes", f["src"], f.fetch(f["offsets"], f.i64("minsi", f.i64("addi", first, n), last)))
            for n in range(to.width)
        ]
        left = f.i64("maxsi", f.i64("subi", f["count"], first), 0)
        there = lanes_below(f, to.width, f.i64("minsi", left, to.width))
        column = f.at(f["panel"], f.i64("muli", first, to.parts))
        with f.carry(0, f["size"], to.width, vectors.values) as steps:
            left = f.i64("minsi", f.i64("subi", f["size"], steps.index), to.width)
            square = [
                load_operand(code, kernel, "lanes", _at(f, kernel, "lanes", start, steps.index), within)
                for start, within in ((start, lanes_below(f, to.width, left)) for start in starts)
            ]
            limits: Sequence[Value] = steps.values
            columns = [
                code.select(there, lanes, code.zero(kernel.element("lanes"))) for lanes in transposed(code, square)
            ]
            for n in range(0, to.width, to.dot) if to.alone else ():
                target = f.i64("muli", f.i64("divui", f.i64("addi", steps.index, n), to.dot), to.step_words)
                code.store(_word(code, kernel, columns[n : n + to.dot]), f.at(column, target))
            for n, raw in enumerate(() if to.alone else columns):
                target = f.at(column, f.i64("muli", f.i64("addi", steps.index, n), to.step_words))
                limits = _convert(kernel, "lanes", code, raw=raw, place=target, limits=limits, widths=widths)
            steps.next = limits
        vectors.next = steps.results
    return f.function(*_reduced(f, vectors.results))


def pack_turned_text(kernel: Kernel) -> str:
    """The function ``@<kernel>_pack_turned``: pack_rows for a panel whose rows are all adjacent.

    It reads the rows of one step of k after the other, and transposes squares of them in registers. Arguments: where
    row 0 is, the offsets along k, how many rows and steps there are, the panel, open widths.
    """
    to = layout(kernel, "rows")
    order = ("src", "offsets", "count", "size", "panel")
    f = _function(kernel, "rows", f"{kernel.name}_pack_turned", order)
    code, widths = f.lanes(to.width), _widths(kernel, "rows", f)
    limits: Sequence[Value] = _widest(code)
    for first in range(0, to.count, to.width):
        rows = min(to.count - first, to.width)
        with f.carry(0, f["size"], to.width, limits) as steps:
            vectors = _steps_of_rows(f, kernel, first, rows, steps.index)
            chunk = f.at(f["panel"], row_vector(f, to, f.i64("divui", steps.index, to.width)))
            limits = steps.values
            for r, raw in enumerate(transposed(code, vectors)[:rows]):
                target = f.at(chunk, (first + r) * to.parts * to.width)
                limits = _convert(kernel, "rows", code, raw=raw, place=target, limits=limits, widths=widths)
            steps.next = limits
        limits = steps.results
    return f.function(*_reduced(f, limits))


def _steps_of_rows(f: Function, kernel: Kernel, first: int, rows: int, step: Value) -> Sequence[Value]:
    """Append the loads of `rows` rows from `first` on, `width` steps from `step` on; what is not there is +0.

    A vector holds several steps if there are few rows: n, n + p, n + 2 p, ... for a power of two p of rows.
    """
    padded, width, element = 1 << (rows - 1).bit_length(), kernel.tile.width, kernel.element("rows")
    part = f.lanes(padded)
    count = f.i64("minsi", f.i64("maxsi", f.i64("subi", f["count"], first), 0), rows)
    left = f.i64("subi", f["size"], step)
    every, full = f.compare("eq", count, f.number(rows)), f.compare("uge", left, f.number(width))
    source, offsets = f.at(f["src"], first, element), f.at(f["offsets"], step, "i64")
    order = [[n + m for m in range(0, width, padded)] for n in range(padded)]

    def read(offset: Value, mask: Value | None = None) -> Value:
        return load_operand(part, kernel, "rows", f.at(source, offset, element), mask)

    with f.choose(f.binary("andi", every, full), *[f.lanes(width).ty(element)] * padded) as choice:
        with choice.then():
            all_rows = lanes_below(f, padded, f.number(rows)) if rows < padded else None
            choice.next = [part.joined([read(f.fetch(offsets, s), all_rows) for s in steps]) for steps in order]
        with choice.otherwise():
            some, none = (lanes_below(f, padded, n) for n in (count, f.number(0)))
            last = f.i64("subi", left, 1)

            def load(s: int) -> Value:
                there = f.compare("ugt", left, f.number(s))
                return read(f.fetch(offsets, f.i64("minsi", last, s)), f.select(there, some, none))

            choice.next = [part.joined([load(s) for s in steps]) for steps in order]
    return choice.results


def transposed(code: Code, square: Sequence[Value]) -> list[Value]:
    """The columns of a square of rows, or of several squares side by side.

    Blocks of 1, 2, 4, ... elements change places with those beside the diagonal.
    """
    columns, size, block = list(square), code.width, 1
    while block < len(square):
        even = [e if not e & block else size + e - block for e in range(size)]
        odd = [e + block if not e & block else size + e for e in range(size)]
        for n in range(len(square)):
            if not n & block:
                a, b = columns[n], columns[n + block]
                columns[n], columns[n + block] = code.shuffle(a, even, b), code.shuffle(a, odd, b)
        block *= 2
    return columns


def _words(f: Function, kernel: Kernel, read: Callable[[Value], Value], to: Value) -> None:
    """Append the words of one vector of lanes; `read` is what reads it at a step of k, and `to` where they begin."""
    panel = layout(kernel, "lanes")
    code, zero = f.lanes(panel.width), f.lanes(panel.width).zero(kernel.element("lanes"))
    rest = f.i64("remui", f["count"], panel.dot)
    whole = f.i64("subi", f["count"], rest)

    def store(step: Value, numbers: Sequence[Value]) -> None:
        offset = f.i64("muli", f.i64("divui", step, panel.dot), panel.step_words)
        code.store(_word(code, kernel, numbers), f.at(to, offset))

    with f.loop(0, whole, panel.dot) as step:
        store(step, [read(f.i64("addi", step, n)) for n in range(panel.dot)])
    with f.when(f.compare("ne", rest, f.number(0))):
        some = [read(whole)]
        for n in range(1, panel.dot):
            there = f.compare("ugt", rest, f.number(n))
            some.append(code.select(there, read(f.select(there, f.i64("addi", whole, n), whole)), zero))
        store(whole, some)


def _word(code: Code, kernel: Kernel, numbers: Sequence[Value]) -> Value:
    """Append the word (i32) of numbers of successive steps of lanes, which are as they are in memory."""
    to = layout(kernel, "lanes")
    bits = 32 // to.dot
    if to.alone == "bf16":
        low, high = (_bf16_bits(code, kernel, "lanes", x) for x in numbers)
        return code.binary("ori", code.binary("shrui", low, code.int(16)), high)
    if kernel.lanes.narrow:
        return _word_of_bytes(code, kernel, numbers)
    # All but the last one have room in the significand of a binary32 number.
    *others, last = numbers
    low = others.pop()
    for each in reversed(others):
        low = code.fma(low, code.f32(2.0**bits), each)
    high = code.binary("shli", code.cast("fptosi", last, "i32"), code.int(32 - bits))
    word = code.binary("addi", code.cast("fptosi", low, "i32"), high)
    if to.alone == "unsigned":
        return word
    # Negative integers have borrowed from those above: with an offset none of them does.
    offsets = code.int(sum(1 << (bits * n + bits - 1) for n in range(to.dot)))
    return code.binary("xori", code.binary("addi", word, offsets), offsets)


def _word_of_bytes(code: Code, kernel: Kernel, numbers: Sequence[Value]) -> Value:
    """A word of numbers of a byte each."""
    bits = 32 // len(numbers)
    *others, word = [_integer_of_byte(code, kernel, "lanes", x) for x in numbers]
    for each in reversed(others):
        low = code.binary("andi", each, code.int((1 << bits) - 1))  # without the copies of its sign
        word = code.binary("ori", code.binary("shli", word, code.int(bits)), low)
    return word


def _integer_of_byte(code: Code, kernel: Kernel, side: str, raw: Value) -> Value:
    """The integers (i32) of bytes: those of a have no sign."""
    return code.cast("extsi" if kernel.operand(side) else "extui", raw, "i32")


def _bf16_bits(code: Code, kernel: Kernel, side: str, raw: Value) -> Value:
    """Append the bits of numbers as binary32 ones in bfloat16; a NaN is the quiet one."""
    bits = code.cast("bitcast", converted(code, kernel, side, raw), "i32")
    if kernel.access(side).narrow:
        return bits
    # The payload of a NaN could be in the half of its bits that gets lost.
    return code.select(code.compare("uno", raw, raw), code.int(NAN), bits)


def load_operand(code: Code, kernel: Kernel, side: str, address: Value, mask: Value | None = None) -> Value:
    """Append the load of lanes of an operand as they are in memory; what the mask leaves out is +0."""
    element = kernel.element(side)
    return code.load(address, mask, element, alignment=Type(element).bits // 8)


def converted(code: Code, kernel: Kernel, side: str, raw: Value, widths: Numbers | None = None) -> Value:
    """Append the conversion of lanes of an operand to its format, in which narrow ones are already."""
    if not kernel.access(side).narrow:
        return emit_round(code, raw, kernel.conversion(side), widths=widths)
    if kernel.fma.datapath.name == "bytes":
        return code.cast("sitofp", _integer_of_byte(code, kernel, side, raw), "f32")
    return emit_widened(code, code.cast("extui", raw, "i32"), kernel.conversion(side).format)


def _at(f: Function, kernel: Kernel, side: str, base: Value, index: Value | int) -> Value:
    return f.at(base, index, kernel.element(side))


def converts_open(kernel: Kernel, side: str) -> bool:
    """Whether an operand is converted as it is packed, to widths that a run chooses."""
    return kernel.grouped(side) is None and kernel.is_open(side)


def _function(kernel: Kernel, side: str, name: str, order: Sequence[str]) -> Function:
    """A function with these arguments, and ``width`` if it converts to open widths."""
    arguments = {n: "i64" if n in _NUMBERS else PTR for n in order}
    return Function(name, arguments | ({"width": "i64"} if converts_open(kernel, side) else {}), "i32, i32")


def _widths(kernel: Kernel, side: str, f: Function) -> Numbers | None:
    return run_time(f, f["width"], kernel.conversion(side)) if converts_open(kernel, side) else None


def _widest(code: Code) -> list[Value]:
    """The limits of nothing: a smallest and a largest magnitude, as encodings."""
    return [code.int(0xFFFFFFFF), code.int(0)]


def row_vector(f: Function, to: Layout, number: Value) -> Value:
    """Where the numbers of a row are, `width` of them, in f32 numbers."""
    parts = to.steps // to.width  # of a vector
    if parts == 1:
        return f.i64("muli", number, to.step_words)
    vector = f.i64("muli", f.i64("divui", number, parts), to.step_words)
    return f.i64("addi", vector, f.i64("muli", f.i64("remui", number, parts), to.width // parts))


def _zero(code: Code, to: Layout) -> Value:
    """As much as `_convert` stores of a vector, of zeros."""
    return code.int(0, f"i{32 // to.dot}") if to.side == "rows" and to.alone else code.f32(0.0)


def _fill(f: Function, code: Code, panel: Value, across: int, vectors: int, zero: Value) -> None:
    """Append zeros behind the last step, `vectors` of them at each place of the arguments ``count`` to ``size``."""
    with f.loop(f["count"], f["size"]) as u:
        target = f.at(panel, f.i64("muli", u, across))
        for n in range(vectors):
            code.store(zero, f.at(target, n * code.width))


def _reduced(f: Function, limits: Sequence[Value]) -> tuple[Value, Value]:
    return f.reduce("minui", limits[0]), f.reduce("maxui", limits[1])


def _convert(
    kernel: Kernel,
    side: str,
    code: Code,
    raw: Value,
    place: Value,
    limits: Sequence[Value],
    widths: Numbers | None,
) -> Sequence[Value]:
    """Append the conversion of one vector, the stores of its parts and the update of the limits; returns the limits.

    Groups are converted when the panel is there (convert_groups.py).
    """
    to = layout(kernel, side)
    if kernel.grouped(side) is not None:
        code.store(raw, place)
        return limits
    if to.alone:
        _store_number(kernel, code, raw, place)
        return limits
    rounded = converted(code, kernel, side, raw, widths)
    if kernel.limits is not None:
        limits = magnitude_range(code, code.cast("bitcast", rounded, "i32"), *limits)
    for part, value in enumerate(emit_parts(code, rounded, kernel.conversion(side).format)):
        code.store(value, code.at(place, part * to.width))
    return limits


def _store_number(kernel: Kernel, code: Code, raw: Value, place: Value) -> None:
    """Append the store of the numbers of one vector of a row, which are words there."""
    to = layout(kernel, "rows")
    if to.alone == "bf16":
        number = code.binary("shrui", _bf16_bits(code, kernel, "rows", raw), code.int(16))
    elif kernel.rows.narrow:
        number = _integer_of_byte(code, kernel, "rows", raw)
    else:
        number = code.cast("fptosi", raw, "i32")
    code.store(code.cast("trunci", number, f"i{32 // to.dot}"), place)
