"""Conversion of packed panels to formats with groups: groups lie along k, which is a direction of every panel.

A panel is packed as it is (pack_code.py), then converted in the cache, group after group. Then it holds the
values of formats whose groups have scales, which are binary32 numbers, or the integers of formats that sum integers.
For dot products of integers it holds words of two or four of them, of one row or lane, and beside them the units of
the groups (`Layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from numc.compiler.arithmetic.groups import GroupConversion
from numc.passes.kernels.builder import CarryingLoop, Code, Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, layout
from numc.passes.kernels.packing.panel_draws import DRAWN, PanelDraws
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.group_values import GroupCode, Scaling, nearest
from numc.passes.kernels.values.kinds import code_of

_ALL = 0xFFFFFFFF
_NUMBERS = 8  # a scaling has at most so many
_OFFSET = 128  # of the unsigned 8-bit integers of rows


def quantize_text(kernel: Kernel, side: str) -> str:
    """The function ``@<kernel>_quantize_<side>``, which converts one panel for one block of k in place."""
    return _text(f"{kernel.name}_quantize_{side}", kernel, side, kernel.groups_of(side), layout(kernel, side))


def extremes_text(kernel: Kernel, side: str) -> str:
    """Two such functions for an operand with open widths, ``@<kernel>_widest_<side>`` and ``narrowest``, to values.

    Of a stochastic conversion the narrowest truncates what the widest has made.
    """
    to, panel = kernel.groups_of(side), replace(layout(kernel, side), dot=0)
    assert to.open is not None
    least, most = (to.at(*each) for each in zip(*to.open.both, strict=True))
    if to.noise is not None:
        least = GroupConversion(least.format, "rtz")
    both = {"narrowest": least, "widest": most}
    return "\n".join(_text(f"{kernel.name}_{name}_{side}", kernel, side, each, panel) for name, each in both.items())


def _text(name: str, kernel: Kernel, side: str, to: GroupConversion, panel: Layout) -> str:
    """The function `name`, which converts one panel of this layout for one block of k in place.

    Arguments: the panel, how many steps of k it has, and the largest magnitude of the operand, as an encoding, or where
    those of the panel's channels are; open widths; ``DRAWN``, if the conversion draws. Returns for the guard the
    smallest unit of a group that is not zero, less one, and the largest magnitude, as encodings.
    """
    arguments = {"panel": PTR, "count": "i64", "largest": PTR if to.channel else "i32"}
    if to.open is not None:
        arguments["width"] = "i64"
    if to.noise is not None:
        arguments |= DRAWN
    f = Function(name, arguments, "i32, i32")
    of_b = (side == "rows") == kernel.swap
    draws = None if to.noise is None else PanelDraws(f, panel, to.noise, of_b)
    writer = _Writer(f, panel, code_of(to, f.arguments.get("width")), draws)
    group = to.format.group
    if group is None:
        writer.by_tensor(channel=to.channel)
        return f.function(f.int(_ALL), f.int(0))
    if side == "lanes":
        found = writer.lanes(group)
    elif group % panel.width == 0:
        found = writer.row_vectors(group // panel.width)
    elif panel.width % group == 0:
        found = writer.row_parts(group)
    else:
        found = writer.row_scalars(group)
    return f.function(*found)


@dataclass(frozen=True)
class _Places:
    """Which groups a vector of scalings is of: of `rows` rows, and of each so many whole groups of `vectors` vectors.

    groups: 0 for one group that may be cut, and goes as far as there are vectors.
    """

    rows: int
    groups: int
    vectors: int

    @property
    def lanes(self) -> list[tuple[int, int]]:
        """The row and the group of every lane that is used."""
        return [(n, m) for m in range(self.groups) for n in range(self.rows)]


@dataclass
class _Group:
    """One group of a row or of a vector of lanes: where that begins in memory, and the steps or vectors of the group.

    number: the first step or vector, as the loop counts them. loop: carries the smallest unit less one and the largest
    magnitude, as encodings.
    """

    base: Value
    first: Value
    end: Value
    loop: CarryingLoop

    def limit(self, code: Code, most: Value, scaling: Scaling) -> None:
        """Append the update of what the loop carries; groups of zeros do not count."""
        assert scaling.unit is not None
        low, high = self.loop.values
        some = code.select(
            code.compare("eq", most, code.int(0)), code.int(0), code.cast("bitcast", scaling.unit, "i32")
        )
        # 0 less one, as unsigned, is never the smallest. A group whose exponent was raised may round up to its unit.
        low = code.binary("minui", low, code.binary("subi", some, code.int(1)))
        self.loop.next = [low, code.binary("maxui", high, code.binary("maxui", most, some))]


class _Writer:
    """Appends the conversion of one panel to the function `f`."""

    def __init__(self, f: Function, panel: Layout, kind: GroupCode, draws: PanelDraws | None) -> None:
        self.f, self.panel, self.kind, self.draws = f, panel, kind, draws
        self.vector = f.lanes(panel.width)
        self.found: list[Value] = []

    def by_tensor(self, *, channel: bool) -> None:
        """Every value by itself, by the scale of its tensor or channel; zeros behind the last step stay zeros."""
        f, panel = self.f, self.panel
        lanes = panel.side == "lanes"
        with f.loop(0, panel.count) as v:
            if not channel:
                largest = self.vector.broadcast(f["largest"])
            elif lanes:
                largest = self.vector.load(f.at(f["largest"], f.i64("muli", v, panel.width), "i32"), element="i32")
            else:
                largest = self.vector.broadcast(f.fetch(f["largest"], v, "i32"))
            scaling = self.kind.scaling(self.vector, largest, None)
            if self.draws is not None:
                self.draws.begin(v)
            base = f.at(f["panel"], f.i64("muli", v, panel.width))
            steps = f["count"] if lanes else f.i64("ceildivui", f["count"], panel.width)
            if panel.dot and lanes:
                sums = self._convert_words(base, f.number(0), steps, scaling)
                self._offset(base, f.rounded_up(f["count"], panel.unit), sums)
            else:
                self._convert(base, f.number(0), steps, scaling)

    def lanes(self, group: int) -> tuple[Value, Value]:
        """A lane of a vector is one group, over `group` steps of k."""
        f, vector, panel = self.f, self.vector, self.panel
        shared = self._shared(vector)
        with self._groups(group, f["count"], vector) as g:
            most = self._largest(g)
            scaling = self.kind.scaling(vector, most, shared)
            g.limit(vector, most, scaling)
            if panel.dot:
                sums = self._convert_words(g.base, g.first, g.end, scaling)
                assert scaling.unit is not None
                place = f.i64("addi", f.rounded_up(f["count"], panel.unit), f.i64("divui", g.first, group))
                vector.store(scaling.unit, f.at(g.base, f.i64("muli", place, panel.step_words)))
                self._offset(g.base, f.i64("addi", place, f.i64("ceildivui", f["count"], group)), sums)
            else:
                self._convert(g.base, g.first, g.end, scaling)
        return self._reduced()

    def row_vectors(self, vectors: int) -> tuple[Value, Value]:
        """A group is `vectors` whole vectors of a row; a vector of scalings is computed at once.

        They are those of adjacent rows, and of several successive groups where a panel has few rows.
        """
        f, vector, panel = self.f, self.vector, self.panel
        shared = self._shared(vector)
        end = f.i64("ceildivui", f["count"], panel.width)
        kept = [f.alloca(panel.width, "f32") for _ in range(_NUMBERS)]
        limits: Sequence[Value] = [vector.int(_ALL), vector.int(0)]
        for row in range(0, panel.count, panel.width):
            rows = min(panel.count - row, panel.width)
            first_row = f.at(f["panel"], row * panel.width * panel.parts)
            several = panel.width // rows
            whole = f.i64("subi", end, f.i64("remui", end, vectors * several))
            parts = [(f.number(0), whole, several)]
            if vectors * several > 1:
                parts.append((whole, end, 0))
            for start, stop, groups in parts:
                with f.carry(start, stop, vectors * max(groups, 1), limits) as loop:
                    last = f.i64("minui", f.i64("addi", loop.index, vectors), stop)
                    g = _Group(first_row, loop.index, last, loop)
                    places = _Places(rows, groups, vectors)
                    most = self._largest_of_rows(g, places)
                    scaling = self.kind.scaling(vector, most, shared)
                    g.limit(vector, most, scaling)
                    self._convert_rows(g, f.number(row), places, scaling, kept)
                limits = loop.results
        self.found = list(limits)
        return self._reduced()

    def _largest_of_rows(self, g: _Group, to: _Places) -> Value:
        """The largest magnitudes of the groups of adjacent rows, those of row n in lane n."""
        f, vector, panel = self.f, self.vector, self.panel
        base = f.at(g.base, f.i64("muli", g.first, panel.step_words))
        if to.groups:
            found = []
            for n, m in to.lanes:
                most = vector.int(0)
                for v in range(to.vectors):
                    most = _larger(vector, most, vector.load(f.at(base, self._within(m * to.vectors + v, n))))
                found.append(most)
        else:
            with f.carry(g.first, g.end, 1, [vector.int(0)] * to.rows) as steps:
                place = f.at(g.base, f.i64("muli", steps.index, panel.step_words))
                steps.next = [
                    _larger(vector, most, vector.load(f.at(place, self._within(0, n))))
                    for n, most in enumerate(steps.values)
                ]
            found = list(steps.results)
        distance = 1
        while distance < panel.width:
            # Lanes whose number has the bit `distance` hold every other row.
            found += found[-1:] * (len(found) % 2 if len(found) > 1 else 1)
            near = [n + panel.width * bool(n & distance) for n in range(panel.width)]
            far = [(n ^ distance) + panel.width * bool(n & distance) for n in range(panel.width)]
            found = [
                vector.binary("maxui", vector.shuffle(a, near, b), vector.shuffle(a, far, b))
                for a, b in zip(found[::2], found[1::2], strict=True)
            ]
            distance *= 2
        return found[0]

    def _within(self, step: int, row: int) -> int:
        """Where vector `step` of a row is, from the first one of row 0 on."""
        return step * self.panel.step_words + row * self.panel.width * self.panel.parts

    def _convert_rows(self, g: _Group, row: Value, to: _Places, scaling: Scaling, kept: Sequence[Value]) -> None:
        """Convert the groups of rows from `row` on, by the scaling in the lane of each; `kept`: room for it."""
        f, vector, panel = self.f, self.vector, self.panel
        assert scaling.unit is not None
        numbers = (*scaling.down, *scaling.up, scaling.unit)
        assert len(numbers) <= _NUMBERS
        for number, place in zip(numbers, kept, strict=False):
            vector.store(number, place)
        downs, ups, unit = len(scaling.down), len(numbers) - 1, kept[len(numbers) - 1]
        with f.loop(0, to.rows) as n:
            if self.draws is not None:
                self.draws.begin(f.i64("addi", row, n))
            base = f.at(g.base, f.i64("muli", n, panel.width * panel.parts))
            for m in range(max(to.groups, 1)):
                lane = f.i64("addi", n, m * to.rows)
                down, up = ([vector.splat(f.at(p, lane)) for p in some] for some in (kept[:downs], kept[downs:ups]))
                one = Scaling(tuple(down), tuple(up))
                first = f.i64("addi", g.first, m * to.vectors)
                if to.groups:
                    for v in range(to.vectors):
                        self._convert_vector(base, f.i64("addi", first, v), one)
                else:
                    self._convert(base, g.first, g.end, one)
                if panel.dot:
                    slot = f.at(base, f.i64("muli", first, panel.step_words))
                    f.store(f.load(f.at(unit, lane)), f.at(slot, panel.width // 2))

    def row_parts(self, group: int) -> tuple[Value, Value]:
        """A vector of a row is several groups."""
        f, vector, width = self.f, self.vector, self.panel.width
        shared = self._shared(vector)
        with self._groups(1, f.i64("ceildivui", f["count"], width), vector) as g:
            most = self._largest(g)
            distance = 1
            while distance < group:
                most = vector.binary("maxui", most, vector.shuffle(most, [n ^ distance for n in range(width)]))
                distance *= 2
            scaling = self.kind.scaling(vector, most, shared)
            g.limit(vector, most, scaling)
            self._convert(g.base, g.first, g.end, scaling)
            if self.panel.dot:
                assert scaling.unit is not None
                units = vector.shuffle(scaling.unit, range(0, width, group))
                slot = f.at(g.base, f.i64("muli", g.first, self.panel.step_words))
                vector.store(units, f.at(slot, width // 2))
        return self._reduced()

    def row_scalars(self, group: int) -> tuple[Value, Value]:
        """Groups of any size, value by value."""
        f, panel = self.f, self.panel
        shared = self._shared(f)

        def address(base: Value, u: Value) -> Value:
            within = f.i64("andi", u, panel.width - 1)
            vector = f.i64("muli", f.i64("subi", u, within), panel.count * panel.parts)
            return f.at(base, f.i64("addi", vector, within))

        with self._groups(group, f["count"], f) as g:
            with f.carry(g.first, g.end, 1, [f.int(0)]) as steps:
                steps.next = [_larger(f, steps.values[0], f.load(address(g.base, steps.index)))]
            (most,) = steps.results
            scaling = self.kind.scaling(f, most, shared)
            g.limit(f, most, scaling)
            with f.loop(g.first, g.end) as u:
                place = address(g.base, u)
                x = f.load(place)
                for n, value in enumerate(self.kind.values(f, x, scaling, panel.parts, self._draw(f, u))):
                    f.store(value, f.at(place, n * panel.width))
        return self.found[0], self.found[1]

    def _shared(self, code: Code) -> Value | None:
        """What groups need of the tensor, in the lanes of `code`."""
        shared = self.kind.shared(self.f, self.f["largest"])
        return None if shared is None else code.broadcast(shared)

    @contextmanager
    def _groups(self, step: int, end: Value, code: Code) -> Iterator[_Group]:
        """Loops over the rows or vectors of a panel and the groups of each, with limits in the lanes of `code`."""
        f, panel = self.f, self.panel
        with f.carry(0, panel.count, 1, [code.int(_ALL), code.int(0)]) as rows:
            base = f.at(f["panel"], f.i64("muli", rows.index, panel.width * panel.parts))
            if self.draws is not None:
                self.draws.begin(rows.index)
            with f.carry(0, end, step, rows.values) as groups:
                yield _Group(base, groups.index, f.i64("minui", f.i64("addi", groups.index, step), end), groups)
            rows.next = groups.results
        self.found = rows.results

    def _largest(self, g: _Group) -> Value:
        """The largest magnitudes of a group, lane by lane."""
        f, vector = self.f, self.vector
        with f.carry(g.first, g.end, 1, [vector.int(0)]) as steps:
            x = vector.load(f.at(g.base, f.i64("muli", steps.index, self.panel.step_words)))
            steps.next = [_larger(vector, steps.values[0], x)]
        return steps.results[0]

    def _convert(self, base: Value, start: Value, end: Value, scaling: Scaling) -> None:
        """Convert the vectors from `start` to `end`."""
        with self.f.loop(start, end) as u:
            self._convert_vector(base, u, scaling)

    def _convert_vector(self, base: Value, u: Value, scaling: Scaling) -> None:
        """Convert vector `u`: to values, one or the parts of it, or the words of a row."""
        f, vector, panel = self.f, self.vector, self.panel
        place = f.at(base, f.i64("muli", u, panel.step_words))
        x, drawn = vector.load(place), self._draw(vector, u)
        if panel.dot:
            near = self.kind.near(vector, x, scaling, drawn)
            word = nearest(vector, near, offset=_OFFSET if panel.dot == 4 else 0)
            vector.store(vector.cast("trunci", word, f"i{32 // panel.dot}"), place)
            return
        for n, value in enumerate(self.kind.values(vector, x, scaling, panel.parts, drawn)):
            vector.store(value, f.at(place, n * panel.width))

    def _convert_words(self, base: Value, start: Value, end: Value, scaling: Scaling) -> Value:
        """Convert lanes, all steps of a word at a time; returns the sums of all integers, in binary32."""
        f, vector, panel = self.f, self.vector, self.panel
        with f.carry(start, end, panel.dot, [vector.f32(0.0)]) as steps:
            u, bits = steps.index, 32 // panel.dot
            place = f.at(base, f.i64("muli", u, panel.step_words))
            units = [
                self.kind.units(
                    vector, vector.load(f.at(place, n * panel.step_words)), scaling, self._draw(vector, u, behind=n)
                )
                for n in range(panel.dot)
            ]
            steps.next = [vector.binary("addf", steps.values[0], _sum(vector, units))]
            # All but the last one have room in the significand of a binary32 number.
            *others, last = units
            low = others.pop()
            for each in reversed(others):
                low = vector.fma(low, vector.f32(2.0**bits), each)
            high = vector.binary("shli", vector.cast("fptosi", last, "i32"), vector.int(32 - bits))
            word = vector.binary("addi", vector.cast("fptosi", low, "i32"), high)
            # Negative integers have borrowed from those above: with an offset none of them does.
            offsets = vector.int(sum(1 << (bits * n + bits - 1) for n in range(panel.dot)))
            word = vector.binary("xori", vector.binary("addi", word, offsets), offsets)
            vector.store(word, f.at(base, f.i64("muli", f.i64("divui", u, panel.dot), panel.step_words)))
        return steps.results[0]

    def _offset(self, base: Value, step: Value, sums: Value) -> None:
        """Store what 128 more in every row adds to the sums of products with these lanes, with the other sign."""
        f, vector, panel = self.f, self.vector, self.panel
        if panel.dot == 4:
            added = vector.binary("muli", vector.cast("fptosi", sums, "i32"), vector.int(-_OFFSET & _ALL))
            vector.store(added, f.at(base, f.i64("muli", step, panel.step_words)))

    def _draw(self, code: Code, u: Value, behind: int = 0) -> Value | None:
        return None if self.draws is None else self.draws.draw(code, u, behind)

    def _reduced(self) -> tuple[Value, Value]:
        return self.f.reduce("minui", self.found[0]), self.f.reduce("maxui", self.found[1])


def _larger(code: Code, most: Value, x: Value) -> Value:
    """The larger one of a magnitude and that of `x`, as encodings."""
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(0x7FFFFFFF))
    return code.binary("maxui", most, magnitude)


def _sum(code: Code, values: Sequence[Value]) -> Value:
    """The sum of two or four values."""
    while len(values) > 1:
        values = [code.binary("addf", *pair) for pair in zip(values[::2], values[1::2], strict=True)]
    return values[0]
