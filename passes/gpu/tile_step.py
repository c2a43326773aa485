"""A datapath's code as a function of Gluon on tiles of accumulators: the same emitters that write vectors write it.

An emitter appends operations on scalars (kernels/builder.py), whose text is read back and written as Gluon's
(operations.py). So no datapath is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from numc.numerics.datapaths import Blocks, Own, Steps
from numc.numerics.operators import Fma
from numc.passes.gpu.kernel_text import Writing
from numc.passes.gpu.tile_instructions import TILES
from numc.passes.gpu.tile_operations import UnknownError
from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.datapaths.datapath import NOTHING, Datapath, Guard, Micro
from numc.passes.kernels.datapaths.groups import Groups
from numc.passes.kernels.datapaths.table import datapath_of
from numc.passes.kernels.isa.instruction_set import Tile
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.kinds import code_of
from numc.passes.kernels.values.rounding import emit_parts, emit_round
from numc.passes.parsed import parsed


def _plain(fma: Fma) -> Fma:
    """The operator without its runs, of which a kernel takes care."""
    path = replace(fma.datapath, chunk=None, splits=None)
    return replace(fma, datapath=path)


def block_length(fma: Fma) -> int:
    """The number of products that an operator takes together."""
    within = fma.datapath.within
    return within.length if isinstance(within, Blocks) else 1


def is_steps(fma: Fma) -> bool:
    """Whether a reduction is single products of single values, one after the other: loops compute it, too."""
    return not any(fma.grouped) and isinstance(fma.datapath.within, Steps) and not fma.datapath.in_runs


def group_length(fma: Fma) -> int:
    """The steps of k whose products are summed apart because both operands have groups, or 0."""
    return 0 if fma.groups is None else fma.group_length or 0


def _has_groups_of_tiles(fma: Fma) -> bool:
    """Whether a program instance can convert the groups of operands: those of Microscaling, of few steps."""
    return fma.multiplies != "elements" and all(
        code_of(to).scales_by_group and to.noise is None and to.format.group in _GROUPS and to.open is None
        for to in fma.grouped
        if to is not None
    )


def _groups(fma: Fma) -> Groups:
    return Groups(fma, group_length(fma), 0, 0)


_GROUPS = (16, 32, 64, 128)  # steps of k that a program instance packs


def base_of(fma: Fma) -> Datapath:
    """The datapath of an operator, without its runs. Raises UnknownError for one that no kernel of tiles computes."""
    if isinstance(fma.datapath.within, Own):
        raise UnknownError(f"operator '{fma}'")
    path = datapath_of(_plain(fma), flushes=False)
    if fma.steps_draw or any(to.open for to in fma.singles):
        raise UnknownError(f"operator '{fma}'")
    if any(fma.grouped) and (not _has_groups_of_tiles(fma) or fma.datapath.in_runs or block_length(fma) > 1):
        raise UnknownError(f"operator '{fma}'")
    if fma.groups is None and path.step is None:
        raise UnknownError(f"operator '{fma}'")
    if fma.product is not None and fma.product.open is not None:
        raise UnknownError(f"operator '{fma}'")
    return path


def guard_of(fma: Fma) -> Guard | None:
    """When the cheap step may run, or None if there is none: no step that wants the processor's flags or modes."""
    path = base_of(fma)
    if group_length(fma):
        limits = _groups(fma).guard  # of units, which can be anywhere
        return None if limits is None else replace(limits, normal=True)
    setting = _setting(fma)
    cheap = path.cheap if block_length(fma) == 1 else path.cheap_block
    if cheap is None or path.flushes or path.scale(setting) != 1:
        return None
    return path.limits(setting)


def _setting(fma: Fma) -> Setting:
    """The setting of a step on scalars."""
    return Setting(fma=fma, tile=Tile(width=0), isa=TILES)


