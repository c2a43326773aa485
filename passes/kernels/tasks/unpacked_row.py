"""One row and few steps of k, a depthwise convolution above all: lanes are read where they are, nothing is packed.

An accumulator stays in its register from its initial value to the epilogue. The number of steps is a constant, so that
LLVM unrolls them. Where the cheap sequence has a condition, its bounds become comparisons of encodings, and a vector
that fails them is computed again by the exact sequence.
"""

from __future__ import annotations

import functools

from numc.passes.kernels.builder import Code, Function, Value
from numc.passes.kernels.datapaths.datapath import NOTHING, Guard
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.segments import Read, by_segments, lanes_below
from numc.passes.kernels.tasks.edges import CONTEXT, DIRECT_ARGUMENTS, Driver, Stream, context, lines_at, load
from numc.passes.kernels.values.rounding import emit_parts, emit_round
from numc.passes.plan.padding import offset_of


def direct_text(driver: Driver) -> str:
    """The function ``@driver_direct``, which computes vectors of a row, and if it has a condition ``@driver_exact``."""
    text = _vectors_text if driver.plane is None else _plane_text
    if driver.kernel.limits is None:
        return text(driver, "driver_direct", fast=False)
    return text(driver, "driver_exact", fast=False) + text(driver, "driver_direct", fast=True)


def _vectors_text(driver: Driver, name: str, *, fast: bool) -> str:
    """Vectors ``%from`` to ``%to`` of the ``%lane_count`` lanes from ``%lane`` on, of an operand where it is."""
    kernel, t = driver.kernel, driver.kernel.tile
    f = Function(name, DIRECT_ARGUMENTS)
    vec, ivec = f"vector<{t.width}xf32>", f"vector<{t.width}xi32>"
    kinds = [vec, ivec, ivec] if fast else [vec]
    edge = _Edge(f, driver, fast=fast)
    offsets, first, segment, masks = context(f, "b_k", "lane_first", "lane_segment", "lane_mask")
    table = (f.at(first, f.i64("divui", "%lane", t.width), "i64"), segment, masks)
    with f.loop("%from", "%to") as v:
        lane = f.i64("muli", v, t.width)
        left = f.i64("minui", f.i64("subi", "%lane_count", lane), t.width)
        before = edge.enter(lane, lanes_below(f, t.width, left))
        carried = {"%acc": before}
        if fast:  # the range of the lanes is found on the way
            with f.part(t.width) as code:
                carried |= {"%low": code.int(0xFFFFFFFF), "%high": code.int(0)}

        def body(read: Read) -> list[str]:
            steps = f"%u = {f.number(0)} to {f.number(driver.direct)} step {f.number(1)}"
            with f.carrying(steps, carried, *kinds) as found:
                raw = read(f.at("%src", f.fetch(offsets, "%u")))
                with f.part(t.width) as code:
                    rounded = emit_round(code, raw, kernel.conversion("lanes"))
                    results = [_step(code, kernel, rounded, _row(code, kernel, "%u"), "%acc", fast=fast)]
                    if fast:
                        bits = code.cast("bitcast", rounded, "f32", "i32")
                        results += magnitude_range(code, bits, "%low", "%high")
                f.line(f"scf.yield {', '.join(results)} : {', '.join(kinds)}")
            return found

        after, *found = by_segments(f, t.width, v, kinds, body, table)
        again = {"%from": v, "%to": f.i64("addi", v, 1)}
        whole = f.compare("eq", left, f.number(t.width), "i64")
        edge.leave(lane, before, after, found, again, whole)
    return f.function()


def _plane_text(driver: Driver, name: str, *, fast: bool) -> str:
    """Rows ``%from`` to ``%to`` of lanes, ``%lane_count`` each from ``%lane`` on: in a plane every place is known."""
    kernel, t, plane = driver.kernel, driver.kernel.tile, driver.plane
    assert plane is not None
    f = Function(name, DIRECT_ARGUMENTS)
    edge = _Edge(f, driver, fast=fast)
    (length, stride), *_ = reversed(plane.lanes)
    with f.part(t.width) as code:
        rows = [_row(code, kernel, f.number(k)) for k in range(driver.direct)]
    limits = [f.op(f"vector.broadcast {x} : i32 to vector<{t.width}xi32>") for x in ("%llow", "%lhigh")] if fast else []
    end = f.i64("addi", "%lane", "%lane_count")
    rest = f.i64("remui", "%lane_count", t.width)
    whole = f.i64("subi", end, rest)
    some, mask = f.compare("ne", rest, f.number(0), "i64"), lanes_below(f, t.width, rest)
    with f.loop("%from", "%to") as row:
        source = f.at("%src", offset_of(f, row, plane.lanes[:-1]))
        begin = f.i64("muli", row, length)

        def vector(x: str, lanes: str) -> None:
            lane = f.i64("addi", begin, x)
            at = f.at(source, f.i64("muli", x, stride))
            acc = before = edge.enter(lane, lanes)
            for tap, values in zip(plane.taps, rows, strict=True):
                raw = _load(f, f.at(at, tap), t.width, stride)
                with f.part(t.width) as code:
                    acc = _step(code, kernel, raw, values, acc, fast=fast)
            again = {"%from": row, "%to": f.i64("addi", row, 1), "%lane": x, "%lane_count": f.number(t.width)}
            if lanes:
                again["%lane_count"] = rest
            edge.leave(lane, before, acc, limits, again, f.int(int(not lanes), "i1"))

        with f.loop("%lane", whole, t.width) as x:
            vector(x, "")
        with f.when(some):
            vector(whole, mask)
    return f.function()


