"""The code that expands panels of codes (layout.py) into the float32 numbers that micro-kernels read."""

from __future__ import annotations

from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, stored_layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.unpacked import emit_scaled, emit_unpacked


def expand_name(kernel: Kernel) -> str:
    """The name of the function of a kernel that expands panels."""
    return f"{kernel.name}_expand"


def expanded_room(kernel: Kernel) -> int:
    """The reach of the last period behind a panel, in f32 numbers, at most."""
    to = stored_layout(kernel, kernel.codes)
    return (to.period - 1) * to.width


def number_vectors(f: Function, to: Layout, depth: Value) -> Value:
    """The number of vectors that the last block of k of a panel has before its scales: as in `Layout.block_words`."""
    if to.side == "rows":
        return f.i64("muli", f.i64("ceildivui", depth, to.steps), to.step_vectors)
    return f.i64("muli", f.rounded_up(depth, to.unit), to.step_vectors)


def scale_vectors(f: Function, to: Layout, depth: Value) -> Value:
    """The number of those of scales, or of what elements are multiplied by: `Layout.scale_vectors`."""
    if not to.scales and not to.scaled:
        return f.number(0)
    groups = f.i64("ceildivui", depth, to.scale_steps)
    return f.i64("muli", groups if to.side == "lanes" else f.i64("ceildivui", groups, to.width), to.step_vectors)


def expand_text(kernel: Kernel) -> str:
    """The function that expands whole periods of codes of one block. Its arguments: the codes, the panel, its steps."""
    to = stored_layout(kernel, kernel.codes)
    f = Function(expand_name(kernel), {"codes": PTR, "panel": PTR, "kc": "i64"})
    code, words, vectors = f.lanes(to.width), to.period * to.bits // 32, number_vectors(f, to, f["kc"])
    with f.loop(0, f.i64("ceildivui", vectors, to.period)) as n:
        source = f.at(f["codes"], f.i64("muli", n, words * to.width))
        to_panel = f.at(f["panel"], f.i64("muli", n, to.period * to.width))
        read = [code.load(f.at(source, word * to.width), element="i32") for word in range(words)]
        for vector in range(to.period):
            word, first = divmod(vector * to.bits, 32)
            high = read[word + 1] if first + to.bits > 32 else None
            number = emit_unpacked(code, (read[word], high), first, to.code_format, kernel.instructions)
            code.store(number, f.at(to_panel, vector * to.width))
    behind = f.at(f["codes"], f.i64("muli", f.i64("ceildivui", f.i64("muli", vectors, to.bits), 32), to.width))
    if to.scaled:
        _multiply(f, kernel, to, behind)
    elif to.scales:
        panel = f.at(f["panel"], f.i64("muli", vectors, to.width))
        with f.loop(0, f.i64("muli", scale_vectors(f, to, f["kc"]), to.width), to.width) as at:
            code.store(code.load(f.at(behind, at)), f.at(panel, at))
    return f.function()


def _multiply(f: Function, kernel: Kernel, to: Layout, factors: Value) -> None:
    """Multiply the elements of a panel by the numbers of their groups."""
    groups, code, step = kernel.scaled_codes(to.side), f.lanes(to.width), to.steps if to.side == "rows" else 1
    assert groups is not None
    with f.loop(0, f.i64("ceildivui", f["kc"], step)) as n:
        first, panel = f.i64("muli", n, step), f.at(f["panel"], f.i64("muli", n, to.step_words))
        with f.loop(0, to.step_words, to.width) as vector:
            at = f.at(panel, vector)
            if to.side == "lanes":
                number = f.i64("divui", first, to.scale_steps)
                factor = code.load(f.at(factors, f.i64("addi", f.i64("muli", number, to.step_words), vector)))
            else:
                factor = _of_row(f, code, to, f.at(factors, vector), first)
            code.store(emit_scaled(code, code.load(at), factor, groups), at)


def _of_row(f: Function, code: Code, to: Layout, factors: Value, first: Value) -> Value:
    """Return what the elements of a row from step `first` on are multiplied by, of those from `factors` on."""
    if to.scale_steps % to.width == 0:  # one for all of them
        number = f.i64("divui", first, to.scale_steps)
        vector, within = f.i64("divui", number, to.width), f.i64("remui", number, to.width)
        return code.splat(f.at(factors, f.i64("addi", f.i64("muli", vector, to.step_words), within)))
    steps = code.binary("addi", code.broadcast(f.cast("trunci", first, "i32")), code.counting())
    number = code.binary("divui", steps, code.int(to.scale_steps))
    vector, within = (code.binary(name, number, code.int(to.width)) for name in ("divui", "remui"))
    index = code.binary("addi", code.binary("muli", vector, code.int(to.step_words)), within)
    return code.cast("bitcast", code.gather(factors, index), "f32")
