"""Chunked accumulation (FMAC-8 of Popescu et al.): chunks of steps of k, each summed apart, or splits of all of them.

A chunk is summed in registers, in the accumulator's format from +0. The tile in memory holds the binary32
accumulators, to which every full chunk is added by one binary32 add, and behind them the sum of a chunk that has not
ended yet: chunks count from the first k of the reduction, and a block of k may end inside of one.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Micro, Segment, no_mode
from numc.passes.kernels.datapaths.stochastic import ARGUMENTS, draws_at, words_of
from numc.passes.kernels.environment import plain
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.rounding import emit_round

#: The steps of the whole reduction, which say how long a split is.
_DEPTH = (("depth", "i64"),)


def chunked(base: Datapath, fma: Fma) -> Datapath:
    """The datapath `base` of an operator, with its sums in chunks or splits."""
    arguments = base.arguments if fma.datapath.splits is None else (*base.arguments, *_DEPTH)
    changed = base.around is not no_mode
    summed = replace(base, state=_partial_sums, segment=_size, enter=enter, finish=finish, in_place=False)
    return replace(summed, arguments=arguments, leave=leave_plainly if changed else leave)


def run_length(f: Function, fma: Fma, depth: Value) -> Value:
    """Append how many steps a chunk or a split of a reduction of `depth` of them has: `Datapath.run_length`."""
    path = fma.datapath
    if path.splits is None:
        return f.number(path.run_length(0))
    blocks = f.i64("ceildivui", f.i64("ceildivui", depth, path.splits), path.least_run)
    return f.i64("muli", f.i64("maxui", blocks, 1), path.least_run)


def is_carried(s: Setting) -> bool:
    """Whether a chunk can go on from one block of k to the next; a split of any length may."""
    chunk = s.fma.datapath.chunk
    return chunk is None or s.tile.k_block % chunk != 0


def _partial_sums(s: Setting) -> int:
    return 1


def _size(s: Setting) -> int | None:
    """The steps that are summed apart; of splits those of a block of k, at most."""
    return s.fma.datapath.chunk or s.tile.k_block


def enter(m: Micro, segment: Segment) -> Accumulators:
    """The sums of a chunk so far: zeros, or of one that goes on what the block before left."""
    f, code = m.f, m.code
    zero = code.f32(0.0)
    if not is_carried(m.setting):
        return [zero] * len(m.places)
    goes_on = f.compare("slt", segment.begin, f.number(0))
    with f.choose(goes_on, *[code.ty("f32")] * len(m.places)) as choice:
        with choice.then():
            partial = [code.load(code.at(f["tile"], m.setting.accumulators + offset)) for offset in m.places]
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
            for offset, value in zip(m.places, values, strict=True):
                at = code.at(tile, offset)
                before = code.load(at)
                code.store(code.binary("addf", before, back(value)), at)
        with choice.otherwise():
            for offset, value in zip(m.places, values, strict=True):
                code.store(back(value), code.at(tile, m.setting.accumulators + offset))


def leave_plainly(m: Micro, segment: Segment, values: Accumulators) -> None:
    """Such additions, where sums are computed in a mode of the processor that is not that of totals."""
    f, code = m.f, m.code
    sums = [(code.at(f["tile"], n), code.at(f["tile"], m.setting.accumulators + n)) for n in m.places]
    for (_, behind), value in zip(sums, values, strict=True):
        code.store(value, behind)
    with f.when(f.compare("sle", segment.whole, f["kc"])), plain(f):
        for at, behind in sums:
            code.store(code.binary("addf", code.load(at), code.load(behind)), at)


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
