"""Dot products of groups: the segments of a micro-kernel whose operands have groups.

What packed panels hold is described in convert_groups.py. A group is summed in registers from +0 and added to its
accumulator in memory by one binary32 add. A block of k holds whole groups, but for the last one.

bfp, mx
    Binary32 FMAs, under a guard: nothing leaves the range of binary32, and the sum of a group of bfp has at most 24
    bits, so that none of them rounds. Otherwise binary64, where products are exact, and so is the sum of a group of
    bfp; mx rounds every sum to 24 bits, which is what an FMA of binary32 would do if it had all exponents.
mx with scales that are no powers of two
    Binary32 FMAs of the elements, from +0; the sum of a group is multiplied by the product of its scales and added to
    its accumulator by one more FMA. Scales are behind the vectors of a block (layout.py).
intN
    The sum over a block of k is an integer, in binary32 if it fits, else in binary64. Behind the accumulators of a tile
    are 64-bit integers, to which it is added; the end of the reduction scales them.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.counting import count_sums
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Guard, Micro, Segment
from numc.passes.kernels.datapaths.groups import Groups
from numc.passes.kernels.datapaths.reads import panels, scales
from numc.passes.kernels.datapaths.words import row_vector, words
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.kinds import code_of

_F32_BITS = 24  # of a significand
_STRAIGHT = 8  # words of a group, at most, whose products are not a loop


def groups_of(s: Setting) -> Groups:
    """The sums of the dot products of groups."""
    t = s.tile
    return Groups(s.fma, t.k_block, t.width, s.accumulators, s.statistics and additions(s.fma) > 0)


def additions(fma: Fma) -> int:
    """The number of additions to an accumulator that can be counted for each group: of integers none."""
    return 0 if fma.group is None or fma.group.sums_integers else 1


def dot_of(s: Setting) -> int:
    """The number of integers in a word of packed operands, which one instruction multiplies and adds; 0 for none."""
    fits = (n for n in (4, 2) if s.fast and s.instructions.dot(n) is not None and groups_of(s).fits(n))
    return next(fits, 0)


def _limits(s: Setting) -> Guard | None:
    guard = groups_of(s).guard
    # Formats have no bits below their subnormal numbers, but units of groups can be anywhere.
    return None if guard is None else replace(guard, normal=True)


def _size(s: Setting) -> int | None:
    return groups_of(s).size


def _integers(s: Setting) -> int:
    return 2 if groups_of(s).is_integer else 0


def _is_wide(m: Micro) -> bool:
    """Whether sums are binary64: not in the cheap sequence, nor where integers fit binary32."""
    groups = groups_of(m.setting)
    return not m.fast and not groups.scales_sums and not (groups.is_integer and groups.bits <= _F32_BITS)


def enter(m: Micro, segment: Segment) -> Accumulators:
    """Sums of zero; of 8-bit integers what the offset of the rows adds, with the other sign."""
    code, dot = m.code, dot_of(m.setting)
    if dot == 4:
        lane = _behind(m, segment, sums=True)
        return [code.load(m.f.at(lane, v * m.setting.tile.width), element="i32") for v in range(m.vectors)] * m.rows
    if dot:
        return [code.int(0)] * len(m.places)
    return [code.f64(0.0) if _is_wide(m) else code.f32(0.0)] * len(m.places)


def walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """The products of a group: of the parts of fmac2 one after the other."""
    if dot_of(m.setting):
        return _walk_words(m, first, end, values)
    groups, code, wide = groups_of(m.setting), m.code, _is_wide(m)
    for i, j in m.setting.fma.terms:
        with m.f.carry(first, end, 1, values) as loop:
            rows, lanes = panels(m, loop.index)
            sums = []
            for n, c in enumerate(loop.values):
                a, b = m.setting.ordered(rows[n // m.vectors], lanes[n % m.vectors])
                sums.append(groups.step(code, a[i], b[j], c, wide=wide))
            loop.next = sums
        values = loop.results
    return values


def leave(m: Micro, segment: Segment, values: Accumulators) -> None:
    """Add the sums of a group to the accumulators, or integers to those behind them."""
    s, code, groups = m.setting, m.code, groups_of(m.setting)
    if groups.is_integer:
        for offset, total in zip(m.places, values, strict=True):
            _add_integer(m, total, offset)
        return
    if groups.scales_sums:
        added = _add_products(m, segment, values)
    elif dot_of(s):
        added = _add_scaled(m, segment, values)
    else:
        added = []
        for offset, value in zip(m.places, values, strict=True):
            at = code.at(m.f["tile"], offset)
            total = code.cast("truncf", value, "f32") if _is_wide(m) else value
            before = code.load(at)
            added.append((total, before))
            code.store(code.binary("addf", before, total), at)
    # The accumulators leave registers to the sums: LLVM would keep some of them there, and spill others.
    code.fence()
    if groups.counts:
        count_sums(m.f, s, added)


def _add_integer(m: Micro, total: Value, place: int) -> None:
    """Add a sum over a block to the 64-bit integers of a tile."""
    code = m.code
    at = code.at(m.f["tile"], m.setting.accumulators + 2 * place)
    if total.type.element == "f32":
        total = code.cast("fptosi", total, "i32")
    number = code.cast("fptosi" if total.type.is_float else "extsi", total, "i64")
    before = code.load(at, element="i64")
    code.store(code.binary("addi", before, number), at)


def _walk_words(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """The products of a group, all steps of k of a word at a time."""
    f, count, size = m.f, dot_of(m.setting), groups_of(m.setting).size
    dot = m.setting.instructions.dot(count)
    assert dot is not None

    def step(k: Value, values: Accumulators) -> Accumulators:
        rows, lanes = words(m, k, count)
        return [dot(m.code, c, rows[n // m.vectors], lanes[n % m.vectors]) for n, c in enumerate(values)]

    def one_by_one() -> Accumulators:
        with f.carry(first, end, count, values) as loop:
            loop.next = step(loop.index, loop.values)
        return loop.results

    if size // count > _STRAIGHT:
        return one_by_one()
    is_whole = f.compare("eq", f.i64("subi", end, first), f.number(size))
    with f.choose(is_whole, *[v.type for v in values]) as choice:
        with choice.then():
            choice.next = values
            for n in range(0, size, count):
                choice.next = step(f.i64("addi", first, n), choice.next)
        with choice.otherwise():
            choice.next = one_by_one()
    return choice.results


def _behind(m: Micro, segment: Segment, *, sums: bool = False) -> Value:
    """Where the units of the lanes of a group are, or what sums of its products begin with: behind all steps."""
    f, groups = m.f, groups_of(m.setting)
    dot = dot_of(m.setting)
    words = f.i64("ceildivui", f["kc"], dot) if m.setting.lanes.dense else f.rounded_up(f["kc"], dot)
    number = f.i64("addi", words, f.i64("divui", segment.begin, groups.size))
    if sums and not groups.is_integer:
        number = f.i64("addi", number, f.i64("ceildivui", f["kc"], groups.size))
    return f.at(f["lanes"], f.i64("muli", number, m.setting.tile.lanes))


def _add_scaled(m: Micro, segment: Segment, values: Accumulators) -> list[tuple[Value, Value]]:
    """Add sums of integers, times the units of their groups, to the accumulators; returns what was added to what."""
    s, f, code, groups = m.setting, m.f, m.code, groups_of(m.setting)
    t = s.tile
    row, within = row_vector(m, segment.begin)
    if groups.size < t.width:
        row = f.at(row, f.i64("divui", within, groups.size))
    lane = _behind(m, segment)
    lane_units = [code.load(f.at(lane, v * t.width)) for v in range(m.vectors)]
    added = []
    for r in range(m.rows):
        row_unit = code.splat(f.at(row, r * t.width + t.width // 2))
        for v in range(m.vectors):
            at = code.at(f["tile"], r * t.lanes + v * t.width)
            total, before = values[r * m.vectors + v], code.load(at)
            if groups.counts:
                nothing = code.f32(-0.0)
                added.append((_with_units(m, total, row_unit, lane_units[v], nothing), before))
            code.store(_with_units(m, total, row_unit, lane_units[v], before), at)
    return added


def _add_products(m: Micro, segment: Segment, values: Accumulators) -> list[tuple[Value, Value]]:
    """Add sums of elements, times the scales of their groups, to the accumulators; returns what was added to what."""
    f, code, groups = m.f, m.code, groups_of(m.setting)
    of_rows, of_lanes = scales(m, f.i64("divui", segment.begin, groups.size))
    added = []
    for n, (offset, total) in enumerate(zip(m.places, values, strict=True)):
        at = code.at(f["tile"], offset)
        factor, before = code.binary("mulf", of_rows[n // m.vectors], of_lanes[n % m.vectors]), code.load(at)
        if groups.counts:
            added.append((code.binary("mulf", total, factor), before))
        code.store(code.fma(total, factor, before), at)
    return added


def _with_units(m: Micro, total: Value, row: Value, lane: Value, acc: Value) -> Value:
    """``acc + total * row * lane``, where `row` and `lane` are the units of a group."""
    code = m.code
    if m.fast:
        # The product of units is a power of two that binary32 has, and so has what is added: one rounding.
        return code.fma(code.cast("sitofp", total, "f32"), code.binary("mulf", row, lane), acc)
    wide = code.cast("sitofp", total, "f64")
    for unit in (row, lane):
        wide = code.binary("mulf", wide, code.cast("extf", unit, "f64"))
    return code.binary("addf", acc, code.cast("truncf", wide, "f32"))


def finish(s: Setting, name: str) -> str:
    """The function that ends a reduction of integers: D = C + RN(S) * RN(scale * scale), one binary32 FMA.

    Its arguments: the tile and the largest magnitudes of rows and lanes, or where those of its channels are. Sums of
    other groups need no such function.
    """
    if not groups_of(s).is_integer:
        return ""
    t, (rows, lanes) = s.tile, (s.groups_of(side) for side in ("rows", "lanes"))
    kinds = {n: PTR if to.channel else "i32" for n, to in (("rows", rows), ("lanes", lanes))}
    f = Function(name, {"tile": PTR, **kinds})
    with f.loop(0, s.accumulators, t.lanes) as start:
        row = f.fetch(f["rows"], f.i64("divui", start, t.lanes), "i32") if rows.channel else f["rows"]
        (row_scale,) = code_of(rows).scaling(f.scalar, row, None).up
        with f.loop(0, t.lanes, t.width) as v:
            code = f.lanes(t.width)
            channel = lanes.channel
            lane = code.load(f.at(f["lanes"], v, "i32"), element="i32") if channel else code.broadcast(f["lanes"])
            (lane_scale,) = code_of(lanes).scaling(code, lane, None).up
            factor = code.binary("mulf", code.broadcast(row_scale), lane_scale)
            i = f.i64("addi", start, v)
            at = code.at(f["tile"], i)
            sums = code.at(f["tile"], f.i64("addi", f.i64("addi", i, i), s.accumulators))
            code.store(scaled_integer(code, s.fma, code.load(sums, element="i64"), factor, code.load(at)), at)
    return f.function()


def scaled_integer(code: Code, fma: Fma, total: Value, factor: Value, acc: Value) -> Value:
    """Append ``acc + RN(total) * factor``, one binary32 FMA: `total` is a sum of integers (i64)."""
    return code.fma(code.cast("sitofp", _wrapped(code, fma, total), "f32"), factor, acc)


def _wrapped(code: Code, fma: Fma, x: Value) -> Value:
    """The lowest bits of 64-bit integers, in two's complement, if the accumulator of an operator has no more."""
    if fma.datapath.name != "int":
        return x
    above = code.int(64 - fma.datapath["bits"], "i64")
    return code.binary("shrsi", code.binary("shli", x, above), above)


GROUPS = Datapath(
    limits=_limits,
    state=_integers,
    segment=_size,
    enter=enter,
    walk=walk,
    leave=leave,
    finish=finish,
    additions=additions,
    dot=dot_of,
)
