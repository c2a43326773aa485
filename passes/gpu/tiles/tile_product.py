"""The kernel of a contraction's tiles: accumulators in registers, operands through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from numc.numerics.operators import Fma
from numc.passes.gpu.kernel_text import Writing
from numc.passes.gpu.loop_kernels import Size
from numc.passes.gpu.tile_operations import DTYPES
from numc.passes.gpu.tiles.tile_code import TileFunction
from numc.passes.gpu.tiles.tile_guard import guard_lines
from numc.passes.gpu.tiles.tile_packing import Kernel
from numc.passes.gpu.tiles.tile_places import element_terms, indices, start, sum_of, terms
from numc.passes.gpu.tiles.tile_reduction import Reduction, Runs, group_number, steps_at_once
from numc.passes.gpu.tiles.tile_step import (
    block_length,
    ending_of,
    guard_of,
    rounding_of,
    run_of_integers,
    step_of,
    sum_type,
    sums_of,
)
from numc.passes.plan.contraction import Found

_BEGIN = "gl.load(address, mask=there, other=0.0)"
"""The accumulators that a contraction begins with."""


@dataclass(frozen=True)
class Tiles:
    """A contraction whose tiles are computed."""

    product: Found
    fma: Fma
    sizes: Sequence[Size]
    functions: list[TileFunction] = field(default_factory=list)

    @property
    def most(self) -> list[int]:
        """The most rows of a tile, and its lanes: accumulators, and the operands of a block, are in registers."""
        if block_length(self.fma) > 1:
            return [64, 32] if block_length(self.fma) <= _LONG_BLOCK else [32, 32]
        if sums_of(self.fma) == "integers":
            return [64, 64]
        plain = self.fma.is_one_fma and self._runs(cheap=guard_of(self.fma) is not None) is None
        return [128, 128 if plain else 64]

    @cached_property
    def deep(self) -> int:
        """The steps of k that shared memory holds; 0 if it is not used, as by steps that draw, which are long."""
        return 0 if self.fma.steps_draw else steps_at_once(self.fma, self._runs(cheap=guard_of(self.fma) is not None))

    def kernel(self) -> Kernel:
        """The kernel, and the functions that it calls."""
        w, fma, zero = Writing("gl"), self.fma, _zero(self.fma)
        self._outside(w)
        w.line(f"c = {_BEGIN if zero is None else zero}")
        self._operands(w)
        limits = guard_of(fma)
        if limits is None:
            self._steps(w, "step", deep=self.deep)
        else:
            w.line("least_a, most_a = gl.load(range_a), gl.load(range_a + 1)")
            w.line("least_b, most_b = gl.load(range_b), gl.load(range_b + 1)")
            guard_lines(w, limits)
            with w.inside("if holds:"):
                self._steps(w, "cheap", deep=self.deep)
            with w.inside("else:"):
                self._steps(w, "step", deep=0)  # seldom, and long: it is not unrolled
        if fma.datapath.in_runs:
            self.functions.append(rounding_of("{name}_total", fma))
            w.line(f"c = {self.functions[-1].call(w, 'c')}")
        if zero is not None:
            self._end(w)
        w.line("gl.store(address, c, mask=there)")
        more = (*(_SCALED if any(fma.grouped) else ()), *(("random",) if fma.steps_draw else ()))
        told = ["a", "b", "ranges_a", "ranges_b", *w.arguments.values(), *_TOLD, *more]
        text = w.kernel(told, ("I", "ROWS", "LANES", "DEEP", "WARP"))
        whole = "\n\n\n".join([*(each.text for each in self.functions), text])
        return Kernel(whole, tuple(w.arguments), w.tables)

    @property
    def _parts(self) -> dict[str, int]:
        """The parts of the values of rows (``a``) and lanes (``b``)."""
        swap = self.product.swap
        return {"a": self.fma.parts[int(swap)], "b": self.fma.parts[int(not swap)]}

    def _outside(self, w: Writing) -> None:
        """Append where the accumulators of a tile are."""
        product, shape, names = self.product, self.product.shape, dict[int, str]()
        out = w.argument("memory", product.out.value)
        for line in _LAYOUTS:
            w.line(line)
        for name, dims in (("i", shape.rows), ("j", shape.lanes), ("z", shape.batch)):
            indices(w, name, dims, self.sizes, names)
        along_i = sum_of(terms(w, product.out, shape.rows, names), "i")
        along_j = sum_of(terms(w, product.out, shape.lanes, names), "j")
        along_z = sum_of([*terms(w, product.out, shape.batch, names), *start(w, product.out)], "z")
        w.line(f"address = {out} + (({along_i}) + ({along_z}))[:, None] + ({along_j})[None, :]")
        w.line("there = (i < side_a)[:, None] & (j < side_b)[None, :]")
        if self.fma.steps_draw:
            of_i, of_j, of_z = (
                sum_of(element_terms(w, product.out, dims, self.sizes, names), name)
                for name, dims in (("i", shape.rows), ("j", shape.lanes), ("z", shape.batch))
            )
            w.line(f"element = ((({of_i}) + ({of_z}))[:, None] + ({of_j})[None, :]).to(gl.int32)")
            w.line("stream = gl.to_tensor(0).to(gl.int64) + random")
            w.line("low, key = stream.to(gl.int32), (stream >> 32).to(gl.int32)")

    def _operands(self, w: Writing) -> None:
        """Append where packed operands begin, and their shared memory."""
        deep = self.deep
        for side, count in self._parts.items():
            w.line(f"part_{side} = padded * pitch_{side}")
            w.line(f"begin_{side} = {side} + z * batch_{side}")
            size = {"a": "ROWS", "b": "LANES"}[side]
            for n in range(count if deep else 0):
                w.line(f"shared_{side}{n} = gl.allocate_shared_memory(gl.float32, [DEEP, {size}], S)")
        for line in _SHARED if deep else ():
            w.line(line)

    def _steps(self, w: Writing, how: str, *, deep: int) -> None:
        """Append all steps of k by the ``cheap`` or the exact ``step``."""
        runs = self._runs(cheap=how == "cheap")
        total = sum_type(self.fma) if runs is None else {"float32": "f32", "float64": "f64"}[runs.dtype]
        step = step_of(f"{{name}}_{how}", self.fma, cheap=how == "cheap", total=total)
        self.functions.append(step)
        swap = self.product.swap
        Reduction(w=w, fma=self.fma, step=step, swap=swap, parts=self._parts, runs=runs).all_steps(deep)

    def _runs(self, *, cheap: bool) -> Runs | None:
        """Which steps are summed apart, in which type."""
        fma, length = self.fma, self.fma.group_length or 0
        match sums_of(fma):
            case "groups":
                return Runs(length=length, dtype="float32" if cheap else "float64")
            case "scaled groups":
                return Runs(length=length, dtype="float32")
            case "integers":
                steps, dtype = run_of_integers(fma)
                return Runs(length=steps, dtype=dtype)
        return Runs(length=fma.datapath.chunk or 0, dtype="float32") if fma.datapath.in_runs else None

    def _end(self, w: Writing) -> None:
        """Append that the accumulators of the beginning are added to sums."""
        sums = sums_of(self.fma)
        self.functions.append(ending_of("{name}_end", self.fma))
        tensor, sides = sums == "scaled blocks", "" if sums == "registers" else "ab"
        scales = (group_number(self.fma, side, "0", swap=self.product.swap, tensor=tensor) for side in sides)
        total = "c.to(gl.int64)" if sums == "saturated" else "c"
        w.line(f"c = {self.functions[-1].call(w, total, *scales, _BEGIN)}")


_LONG_BLOCK = 16


def _zero(fma: Fma) -> str | None:
    """The start of a sum that accumulators are added to at its end; None for sums that begin with these."""
    sums = sums_of(fma)
    if sums in ("steps", "groups", "scaled groups") or (sums == "scaled blocks" and not fma.shares_tensor):
        return None
    dtype = "int64" if sums == "integers" else DTYPES[sum_type(fma)]
    return f"gl.full([ROWS, LANES], 0, gl.{dtype}, L)"


_TOLD = (
    "side_a",
    "side_b",
    "tiles_a",
    "padded",
    "run",
    "growth",
    "pitch_a",
    "pitch_b",
    "batch_a",
    "batch_b",
    "range_batch_a",
    "range_batch_b",
)
_SCALED = ("scales_a", "scales_b", "plane_a", "plane_b", "scale_batch_a", "scale_batch_b")
_LAYOUTS = (
    "L: gl.constexpr = gl.BlockedLayout([ROWS // 16, min(LANES // (WARP // 4), 8)], [8, WARP // 8], [2, 2], [1, 0])",
    "G: gl.constexpr = gl.BlockedLayout([1, 4], [1, WARP], [4, 1], [1, 0])",
    "S: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])",
    "row_tile = gl.program_id(0) % tiles_a",
    "lane_tile = gl.program_id(0) // tiles_a",
    "z = gl.program_id(1).to(I)",
    "range_a = ranges_a + z * range_batch_a + 2 * row_tile",
    "range_b = ranges_b + z * range_batch_b + 2 * lane_tile",
    "i = row_tile.to(I) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, L)).to(I)",
    "j = lane_tile.to(I) * LANES + gl.arange(0, LANES, gl.SliceLayout(0, L)).to(I)",
)
"""What every kernel begins with."""
_SHARED = (
    "gk = gl.arange(0, DEEP, gl.SliceLayout(1, G)).to(I)",
    "gi = row_tile.to(I) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(0, G)).to(I)",
    "gj = lane_tile.to(I) * LANES + gl.arange(0, LANES, gl.SliceLayout(0, G)).to(I)",
    "whole = padded - padded % DEEP",
)
"""What steps through shared memory begin with."""
