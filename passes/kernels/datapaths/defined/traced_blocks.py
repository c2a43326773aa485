"""The datapath of an operator that a user defines: its graph, for every accumulator of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numc.numerics.circuits.number import Number
from numc.numerics.circuits.ordering import Node, operands
from numc.numerics.circuits.traced import Traced
from numc.numerics.defined import Graph, ending, traced
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks.products import Products, in_blocks
from numc.passes.kernels.datapaths.datapath import NOTHING, Accumulators, Drawn, Guard, Micro
from numc.passes.kernels.datapaths.defined.real_numbers import Reals
from numc.passes.kernels.datapaths.defined.whole_numbers import condition, element_of, emit_integer, to_element
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value

_ANY = 4096  # beyond all exponents
_Made = dict[tuple[int, tuple[str, ...]], Value]


def block(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append what a definition makes of a block of products and of accumulators."""
    return _computed(code, traced(fma), products, sums, [(fma, each) for each in drawn])


def finite_block(m: Micro, products: Products, sums: Accumulators) -> Accumulators:
    """Append that where no operand is an infinity or a NaN, so that nothing has to ask for these."""
    fma = m.setting.fma
    return _computed(m.code, traced(fma, finite=True), products, sums, [(fma, NOTHING)] * len(sums))


def limits(s: Setting) -> Guard | None:
    """When all operands are finite."""
    return None if s.fma.draws else Guard(largest=_ANY, product=-_ANY, minus_zero=True)


def _computed(
    code: Code, graph: Graph, products: Products, sums: Accumulators, roundings: Sequence[tuple[Fma, Drawn]]
) -> Accumulators:
    made: _Made = {}
    results = []
    for pairs, c, (fma, drawn) in zip(products.all(_pair), sums, roundings, strict=True):
        inputs: dict[int, Value] = {id(graph.c): c}
        # A product by itself has products of +0 beside it.
        pairs = pairs + [(code.f32(0.0), code.f32(0.0))] * (len(graph.a) - len(pairs))
        for (a, b), x, y in zip(pairs, graph.a, graph.b, strict=True):
            inputs |= {id(x): a, id(y): b}
        writer = _Writer(code, inputs, made)
        writer.append(graph.numbers)
        results.append(writer.accumulator(fma, graph.result, drawn))
    return results


def _pair(a: Parts, b: Parts) -> tuple[Value, Value]:
    return a[0], b[0]


class _Writer:
    """Appends a graph on some inputs. made: what was appended before, by number and operands: of a row or of lanes
    it is the same for many accumulators."""

    def __init__(self, code: Code, inputs: dict[int, Value], made: _Made) -> None:
        self.code, self.made = code, made
        self.known = inputs
        self.reals = Reals(code, lambda node: self.known[id(node)])

    def append(self, numbers: Sequence[Node]) -> None:
        """Append these numbers, operands first."""
        for node in numbers:
            if id(node) not in self.known and _has_value(node):
                args = tuple(self.known[id(arg)].name for arg in _sources(node))
                key = (id(node), args)
                if key not in self.made:
                    self.made[key] = self._appended(node)
                self.known[id(node)] = self.made[key]

    def accumulator(self, fma: Fma, result: Node, drawn: Drawn) -> Value:
        """The new accumulator: rounded, or a register."""
        if isinstance(result, Traced):
            return self.reals.rounded(result, fma.acc, drawn.acc)
        return to_element(self.code, self.known[id(result)], register_element(fma))

    def _appended(self, node: Node) -> Value:
        if isinstance(node, Number):
            if node.op == "part":
                return self.reals.part(node)
            return emit_integer(self.code, node, [self.known[id(arg)] for arg in node.args])
        if node.op == "rounded":
            (x,) = node.args
            assert isinstance(x, Traced)
            assert node.to is not None
            return self.reals.rounded(x, node.to)
        if node.op == "decoded":
            return self.reals.decoded(node)
        choice, x, y = node.args
        return self.code.select(condition(self.code, self.known[id(choice)]), self.known[id(x)], self.known[id(y)])


def _has_value(node: Node) -> bool:
    """Whether a number is in a register; an exact one is there only once it is rounded."""
    return isinstance(node, Number) or node.to is not None


def _sources(node: Node) -> list[Node]:
    """The numbers in registers that a number is computed from."""
    sources, waiting = [], list(operands(node))
    while waiting:
        each = waiting.pop()
        if _has_value(each):
            sources.append(each)
        else:
            waiting += operands(each)
    return sources


def register_element(fma: Fma) -> str:
    """The type of the register of an operator."""
    register = traced(fma).c
    assert isinstance(register, Number)
    return element_of(register)


def emit_ended(code: Code, fma: Fma, c: Value, register: Value) -> Value:
    """Append what becomes of a register at the end of a reduction that began with `c`."""
    graph = ending(fma)
    writer = _Writer(code, {id(graph.c): c, id(graph.register): register}, {})
    writer.append(graph.numbers)
    return writer.accumulator(fma, graph.result, NOTHING)


#: Operators whose accumulators are numbers of their formats.
DEFINED = replace(in_blocks(block, finite_block), wide=True, limits=limits)
