"""The kernels that pack an operand of a contraction: converted, in parts, steps of k outside, rows or lanes inside.

Panels are padded to whole tiles. Operands with groups have a kernel before, of a program instance for every group of a
panel, which finds what their elements are scaled by (group_planes.py). Where a cheap step has a guard, one of the two
finds the extremes of panels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma
from numc.passes.gpu.kernel_text import Argument, Writing
from numc.passes.gpu.loop_kernels import Size
from numc.passes.gpu.tiles.group_planes import (
    asks_tensor,
    draw_lines,
    group_steps,
    planes_of,
    scaling_lines,
    value_lines,
)
from numc.passes.gpu.tiles.tile_code import tile_lines
from numc.passes.gpu.tiles.tile_places import element_terms, indices, start, sum_of, terms
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.rounding import emit_parts, emit_round
from numc.passes.plan.contraction import Found, Operand


@dataclass(frozen=True)
class Kernel:
    """A kernel of a contraction: its text, its arguments that are memrefs or tables, and these tables' definitions."""

    text: str
    arguments: tuple[Argument, ...]
    tables: Mapping[str, str]


@dataclass(frozen=True)
class Packing:
    """One operand of a contraction, the ``rows`` or the ``lanes``; `guarded`: the extremes of panels are found."""

    product: Found
    fma: Fma
    side: str
    sizes: Sequence[Size]
    guarded: bool

    @property
    def operand(self) -> Operand:
        """Where it is."""
        return self.product.rows if self.side == "rows" else self.product.lanes

    @property
    def number(self) -> int:
        """0 for operand A, 1 for B."""
        return int((self.side == "rows") == self.product.swap)

    @property
    def to(self) -> GroupConversion | None:
        """Its conversion, if that is to a format with groups."""
        return self.fma.grouped[self.number]

    @property
    def slot(self) -> int | None:
        """The slot of its open width."""
        return self.product.widths[0 if self.side == "rows" else 1]

    def scaling(self) -> Kernel:
        """The kernel of the groups of an operand: the largest magnitude of each, and the numbers that follow."""
        assert self.to is not None
        w, planes = Writing("gl"), planes_of(self.fma, self.number)
        w.line(_LAYOUT)
        w.line("tile = gl.program_id(0) % panels")
        w.line("group = gl.program_id(0) // panels")
        names = self._outside(w)
        w.line("magnitude = gl.full([SIDE], 0, gl.int32, gl.SliceLayout(0, G))")
        if group_steps(self.to) is None:
            w.line("magnitude = magnitude + gl.load(largest)")
        else:
            with w.inside("for first in range(0, size, DEEP):"):
                w.line("step = first + gl.arange(0, DEEP, gl.SliceLayout(1, G))")
                w.line("k = (group * size + step).to(I)")
                x = self._loaded(w, names, "(step < size) & (k < depth)")
                w.line(f"magnitude = gl.maximum(magnitude, gl.max({x}.to(gl.int32, bitcast=True) & 0x7FFFFFFF, 0))")
        numbers = scaling_lines(w, ("magnitude", "gl.load(largest)", _WIDTH), self.fma, self.number)
        for n, number in enumerate(numbers):
            address = f"scalings + ((z * {planes.count} + {n}) * groups + group) * pitch + i"
            w.line(f"gl.store({address}, {number}, mask=i < pitch)")
        if self.guarded and self.fma.groups is not None:
            unit = numbers[planes.factor]
            w.line(f"unit = gl.where(magnitude == 0, 0, {unit}.to(gl.int32, bitcast=True))")
            _extremes(w, "gl.where(unit == 0, 0x7FFFFFFF, unit - 1)", "gl.maximum(magnitude, unit)")
        run = (["largest"] if asks_tensor(self.to) else []) + (["width"] if self.to.open else [])
        told = ["scalings", "ranges", *run, *w.arguments.values(), "side", "panels", "depth", "groups", "size"]
        return Kernel(w.kernel([*told, "pitch"], ("I", "SIDE", "DEEP", "WARP")), tuple(w.arguments), w.tables)

    def values(self) -> Kernel:
        """The kernel that converts and packs, a panel of a block of k in a program instance."""
        w, to, inner = Writing("gl"), self.to, ["scalings", "groups", "size"]
        w.line(_LAYOUT)
        w.line("tile = gl.program_id(0) % panels")
        names = self._outside(w)
        w.line("k = (gl.program_id(0) // panels).to(I) * DEEP + gl.arange(0, DEEP, gl.SliceLayout(1, G)).to(I)")
        x = self._loaded(w, names, "k < depth")
        w.line("inside = (k < padded)[:, None] & (i < pitch)[None, :]")
        if to is None:
            inner, parts = [], self._singles(w, x)
        else:
            inner += (["width"] if to.open else []) + (["random"] if to.noise else [])
            parts = self._grouped(w, to, x, names)
        if self.fma.groups is None:
            value, *parts = parts
            if self.guarded:
                w.line(f"bits = {value}.to(gl.int32, bitcast=True) & 0x7FFFFFFF")
                _extremes(w, "gl.min(gl.where(bits == 0, 0x7FFFFFFF, bits - 1), 0)", "gl.max(bits, 0)")
        for n, part in enumerate(parts):
            row = f"(z * {len(parts)} + {n}) * padded + k" if len(parts) > 1 else "z * padded + k"
            w.line(f"gl.store(packed + ({row})[:, None] * pitch + i[None, :], {part}, mask=inside)")
        told = ["packed", "ranges", *inner, *w.arguments.values(), "side", "panels", "depth", "padded", "pitch"]
        return Kernel(w.kernel(told, ("I", "SIDE", "DEEP", "WARP")), tuple(w.arguments), w.tables)

    def _outside(self, w: Writing) -> dict[int, str]:
        """Append the indices that are not along k; returns their names by dimension."""
        names: dict[int, str] = {}
        w.line("z = gl.program_id(1).to(I)")
        w.line("i = tile.to(I) * SIDE + gl.arange(0, SIDE, gl.SliceLayout(0, G)).to(I)")
        for name, dims in (("i", self._inner), ("z", self.product.shape.batch)):
            indices(w, name, dims, self.sizes, names)
        return names

    @property
    def _inner(self) -> list[int]:
        return self.product.shape.rows if self.side == "rows" else self.product.shape.lanes

    def _loaded(self, w: Writing, names: dict[int, str], there: str) -> str:
        """Append the loads of a tile (k, i), zeros where `there` is false or no row is; returns its name."""
        shape, operand = self.product.shape, self.operand
        memory, inside = w.argument("memory", operand.value), dict(names)
        indices(w, "k", shape.k, self.sizes, inside)
        along_i = sum_of(terms(w, operand, self._inner, inside), "i")
        along_k = sum_of(terms(w, operand, shape.k, inside), "k")
        along_z = sum_of([*terms(w, operand, shape.batch, inside), *start(w, operand)], "z")
        w.line(f"address = (({along_i}) + ({along_z}))[None, :] + ({along_k})[:, None]")
        w.line(f"there = (i < side)[None, :] & ({there})[:, None]")
        return w.let(f"gl.load({memory} + address, mask=there, other=0.0)", "x")

    def _singles(self, w: Writing, x: str) -> list[str]:
        """Append the rounding of single values; returns those, and their parts."""
        to = self.fma.singles[self.number].settled

        def emit(f: Function) -> Sequence[Value]:
            rounded = emit_round(f, f["x"], to)
            return [rounded, *emit_parts(f, rounded, to.format)]

        return tile_lines(w, {"x": ("f32", x)}, emit)

    def _grouped(self, w: Writing, to: GroupConversion, x: str, names: dict[int, str]) -> list[str]:
        """Append the conversion of values with groups; returns the parts, of one operand after the values."""
        count = planes_of(self.fma, self.number).count
        w.line("group = gl.minimum(k // size, groups - 1)[:, None]")
        address = f"scalings + (z * {count} * groups + group) * pitch + i[None, :]"
        planes = [
            w.let(f"gl.load({address}{f' + {n} * groups * pitch' if n else ''}, mask=inside, other=0.0)", "p")
            for n in range(count)
        ]
        more = {}
        if to.open is not None:
            more["width"] = ("i64", _WIDTH)
        if to.noise is not None:
            w.line("stream = gl.to_tensor(0).to(gl.int64) + random")
            outer = [*self._inner, *self.product.shape.batch]
            element = sum_of(element_terms(w, self.product.out, outer, self.sizes, names), "i")
            w.line(f"element = ({element}).to(gl.int32)[None, :]")
            w.line("step = k.to(gl.int32)[:, None]")
            more["drawn"] = ("i32", draw_lines(w, to.noise, "element", "step", of_b=self.number == 1))
        parts = value_lines(w, x, planes, fma=self.fma, operand=self.number, more=more)
        return parts if self.fma.groups is not None else [parts[0], *parts]


def _extremes(w: Writing, low: str, high: str) -> None:
    """Append the update of a panel's smallest magnitude, less one, and its largest one, as encodings."""
    w.line("panel = ranges + 2 * (z * panels + tile)")
    w.line(f"gl.atomic_min(panel, gl.min({low}, 0))")
    w.line(f"gl.atomic_max(panel + 1, gl.max({high}, 0))")


_WIDTH = "(gl.to_tensor(0).to(gl.int64) + width)"
_LAYOUT = "G: gl.constexpr = gl.BlockedLayout([1, 4], [1, WARP], [4, 1], [1, 0])"
