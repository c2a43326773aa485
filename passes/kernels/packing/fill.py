"""The words of panels behind the last step of k, where matrix registers read whole registers of words."""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import Value

_MINUS_ZERO = 0x8000  # of bfloat16


def fill_rows(f: Function, kernel: Kernel, kc: Value, panel: Value) -> None:
    """Append zeros behind the `kc` steps of a packed panel of rows: any integers will do there, but a NaN will not."""
    to = layout(kernel, "rows")
    if to.alone != "bf16":
        return
    # Vectors of `width` steps are packed: the second one of a register can be missing.
    count, half = f.i64("ceildivui", kc, to.width), to.width // to.dot
    with f.when(f.compare("ne", f.i64("remui", count, to.dot), f.number(0))):
        code, last = f.lanes(half), f.i64("muli", f.i64("divui", count, to.dot), to.step_words)
        for r in range(to.count):
            code.store(code.int(0), f.at(f.at(panel, last), r * to.width + half))


def fill_lanes(f: Function, kernel: Kernel, kc: Value, panel: Value) -> None:
    """Append words which multiplied by zeros add nothing: zeros, of bfloat16 numbers -0."""
    to = layout(kernel, "lanes")
    code = f.lanes(to.width)
    nothing = code.int(_MINUS_ZERO << 16 | _MINUS_ZERO if to.alone == "bf16" else 0)
    end = f.i64("divui", f.rounded_up(kc, to.unit), to.dot)
    with f.loop(f.i64("ceildivui", kc, to.dot), end) as word:
        for v in range(to.count):
            code.store(nothing, f.at(f.at(panel, f.i64("muli", word, to.step_words)), v * to.width))
