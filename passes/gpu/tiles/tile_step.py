"""Datapaths as functions of Gluon on tiles of accumulators: one code for vectors and for tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from numc.numerics.datapaths import Blocks, Own, Steps
from numc.numerics.defined import definition_of, is_defined
from numc.numerics.formats import Conversion
from numc.numerics.operators import PLAIN, Fma
from numc.passes.gpu.tile_instructions import TILES
from numc.passes.gpu.tile_operations import UnknownError
from numc.passes.gpu.tiles.group_planes import drawn
from numc.passes.gpu.tiles.tile_code import TileFunction, tile_function
from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.blocks import cut_integers
from numc.passes.kernels.datapaths.blocks.block_scales import SCALED, Shares, Step, block, run_of_shares, scale_format
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.datapaths.datapath import NOTHING, Datapath, Drawn, Guard, Micro
from numc.passes.kernels.datapaths.defined.traced_blocks import DEFINED
from numc.passes.kernels.datapaths.defined.writer import emit_ended, register_element
from numc.passes.kernels.datapaths.group_sums import scaled_integer
from numc.passes.kernels.datapaths.groups import Groups
from numc.passes.kernels.datapaths.saturated import saturated
from numc.passes.kernels.datapaths.table import datapath_of
from numc.passes.kernels.isa.instruction_set import Tile
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.rounding import emit_round

Sums = Literal["steps", "registers", "groups", "scaled groups", "integers", "saturated", "scaled blocks"]
"""The terms of a reduction: products into accumulators, one by one or in blocks, or into a register; dot products of
groups, exact or of elements that scales multiply; integers, to which scales are applied at their end; or blocks of
elements and scales."""


def sums_of(fma: Fma) -> Sums:
    """The terms that the reductions of an operator sum."""
    if fma.group is None:
        return "registers" if is_defined(fma) and definition_of(fma).register else "steps"
    if fma.multiplies == "elements":
        return "scaled blocks"
    if fma.group.sums_integers:
        return "saturated" if dict(fma.datapath.parameters).get("saturate") else "integers"
    return "scaled groups" if fma.group.sums_elements else "groups"


def on_tiles(fma: Fma) -> Fma:
    """The operator of the same bits whose steps tiles take: chunks of magnitudes are multiplied at once."""
    return replace(fma, name="", datapath=PLAIN, products=1) if fma.datapath.name == "fmac2" else fma


def block_length(fma: Fma) -> int:
    """The number of products that an operator takes together."""
    if sums_of(fma) == "saturated":
        return fma.datapath["l"]
    within = fma.datapath.within
    return within.length if isinstance(within, Blocks) else 1


def is_steps(fma: Fma) -> bool:
    """Whether a reduction is single products of single values, one after the other: loops compute it, too."""
    return not any(fma.grouped) and isinstance(fma.datapath.within, Steps) and not fma.datapath.in_runs


def base_of(fma: Fma) -> Datapath:
    """The datapath of an operator, without its runs. Raises UnknownError for one that no kernel of tiles computes."""
    sums = sums_of(fma)
    path = DEFINED if sums == "registers" else datapath_of(_plain(fma), flushes=False)
    if sums == "registers" and register_element(fma) not in ("i32", "i64"):
        raise UnknownError(f"operator '{fma}', whose register has {register_element(fma)[1:]} bits")
    own = isinstance(fma.datapath.within, Own) and sums == "steps"
    open_ = any(to is not None and to.open is not None for to in (*fma.singles, fma.product))
    if own or open_ or (fma.steps_draw and fma.datapath.in_runs) or (path.step is None and sums == "steps"):
        raise UnknownError(f"operator '{fma}'")
    return path


def guard_of(fma: Fma) -> Guard | None:
    """When the cheap step may run, or None if there is none: no step that wants the processor's flags or modes."""
    path, sums = base_of(fma), sums_of(fma)
    if fma.steps_draw:
        return None
    if sums == "groups":
        limits = _groups(fma).guard  # of units, which can be anywhere
        return None if limits is None else replace(limits, normal=True)
    if sums == "scaled blocks":
        return SCALED.limits(_setting(fma))
    setting = _setting(fma)
    cheap = path.cheap if block_length(fma) == 1 else path.cheap_block
    if sums != "steps" or cheap is None or path.flushes or path.scale(setting) != 1:
        return None
    return path.limits(setting)


