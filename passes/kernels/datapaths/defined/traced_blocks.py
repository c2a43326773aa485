"""The datapath of an operator that a user defines: its graph, for every accumulator of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numc.numerics.circuits.number import Number
from numc.numerics.defined import USUAL, Graph, traced
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks.products import Products, in_blocks
from numc.passes.kernels.datapaths.datapath import NOTHING, Accumulators, Drawn, Guard, Micro, Segment
from numc.passes.kernels.datapaths.defined.rows_in_turn import Room, prepared, walk_rows
from numc.passes.kernels.datapaths.defined.whole_numbers import element_of
from numc.passes.kernels.datapaths.defined.writer import Made, Writer
from numc.passes.kernels.datapaths.walks import load_tile, store_tile
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value

_ANY = 4096  # beyond all exponents


def block(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append what a definition makes of a block of products and of accumulators."""
    return _computed(code, traced(fma), products, sums, [(fma, each) for each in drawn])


def finite_block(m: Micro, products: Products, sums: Accumulators) -> Accumulators:
    """Append that where no operand is an infinity or a NaN, so that nothing has to ask for these."""
    fma = m.setting.fma
    return _computed(m.code, traced(fma, usual=True), products, sums, [(fma, NOTHING)] * len(sums))


def limits(s: Setting) -> Guard | None:
    """When all operands are usual."""
    return None if s.fma.draws else Guard(largest=_ANY, product=-_ANY, minus_zero=True, operands=USUAL)


def _computed(
    code: Code, graph: Graph, products: Products, sums: Accumulators, roundings: Sequence[tuple[Fma, Drawn]]
) -> Accumulators:
    made: Made = {}
    results = []
    isa = PORTABLE if products.m is None else products.m.setting.instructions
    for pairs, c, (fma, drawn) in zip(products.all(_pair), sums, roundings, strict=True):
        inputs: dict[int, Value] = {id(graph.c): c}
        # A product by itself has products of +0 beside it.
        pairs = pairs + [(code.f32(0.0), code.f32(0.0))] * (len(graph.a) - len(pairs))
        for (a, b), x, y in zip(pairs, graph.a, graph.b, strict=True):
            inputs |= {id(x): a, id(y): b}
        writer = Writer(code, inputs, made, isa)
        writer.append(graph.numbers)
        results.append(writer.accumulator(fma, graph.result, drawn))
    return results


def _pair(a: Parts, b: Parts) -> tuple[Value, Value]:
    return a[0], b[0]


#: The operations of a graph that all accumulators of a tile take side by side in registers.
_FEW = 16
#: Registers that a vector of a row has for itself, and bits of numbers that are too wide for several vectors.
_SHARE, _WIDEST = 8, 64

_SIDE_BY_SIDE = in_blocks(block, finite_block)


def _in_turn(s: Setting) -> int:
    """The vectors of a row that share the registers if the graph is large, else 0; one if it has wide numbers.

    What accumulators draw is computed for all of them.
    """
    numbers = traced(s.fma).numbers
    if s.fma.draws or s.fma.steps_draw or len(numbers) <= _FEW:
        return 0
    is_wide = any(isinstance(each, Number) and int(element_of(each)[1:]) > _WIDEST for each in numbers)
    return 1 if is_wide else s.isa.registers // _SHARE


def _prepared(m: Micro) -> Room | None:
    """Append the memory of rows that are computed in turn: sums of chunks are copied, others are in the tile."""
    if _in_turn(m.setting) == 0:
        return None
    return prepared(m, None if m.setting.fma.datapath.in_runs else m.f["tile"])


def _enter(m: Micro, segment: Segment) -> Accumulators:
    return [] if isinstance(m.kept, Room) else load_tile(m, segment)


def _leave(m: Micro, segment: Segment, values: Accumulators) -> None:
    if not isinstance(m.kept, Room):
        store_tile(m, segment, values)


def _walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    if isinstance(m.kept, Room):
        return walk_rows(m, first, end, values, m.kept)
    return _SIDE_BY_SIDE.walk(m, first, end, values)


#: Operators whose accumulators are numbers of their formats.
DEFINED = replace(
    _SIDE_BY_SIDE,
    wide=True,
    limits=limits,
    prepare=_prepared,
    enter=_enter,
    walk=_walk,
    leave=_leave,
    in_turn=_in_turn,
)
