"""The common part of the conversions of rows and of lanes to formats with groups, and that of lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from numc.passes.kernels.builder import CarryingLoop, Code, Function
from numc.passes.kernels.packing.layout import Layout
from numc.passes.kernels.packing.panel_draws import PanelDraws
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import GroupCode, Scaling, nearest

ALL = 0xFFFFFFFF
_OFFSET = 128  # of the unsigned 8-bit integers of rows


@dataclass
class Group:
    """One group of a row or of a vector of lanes: where that begins in the panel, and its own steps or vectors.

    source: where its values are before. first: the first step or vector, as the loop counts them. loop: carries the
    smallest unit less one and the largest magnitude, as encodings.
    """

    base: Value
    source: Value
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


class GroupPanel:
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
            base, source = f.at(f["panel"], f.i64("muli", v, panel.width)), self.source(v)
            steps = f["count"] if lanes else f.i64("ceildivui", f["count"], panel.width)
            if panel.dot and lanes:
                sums = self._convert_words(base, f.number(0), steps, scaling)
                self._offset(base, f.rounded_up(f["count"], panel.unit), sums)
            else:
                self.convert(base, source, f.number(0), steps, scaling)

    def lanes(self, group: int) -> tuple[Value, Value]:
        """A lane of a vector is one group, over `group` steps of k."""
        f, vector, panel = self.f, self.vector, self.panel
        shared = self.shared(vector)
        with self.groups(group, f["count"], vector) as g:
            most = self.largest(g)
            scaling = self.kind.scaling(vector, most, shared)
            g.limit(vector, most, scaling)
            if panel.dot:
                sums = self._convert_words(g.base, g.first, g.end, scaling)
                assert scaling.unit is not None
                scale_step = f.i64("addi", f.rounded_up(f["count"], panel.unit), f.i64("divui", g.first, group))
                vector.store(scaling.unit, f.at(g.base, f.i64("muli", scale_step, panel.step_words)))
                self._offset(g.base, f.i64("addi", scale_step, f.i64("ceildivui", f["count"], group)), sums)
            else:
                self.convert(g.base, g.source, g.first, g.end, scaling)
            if panel.scales:
                step = f.i64("addi", f.rounded_up(f["count"], panel.unit), f.i64("divui", g.first, group))
                assert scaling.unit is not None
                vector.store(scaling.unit, f.at(g.base, f.i64("muli", step, panel.step_words)))
        return self.reduced()

    def shared(self, code: Code) -> Value | None:
        """The value of the whole tensor that groups need, in the lanes of `code`."""
        shared = self.kind.shared(self.f, self.f["largest"])
        return None if shared is None else code.broadcast(shared)

    @contextmanager
    def groups(self, step: int, end: Value, code: Code) -> Iterator[Group]:
        """Loops over the rows or vectors of a panel and the groups of each, with limits in the lanes of `code`."""
        f, panel = self.f, self.panel
        with f.carry(0, panel.count, 1, [code.int(ALL), code.int(0)]) as rows:
            base = f.at(f["panel"], f.i64("muli", rows.index, panel.width * panel.parts))
            source = self.source(rows.index)
            if self.draws is not None:
                self.draws.begin(rows.index)
            with f.carry(0, end, step, rows.values) as groups:
                last = f.i64("minui", f.i64("addi", groups.index, step), end)
                yield Group(base, source, groups.index, last, groups)
            rows.next = groups.results
        self.found = rows.results

    def largest(self, g: Group) -> Value:
        """The largest magnitudes of a group, lane by lane."""
        f, vector = self.f, self.vector
        with f.carry(g.first, g.end, 1, [vector.int(0)]) as steps:
            x = vector.load(f.at(g.source, f.i64("muli", steps.index, self._step)))
            steps.next = [larger(vector, steps.values[0], x)]
        return steps.results[0]

    def source(self, v: Value) -> Value:
        """Where the values of row or vector `v` begin before their conversion."""
        f, panel = self.f, self.panel
        if panel.side == "lanes":
            return f.at(f["panel"], f.i64("muli", v, panel.width * panel.parts))
        return f.at(f["source"], f.i64("muli", v, f["row_step"]))

    @property
    def _step(self) -> Value:
        """From one step or vector of these values to the next."""
        return self.f.number(self.panel.step_words) if self.panel.side == "lanes" else self.f["step"]

    def convert(self, base: Value, source: Value, start: Value, end: Value, scaling: Scaling) -> None:
        """Convert the vectors from `start` to `end`."""
        with self.f.loop(start, end) as u:
            self.convert_vector(base, source, u, scaling)

    def convert_vector(self, base: Value, source: Value, u: Value, scaling: Scaling) -> None:
        """Convert vector `u`: to values, one or the parts of it, or the words of a row."""
        f, vector, panel = self.f, self.vector, self.panel
        target = f.at(base, f.i64("muli", u, panel.step_words))
        x, drawn = vector.load(f.at(source, f.i64("muli", u, self._step))), self.draw(vector, u)
        if panel.dot:
            near = self.kind.near(vector, x, scaling, drawn)
            word = nearest(vector, near, offset=_OFFSET if panel.dot == 4 else 0)
            vector.store(vector.cast("trunci", word, f"i{32 // panel.dot}"), target)
            return
        for n, value in enumerate(self.kind.values(vector, x, scaling, panel.parts, drawn)):
            vector.store(value, f.at(target, n * panel.width))

    def _convert_words(self, base: Value, start: Value, end: Value, scaling: Scaling) -> Value:
        """Convert lanes, all steps of a word at a time; returns the sums of all integers, in binary32."""
        f, vector, panel = self.f, self.vector, self.panel
        with f.carry(start, end, panel.dot, [vector.f32(0.0)]) as steps:
            u, bits = steps.index, 32 // panel.dot
            address = f.at(base, f.i64("muli", u, panel.step_words))
            units = [
                self.kind.units(
                    vector, vector.load(f.at(address, n * panel.step_words)), scaling, self.draw(vector, u, behind=n)
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
            added = vector.binary("muli", vector.cast("fptosi", sums, "i32"), vector.int(-_OFFSET & ALL))
            vector.store(added, f.at(base, f.i64("muli", step, panel.step_words)))

    def draw(self, code: Code, u: Value, behind: int = 0) -> Value | None:
        return None if self.draws is None else self.draws.draw(code, u, behind)

    def reduced(self) -> tuple[Value, Value]:
        return self.f.reduce("minui", self.found[0]), self.f.reduce("maxui", self.found[1])


def larger(code: Code, most: Value, x: Value) -> Value:
    """The larger one of a magnitude and that of `x`, as encodings."""
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(0x7FFFFFFF))
    return code.binary("maxui", most, magnitude)


def _sum(code: Code, values: Sequence[Value]) -> Value:
    """The sum of two or four values."""
    while len(values) > 1:
        values = [code.binary("addf", *pair) for pair in zip(values[::2], values[1::2], strict=True)]
    return values[0]
