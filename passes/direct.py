"""One row and few steps of k, a depthwise convolution above all: lanes are read where they are, nothing is packed.

An accumulator stays in its register from its initial value to the epilogue. The number of steps is a constant, so that
LLVM unrolls them. Where the cheap sequence has a condition, its bounds become comparisons of encodings, and a vector
that fails them is computed again by the exact sequence.
"""

from __future__ import annotations

import functools

from numc.passes.code import Code, Function
from numc.passes.driver import DIRECT_ARGUMENTS, Driver, Stream, context, lines_at, load
from numc.passes.fast import Guard, emit_fast_fma
from numc.passes.kernels import Kernel, magnitude_range
from numc.passes.operators import emit_fma
from numc.passes.rounding import emit_parts, emit_round
from numc.passes.segments import Read, by_segments, lanes_below


def direct_text(driver: Driver) -> str:
    """The function ``@driver_direct``, which computes vectors of a row, and if it has a condition ``@driver_exact``."""
    if driver.kernel.limits is None:
        return _vectors_text(driver, "driver_direct", fast=False)
    return _vectors_text(driver, "driver_exact", fast=False) + _vectors_text(driver, "driver_direct", fast=True)


def _vectors_text(driver: Driver, name: str, *, fast: bool) -> str:
    kernel, t = driver.kernel, driver.kernel.tile
    f = Function(name, DIRECT_ARGUMENTS)
    vec, ivec = f"vector<{t.width}xf32>", f"vector<{t.width}xi32>"
    limits = kernel.limits if fast else None
    bounds = None if limits is None else _bounds(f, kernel, limits)
    # The range of what is read as it is, is found on the way.
    looks = fast and driver.plane is None
    kinds = [vec, ivec, ivec] if looks else [vec]
    offsets, first, *segments = context(f, "b_k", "lane_first", "lane_segment", "lane_mask")
    table = (f.at(first, f.i64("divui", "%lane", t.width), "i64"), *segments)
    streams = (*driver.first_inputs, *driver.last_inputs, Stream(along=True))
    lines = lines_at(f, driver)
    watched = f.compare("ne", f.op("llvm.ptrtoint %seen : !llvm.ptr to i64"), f.number(0), "i64")
    with f.loop("%from", "%to") as v:
        lane = f.i64("muli", v, t.width)
        left = f.i64("minui", f.i64("subi", "%lane_count", lane), t.width)
        mask = lanes_below(f, t.width, left)
        places = [f.at(line, lane) if s.along else line for s, line in zip(streams, lines, strict=True)]
        with f.part(t.width) as code:
            inputs = [load(code, *x, mask) for x in zip(driver.first_inputs, places, strict=False)]
            before = driver.first(code, inputs)
            carried = {"%acc": before}
            if looks:
                carried |= {"%low": code.int(0xFFFFFFFF), "%high": code.int(0)}

        def body(read: Read) -> list[str]:
            steps = f"%u = {f.number(0)} to {f.number(driver.direct)} step {f.number(1)}"
            with f.carrying(steps, carried, *kinds) as found:
                raw = read(f.at("%src", f.fetch(offsets, "%u")))
                with f.part(t.width) as code:
                    results = _step(code, driver, raw, fast=fast)
                f.line(f"scf.yield {', '.join(results)} : {', '.join(kinds)}")
            return found

        after, *found = by_segments(f, t.width, v, kinds, body, table)
        holds = f.int(1, "i1")
        if limits is not None and bounds is not None:
            low, high = found or [_everywhere(f, ivec, x) for x in ("%llow", "%lhigh")]
            with f.part(t.width) as code:
                good = _within(code, limits, bounds, before, low, high)
            holds = f.op(f"vector.reduction <and>, {good} : vector<{t.width}xi1> into i1")
            with f.when(f.binary("xori", holds, f.int(-1, "i1"), "i1")):
                again = [*DIRECT_ARGUMENTS]
                again[again.index("%from")], again[again.index("%to")] = v, f.i64("addi", v, 1)
                f.call("driver_exact", *again, types=", ".join(DIRECT_ARGUMENTS.values()))
        with f.when(holds):
            with f.when(watched):
                for n, value in enumerate((before, after)):
                    place = f.at(f.at("%seen", n * t.lanes), lane)
                    f.line(f"llvm.store {value}, {place} {{alignment = 4 : i64}} : {vec}, !llvm.ptr")
            with f.part(t.width) as code:
                inputs = [
                    load(code, *x, mask)
                    for x in zip(driver.last_inputs, places[len(driver.first_inputs) :], strict=False)
                ]
                result = driver.last(code, [after, *inputs])
            # Masked stores are slow on some processors.
            whole = f.compare("eq", left, f.number(t.width), "i64")
            for condition, lanes in ((whole, ""), (f.binary("xori", whole, f.int(-1, "i1"), "i1"), mask)):
                with f.when(condition), f.part(t.width) as code:
                    code.store(result, places[-1], lanes)
    return f.function()


