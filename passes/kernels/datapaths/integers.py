"""Sums of products of integers, modulo 2^32: the datapaths that contractions of integers get (integer_products.py).

Operands are float32 numbers in memory, and words of two or four integers in panels where one instruction multiplies and
adds these. Accumulators are 32-bit integers, in the bits of float32 numbers where those are expected.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Accumulators, Drawn, Micro
from numc.passes.kernels.datapaths.matrix import in_matrices
from numc.passes.kernels.datapaths.reads import fetch_ahead
from numc.passes.kernels.datapaths.walks import PLAIN, by_vectors, one_by_one
from numc.passes.kernels.datapaths.words import full_words
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value


def _step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    x, y = (code.cast("fptosi", parts[0], "i32") for parts in (a, b))
    total = code.binary("addi", code.cast("bitcast", c, "i32"), code.binary("muli", x, y))
    return code.cast("bitcast", total, "f32")


def _count(s: Setting) -> int:
    """The number of integers in a word: as many as there is an instruction for."""
    fit = (4, 2) if s.fma.datapath.name == "bytes" else (2,)
    return next((n for n in fit if s.fast and s.instructions.dot(n) is not None), 0)


def _walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """All steps of a word at a time. The instruction for bytes takes those without a sign first: they are A."""
    count, code = _count(m.setting), m.code
    dot = m.setting.instructions.dot(count)
    if dot is None:
        return one_by_one(m, first, end, values)
    sums = [code.cast("bitcast", value, "i32") for value in values]

    def step(word: Value, sums: Accumulators, vector: Value) -> Accumulators:
        fetch_ahead(m, m.f.i64("muli", word, count))
        rows, lanes = full_words(m, word, vector)
        totals = []
        for n, total in enumerate(sums):
            row, lane = rows[n // m.vectors], lanes[n % m.vectors]
            a, b = (lane, row) if m.setting.swap else (row, lane)
            totals.append(dot(code, total, a, b))
        return totals

    begin, stop = m.f.i64("divui", first, count), m.f.i64("ceildivui", end, count)
    return [code.cast("bitcast", total, "f32") for total in by_vectors(m, begin, stop, sums, step)]


INTEGERS = in_matrices(replace(PLAIN, step=_step, walk=_walk, dot=_count))