def step_text(name: str, fma: Fma, *, cheap: bool) -> str:
    """The function that takes the products of a block, or one product, into accumulators.

    Its arguments: every part of A of every product, the same of B, and the accumulators.
    """
    path, length = base_of(fma), block_length(fma)
    places = [
        [f"{side}{k}_{p}" for p in range(parts)]
        for side, parts in zip("ab", fma.parts, strict=True)
        for k in range(length)
    ]
    a, b = places[:length], places[length:]
    names = [*(p for each in places for p in each), "c"]
    groups = _groups(fma) if group_length(fma) else None
    total = "f32" if groups is None or cheap else "f64"
    f = Function("f", {**dict.fromkeys(names, "f32"), "c": total}, total, attributes="")
    of_a, of_b = ([[f[p] for p in parts] for parts in each] for each in (a, b))
    single: tuple[Parts, Parts] = of_a[0], of_b[0]
    products = Listed(length, pairs=tuple(zip(of_a, of_b, strict=True)))
    if groups is not None:
        result = groups.step(f, of_a[0][0], of_b[0][0], f["c"], wide=not cheap)
    elif length > 1 and cheap:
        assert path.cheap_block is not None
        micro = Micro(name=name, f=f, setting=_setting(fma), datapath=path, rows=1, vectors=1, fast=True)
        (result,) = path.cheap_block(micro, products, [f["c"]])
    elif length > 1:
        assert path.block is not None
        (result,) = path.block(f, fma, products, [f["c"]], [NOTHING])
    elif cheap:
        assert path.cheap is not None
        result = path.cheap(f, fma, TILES, *single, f["c"], NOTHING, None)
    else:
        assert path.step is not None
        result = path.step(f, fma, *single, f["c"], NOTHING)
    return jit_text(name, names, f.function(result), "gl")


def conversion_lines(w: Writing, x: str, fma: Fma, operand: int) -> list[str]:
    """Append the conversion of a tile of operand A (0) or B (1); returns its value, the guard's least one, its parts.

    The steps of k of a tile are a group, where the operand has groups. With those of both operands, the guard looks at
    the units that values are multiples of.
    """
    to = fma.grouped[operand]
    if to is not None:
        magnitude = w.let(f"gl.max({x}.to(gl.int32, bitcast=True) & 0x7FFFFFFF, 0)[None, :]", "largest")
        f = Function("f", {"x": "f32", "magnitude": "i32"}, "f32, f32", attributes="")
        code = code_of(to)
        scaling = code.scaling(f, f["magnitude"], None)
        (value,) = code.values(f, f["x"], scaling, 1, None)
        assert scaling.unit is not None
        unit = f.select(f.compare("eq", f["magnitude"], f.int(0)), f.f32(0.0), scaling.unit)
        converted, unit_tile = _lines(w, [x, magnitude], f.function(value, unit))
        return [converted, unit_tile if group_length(fma) else converted, converted]
    count = fma.parts[operand]
    f = Function("f", {"x": "f32"}, ", ".join(["f32"] * (1 + count)), attributes="")
    rounded = emit_round(f, f["x"], fma.singles[operand].settled)
    parts = emit_parts(f, rounded, count)
    whole, *split = _lines(w, [x], f.function(rounded, *parts))
    return [whole, whole, *split]


def rounding_text(name: str, fma: Fma) -> str:
    """The function that rounds totals of runs."""
    f = Function("f", {"c": "f32"}, "f32", attributes="")
    return jit_text(name, ["c"], f.function(emit_round(f, f["c"], fma.total)), "gl")


@dataclass(frozen=True)
class Listed(Products):
    """The products of a block of one accumulator, whose operands are all there."""

    pairs: tuple[tuple[Parts, Parts], ...] = ()

    def share(self, n: int, of: int) -> Products:
        """Every product whose number in the block is `n` modulo `of`."""
        return Listed(self.length, pairs=self.pairs[n::of])

    def fold(self, starts: Sequence[Value], step: Callable[[int, Value, Parts, Parts], Value]) -> list[Value]:
        """Append `step` for one product after the other."""
        totals = []
        for n, value in enumerate(starts):
            for a, b in self.pairs:
                value = step(n, value, a, b)
            totals.append(value)
        return totals

    def in_runs(self, most: int) -> list[Products]:
        """The block in runs of at most `most` products."""
        return [Listed(self.length, pairs=self.pairs[n : n + most]) for n in range(0, self.length, most)]

    def all(self, product):  # type: ignore[no-untyped-def]
        """Append all products."""
        return [[product(a, b) for a, b in self.pairs]]


def jit_text(name: str, arguments: Sequence[str], function: str, language: str) -> str:
    """A function of MLIR with one result as a function of Triton or Gluon."""
    w = Writing(language)
    (result,) = _lines(w, arguments, function)
    w.line(f"return {result}")
    return w.kernel(arguments, ()).replace("{name}", name, 1)


def _lines(w: Writing, arguments: Sequence[str], function: str) -> list[str]:
    """Append the operations of a function of MLIR, given its arguments; returns its results."""
    module = parsed(function)
    (main,) = (op.operation for op in module.body.operations if op.operation.name == "func.func")
    block = main.regions[0].blocks[0]
    names: dict[ir.Value, str] = dict(zip(block.arguments, arguments, strict=True))
    for each in block.operations:
        op = each.operation
        if op.name == "func.return":
            return [w.known(v, names) for v in op.operands]
        w.arithmetic(op, names)
    raise AssertionError("a function returns")