def shares_of(fma: Fma) -> int:
    """The number of pairs of scales that the products of a block have."""
    return -(-block_length(fma) // run_of_shares(fma)) if sums_of(fma) == "scaled blocks" else 0


def run_of_integers(fma: Fma) -> tuple[int, str]:
    """The number of products of integers that are summed before a conversion, and the type that has their sum."""
    assert fma.groups is not None
    a, b = (to.format.most_units for to in fma.groups)
    for bits, dtype in ((24, "float32"), (53, "float64")):
        steps = (1 << bits) // (a * b)
        if steps >= _FEWEST:
            return min(1 << (steps.bit_length() - 1), 1 << 20), dtype
    raise UnknownError(f"operator '{fma}'")


_FEWEST = 16


def sum_type(fma: Fma) -> str:
    """The type in MLIR of what a reduction without runs is summed in."""
    sums = sums_of(fma)
    return register_element(fma) if sums == "registers" else "f64" if sums == "saturated" else "f32"


DRAWS = ("element", "step", "low", "key")
"""What a step that draws takes: the index of the output's element, the step of k, and the halves of its stream."""


def step_of(name: str, fma: Fma, *, cheap: bool, total: str) -> TileFunction:
    """The function that takes the products of a block, or one product, into accumulators.

    Its arguments: every part of A of every product, the same of B, the scales of A and of B that products share, and
    the accumulators; before these, of steps that draw, `DRAWS`. total: the type of accumulators in MLIR.
    """
    length, shares = block_length(fma), shares_of(fma)
    places = [
        [f"{side}{k}_{p}" for p in range(parts)]
        for side, parts in zip("ab", fma.parts, strict=True)
        for k in range(length)
    ]
    scales = [[f"{side}_scale{n}" for n in range(shares)] for side in "ab"]
    names = [*(p for each in places for p in each), *scales[0], *scales[1]]

    def emit(f: Function) -> Sequence[Value]:
        of_a, of_b = ([[f[p] for p in parts] for parts in each] for each in (places[:length], places[length:]))
        products = _Listed(length, pairs=tuple(zip(of_a, of_b, strict=True)))
        pairs = [(f[a], f[b]) for a, b in zip(*scales, strict=True)]
        return [_step(f, fma, products, pairs, cheap=cheap)]

    draws = dict.fromkeys(DRAWS if fma.steps_draw else (), "i32")
    types = {**dict.fromkeys(names, "f32"), **draws, "c": total}
    return tile_function(name, types, emit)


def _step(f: Function, fma: Fma, products: _Listed, scales: Sequence[tuple[Value, Value]], *, cheap: bool) -> Value:
    path, (a, b) = base_of(fma), products.pairs[0]
    of_product, of_sum = (None if to is None else to.noise for to in (fma.product, fma.acc))
    draws = Drawn(
        product=None if of_product is None else drawn(f, of_product, second=True),
        acc=None if of_sum is None else drawn(f, of_sum, second=False),
    )
    micro = Micro(name="", f=f, setting=_setting(fma), datapath=path, rows=1, vectors=1, fast=True)
    match sums_of(fma):
        case "groups" | "scaled groups" | "integers":
            return _groups(fma).step(f, a[0], b[0], f["c"], wide=f["c"].type.element == "f64")
        case "saturated":
            (result,) = saturated(f, fma, products, [f["c"]])
        case "scaled blocks" if cheap:
            powers = [f.binary("mulf", *pair) for pair in scales]
            (result,) = cut_integers.block(micro, products, [f["c"]], powers, in_mode=False)
        case "scaled blocks":
            (result,) = block(f, fma, _Scaled(fma, products, scales), [f["c"]], [draws])
        case _ if products.length > 1 and cheap:
            assert path.cheap_block is not None
            (result,) = path.cheap_block(micro, products, [f["c"]])
        case _ if products.length > 1:
            assert path.block is not None
            (result,) = path.block(f, fma, products, [f["c"]], [draws])
        case _ if cheap:
            assert path.cheap is not None
            result = path.cheap(f, fma, TILES, a, b, f["c"], NOTHING, None)
        case _:
            assert path.step is not None
            result = path.step(f, fma, *products.pairs[0], f["c"], draws)
    return result


def rounding_of(name: str, fma: Fma) -> TileFunction:
    """The function that rounds totals of runs."""
    return tile_function(name, {"c": "f32"}, lambda f: [emit_round(f, f["c"], fma.total)])


def ending_of(name: str, fma: Fma) -> TileFunction:
    """The function that ends sums: it adds accumulators to a register, or to totals times the product of two scales."""
    if sums_of(fma) == "registers":
        types = {"total": register_element(fma), "c": "f32"}
        return tile_function(name, types, lambda f: [emit_ended(f, fma, f["c"], f["total"])])
    integers = sums_of(fma) in ("integers", "saturated")

    def emit(f: Function) -> Sequence[Value]:
        factor = f.binary("mulf", f["a_scale"], f["b_scale"])
        if integers:
            return [scaled_integer(f, fma, f["total"], factor, f["c"])]
        return [f.fma(f["total"], factor, f["c"])]

    types = {"total": "i64" if integers else "f32", **dict.fromkeys(("a_scale", "b_scale", "c"), "f32")}
    return tile_function(name, types, emit)


def _plain(fma: Fma) -> Fma:
    """The operator without its runs, of which a kernel takes care."""
    return replace(fma, datapath=replace(fma.datapath, chunk=None, splits=None))


def _setting(fma: Fma) -> Setting:
    """The setting of a step on scalars."""
    return Setting(fma=fma, tile=Tile(width=0), isa=TILES)


def _groups(fma: Fma) -> Groups:
    return Groups(fma, fma.group_length or 0, 0, 0)


@dataclass(frozen=True)
class _Listed(Products):
    """The products of a block of one accumulator, whose operands are all there."""

    pairs: tuple[tuple[Parts, Parts], ...] = ()

    def share(self, n: int, of: int) -> Products:
        """Every product whose number in the block is `n` modulo `of`."""
        return _Listed(self.length, pairs=self.pairs[n::of])

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
        return [_Listed(self.length, pairs=self.pairs[n : n + most]) for n in range(0, self.length, most)]

    def both(self) -> list[tuple[tuple[Parts, Parts], tuple[Parts, Parts]]]:
        """The operands of both products of a block of two."""
        first, second = self.pairs
        return [(first, second)]

    def all(self, product):  # type: ignore[no-untyped-def]
        """Append all products."""
        return [[product(a, b) for a, b in self.pairs]]


@dataclass(frozen=True)
class _Scaled(Shares):
    """Those products in runs that share scales."""

    fma: Fma
    products: _Listed
    scales: Sequence[tuple[Value, Value]]

    @property
    def formats(self) -> tuple[Conversion, Conversion]:
        assert self.fma.groups is not None
        a, b = map(scale_format, self.fma.groups)
        return a, b

    def fold(self, starts: Sequence[Value], step: Step) -> list[Value]:
        values = list(starts)
        runs = self.products.in_runs(run_of_shares(self.fma))
        for run, (a, b) in zip(runs, self.scales, strict=True):
            values = step(run, [a], [b], values)
        return values
