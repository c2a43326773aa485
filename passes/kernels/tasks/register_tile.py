"""Whole micro-tiles from their initial values to the epilogue in registers, where a step is one FMA and k is one block.

With few steps, storing a tile and loading it again, before and after the micro-kernel, takes as long as the products.
"""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Function, Value
from numc.passes.kernels.datapaths.datapath import Micro, one_step
from numc.passes.kernels.tasks.edges import WHOLE_ARGUMENTS, Driver, Stream, lines_at, load


def whole_text(driver: Driver) -> str:
    """The function ``@driver_whole``, which computes a tile without missing rows or lanes, adjacent in every stream."""
    kernel, t = driver.kernel, driver.kernel.tile
    f = Function("driver_whole", WHOLE_ARGUMENTS)
    vec = f"vector<{t.width}xf32>"
    streams = (*driver.first_inputs, *driver.last_inputs, Stream(along=True))
    inputs = len(driver.first_inputs)
    start: dict[str, str] = {}
    lines = []
    watched = f.is_given("%seen")

    def watch(values: Sequence[str], first: int) -> None:
        """Let an observer see the accumulators, in a tile that begins at `first`."""
        with f.when(watched), f.part(t.width) as code:
            for n, value in enumerate(values):
                code.store(value, code.address("%seen", first + n * t.width))

    for r in range(t.rows):
        lines.append(lines_at(f, driver, "%lane", f.i64("addi", "%row", r)))
        for v in range(t.vectors):
            at = [f.at(a, v * t.width) if s.along else a for s, a in zip(streams, lines[-1], strict=True)]
            with f.part(t.width) as code:
                values = [load(code, s, a, "") for s, a in zip(driver.first_inputs, at, strict=False)]
                start[f"%acc{r}_{v}"] = driver.first(code, values)
    watch(list(start.values()), 0)
    m = Micro(kernel.name, f, kernel, kernel.datapath, t.rows, t.vectors, fast=False)
    with f.carry(0, f["kc"], 1, [Value(v, vec) for v in start.values()]) as loop:
        loop.next = one_step(m, loop.index, loop.values)
    results = loop.results
    watch(results, t.rows * t.lanes)
    for n, result in enumerate(results):
        r, v = divmod(n, t.vectors)
        at = [f.at(a, v * t.width) if s.along else a for s, a in zip(streams, lines[r], strict=True)]
        with f.part(t.width) as code:
            values = [load(code, s, a, "") for s, a in zip(driver.last_inputs, at[inputs:], strict=False)]
            code.store(driver.last(code, [result, *values]), at[-1])
    return f.function()
