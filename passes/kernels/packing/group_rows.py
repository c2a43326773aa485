"""The conversion of rows to formats with groups, which lie along the vectors of a row."""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.packing.group_panels import ALL, Group, GroupPanel, larger
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import Scaling

_NUMBERS = 8  # a scaling has at most so many
_STRAIGHT = 4  # vectors of a group, at most, that are converted without a loop


class GroupRows(GroupPanel):
    """Appends the conversion of one panel of rows."""

    def rows(self, group: int) -> tuple[Value, Value]:
        """Convert groups of this size; returns the limits."""
        width = self.panel.width
        if group % width == 0:
            return self._vectors(group // width)
        return self._parts(group) if width % group == 0 else self._scalars(group)

    def _vectors(self, vectors: int) -> tuple[Value, Value]:
        """A group is `vectors` whole vectors of a row; a vector of scalings is computed at once.

        They are those of adjacent rows and, where a panel has few, of several successive groups of each.
        """
        f, vector, panel = self.f, self.vector, self.panel
        shared = self.shared(vector)
        end = f.i64("ceildivui", f["count"], panel.width)
        kept = [f.alloca(panel.width, "f32") for _ in range(_NUMBERS)]
        limits: Sequence[Value] = [vector.int(ALL), vector.int(0)]
        for row in range(0, panel.count, panel.width):
            rows = min(panel.count - row, panel.width)
            base, source = f.at(f["panel"], row * panel.width * panel.parts), self.source(f.number(row))
            whole, passes = f.number(0), []
            if vectors <= _STRAIGHT:
                several = panel.width // rows if self.draws is None else 1
                whole = f.i64("subi", end, f.i64("remui", end, vectors * several))
                passes = [(f.number(0), whole, several, vectors)]
            passes.append((whole, end, 1, 0))  # what is left: its last group may be cut
            for start, stop, count, straight in passes:
                with f.carry(start, stop, vectors * count, limits) as loop:
                    groups = []
                    for n in range(count):
                        first = f.i64("addi", loop.index, vectors * n)
                        groups.append(
                            Group(base, source, first, f.i64("minui", f.i64("addi", first, vectors), stop), loop)
                        )
                    most = self._largest_of_rows(groups, rows, straight)
                    scaling = self.kind.scaling(vector, most, shared)
                    groups[0].limit(vector, most, scaling)
                    self._convert_rows(
                        groups, f.number(row), rows, vectors=vectors, straight=straight, scaling=scaling, kept=kept
                    )
                limits = loop.results
        self.found = list(limits)
        return self.reduced()

    def _largest_of_rows(self, groups: Sequence[Group], rows: int, straight: int) -> Value:
        """The largest magnitudes of groups of adjacent rows, one in each lane, all rows of a group side by side.

        straight: how many vectors each group has, for code without a loop; 0 for a loop.
        """
        f, vector, panel = self.f, self.vector, self.panel
        starts = [f.at(groups[0].source, f.i64("muli", f["row_step"], n)) for n in range(rows)]

        def next_of(most: Sequence[Value], u: Value) -> list[Value]:
            offset = f.i64("muli", u, f["step"])
            return [larger(vector, x, vector.load(f.at(at, offset))) for x, at in zip(most, starts, strict=True)]

        largest: list[Value] = []
        for g in groups:
            most = [vector.int(0)] * rows
            if straight:
                for v in range(straight):
                    most = next_of(most, f.i64("addi", g.first, v))
            else:
                with f.carry(g.first, g.end, 1, most) as steps:
                    steps.next = next_of(steps.values, steps.index)
                most = steps.results
            largest += most
        distance = 1
        while distance < panel.width:
            # Lanes whose number has the bit `distance` hold every other row.
            largest += largest[-1:] * (len(largest) % 2 if len(largest) > 1 else 1)
            near = [n + panel.width * bool(n & distance) for n in range(panel.width)]
            far = [(n ^ distance) + panel.width * bool(n & distance) for n in range(panel.width)]
            largest = [
                vector.binary("maxui", vector.shuffle(a, near, b), vector.shuffle(a, far, b))
                for a, b in zip(largest[::2], largest[1::2], strict=True)
            ]
            distance *= 2
        return largest[0]

    def _convert_rows(
        self,
        groups: Sequence[Group],
        row: Value,
        rows: int,
        vectors: int,
        straight: int,
        scaling: Scaling,
        kept: Sequence[Value],
    ) -> None:
        """Convert groups of `rows` rows from `row` on, by the scaling in the lane of each; `kept`: room for it.

        vectors: of a group.
        """
        f, vector, panel = self.f, self.vector, self.panel
        assert scaling.unit is not None
        numbers = (*scaling.down, *scaling.up, scaling.unit)
        assert len(numbers) <= _NUMBERS
        for number, address in zip(numbers, kept, strict=False):
            vector.store(number, address)
        downs, ups, unit = len(scaling.down), len(numbers) - 1, kept[len(numbers) - 1]
        with f.loop(0, rows) as n:
            if self.draws is not None:
                self.draws.begin(f.i64("addi", row, n))
            for m, g in enumerate(groups):
                lane = f.i64("addi", n, m * rows)
                down, up = ([vector.splat(f.at(p, lane)) for p in some] for some in (kept[:downs], kept[downs:ups]))
                row_scaling = Scaling(tuple(down), tuple(up))
                base = f.at(g.base, f.i64("muli", n, panel.width * panel.parts))
                source = f.at(g.source, f.i64("muli", n, f["row_step"]))
                for v in range(straight):
                    self.convert_vector(base, source, f.i64("addi", g.first, v), row_scaling)
                if not straight:
                    self.convert(base, source, g.first, g.end, row_scaling)
                if panel.dot:
                    slot = f.at(base, f.i64("muli", g.first, panel.step_words))
                    f.store(f.load(f.at(unit, lane)), f.at(slot, panel.width // 2))
                if panel.scales:
                    f.store(f.load(f.at(unit, lane)), self._scale(base, f.i64("divui", g.first, vectors)))

    def _parts(self, group: int) -> tuple[Value, Value]:
        """A vector of a row is several groups."""
        f, vector, width = self.f, self.vector, self.panel.width
        shared = self.shared(vector)
        with self.groups(1, f.i64("ceildivui", f["count"], width), vector) as g:
            most = self.largest(g)
            distance = 1
            while distance < group:
                most = vector.binary("maxui", most, vector.shuffle(most, [n ^ distance for n in range(width)]))
                distance *= 2
            scaling = self.kind.scaling(vector, most, shared)
            g.limit(vector, most, scaling)
            self.convert(g.base, g.source, g.first, g.end, scaling)
            if self.panel.dot:
                assert scaling.unit is not None
                units = vector.shuffle(scaling.unit, range(0, width, group))
                slot = f.at(g.base, f.i64("muli", g.first, self.panel.step_words))
                vector.store(units, f.at(slot, width // 2))
            if self.panel.scales:
                assert scaling.unit is not None
                kept = f.alloca(width, "f32")
                vector.store(scaling.unit, kept)
                first = f.i64("muli", g.first, width // group)
                for n in range(width // group):
                    f.store(f.load(f.at(kept, n * group)), self._scale(g.base, f.i64("addi", first, n)))
        return self.reduced()

    def _scale(self, base: Value, number: Value) -> Value:
        """Where the scale of group `number` of the row at `base` is: behind the vectors of the row."""
        f, panel = self.f, self.panel
        vectors = f.i64("addi", f.i64("ceildivui", f["count"], panel.width), f.i64("divui", number, panel.width))
        return f.at(base, f.i64("addi", f.i64("muli", vectors, panel.step_words), f.i64("remui", number, panel.width)))

    def _scalars(self, group: int) -> tuple[Value, Value]:
        """Groups of any size, value by value."""
        f, panel = self.f, self.panel
        shared = self.shared(f)

        def address(base: Value, u: Value, step: Value) -> Value:
            vector = f.i64("muli", f.i64("divui", u, panel.width), step)
            return f.at(base, f.i64("addi", vector, f.i64("remui", u, panel.width)))

        with self.groups(group, f["count"], f) as g:
            with f.carry(g.first, g.end, 1, [f.int(0)]) as steps:
                steps.next = [larger(f, steps.values[0], f.load(address(g.source, steps.index, f["step"])))]
            (most,) = steps.results
            scaling = self.kind.scaling(f, most, shared)
            g.limit(f, most, scaling)
            if panel.scales:
                assert scaling.unit is not None
                f.store(scaling.unit, self._scale(g.base, f.i64("divui", g.first, group)))
            with f.loop(g.first, g.end) as u:
                target, x = address(g.base, u, f.number(panel.step_words)), f.load(address(g.source, u, f["step"]))
                for n, value in enumerate(self.kind.values(f, x, scaling, panel.parts, self.draw(f, u))):
                    f.store(value, f.at(target, n * panel.width))
        return self.found[0], self.found[1]
