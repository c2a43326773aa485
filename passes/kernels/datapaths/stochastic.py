"""Multiply-adds that round stochastically: what they draw, and a cheap sequence of adding noise and cutting bits off.

Noise and a mask.
    The noise goes below the kept bits of the encoding, and what is below them is cut off; the carry of the integer
    addition is that of the magnitude. Scaled by 2^(-126 - emin), the format's subnormals are those of binary32, so they
    are rounded alike. Scaling by a power of two commutes with RN unless a result is tiny and inexact: the underflow
    flag tells, and the tile is computed again. A sum cut to 24 bits serves the exact datapath if the noise is within
    them, as only the bits down to the noise decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from numc.numerics.formats import Noise
from numc.numerics.operators import Fma
from numc.numerics.reference.random import field_bits
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Drawn, Guard, Micro
from numc.passes.kernels.datapaths.reads import panels, scaled
from numc.passes.kernels.datapaths.steps.chain import emit_sum
from numc.passes.kernels.datapaths.steps.guarded import saturates
from numc.passes.kernels.datapaths.walks import one_by_one
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.random_bits import emit_draw, emit_element, emit_group, emit_mix, run_of

# What a micro-kernel is told: the stream, the index of the batch in it, and those of the rows and of the lanes.
ARGUMENTS: Mapping[str, str] = {"random": "i64", "e_batch": "i64", "e_rows": "!llvm.ptr", "e_lanes": "!llvm.ptr"}
_ANY = -1000  # no product is too small: its rounding is part of the definition


def stochastic(base: Datapath) -> Datapath:
    """The datapath `base`, whose roundings draw; the cheap sequence is for single steps."""
    arguments = (*base.arguments, *ARGUMENTS.items())
    datapath = replace(base, arguments=arguments, prepare=prepare, draw=draw, in_place=False)
    if base.walk is not one_by_one:
        return datapath
    return replace(datapath, cheap=cheap_step, limits=limits, scale=scale, walk=walk)


@dataclass(frozen=True)
class Words:
    """The values computed before the loops: a word for each accumulator (i32 lanes), and the key of the groups of k."""

    elements: Sequence[Value]
    key: Value


def limits(s: Setting) -> Guard | None:
    """When the cheap sequence may run."""
    fma, to, fmt = s.fma, s.fma.acc, s.fma.acc.format
    if s.statistics and scale(s) != 1:
        return None  # a tile may be computed twice, and would be counted twice
    if fma.product is not None or to.noise is None:
        return None
    if fmt.parts > 1 or not fmt.is_usual or not 2 <= fmt.precision <= 23 or not fmt.is_gradual:
        return None
    # The exact sum cut to 24 bits has to reach down to the noise.
    cuts = s.instructions.fma_rounded is not None
    reaches = cuts and len(fma.terms) == 1 and fmt.precision + to.noise.bits <= 24
    if fma.datapath.name == "exact" and not reaches:
        return None
    return Guard(126 if fmt.is_full_range or saturates(to) else fmt.emax, _ANY, minus_zero=True)


def scale(s: Setting) -> float:
    """The factor of products and accumulators in the cheap sequence."""
    return _scale(s.fma)


def _scale(fma: Fma) -> float:
    return float(2.0 ** (-126 - fma.acc.format.emin))


def cheap_step(
    code: Code, fma: Fma, isa: InstructionSet, a: Parts, b: Parts, c: Value, drawn: Drawn, product: Value | None = None
) -> Value:
    """Append a step that is exact under `limits`, on products and accumulators times `scale`."""
    noise = drawn.acc
    assert noise is not None
    return _noisy_step(code, fma, isa, a=a, b=b, c=c, word=noise, position=None)


def _noisy_step(
    code: Code, fma: Fma, isa: InstructionSet, a: Parts, b: Parts, c: Value, word: Value, position: int | None
) -> Value:
    """A step that draws field `position` of `word`; without a position, the word is the noise itself."""
    to, fmt = fma.acc, fma.acc.format
    assert to.noise is not None
    if fma.datapath.name == "exact":
        assert isa.fma_rounded is not None
        total = isa.fma_rounded(code, a[0], b[0], c, "zero")
    else:
        total = emit_sum(code, a, b, c, fma)
    shift, bits = 24 - fmt.precision, to.noise.bits
    top = bits if position is None else field_bits(to.noise) * (position + 1)
    # The highest bit of the noise goes right below the kept bits.
    noise = word
    if top != shift:
        noise = code.binary("shli" if top < shift else "shrui", word, code.int(abs(shift - top)))
    if position is not None and not (top == 32 and bits >= shift):
        noise = code.binary("andi", noise, code.int((1 << shift) - (1 << max(shift - bits, 0))))
    total = code.binary("addi", code.cast("bitcast", total, "i32"), noise)
    total = code.binary("andi", total, code.int(0xFFFFFFFF ^ ((1 << shift) - 1)))
    result = code.cast("bitcast", total, "f32")
    return isa.clamp(code, result, float(fmt.max_finite) * _scale(fma)) if saturates(to) else result


def prepare(m: Micro) -> Words:
    """Append the words of the accumulators."""
    return words_of(m.f, m.setting, m.rows)


def words_of(f: Function, s: Setting, rows: int) -> Words:
    """Append the words of the accumulators of `rows` rows (reference/random.py defines them)."""
    width, scalar = s.tile.width, f.scalar
    code = f.lanes(width)
    low = scalar.cast("trunci", f["random"], "i32")
    high = scalar.binary("shrui", f["random"], scalar.int(32, "i64"))
    key = scalar.cast("trunci", high, "i32")
    low = code.broadcast(low)
    lanes = []
    for v in range(s.tile.vectors):
        index = code.load(f.at(f["e_lanes"], v * width, "i64"), element="i64", alignment=8)
        lanes.append(code.cast("trunci", index, "i32"))
    words = []
    for r in range(rows):
        row = scalar.binary("addi", f.fetch(f["e_rows"], r), f["e_batch"])
        base = code.broadcast(scalar.cast("trunci", row, "i32"))
        words += [emit_element(code, code.binary("addi", base, lane), low) for lane in lanes]
    return Words(words, key)


def draw(m: Micro, k: Value) -> list[Drawn]:
    """Append the random bits of every accumulator at step `k` of the block."""
    return draws_at(m.f, m.setting, m.kept, m.f.binary("addi", m.f["k0"], k))


def draws_at(f: Function, s: Setting, kept: Words, k: Value) -> list[Drawn]:
    """Append the random bits of every accumulator at step `k` (i64) of the whole reduction."""
    code, scalar = f.lanes(s.tile.width), f.scalar
    number = scalar.cast("trunci", k, "i32")
    parts: list[tuple[Noise, Value, Value] | None] = []
    for to, product in ((s.fma.product, True), (s.fma.acc, False)):
        if to is None or to.noise is None:
            parts.append(None)
            continue
        run = run_of(to.noise)
        group = scalar.binary("shrui", number, scalar.int(run.bit_length() - 1))
        word = emit_group(scalar, group, kept.key, product=product)
        parts.append((to.noise, word, scalar.binary("andi", number, scalar.int(run - 1))))
    drawn: list[list[Value | None]] = []
    for part in parts:
        if part is None:
            drawn.append([None] * len(kept.elements))
            continue
        noise, word, position = part
        group, positions = code.broadcast(word), code.broadcast(position)
        words = (code.binary("addi", element, group) for element in kept.elements)
        drawn.append([emit_draw(code, emit_mix(code, x), positions, noise) for x in words])
    return [Drawn(*each) for each in zip(*drawn, strict=True)]


def walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """The steps of k; the cheap sequence by runs of steps that share random words, then those that are left."""
    noise, size = m.setting.fma.acc.noise, m.datapath.segment(m.setting)
    splits = m.setting.fma.datapath.splits is not None  # which begin at any step
    if not m.fast or noise is None or noise.lfsr or splits or (size is not None and size % run_of(noise)):
        return one_by_one(m, first, end, values)
    f, run = m.f, run_of(noise)
    runs_end = f.i64("subi", end, f.i64("remui", end, run))
    with f.carry(first, runs_end, run, values) as loop:
        loop.next = _one_run(m, loop.index, loop.values, run)
    return one_by_one(m, runs_end, end, loop.results)


def _one_run(m: Micro, k: Value, values: Accumulators, run: int) -> list[Value]:
    """A run of steps from `k` on, one accumulator at a time.

    The word that an accumulator draws from is in one register then; the chains of all are in flight anyway.
    """
    s, code, f = m.setting, m.code, m.f
    steps = [k, *(f.i64("addi", k, n) for n in range(1, run))]
    words = _words(m, f.i64("addi", f["k0"], k), run)
    loaded = [panels(m, step) for step in steps]
    operands = [(rows, scaled(m, lanes)) for rows, lanes in loaded]
    current = list(values)
    for n in range(len(current)):
        for position, (rows, lanes) in enumerate(operands):
            a, b = s.ordered(rows[n // m.vectors], lanes[n % m.vectors])
            current[n] = _noisy_step(
                code, s.fma, s.instructions, a=a, b=b, c=current[n], word=words[n], position=position
            )
    return current


def _words(m: Micro, k: Value, run: int) -> list[Value]:
    """The words that the `run` steps from `k` on, a multiple of `run`, draw from: one for each accumulator."""
    code, scalar = m.code, m.f.scalar
    group = scalar.binary("shrui", scalar.cast("trunci", k, "i32"), scalar.int(run.bit_length() - 1))
    word = code.broadcast(emit_group(scalar, group, m.kept.key))
    return [emit_mix(code, code.binary("addi", element, word)) for element in m.kept.elements]
