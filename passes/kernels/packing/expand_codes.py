"""The code that expands panels of codes (layout.py) into the float32 numbers that micro-kernels read."""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, stored_layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.codes import emit_widened, is_prefix


def expand_name(kernel: Kernel) -> str:
    """The name of the function of a kernel that expands panels."""
    return f"{kernel.name}_expand"


def expanded_room(kernel: Kernel) -> int:
    """How far behind a panel the last period may reach, in f32 numbers."""
    to = stored_layout(kernel, kernel.codes)
    return (to.period - 1) * to.width


def expand_text(kernel: Kernel) -> str:
    """The function that expands whole periods of codes. Its arguments: the codes, the panel, how many periods."""
    to = stored_layout(kernel, kernel.codes)
    f = Function(expand_name(kernel), {"codes": PTR, "panel": PTR, "periods": "i64"})
    code, words = f.lanes(to.width), to.period * to.bits // 32
    with f.loop(0, f["periods"]) as n:
        source = f.at(f["codes"], f.i64("muli", n, words * to.width))
        place = f.at(f["panel"], f.i64("muli", n, to.period * to.width))
        read = [code.load(f.at(source, word * to.width), element="i32") for word in range(words)]
        for vector in range(to.period):
            code.store(_number(code, read, vector * to.bits, to), f.at(place, vector * to.width))
    return f.function()


def _number(code: Code, words: Sequence[Value], at: int, to: Layout) -> Value:
    """The numbers whose codes begin at bit `at` of the words of a period."""
    fmt, (word, first) = to.code_format, divmod(at, 32)
    low, left = words[word], 32 - to.bits - first
    if left < 0:
        parts = code.binary("shrui", low, code.int(first)), code.binary("shli", words[word + 1], code.int(32 - first))
        low, first, left = code.binary("ori", *parts), 0, 32 - to.bits
    if is_prefix(fmt):
        high = code.binary("shli", low, code.int(left)) if left else low
        if first:
            high = code.binary("andi", high, code.int((1 << to.bits) - 1 << 32 - to.bits))
        return code.cast("bitcast", high, "f32")
    if first:
        low = code.binary("shrui", low, code.int(first))
    if left:
        low = code.binary("andi", low, code.int((1 << to.bits) - 1))
    return emit_widened(code, low, fmt)