def _step(code: Code, driver: Driver, raw: str, *, fast: bool) -> list[str]:
    """Step ``%u`` on the lanes `raw`: the accumulator and, if nobody knows it, the range of the lanes so far."""
    kernel = driver.kernel
    rounded = raw if driver.plane is not None else emit_round(code, raw, kernel.lane_conversion)
    lanes = emit_parts(code, rounded, kernel.lane_conversion.format.parts)
    rows = _row(code, kernel, "%u")
    a, b = (lanes, rows) if kernel.swap else (rows, lanes)
    if not fast:
        return [emit_fma(code, a, b, "%acc", kernel.fma)]
    result = emit_fast_fma(code, a, b, "%acc", kernel.fma)
    if driver.plane is not None:
        return [result]
    return [result, *magnitude_range(code, code.cast("bitcast", rounded, "f32", "i32"), "%low", "%high")]


def _row(code: Code, kernel: Kernel, k: str) -> list[str]:
    """The parts of element `k` of the packed row, in all lanes."""
    width, parts = kernel.tile.width, kernel.row_conversion.format.parts
    scalar = Code(0, code.prefix + "x")
    within = scalar.binary("andi", k, scalar.int(width - 1, "i64"), "i64")
    block = scalar.binary("subi", k, within, "i64")
    place = scalar.binary("addi", scalar.binary("muli", block, scalar.int(parts, "i64"), "i64"), within, "i64")
    code.lines += scalar.lines
    at = code.address("%data", place)
    return [code.splat(code.address(at, p * width)) for p in range(parts)]


def _bounds(f: Function, kernel: Kernel, limits: Guard) -> tuple[str, str]:
    """The guard of kernels.py for this row: the least magnitude less one that lanes may have; what all stay below."""
    bias = 127
    low, high = (f.cast("extui", f.binary("shrui", x, f.int(23), "i32"), "i32", "i64") for x in ("%rlow", "%rhigh"))
    least = f.i64("minsi", f.i64("maxsi", f.i64("subi", limits.product + 2 * bias, low), 0), 511)
    most = f.i64("subi", limits.largest - 2 + 2 * bias - kernel.growth + 1, high)
    most = f.i64("minsi", f.i64("maxsi", most, 0), 255)
    finite = f.compare("ult", "%rhigh", f.int(0x7F800000), "i32")
    most = f.select(finite, most, f.number(0), "i64")
    ivec = f"vector<{kernel.tile.width}xi32>"
    least, most = (_everywhere(f, ivec, f.cast("trunci", f.i64("shli", x, 23), "i64", "i32")) for x in (least, most))
    return least, most


def _everywhere(f: Function, ivec: str, x: str) -> str:
    return f.op(f"vector.broadcast {x} : i32 to {ivec}")


def _within(code: Code, limits: Guard, bounds: tuple[str, str], before: str, low: str, high: str) -> str:
    """Where the cheap sequence was exact, given the accumulator at entry and the range of the lanes."""
    least, most = bounds
    bits = code.cast("bitcast", before, "f32", "i32")
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
    below = min(max(limits.largest - 2 + 127, 0), 255) << 23
    conditions = [
        code.compare("uge", low, least),
        code.compare("ult", high, most),
        code.compare("ult", magnitude, code.int(below)),
        code.compare("ne", bits, code.int(0x80000000)),  # -0 would become +0 in the cheap sequence
    ]
    return functools.reduce(lambda a, b: code.binary("andi", a, b, "i1"), conditions)
