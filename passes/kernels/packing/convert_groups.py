"""Conversion of packed panels to formats with groups: groups lie along k, which is a direction of every panel.

A panel is packed as it is (layout.py), then converted in the cache, group after group. What lies in it then are the
values of bfp and mx, which are binary32 numbers, and the integers of intN. For a kernel of dot products of pairs they
are 16-bit integers, two of one row or lane together, with the units of the groups beside them (`Layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from numc.compiler.arithmetic.groups import Bfp, GroupConversion, Int
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, layout
from numc.passes.kernels.values.group_values import (
    Scaling,
    emit_divisor,
    emit_exponent,
    emit_integer,
    emit_scaling,
    emit_units,
    emit_values,
)
from numc.passes.kernels.values.random_bits import emit_draw, emit_element, emit_group, emit_mix, run_of

_WHOLE = 0xFFFFFFFF

# What a conversion that draws is told, behind its other arguments: the stream of the operation, where its block of k
# begins, and the indices of the first outputs of the batch and of the panel's rows or lanes.
DRAWN: Mapping[str, str] = {"%random": "i64", "%k0": "i64", "%e_batch": "i64", "%e_places": "!llvm.ptr"}


def quantize_text(kernel: Kernel, side: str) -> str:
    """The function ``@<kernel>_quantize_<side>``, which converts one panel for one block of k in place.

    Arguments: the panel, how many steps of k it has, and the largest magnitude of the operand, as an encoding, or where
    those of the panel's channels are; then ``DRAWN``, if the conversion draws. Returns
    for the guard the smallest unit of a group that is not zero, less one, and the largest magnitude, as encodings.
    """
    to = kernel.groups_of(side)
    arguments = {"%panel": "!llvm.ptr", "%count": "i64", "%largest": "!llvm.ptr" if to.channel else "i32"}
    if to.noise is not None:
        arguments |= DRAWN
    f = Function(f"{kernel.name}_quantize_{side}", arguments, "i32, i32")
    of_b = (side == "rows") == kernel.swap
    writer = _Writer(f, layout(kernel, side), to, of_b)
    if isinstance(to.format, Int):
        writer.integers(to.format)
        return f.function(f.int(_WHOLE), f.int(0))
    width, group = kernel.tile.width, to.format.group
    if side == "lanes":
        found = writer.lanes(group)
    elif group % width == 0:
        found = writer.row_vectors(group // width)
    elif width % group == 0:
        found = writer.row_parts(group)
    else:
        found = writer.row_scalars(group)
    return f.function(*found)


class _Writer:
    def __init__(self, f: Function, panel: Layout, to: GroupConversion, of_b: bool) -> None:
        self.f, self.panel, self.to, self.of_b = f, panel, to, of_b
        self.kind = f"vector<{panel.width}xi32>"
        self.bottom = self.words = self.key = ""
        if isinstance(to.format, Bfp):
            code = Code(0, "w")
            top = emit_exponent(code, "%largest")
            self.bottom = code.binary("subi", top, code.int(to.format.window), "i32")
            f.lines += code.lines

    def integers(self, fmt: Int) -> None:
        """Every value by itself, zeros behind the last step too: 0 is 0."""
        f, panel = self.f, self.panel
        with f.loop(0, panel.count) as v:
            each = Code(panel.width, "d")
            largest = "%largest"
            if self.to.channel and panel.side == "lanes":
                place = f.at("%largest", f.i64("muli", v, panel.width), "i32")
                largest = each.op(f"llvm.load {place} {{alignment = 4 : i64}} : !llvm.ptr -> {self.kind}")
            else:
                if self.to.channel:
                    largest = f.fetch("%largest", v, "i32")
                largest = self._spread(each, largest)
            divisors = emit_divisor(each, largest, fmt)
            f.lines += each.lines

            def converted(code: Code, x: str, drawn: str, divisors: str = divisors) -> str:
                return emit_integer(code, x, divisors, self.to, drawn)

            self._elements(v)
            base = f.at("%panel", f.i64("muli", v, panel.width))
            steps = "%count" if panel.side == "lanes" else f.i64("ceildivui", "%count", panel.width)
            self._convert(base, f.number(0), steps, converted, converted)

    def lanes(self, group: int) -> tuple[str, str]:
        """A lane of a vector is one group, over `group` steps of k."""
        f = self.f
        with self._groups(f.number(group), "%count", self.kind) as (base, end, found):
            most = self._largest(base, end)
            code = Code(self.panel.width, "s")
            scaling = emit_scaling(code, most, self.to.format, self._spread(code, self.bottom))
            found += self._range(code, most, scaling.unit)
            f.lines += code.lines
            self._convert_by(base, end, scaling)
            if self.panel.pairs:
                even = f.i64("addi", "%count", f.i64("andi", "%count", 1))
                place = f.i64("addi", even, f.i64("divui", "%g", group))
                f.line(self._store(scaling.unit, f.at(base, f.i64("muli", place, self.panel.step_words))))
        return self._reduced()

    def row_vectors(self, vectors: int) -> tuple[str, str]:
        """A group is `vectors` whole vectors of a row."""
        f = self.f
        steps = f.i64("ceildivui", "%count", self.panel.width)
        with self._groups(f.number(vectors), steps, "i32") as (base, end, found):
            code = Code(0, "s")
            most = code.op(f"vector.reduction <maxui>, {self._largest(base, end)} : {self.kind} into i32")
            one = emit_scaling(code, most, self.to.format, self.bottom)
            found += self._range(code, most, one.unit)
            f.lines += code.lines
            each = Code(self.panel.width, "b")
            down, up = ((self._spread(each, x, "f32"), self._spread(each, y, "f32")) for x, y in (one.down, one.up))
            f.lines += each.lines
            self._convert_by(base, end, Scaling(down, up, ""))
            if self.panel.pairs:
                slot = f.at(base, f.i64("muli", "%g", self.panel.step_words))
                f.line(f"llvm.store {one.unit}, {f.at(slot, self.panel.width // 2)} : f32, !llvm.ptr")
        return self.both[0], self.both[1]

    def row_parts(self, group: int) -> tuple[str, str]:
        """A vector of a row is several groups."""
        f, width = self.f, self.panel.width
        steps = f.i64("ceildivui", "%count", width)
        with self._groups(f.number(1), steps, self.kind) as (base, end, found):
            code = Code(width, "s")
            most = self._largest(base, end)
            distance = 1
            while distance < group:
                lanes = ", ".join(str(n ^ distance) for n in range(width))
                other = code.op(f"llvm.shufflevector {most}, {most} [{lanes}] : {self.kind}")
                most = code.binary("maxui", most, other, "i32")
                distance *= 2
            scaling = emit_scaling(code, most, self.to.format, self._spread(code, self.bottom))
            found += self._range(code, most, scaling.unit)
            if self.panel.pairs:
                chosen = ", ".join(str(n) for n in range(0, width, group))
                units = code.op(f"llvm.shufflevector {scaling.unit}, {scaling.unit} [{chosen}] : {code.ty('f32')}")
            f.lines += code.lines
            self._convert_by(base, end, scaling)
            if self.panel.pairs:
                slot = f.at(base, f.i64("muli", "%g", self.panel.step_words))
                kind = f"vector<{width // group}xf32>"
                f.line(f"llvm.store {units}, {f.at(slot, width // 2)} {{alignment = 4 : i64}} : {kind}, !llvm.ptr")
        return self._reduced()

    def row_scalars(self, group: int) -> tuple[str, str]:
        """Groups of any size, value by value."""
        f, panel = self.f, self.panel

        def address(code: Code, base: str, u: str) -> str:
            within = code.binary("andi", u, f.number(panel.width - 1), "i64")
            whole = code.binary("subi", u, within, "i64")
            vector = code.binary("muli", whole, f.number(panel.count * panel.parts), "i64")
            return code.address(base, code.binary("addi", vector, within, "i64"))

        with self._groups(f.number(group), "%count", "i32") as (base, end, found):
            with f.carrying(f"%u = %g to {end} step {f.number(1)}", {"%m": f.int(0)}, "i32") as (most,):
                code = Code(0, "m")
                x = code.op(f"llvm.load {address(code, base, '%u')} : !llvm.ptr -> f32")
                f.lines += [*code.lines, *self._larger(code, x)]
            code = Code(0, "s")
            scaling = emit_scaling(code, most, self.to.format, self.bottom)
            found += self._range(code, most, scaling.unit)
            f.lines += code.lines
            with f.loop("%g", end) as u:
                code = Code(0, "c")
                place = address(code, base, u)
                x = code.op(f"llvm.load {place} : !llvm.ptr -> f32")
                drawn = self._draw(code, u)
                for n, value in enumerate(emit_values(code, x, scaling, self.to, panel.parts, drawn)):
                    to = code.address(place, n * panel.width)
                    code.lines.append(f"llvm.store {value}, {to} : f32, !llvm.ptr")
                f.lines += code.lines
        return self.both[0], self.both[1]

    @contextmanager
    def _groups(self, step: str, end: str, kind: str) -> Iterator[tuple[str, str, list[str]]]:
        """Loops over the rows or vectors of a panel (``%v``) and the groups of each, from ``%g`` on.

        Yields where the row or vector begins, where the group ends, and a list that is to receive the new range.
        """
        f = self.f
        code = Code(self.panel.width if kind == self.kind else 0, "z")
        start = {"%low": code.int(_WHOLE), "%high": code.int(0)}
        f.lines += code.lines
        with f.carrying(f"%v = {f.number(0)} to {f.number(self.panel.count)} step {f.number(1)}", start, kind) as both:
            base = f.at("%panel", f.i64("muli", "%v", self.panel.width * self.panel.parts))
            self._elements("%v")
            names = {"%lowg": "%low", "%highg": "%high"}
            with f.carrying(f"%g = {f.number(0)} to {end} step {step}", names, kind) as over:
                found: list[str] = []
                yield base, f.i64("minui", f.i64("addi", "%g", step), end), found
                f.line(f"scf.yield {', '.join(found)} : {kind}, {kind}")
            f.line(f"scf.yield {', '.join(over)} : {kind}, {kind}")
        self.both = both

    def _range(self, code: Code, most: str, unit: str) -> list[str]:
        """The smallest unit less one, without groups of zeros, and the largest magnitude, as encodings."""
        bits = code.cast("bitcast", unit, "f32", "i32")
        some = code.select(code.compare("eq", most, code.int(0)), code.int(0), bits, "i32")
        # 0 less one, as unsigned, is never the smallest. A group whose exponent was raised may round up to its unit.
        low = code.binary("minui", "%lowg", code.binary("subi", some, code.int(1), "i32"), "i32")
        return [low, code.binary("maxui", "%highg", code.binary("maxui", most, some, "i32"), "i32")]

    def _largest(self, base: str, end: str) -> str:
        """The largest magnitudes of a group, lane by lane."""
        f = self.f
        f.line(f"%none = arith.constant dense<0> : {self.kind}")
        with f.carrying(f"%u = %g to {end} step {f.number(1)}", {"%m": "%none"}, self.kind) as (most,):
            code = Code(self.panel.width, "m")
            x = code.load(code.address(base, self._step(code, "%u")))
            f.lines += [*code.lines, *self._larger(code, x)]
        return most

    def _larger(self, code: Code, x: str) -> list[str]:
        """What a loop over the values of a group yields: the larger one of ``%m`` and the magnitude of `x`."""
        before = len(code.lines)
        bits = code.cast("bitcast", x, "f32", "i32")
        magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
        larger = code.binary("maxui", "%m", magnitude, "i32")
        return [*code.lines[before:], f"scf.yield {larger} : {code.ty('i32')}"]

    def _convert_by(self, base: str, end: str, scaling: Scaling) -> None:
        def values(code: Code, x: str, drawn: str) -> list[str]:
            return emit_values(code, x, scaling, self.to, self.panel.parts, drawn)

        def units(code: Code, x: str, drawn: str) -> str:
            return emit_units(code, x, scaling, self.to, drawn)

        self._convert(base, "%g", end, values, units)

    def _convert(
        self,
        base: str,
        start: str,
        end: str,
        values: Callable[[Code, str, str], list[str]] | Callable[[Code, str, str], str],
        units: Callable[[Code, str, str], str],
    ) -> None:
        """Convert the vectors from `start` to `end`: to `values`, one or the parts of it, or to pairs of `units`.

        Both take the code, a value and what it draws, if it does.
        """
        f, panel = self.f, self.panel
        pairs_of_lanes = panel.pairs and panel.side == "lanes"
        with f.loop(start, end, 2 if pairs_of_lanes else 1) as u:
            code = Code(panel.width, "c")
            place = code.address(base, self._step(code, u))
            x = code.load(place)
            if pairs_of_lanes:
                second = code.load(code.address(place, panel.step_words))
                draws = self._draw(code, u), self._draw(code, u, behind=1)
                first, second = (
                    self._integers(code, units(code, v, drawn)) for v, drawn in zip((x, second), draws, strict=True)
                )
                low = code.binary("andi", first, code.int(0xFFFF), "i32")
                pair = code.binary("ori", low, code.binary("shli", second, code.int(16), "i32"), "i32")
                half = code.op(f"arith.divui {u}, {f.number(2)} : i64")
                to = code.address(base, self._step(code, half))
                code.lines.append(f"llvm.store {pair}, {to} {{alignment = 4 : i64}} : {self.kind}, !llvm.ptr")
            elif panel.pairs:
                short = code.cast("trunci", self._integers(code, units(code, x, self._draw(code, u))), "i32", "i16")
                kind = code.ty("i16")
                code.lines.append(f"llvm.store {short}, {place} {{alignment = 4 : i64}} : {kind}, !llvm.ptr")
            else:
                found = values(code, x, self._draw(code, u))
                for n, value in enumerate([found] if isinstance(found, str) else found):
                    code.store(value, code.address(place, n * panel.width))
            f.lines += code.lines

    def _elements(self, v: str) -> None:
        """Before the loops over row or vector `v`: ``self.words``, those of its elements, if the conversion draws."""
        if self.to.noise is None:
            return
        f = self.f
        lanes = self.panel.side == "lanes"
        code = Code(self.panel.width if lanes else 0, "el")
        place = f.at("%e_places", f.i64("muli", v, self.panel.width) if lanes else v, "i64")
        wide = code.ty("i64")
        index = code.op(f"llvm.load {place} {{alignment = 8 : i64}} : !llvm.ptr -> {wide}")
        first = code.op(f"vector.broadcast %e_batch : i64 to {wide}") if lanes else "%e_batch"
        element = code.cast("trunci", code.binary("addi", index, first, "i64"), "i64", "i32")
        low = f.cast("trunci", "%random", "i64", "i32")
        self.words = emit_element(code, element, self._spread(code, low) if lanes else low)
        f.lines += code.lines
        self.key = f.cast("trunci", f.i64("shrui", "%random", 32), "i64", "i32")

    def _draw(self, code: Code, u: str, behind: int = 0) -> str:
        """What the values of `code` draw, if the conversion does, `behind` steps after `u`.

        They are those of step `u` of the block (lanes, or a scalar of a row), or vector `u` of a row.
        """
        noise = self.to.noise
        if noise is None:
            return ""
        scalar = Code(0, code.prefix + f"n{behind}_")
        vectors = self.panel.side == "rows" and code.width
        step = scalar.binary("muli", u, scalar.int(code.width, "i64"), "i64") if vectors else u
        step = scalar.binary("addi", scalar.binary("addi", "%k0", step, "i64"), scalar.int(behind, "i64"), "i64")
        k, key, words = scalar.cast("trunci", step, "i64", "i32"), self.key, self.words
        code.lines += scalar.lines
        if vectors:
            lanes = ", ".join(map(str, range(code.width)))
            steps = code.op(f"arith.constant dense<[{lanes}]> : {code.ty('i32')}")
            k, key, words = (self._spread(code, x) for x in (k, key, words))
            k = code.binary("addi", k, steps, "i32")
        at = code if vectors else Code(0, code.prefix + f"g{behind}_")
        run = run_of(noise)
        group = at.binary("shrui", k, at.int(run.bit_length() - 1), "i32")
        word = emit_group(at, group, key, product=self.of_b)
        position = at.binary("andi", k, at.int(run - 1), "i32")
        if at is not code:
            code.lines += at.lines
            if code.width:
                word, position = self._spread(code, word), self._spread(code, position)
        return emit_draw(code, emit_mix(code, code.binary("addi", words, word, "i32")), position, noise)

    def _integers(self, code: Code, x: str) -> str:
        return code.cast("fptosi", x, "f32", "i32")

    def _store(self, value: str, place: str) -> str:
        return f"llvm.store {value}, {place} {{alignment = 4 : i64}} : vector<{self.panel.width}xf32>, !llvm.ptr"

    def _step(self, code: Code, u: str) -> str:
        return code.op(f"arith.muli {u}, {self.f.number(self.panel.step_words)} : i64")

    def _spread(self, code: Code, x: str, element: str = "i32") -> str:
        return code.op(f"vector.broadcast {x} : {element} to {code.ty(element)}") if x else ""

    def _reduced(self) -> tuple[str, str]:
        smallest = self.f.op(f"vector.reduction <minui>, {self.both[0]} : {self.kind} into i32")
        return smallest, self.f.op(f"vector.reduction <maxui>, {self.both[1]} : {self.kind} into i32")
