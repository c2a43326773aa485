"""Operands whose values share scales, on tiles: the numbers of every group, and the values that they scale.

One kernel finds the largest magnitude of each group along k, and stores what follows from it: a plane of float32
numbers [groups, rows or lanes] for each number of a scaling. The kernel that packs an operand reads them, and so do
products whose sums are multiplied by scales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from numc.numerics.formats import Noise
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma
from numc.passes.gpu.kernel_text import Writing
from numc.passes.gpu.tiles.tile_code import tile_lines
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import GroupCode, Scaling
from numc.passes.kernels.values.kinds import code_of
from numc.passes.kernels.values.random_bits import emit_draw, emit_element, emit_group, emit_mix, run_of


@dataclass(frozen=True)
class Planes:
    """The counts of a group's numbers: those of a `Scaling`, and the scale of its tensor."""

    down: int
    up: int
    unit: bool
    tensor: bool

    @property
    def count(self) -> int:
        """All of them."""
        return self.down + self.up + self.unit + self.tensor

    @property
    def factor(self) -> int:
        """The plane of what sums, or products of elements, are multiplied by: the unit, or else the way back."""
        return self.down + self.up - (not self.unit)

    @property
    def of_tensor(self) -> int:
        """The plane of the scales of tensors."""
        return self.count - 1


def group_steps(to: GroupConversion) -> int | None:
    """The steps of k that share a scale; 0 for all of a channel, None for all of a tensor."""
    return 0 if to.channel else to.format.group


def asks_tensor(to: GroupConversion) -> bool:
    """Whether a conversion depends on the largest magnitude of the tensor."""
    return to.format.shares_tensor and not to.channel


@cache
def planes_of(fma: Fma, operand: int) -> Planes:
    """The planes of operand A (0) or B (1)."""
    f = Function("f", _OF_GROUPS)
    scaling, tensor = _scaling(f, fma, operand)
    return Planes(len(scaling.down), len(scaling.up), scaling.unit is not None, tensor is not None)


def scaling_lines(w: Writing, texts: Sequence[str], fma: Fma, operand: int) -> list[str]:
    """Append the numbers of groups; returns those of all planes, in order.

    texts: the largest magnitudes of groups and of the tensor (encodings), and the word of an open width.
    """

    def emit(f: Function) -> Sequence[Value]:
        scaling, tensor = _scaling(f, fma, operand)
        return [*scaling.down, *scaling.up, *(each for each in (scaling.unit, tensor) if each is not None)]

    arguments = {name: (type_, text) for (name, type_), text in zip(_OF_GROUPS.items(), texts, strict=True)}
    return tile_lines(w, arguments, emit)


def value_lines(
    w: Writing, x: str, planes: Sequence[str], *, fma: Fma, operand: int, more: Mapping[str, tuple[str, str]]
) -> list[str]:
    """Append the conversion of a tile; returns the parts of what is multiplied.

    planes: their numbers for every element. more: ``width``, the word of an open width (i64), and ``drawn``, what a
    stochastic rounding draws (i32), of operands that have them.
    """
    known = planes_of(fma, operand)

    def emit(f: Function) -> Sequence[Value]:
        numbers = [f[f"n{n}"] for n in range(len(planes))]
        scaling = Scaling(tuple(numbers[: known.down]), tuple(numbers[known.down :][: known.up]))
        code = _code(fma, operand, f.arguments.get("width"))
        return code.values(f, f["x"], scaling, fma.parts[operand], f.arguments.get("drawn"))

    numbers = {f"n{n}": ("f32", text) for n, text in enumerate(planes)}
    return tile_lines(w, {"x": ("f32", x), **numbers, **more}, emit)


def draw_lines(w: Writing, noise: Noise, element: str, step: str, *, of_b: bool) -> str:
    """Append what the conversion of operand A or B draws for an output's element and a step of k, from ``stream``."""

    def emit(f: Function) -> Sequence[Value]:
        return [drawn(f, noise, second=of_b)]

    texts = {"element": element, "step": step, "low": "stream.to(gl.int32)", "key": "(stream >> 32).to(gl.int32)"}
    return tile_lines(w, {name: ("i32", text) for name, text in texts.items()}, emit)[0]


def drawn(f: Function, noise: Noise, *, second: bool) -> Value:
    """Append a draw by the arguments ``element``, ``step``, and ``low`` and ``key``, the halves of the stream.

    second: of the product or of operand B, else of the accumulator or of operand A.
    """
    run = run_of(noise)
    group = f.binary("shrui", f["step"], f.int(run.bit_length() - 1))
    word = f.binary("addi", emit_element(f, f["element"], f["low"]), emit_group(f, group, f["key"], product=second))
    return emit_draw(f, emit_mix(f, word), f.binary("andi", f["step"], f.int(run - 1)), noise)


_OF_GROUPS = {"magnitude": "i32", "largest": "i32", "width": "i64"}


def _code(fma: Fma, operand: int, width: Value | None = None) -> GroupCode:
    to = fma.grouped[operand]
    assert to is not None
    return code_of(to, width, factors=fma.multiplies)


def _scaling(f: Function, fma: Fma, operand: int) -> tuple[Scaling, Value | None]:
    """A scaling, and the scale of the tensor where that multiplies the sum at its end."""
    to = fma.grouped[operand]
    assert to is not None
    code = _code(fma, operand, f["width"] if to.open else None)
    shared = code.shared(f, f["largest"]) if asks_tensor(to) else None
    scaling, ends = code.scaling(f, f["magnitude"], shared), fma.multiplies == "elements" and fma.shares_tensor
    return scaling, None if not ends else f.f32(1.0) if shared is None else shared
