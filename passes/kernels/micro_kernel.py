"""The micro-kernels of one FMA operator: a tile of accumulators in registers, updated along k.

A contraction (arithmetic.md section 4) is seen as batch x rows x lanes x k: the operand that holds the innermost output
dimension supplies the lanes of the vectors, the other one the rows. Packing (layout.py) lays both out for the loops
here; task.py blocks them. The reduction runs in ascending order in every tile shape: blocking k stores and reloads the
f32 carrier, which changes no bit. One tile of accumulators belongs to one task, so threads change no bit either.
"""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.choice import PANELS, choice_text, micro_name
from numc.passes.kernels.datapaths.chunked import run_length
from numc.passes.kernels.datapaths.counting import merge_text
from numc.passes.kernels.datapaths.datapath import Micro, Segment, product_numbers
from numc.passes.kernels.datapaths.reads import row_starts, vector_starts
from numc.passes.kernels.guard import guard_text
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.ssa import PTR
from numc.passes.kernels.values.widths import by_range


def kernel_text(kernel: Kernel) -> str:
    """Return the MLIR functions of a kernel; ``@<name>`` updates one micro-tile for one block of k.

    Its arguments: packed rows, packed lanes, the tile (rows x lanes, f32), the depth of the block, the number of rows,
    and the smallest and largest magnitudes of rows and lanes, which decide whether the cheap sequence is exact; then
    those of `Kernel.extra`. ``@<name>_one``, of narrow kernels, updates the tile's first vector only.
    """
    limits, t = kernel.limits, kernel.tile
    widths = (t.vectors, 1) if kernel.narrow else (t.vectors,)
    functions = []
    for vectors in widths:
        functions.append(_micro_kernel(kernel, t.rows, vectors, fast=False))
        if limits is not None:
            functions += [_micro_kernel(kernel, rows, vectors, fast=True) for rows in (*kernel.partial, t.rows)]
        else:
            functions += [_micro_kernel(kernel, rows, vectors, fast=False) for rows in kernel.partial]
    if limits is not None:
        functions.append(guard_text(kernel, limits))
    if kernel.datapath.finish is not None:
        functions.append(kernel.datapath.finish(kernel, f"{kernel.name}_finish"))
    if kernel.counts:
        functions.append(merge_text(kernel, f"{kernel.name}_merge"))
    return "\n".join([*functions, *(choice_text(kernel, vectors) for vectors in widths)])


def _micro_kernel(kernel: Kernel, rows: int, vectors: int, *, fast: bool) -> str:
    """All of a block's k on rows x vectors accumulators, segment by segment."""
    f = Function(
        micro_name(kernel, rows, vectors, fast=fast), {**PANELS, "tile": PTR, "kc": "i64", **dict(kernel.extra)}
    )
    datapath = kernel.datapath
    m = Micro(name=kernel.name, f=f, setting=kernel, datapath=datapath, rows=rows, vectors=vectors, fast=fast)
    m.kept, m.row_starts, m.vector_starts = datapath.prepare(m), row_starts(m), vector_starts(m)
    if not kernel.has_open_product:
        _blocks(kernel, m)
        return f.function()
    numbers = product_numbers(f, kernel.fma, f["product_width"])
    for m.widths in by_range(f, numbers):
        _blocks(kernel, m)
    return f.function()


def _blocks(kernel: Kernel, m: Micro) -> None:
    """The segments of the block, one after the other."""
    f, segment = m.f, kernel.segment
    if segment is None:
        _segment(m, Segment(f.number(0), f.number(0), f["kc"], f["kc"]))
        return
    splits = kernel.fma.datapath.splits is not None
    size = run_length(f, kernel.fma, f["depth"]) if splits else f.number(segment)
    carried = kernel.carries_segments
    start = f.i64("subi", 0, f.i64("remui", f["k0"], size)) if carried else f.number(0)
    with f.loop(start, f["kc"], size) as begin:
        whole = f.i64("addi", begin, size)
        first = f.i64("maxsi", begin, 0) if carried else begin
        _segment(m, Segment(begin, first, f.i64("minsi", whole, f["kc"]), whole))


def _segment(m: Micro, segment: Segment) -> None:
    values = m.datapath.enter(m, segment)
    m.datapath.leave(m, segment, m.datapath.walk(m, segment.first, segment.end, values))
