"""The code that expands panels of codes (layout.py) into the float32 numbers that micro-kernels read."""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import stored_layout
from numc.passes.kernels.ssa import PTR
from numc.passes.kernels.values.codes import emit_unpacked


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
            word, first = divmod(vector * to.bits, 32)
            high = read[word + 1] if first + to.bits > 32 else None
            number = emit_unpacked(code, read[word], high, first, to.code_format)
            code.store(number, f.at(place, vector * to.width))
    return f.function()
