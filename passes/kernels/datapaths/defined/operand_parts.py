"""Parts of operands: numbers of a graph that depend on one operand alone, computed once for many accumulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numc.numerics.circuits.number import Number
from numc.numerics.circuits.ordering import Node, operands, ordered
from numc.numerics.defined import Graph
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.defined.whole_numbers import condition, element_of, to_element
from numc.passes.kernels.datapaths.defined.writer import Writer, has_value
from numc.passes.kernels.ssa import Value

_MOST_BITS = 64  # of a part; wider numbers are computed from narrower ones for every accumulator


@dataclass(frozen=True)
class Use:
    """Where a graph takes a part of an operand: of A (0) or B, of which product, and the number of the part."""

    operand: int
    product: int
    part: int


class OperandParts:
    """Graphs of one operator, each in two. parts: for A and for B, numbers that are computed from one operand alone,
    those of all products; equal ones of several products are one part. uses: by the identities of numbers, what they
    are. rest: of each graph, what every accumulator computes, operands before what is computed from them.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = graphs
        self.parts: tuple[list[Node], list[Node]] = ([], [])
        self.uses: dict[int, Use] = {}
        self._numbers = _Numbers()
        self._known: dict[tuple[int, int], int] = {}
        self.rest = [self._split(graph) for graph in graphs]

    def elements(self, side: int) -> list[str]:
        """The types of the parts of an operand in memory."""
        return [element_of(part) if isinstance(part, Number) else "f32" for part in self.parts[side]]

    def emitted(self, code: Code, side: int, x: Value) -> list[Value]:
        """Append all parts of an operand `x`, in their types in memory."""
        inputs = {id(each): x for graph in self.graphs for each in (graph.a, graph.b)[side]}
        writer = Writer(code, inputs, {})
        writer.append(tuple(ordered(self.parts[side])))
        values = [writer.known[id(part)] for part in self.parts[side]]
        return [
            value if value.type.is_float else to_element(code, value, element)
            for value, element in zip(values, self.elements(side), strict=True)
        ]

    def read(self, code: Code, use: Use, stored: Value) -> Value:
        """Append a part as the graph takes it, from what is in memory."""
        part = self.parts[use.operand][use.part]
        is_condition = isinstance(part, Number) and (part.low, part.high) == (0, 1)
        return condition(code, stored) if is_condition else stored

    def _split(self, graph: Graph) -> tuple[Node, ...]:
        """Number the parts of a graph; returns what is left."""
        owners, left = _owners(graph), set[int]()
        sides = {id(x): (side, n) for side, xs in enumerate((graph.a, graph.b)) for n, x in enumerate(xs)}
        waiting: list[Node] = [graph.result]
        while waiting:
            node = waiting.pop()
            if id(node) in left or id(node) in self.uses:
                continue
            of = owners[id(node)]
            if len(of) == 1 and of <= sides.keys() and _fits(node):
                side, product = sides[next(iter(of))]
                key = side, self._numbers.of(node)
                if key not in self._known:
                    self._known[key] = len(self.parts[side])
                    self.parts[side].append(node)
                self.uses[id(node)] = Use(side, product, self._known[key])
                continue
            left.add(id(node))
            waiting += operands(node)
        return tuple(each for each in graph.numbers if id(each) in left)


def _fits(node: Node) -> bool:
    """Whether a number can be kept in memory."""
    if isinstance(node, Number):
        return int(element_of(node)[1:]) <= _MOST_BITS
    return has_value(node)


def _owners(graph: Graph) -> Mapping[int, frozenset[int]]:
    """The operands, and accumulator, that each number is computed from, by identities."""
    owners: dict[int, frozenset[int]] = {}
    for node in graph.numbers:
        if node.op in ("operand", "input"):
            owners[id(node)] = frozenset([id(node)])
        else:
            owners[id(node)] = frozenset[int]().union(*(owners[id(each)] for each in operands(node)))
    return owners


class _Numbers:
    """Numbers the shapes of graphs of one operand: two numbers that are computed alike from theirs have the same."""

    def __init__(self) -> None:
        self._seen: dict[object, int] = {}
        self._of: dict[int, int] = {}

    def of(self, root: Node) -> int:
        """The number of what computes a node."""
        for node in ordered([root]):
            if id(node) not in self._of:
                ends = (node.low, node.high) if isinstance(node, Number) else str(node.to)
                args: Sequence[int] = [self._of[id(arg)] for arg in operands(node)]
                shape = node.op, ends, None if node.op == "operand" else repr(node.data), tuple(args)
                self._of[id(node)] = self._seen.setdefault(shape, len(self._seen))
        return self._of[id(root)]
