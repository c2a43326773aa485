"""The guard of a cheap step on a tile: the bounds of kernels/guard.py, for all of k."""

from __future__ import annotations

from numc.numerics.binary32 import INFINITY
from numc.passes.gpu.kernel_text import Writing
from numc.passes.kernels.datapaths.datapath import Guard

_BIAS = 127


def guard_lines(w: Writing, limits: Guard) -> None:
    """Append ``holds``: whether the cheap step is exact for the accumulators ``c`` and operands of these extremes.

    least_a, least_b: the smallest magnitude that is not zero, less one; most_a, most_b: the largest one; all encodings.
    growth: how far the exponent of a sum can be above that of its largest term.
    """
    w.line("size = c.to(gl.int32, bitcast=True) & 0x7FFFFFFF")
    w.line("high = gl.max(gl.max(size, 1), 0)")
    w.line(f"bound = (high >> 23) - {_BIAS} + 1")
    if not limits.entry:
        w.line(f"bound = gl.maximum((most_a >> 23) + (most_b >> 23) - {2 * _BIAS} + growth, bound)")
    w.line(f"least = (least_a >> 23) + (least_b >> 23) - {2 * _BIAS}")
    holds = [f"(bound <= {limits.largest - 2})", f"(least >= {limits.product})"]
    holds += [f"({most} < {INFINITY})" for most in ("most_a", "most_b")]
    if limits.spread is not None:
        holds.append(f"((most_a >> 23) + (most_b >> 23) - {2 * _BIAS} - least <= {limits.spread})")
    if not limits.minus_zero:
        w.line("minus = gl.where((c == 0.0) & (c.to(gl.int32, bitcast=True) < 0), 1, 0)")
        holds.append("(gl.max(gl.max(minus, 1), 0) == 0)")
    if limits.least > -149:
        holds.append(f"((least_b >> 23) >= {limits.least + _BIAS})")
    if limits.normal:
        holds += ["((least_a >> 23) != 0)", "((least_b >> 23) != 0)"]
    w.line(f"holds = {' & '.join(holds)}")
