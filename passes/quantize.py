"""Conversion of packed panels to formats with groups: groups lie along k, which is a direction of every panel.

A panel is packed as it is (packing.py), then converted in the cache, group after group. What lies in it then are
binary32 numbers: the values of bfp and mx, which are exact, and the integers of intN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numc.compiler.grouped import CHUNK, SCALE_BIAS, Bfp, GroupConversion, GroupFormat, Int
from numc.passes.code import Code, Function
from numc.passes.kernels import Kernel, magnitude_range
from numc.passes.packing import Layout, layout

_INFINITY = 0x7F800000
_NAN = 0x7FC00000


@dataclass(frozen=True)
class Scaling:
    """Factors that take a value to where elements are rounded (`down` one after the other), and back (`up`).

    Two each, because one power of two can lie beyond the range of binary32.
    """

    down: tuple[str, str]
    up: tuple[str, str]


def quantize_text(kernel: Kernel, side: str) -> str:
    """The function ``@<kernel>_quantize_<side>``, which converts one panel for one block of k in place.

    Arguments: the panel, how many steps of k it has, and the largest magnitude of the operand, as an encoding. Returns
    the smallest non-zero magnitude less one and the largest one, as encodings, if the kernel has a use for them.
    """
    to = kernel.groups_of(side)
    panel, ranges = layout(kernel, side), kernel.limits is not None
    f = Function(
        f"{kernel.name}_quantize_{side}", {"%panel": "!llvm.ptr", "%count": "i64", "%largest": "i32"}, "i32, i32"
    )
    writer = _Writer(f, panel, to, ranges=ranges)
    if isinstance(to.format, Int):
        low, high = writer.elementwise()
    elif panel.side == "lanes":
        low, high = writer.lanes(to.format.group)
    elif to.format.group % panel.width == 0:
        low, high = writer.row_vectors(to.format.group // panel.width)
    else:
        low, high = writer.row_scalars(to.format.group)
    return f.function(low, high)


class _Writer:
    def __init__(self, f: Function, panel: Layout, to: GroupConversion, *, ranges: bool) -> None:
        self.f, self.panel, self.to, self.ranges = f, panel, to, ranges
        self.bottom = ""
        if isinstance(to.format, Bfp):
            code = Code(0, "w")
            top = emit_exponent(code, "%largest")
            self.bottom = code.binary("subi", top, code.int(to.format.window), "i32")
            f.lines += code.lines

    def elementwise(self) -> tuple[str, str]:
        """Every value by itself, zeros behind the last step too: 0 is 0."""
        f, panel, fmt = self.f, self.panel, self.to.format
        assert isinstance(fmt, Int)
        scale = Code(0, "w")
        divisor = emit_divisor(scale, "%largest", fmt)
        f.lines += scale.lines
        steps = f.i64("ceildivui", "%count", panel.width) if panel.side == "rows" else "%count"
        with f.loop(0, f.i64("muli", steps, panel.step_words), panel.width) as place:
            code = Code(panel.width, "p")
            address = code.address("%panel", place)
            broadcast = code.op(f"vector.broadcast {divisor} : f32 to {code.ty('f32')}")
            code.store(emit_integer(code, code.load(address), broadcast, self.to), address)
            f.lines += code.lines
        return f.int(0xFFFFFFFF), f.int(0)

    def lanes(self, group: int) -> tuple[str, str]:
        """A lane of a vector is one group, over `group` steps of k."""
        f, panel = self.f, self.panel
        ivec = f"vector<{panel.width}xi32>"
        with f.carrying(
            f"%v = {f.number(0)} to {f.number(panel.count)} step {f.number(1)}", self._none(), ivec
        ) as both:
            base = f.at("%panel", f.i64("muli", "%v", panel.width * panel.parts))
            names = {"%lowg": "%low", "%highg": "%high"}
            with f.carrying(f"%g = {f.number(0)} to %count step {f.number(group)}", names, ivec) as over:
                end = f.i64("minui", f.i64("addi", "%g", group), "%count")
                f.line(f"%none = arith.constant dense<0> : {ivec}")
                with f.carrying(f"%u = %g to {end} step {f.number(1)}", {"%m": "%none"}, ivec) as (most,):
                    code = Code(panel.width, "m")
                    x = code.load(code.address(base, self._step(code, "%u")))
                    f.lines += [*code.lines, *self._larger(code, x)]
                code = Code(panel.width, "s")
                scaling = emit_scaling(code, most, self.to.format, self._spread(code, self.bottom))
                f.lines += code.lines
                found = self._convert_run(base, "%g", end, scaling, ("%lowg", "%highg"))
                f.line(f"scf.yield {', '.join(found)} : {ivec}, {ivec}")
            f.line(f"scf.yield {', '.join(over)} : {ivec}, {ivec}")
        return self._reduced(both)

    def row_vectors(self, vectors: int) -> tuple[str, str]:
        """A group is `vectors` whole vectors of a row."""
        f, panel = self.f, self.panel
        ivec = f"vector<{panel.width}xi32>"
        steps = f.i64("ceildivui", "%count", panel.width)
        with f.carrying(
            f"%v = {f.number(0)} to {f.number(panel.count)} step {f.number(1)}", self._none(), ivec
        ) as both:
            base = f.at("%panel", f.i64("muli", "%v", panel.width * panel.parts))
            names = {"%lowg": "%low", "%highg": "%high"}
            with f.carrying(f"%g = {f.number(0)} to {steps} step {f.number(vectors)}", names, ivec) as over:
                end = f.i64("minui", f.i64("addi", "%g", vectors), steps)
                f.line(f"%none = arith.constant dense<0> : {ivec}")
                with f.carrying(f"%u = %g to {end} step {f.number(1)}", {"%m": "%none"}, ivec) as (most,):
                    code = Code(panel.width, "m")
                    x = code.load(code.address(base, self._step(code, "%u")))
                    f.lines += [*code.lines, *self._larger(code, x)]
                scalar = Code(0, "s")
                top = scalar.op(f"vector.reduction <maxui>, {most} : {ivec} into i32")
                one = emit_scaling(scalar, top, self.to.format, self.bottom)
                f.lines += scalar.lines
                code = Code(panel.width, "b")
                down, up = (
                    (self._spread(code, p[0], "f32"), self._spread(code, p[1], "f32")) for p in (one.down, one.up)
                )
                scaling = Scaling(down, up)
                f.lines += code.lines
                found = self._convert_run(base, "%g", end, scaling, ("%lowg", "%highg"))
                f.line(f"scf.yield {', '.join(found)} : {ivec}, {ivec}")
            f.line(f"scf.yield {', '.join(over)} : {ivec}, {ivec}")
        return self._reduced(both)

    def row_scalars(self, group: int) -> tuple[str, str]:
        """Groups of any size, value by value."""
        f, panel = self.f, self.panel
        start = {"%low": f.int(0xFFFFFFFF), "%high": f.int(0)}

        def address(code: Code, base: str, u: str) -> str:
            within = code.binary("andi", u, f.number(panel.width - 1), "i64")
            vector = code.binary(
                "muli", code.binary("subi", u, within, "i64"), f.number(panel.count * panel.parts), "i64"
            )
            return code.address(base, code.binary("addi", vector, within, "i64"))

        with f.carrying(f"%v = {f.number(0)} to {f.number(panel.count)} step {f.number(1)}", start, "i32") as both:
            base = f.at("%panel", f.i64("muli", "%v", panel.width * panel.parts))
            names = {"%lowg": "%low", "%highg": "%high"}
            with f.carrying(f"%g = {f.number(0)} to %count step {f.number(group)}", names, "i32") as over:
                end = f.i64("minui", f.i64("addi", "%g", group), "%count")
                with f.carrying(f"%u = %g to {end} step {f.number(1)}", {"%m": f.int(0)}, "i32") as (most,):
                    code = Code(0, "m")
                    x = code.op(f"llvm.load {address(code, base, '%u')} : !llvm.ptr -> f32")
                    f.lines += [*code.lines, *self._larger(code, x)]
                scalar = Code(0, "s")
                scaling = emit_scaling(scalar, most, self.to.format, self.bottom)
                f.lines += scalar.lines
                names = {"%lowu": "%lowg", "%highu": "%highg"}
                with f.carrying(f"%u = %g to {end} step {f.number(1)}", names, "i32") as found:
                    code = Code(0, "c")
                    place = address(code, base, "%u")
                    x = code.op(f"llvm.load {place} : !llvm.ptr -> f32")
                    f.lines += [*code.lines, *self._converted(code, x, place, scaling, "%lowu", "%highu", "i32")]
                f.line(f"scf.yield {', '.join(found)} : i32, i32")
            f.line(f"scf.yield {', '.join(over)} : i32, i32")
        return both[0], both[1]

    def _none(self) -> dict[str, str]:
        code = Code(self.panel.width, "z")
        start = {"%low": code.int(0xFFFFFFFF), "%high": code.int(0)}
        self.f.lines += code.lines
        return start

    def _step(self, code: Code, u: str) -> str:
        return code.op(f"arith.muli {u}, {self.f.number(self.panel.step_words)} : i64")

    def _spread(self, code: Code, x: str, element: str = "i32") -> str:
        return code.op(f"vector.broadcast {x} : {element} to {code.ty(element)}") if x else ""

    def _larger(self, code: Code, x: str) -> list[str]:
        """What a loop over the values of a group yields: the larger one of ``%m`` and the magnitude of `x`."""
        before = len(code.lines)
        bits = code.cast("bitcast", x, "f32", "i32")
        magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
        larger = code.binary("maxui", "%m", magnitude, "i32")
        return [*code.lines[before:], f"scf.yield {larger} : {code.ty('i32')}"]

    def _convert_run(self, base: str, start: str, end: str, scaling: Scaling, limits: tuple[str, str]) -> list[str]:
        f = self.f
        ivec = f"vector<{self.panel.width}xi32>"
        names = dict(zip(("%lowu", "%highu"), limits, strict=True))
        with f.carrying(f"%u = {start} to {end} step {f.number(1)}", names, ivec) as found:
            code = Code(self.panel.width, "c")
            place = code.address(base, self._step(code, "%u"))
            x = code.load(place)
            f.lines += [*code.lines, *self._converted(code, x, place, scaling, "%lowu", "%highu", ivec)]
        return found

    def _converted(self, code: Code, x: str, place: str, scaling: Scaling, low: str, high: str, kind: str) -> list[str]:
        before = len(code.lines)
        values = emit_values(code, x, scaling, self.to, self.panel.parts)
        for n, value in enumerate(values):
            at = code.address(place, n * self.panel.width) if n else place
            if code.width:
                code.store(value, at)
            else:
                code.lines.append(f"llvm.store {value}, {at} : f32, !llvm.ptr")
            if self.ranges:
                low, high = magnitude_range(code, code.cast("bitcast", value, "f32", "i32"), low, high)
        return [*code.lines[before:], f"scf.yield {low}, {high} : {kind}, {kind}"]

    def _reduced(self, both: list[str]) -> tuple[str, str]:
        ivec = f"vector<{self.panel.width}xi32>"
        smallest = self.f.op(f"vector.reduction <minui>, {both[0]} : {ivec} into i32")
        return smallest, self.f.op(f"vector.reduction <maxui>, {both[1]} : {ivec} into i32")


def emit_exponent(code: Code, magnitude: str) -> str:
    """floor(log2) of a finite magnitude by its encoding; -149 for zero."""
    normal = code.binary("subi", code.binary("shrui", magnitude, code.int(23), "i32"), code.int(127), "i32")
    # The encoding of a subnormal number counts quanta.
    count = code.cast("bitcast", code.cast("sitofp", magnitude, "i32", "f32"), "f32", "i32")
    small = code.binary("subi", code.binary("shrui", count, code.int(23), "i32"), code.int(127 + 149), "i32")
    small = code.binary("maxsi", small, code.int(-149 & 0xFFFFFFFF), "i32")
    return code.select(code.compare("ult", magnitude, code.int(1 << 23)), small, normal, "i32")


def emit_scaling(code: Code, magnitude: str, fmt: GroupFormat, bottom: str) -> Scaling:
    """The factors of groups by their largest magnitudes (encodings). `bottom`: the lowest exponent of bfp."""
    exponent = emit_exponent(code, magnitude)
    if isinstance(fmt, Bfp):
        exponent = code.binary("maxsi", exponent, bottom, "i32")
        shift = code.binary("subi", code.int(fmt.magnitude_bits - 1), exponent, "i32")
    else:
        assert not isinstance(fmt, Int)
        scale = code.binary("subi", exponent, code.int(fmt.emax), "i32")
        scale = code.binary("maxsi", scale, code.int(-SCALE_BIAS & 0xFFFFFFFF), "i32")
        places = 0 if fmt.exponent_bits else fmt.significand_bits
        shift = code.binary("subi", code.int(places), scale, "i32")
    first = code.binary("maxsi", shift, code.int(-126 & 0xFFFFFFFF), "i32")
    first = code.binary("minsi", first, code.int(100), "i32")
    second = code.binary("subi", shift, first, "i32")

    def power(exponent: str, name: str) -> str:
        biased = code.binary(name, code.int(127), exponent, "i32")
        return code.binary("shli", biased, code.int(23), "i32")

    down = [code.cast("bitcast", power(e, "addi"), "i32", "f32") for e in (first, second)]
    up = [power(e, "subi") for e in (first, second)]
    is_finite = code.compare("ult", magnitude, code.int(_INFINITY))
    up[0] = code.select(is_finite, up[0], code.int(_NAN), "i32")
    back = [code.cast("bitcast", e, "i32", "f32") for e in up]
    return Scaling((down[0], down[1]), (back[0], back[1]))


def emit_values(code: Code, x: str, scaling: Scaling, to: GroupConversion, parts: int) -> list[str]:
    """The value of bfp or mx that `x` becomes in a group; exact, as values of both formats are binary32 numbers.

    With several `parts` (of bfp) they are the chunks of its magnitude, the most significant first, in their places.
    """
    fmt = to.format
    assert not isinstance(fmt, Int)
    y = code.binary("mulf", code.binary("mulf", x, scaling.down[0]), scaling.down[1])

    def back(v: str) -> str:
        return code.binary("mulf", code.binary("mulf", v, scaling.up[1]), scaling.up[0])

    if isinstance(fmt, Bfp):
        units = _clamp(code, _to_integer(code, y, x, back, to.rounding), float(fmt.largest))
        chunks = []
        for n in range(1, parts):
            # What lies above the chunks that are left; where there is an odd number of bits, the last one has one.
            place = 2.0 ** (fmt.magnitude_bits - n * CHUNK)
            top = code.op(f"math.trunc {code.binary('mulf', units, code.f32(1 / place))} : {code.ty('f32')}")
            chunks.append(code.binary("mulf", top, code.f32(place)))
            units = code.binary("subf", units, chunks[-1])
        return [back(chunk) for chunk in (*chunks, units)]
    if not fmt.exponent_bits:
        units = _clamp(code, _to_integer(code, y, x, back, to.rounding), float((1 << fmt.element_bits - 1) - 1))
        return [code.binary("addf", back(units), code.f32(0.0))]  # there is no -0
    # The quantum of an element: by its own exponent, but not below that of the smallest normal element.
    bits = code.cast("bitcast", y, "f32", "i32")
    power = code.binary("andi", bits, code.int(_INFINITY), "i32")
    power = code.binary("maxsi", power, code.int(fmt.emin + 127 << 23), "i32")
    quantum = code.binary("subi", power, code.int(fmt.significand_bits << 23), "i32")
    reciprocal = code.binary("subi", code.int(254 << 23), quantum, "i32")
    quantum, reciprocal = (code.cast("bitcast", e, "i32", "f32") for e in (quantum, reciprocal))

    def element(units: str) -> str:
        return code.binary("mulf", units, quantum)

    units = _to_integer(code, code.binary("mulf", y, reciprocal), x, lambda u: back(element(u)), to.rounding)
    return [back(_clamp(code, element(units), float(fmt.largest)))]


def emit_divisor(code: Code, largest: str, fmt: Int) -> str:
    """The scale of a tensor by its largest magnitude (an encoding); 1 if it is zero, NaN if that is not finite."""
    value = code.cast("bitcast", largest, "i32", "f32")
    scale = code.binary("maximumf", code.binary("divf", value, code.f32(fmt.largest)), code.f32(2.0**-149))
    scale = code.select(code.compare("eq", largest, code.int(0)), code.f32(1.0), scale)
    nan = code.cast("bitcast", code.int(_NAN), "i32", "f32")
    return code.select(code.compare("uge", largest, code.int(_INFINITY)), nan, scale)


def emit_integer(code: Code, x: str, divisor: str, to: GroupConversion) -> str:
    """The integer of intN that stands for `x`, as a float; any where the divisor is NaN."""
    assert isinstance(to.format, Int)
    y = code.binary("divf", x, divisor)
    return _clamp(code, _to_integer(code, y, y, lambda u: u, to.rounding), float(to.format.largest))


def _to_integer(code: Code, y: str, x: str, back: Callable[[str], str], rounding: str) -> str:
    """Round `y` to an integer, and keep the sign of a zero. `y` may have become 0 by underflow, `x` has not.

    back: what takes an integer to where `x` is.
    """
    kind = code.ty("f32")
    if rounding == "rne":
        return code.op(f"math.roundeven {y} : {kind}")
    whole = code.op(f"math.trunc {y} : {kind}")
    if rounding == "rtz":
        return whole
    one = code.f32(1.0)
    if rounding == "rna":
        rest = code.op(f"math.absf {code.binary('subf', y, whole)} : {kind}")
        away = code.op(f"math.copysign {one}, {y} : {kind}")
        return code.select(code.compare("oge", rest, code.f32(0.5), "f32"), code.binary("addf", whole, away), whole)
    value = back(whole)
    if rounding == "odd":
        half = code.binary("mulf", whole, code.f32(0.5))
        even = code.compare("oeq", half, code.op(f"math.trunc {half} : {kind}"), "f32")
        moves = code.binary("andi", even, code.compare("one", value, x, "f32"), "i1")
        away = code.op(f"math.copysign {one}, {x} : {kind}")
        return code.select(moves, code.binary("addf", whole, away), whole)
    predicate, step = ("olt", "addf") if rounding == "rup" else ("ogt", "subf")
    return code.select(code.compare(predicate, value, x, "f32"), code.binary(step, whole, one), whole)


def _clamp(code: Code, x: str, largest: float) -> str:
    """Between -largest and largest; a NaN becomes a number."""
    high, low = code.f32(largest), code.f32(-largest)
    x = code.select(code.compare("olt", x, high, "f32"), x, high)
    return code.select(code.compare("ogt", x, low, "f32"), x, low)