def _load(f: Function, address: str, width: int, stride: int) -> str:
    """A vector of every `stride`th element."""
    kind = f"vector<{stride * width}xf32>"
    found = f.op(f"llvm.load {address} {{alignment = 4 : i64}} : !llvm.ptr -> {kind}")
    if stride == 1:
        return found
    lanes = ", ".join(str(n) for n in range(0, stride * width, stride))
    return f.op(f"llvm.shufflevector {found}, {found} [{lanes}] : {kind}")


class _Edge:
    """Entry and exit of one vector: initial accumulators; the guard; epilogue and store."""

    def __init__(self, f: Function, driver: Driver, *, fast: bool) -> None:
        self.f, self.driver = f, driver
        self.limits = driver.kernel.limits if fast else None
        self.bounds = None if self.limits is None else _bounds(f, driver.kernel, self.limits)
        self.streams = (*driver.first_inputs, *driver.last_inputs, Stream(along=True))
        self.lines = lines_at(f, driver, "%lane" if driver.plane is None else f.number(0), "%row")
        self.watched = f.is_given("%seen")
        self.mask, self.places = "", self.lines

    def enter(self, lane: str, mask: str) -> str:
        """The initial accumulators `lane` lanes behind where the streams begin, those in the mask."""
        f, driver = self.f, self.driver
        self.mask = mask
        self.places = [f.at(at, lane) if s.along else at for s, at in zip(self.streams, self.lines, strict=True)]
        with f.part(driver.kernel.tile.width) as code:
            inputs = [load(code, *x, mask) for x in zip(driver.first_inputs, self.places, strict=False)]
            return driver.first(code, inputs)

    def leave(self, lane: str, before: str, after: str, spread: list[str], again: dict[str, str], whole: str) -> None:
        """Store the results of the vector entered last, if the cheap sequence was exact; else compute them again.

        spread: the range of the lanes' magnitudes; again: the arguments that make it one vector; whole: if all lanes
        are stored.
        """
        f, driver, width = self.f, self.driver, self.driver.kernel.tile.width
        holds = f.int(1, "i1")
        if self.limits is not None and self.bounds is not None:
            with f.part(width) as code:
                good = _within(code, self.limits, self.bounds, before, *spread)
            holds = f.op(f"vector.reduction <and>, {good} : vector<{width}xi1> into i1")
            with f.when(f.negated(holds)):
                arguments = (again.get(name, name) for name in DIRECT_ARGUMENTS)
                f.call("driver_exact", *arguments, types=", ".join(DIRECT_ARGUMENTS.values()))
        with f.when(holds):
            with f.when(self.watched):
                tile = f.fetch("%context", CONTEXT.index("lane_block"))
                for value, at in ((before, f.at("%seen", lane)), (after, f.at(f.at("%seen", tile), lane))):
                    with f.part(width) as code:
                        code.store(value, at, self.mask)
            with f.part(width) as code:
                places = self.places[len(driver.first_inputs) :]
                inputs = [load(code, *x, self.mask) for x in zip(driver.last_inputs, places, strict=False)]
                result = driver.last(code, [after, *inputs])
            # Masked stores are slow on some processors.
            for condition, lanes in ((whole, ""), (f.negated(whole), self.mask)):
                with f.when(condition), f.part(width) as code:
                    code.store(result, self.places[-1], lanes)


def _step(code: Code, kernel: Kernel, lanes: str, rows: list[str], acc: str, *, fast: bool) -> str:
    """One step of k on converted lanes."""
    parts = emit_parts(code, lanes, kernel.parts("lanes"))
    a, b = (parts, rows) if kernel.swap else (rows, parts)
    datapath, fma = kernel.datapath, kernel.fma
    acc = Value(acc, code.ty("f32"))
    if not fast:
        return datapath.step(code, fma, a, b, acc, NOTHING)
    assert datapath.cheap is not None
    return datapath.cheap(code, fma, kernel.instructions, a, b, acc, NOTHING, None)


def _row(code: Code, kernel: Kernel, k: str) -> list[str]:
    """The parts of element `k` of the packed row, in all lanes."""
    width, parts = kernel.tile.width, kernel.parts("rows")
    scalar = Code(0, f"{code.prefix}x{len(code.lines)}_")
    within = scalar.binary("andi", k, scalar.int(width - 1, "i64"), "i64")
    block = scalar.binary("subi", k, within, "i64")
    place = scalar.binary("addi", scalar.binary("muli", block, scalar.int(parts, "i64"), "i64"), within, "i64")
    code.lines += scalar.lines
    at = code.address("%data", place)
    return [code.splat(code.address(at, p * width)) for p in range(parts)]


def _bounds(f: Function, kernel: Kernel, limits: Guard) -> tuple[str, str]:
    """The micro-kernel's guard for this row: the least magnitude less one that lanes may have; what all stay below."""
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
