"""Loops that take the accumulators of a tile through all of k, and sums that are kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numc.numerics.operators import Fma
from numc.passes.gpu.kernel_text import Writing
from numc.passes.gpu.tiles.group_planes import planes_of
from numc.passes.gpu.tiles.tile_code import TileFunction
from numc.passes.gpu.tiles.tile_step import block_length, shares_of, sums_of
from numc.passes.kernels.datapaths.blocks.block_scales import run_of_shares

_INDICES = {"a": ("i", "[:, None]"), "b": ("j", "[None, :]")}  # of operand A and B of the tile, its rows and lanes


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Steps whose products are summed apart, from +0 on, in numbers of a type, before they join the accumulators.

    length: how many, 0 if only the run knows: ``run``.
    """

    length: int
    dtype: str

    @property
    def sum(self) -> str:
        """The name of such a sum: in Triton a name has one type."""
        return f"sum_{self.dtype}"

    @property
    def text(self) -> str:
        """Their length."""
        return str(self.length or "run")


def steps_at_once(fma: Fma, runs: Runs | None) -> int:
    """The number of steps of k in shared memory, a power of two; 0 where none holds whole blocks and runs."""
    length, apart = block_length(fma), 0 if runs is None else runs.length
    sizes = [apart, length, 16] if apart in (16, 32, 64, 128) else [16, length]
    for size in sizes:
        fits = apart == 0 or apart % size == 0 or (size % apart == 0 and apart % length == 0)
        if size and size & (size - 1) == 0 and size >= 4 and size % length == 0 and fits:
            return size
    return 0


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """Writes loops that take accumulators ``c`` through steps of k, by a function.

    step: the function. swap: the tile's rows are operand B. parts: of the values of the tile's operands, ``a`` and
    ``b``. runs: what is summed apart.
    """

    w: Writing
    fma: Fma
    step: TileFunction
    swap: bool
    parts: Mapping[str, int]
    runs: Runs | None

    def all_steps(self, deep: int) -> None:
        """Append all of k: by blocks of `deep` through shared memory, and what is left by single steps from memory."""
        w, runs = self.w, self.runs
        if deep == 0 or (runs is not None and runs.length == 0):
            self._from_memory("0")
            return
        apart = 0 if runs is None else runs.length
        if runs is not None and apart != deep:
            self._begin()
        self._through_shared_memory(deep, apart)
        if apart <= deep:
            self._from_memory("whole")
            return
        self._steps("whole", "padded")
        with w.inside(f"if padded % {apart} != 0:"):
            self._join("whole")

    def _begin(self) -> None:
        assert self.runs is not None
        self.w.line(f"{self.runs.sum} = gl.full([ROWS, LANES], 0.0, gl.{self.runs.dtype}, L)")

    def _through_shared_memory(self, deep: int, apart: int) -> None:
        w, parts, length = self.w, self.parts, block_length(self.fma)
        for side, inner in (("a", "gi"), ("b", "gj")):
            w.line(f"from_{side} = begin_{side} + gk[:, None] * pitch_{side} + {inner}[None, :]")
        with w.inside("for k0 in range(0, whole, DEEP):"):
            names = [(side, n) for side, count in parts.items() for n in range(count)]
            tiles = [w.let(f"gl.load(from_{side}{f' + {n} * part_{side}' if n else ''})", "g") for side, n in names]
            for side in parts:
                w.line(f"from_{side} += DEEP * pitch_{side}")
            w.line("barrier()")
            for (side, n), tile in zip(names, tiles, strict=True):
                w.line(f"shared_{side}{n}.store({tile})")
            w.line("barrier()")
            if apart == deep:
                self._begin()
            with w.inside(f"for k in gl.static_range(0, DEEP, {length}):"):
                turned = {"a": ".permute([1, 0])", "b": ""}
                operands = {
                    side: [
                        w.let(f"shared_{side}{n}.slice(k + {m}, 1, 0){turned[side]}.load(L)", "x")
                        for m in range(length)
                        for n in range(count)
                    ]
                    for side, count in parts.items()
                }
                self._append(operands, "(k0 + k)")
                if 0 < apart < deep:
                    with w.inside(f"if (k + {length}) % {apart} == 0:"):
                        self._join("(k0 + k)")
                        self._begin()
            if apart == deep:
                self._join("k0")
            elif apart > deep:
                with w.inside(f"if (k0 + DEEP) % {apart} == 0:"):
                    self._join("k0")
                    self._begin()

    def _join(self, step: str) -> None:
        """Append that a sum joins the accumulators. step: one of those that it is of."""
        assert self.runs is not None
        total = self.runs.sum
        match sums_of(self.fma):
            case "integers":
                self.w.line(f"c = c + {total}.to(gl.int64)")
            case "scaled groups":
                self.w.line(f"group = {step} // {self.fma.group_length}")
                a, b = (group_number(self.fma, side, "group", swap=self.swap) for side in "ab")
                self.w.line(f"c = gl.fma({total}, {a} * {b}, c)")
            case _:
                self.w.line(f"c = c + {total}.to(gl.float32)")

    def _from_memory(self, first: str) -> None:
        """Append all steps from `first` on, of operands from memory."""
        w, runs = self.w, self.runs
        if runs is None:
            self._steps(first, "padded")
            return
        with w.inside(f"for run0 in range({first}, padded, {runs.text}):"):
            self._begin()
            self._steps("run0", f"gl.minimum(run0 + {runs.text}, padded)")
            self._join("run0")

    def _steps(self, first: str, end: str) -> None:
        length = block_length(self.fma)
        with self.w.inside(f"for k in range({first}, {end}, {length}):"):
            told: dict[str, list[str]] = {"a": [], "b": []}
            for m in range(length):
                for side, (index, turned) in _INDICES.items():
                    for n in range(self.parts[side]):
                        at = f"begin_{side} + {n} * part_{side} + (k + {m}) * pitch_{side} + {index}"
                        told[side].append(self.w.let(f"gl.load({at}){turned}", "x"))
            self._append(told, "k")

    def _append(self, told: Mapping[str, list[str]], k: str) -> None:
        """Append one call of the function, for the steps from `k` on."""
        first, second = ("b", "a") if self.swap else ("a", "b")
        scales = self._scales(k)
        values = [*told[first], *told[second], *scales[first], *scales[second]]
        if self.fma.steps_draw:
            values += ["element", f"gl.to_tensor({k}).to(gl.int32)", "low", "key"]
        total = "c" if self.runs is None else self.runs.sum
        self.w.line(f"{total} = {self.step.call(self.w, *values, total)}")

    def _scales(self, k: str) -> dict[str, list[str]]:
        """Append the scales that the products of the block at step `k` share."""
        scales: dict[str, list[str]] = {"a": [], "b": []}
        for n in range(shares_of(self.fma)):
            step = n * run_of_shares(self.fma)
            self.w.line(f"group = ({k} + {step}) // {self.fma.group_length}")
            for side in scales:
                scales[side].append(self.w.let(group_number(self.fma, side, "group", swap=self.swap), "x"))
        return scales


def group_number(fma: Fma, side: str, group: str, *, swap: bool, tensor: bool = False) -> str:
    """The text that loads a number of a group of every row (``a``) or lane (``b``): its factor, or its tensor's."""
    planes, (index, turned) = planes_of(fma, int((side == "a") == swap)), _INDICES[side]
    plane = planes.of_tensor if tensor else planes.factor
    at = f"scales_{side} + z * scale_batch_{side} + {plane} * plane_{side} + {group} * pitch_{side} + {index}"
    return f"gl.load({at}){turned}"
