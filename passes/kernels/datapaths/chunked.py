"""Chunked accumulation (FMAC-8 of Popescu et al.): chunks of steps of k, each summed apart.

A chunk is summed in registers, in the accumulator's format from +0. The tile in memory holds the binary32
accumulators, to which every full chunk is added by one binary32 add, and behind them the sum of a chunk that has not
ended yet: chunks count from the first k of the reduction, and a block of k may end inside of one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Micro, Segment
from numc.passes.kernels.datapaths.stochastic import ARGUMENTS, draws_at, words_of
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.rounding import emit_round


@dataclass(frozen=True)
class Chunks:
    """Chunks of `size` steps of k, in blocks of `k_block`."""

    size: int
    k_block: int

    @property
    def carried(self) -> bool:
        """Whether a chunk can go on from one block of k to the next."""
        return self.k_block % self.size != 0


def chunked(base: Datapath) -> Datapath:
    """The datapath `base`, with its sums in chunks."""
    return replace(base, state=_partial_sums, segment=_size, enter=enter, leave=leave, finish=finish, in_place=False)


def _partial_sums(s: Setting) -> int:
    return 1


def _size(s: Setting) -> int | None:
    return s.fma.datapath.chunk


def enter(m: Micro, segment: Segment) -> Accumulators:
    """The sums of a chunk so far: zeros, or of one that goes on what the block before left."""
    f, code = m.f, m.code
    zero = code.f32(0.0)
    chunk = m.setting.fma.datapath.chunk
    assert chunk is not None
    if not Chunks(chunk, m.setting.tile.k_block).carried:
        return [zero] * len(m.places)
    goes_on = f.compare("slt", segment.begin, f.number(0))
    with f.choose(goes_on, *[code.ty("f32")] * len(m.places)) as choice:
        with choice.then():
            partial = [code.load(code.at(f["tile"], m.setting.accumulators + place)) for place in m.places]
            choice.next = partial if m.scale == 1 else [code.binary("mulf", x, code.f32(m.scale)) for x in partial]
        with choice.otherwise():
            choice.next = [zero] * len(m.places)
    return choice.results


def leave(m: Micro, segment: Segment, values: Accumulators) -> None:
    """A full chunk is added to the accumulators; the sums of one that has not ended are stored behind them."""
    f, code, tile = m.f, m.code, m.f["tile"]

    def back(value: Value) -> Value:
        return value if m.scale == 1 else code.binary("mulf", value, code.f32(1 / m.scale))

    with f.choose(f.compare("sle", segment.whole, f["kc"])) as choice:
        with choice.then():
            for place, value in zip(m.places, values, strict=True):
                at = code.at(tile, place)
                before = code.load(at)
                code.store(code.binary("addf", before, back(value)), at)
        with choice.otherwise():
            for place, value in zip(m.places, values, strict=True):
                code.store(back(value), code.at(tile, m.setting.accumulators + place))


def finish(s: Setting, name: str) -> str:
    """The function that ends a reduction: it adds the sums of a short last chunk, and rounds the total.

    Its arguments: the tile, and if there is a short chunk. Where something draws, also the depth of the reduction and
    what the micro-kernels are told.
    """
    width, draws = s.tile.width, s.fma.steps_draw
    more = {"depth": "i64", **ARGUMENTS} if draws else {}
    f = Function(name, {"tile": PTR, "short": "i1", **more})
    noise = _total_noise(f, s) if draws and s.fma.total.noise else None
    with f.loop(0, s.accumulators, width) as i:
        code = f.lanes(width)
        total = code.at(f["tile"], i)
        partial = code.at(f["tile"], f.i64("addi", i, s.accumulators))
        before = code.load(total)
        with f.choose(f["short"], code.ty("f32")) as choice:
            with choice.then():
                choice.next = [code.binary("addf", before, code.load(partial))]
            with choice.otherwise():
                choice.next = [before]
        drawn = None if noise is None else code.load(code.at(noise, i), element="i32")
        code.store(emit_round(code, choice.results[0], s.fma.total, noise=drawn), total)
    return f.function()


def _total_noise(f: Function, s: Setting) -> Value:
    """The random bits of all totals of a tile, in memory."""
    drawn = draws_at(f, s, words_of(f, s, s.tile.rows), f["depth"])
    noise = f.alloca(s.accumulators, "i32")
    for n, each in enumerate(drawn):
        assert each.acc is not None
        f.lanes(s.tile.width).store(each.acc, f.at(noise, n * s.tile.width, "i32"))
    return noise
