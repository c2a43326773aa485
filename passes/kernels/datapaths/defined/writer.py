"""A graph, appended number by number: what is computed from the same operands is there once."""

from __future__ import annotations

from collections.abc import Sequence

from numc.numerics.circuits.number import Number
from numc.numerics.circuits.ordering import Node, operands
from numc.numerics.circuits.traced import Traced
from numc.numerics.defined import ending, traced
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import NOTHING, Drawn
from numc.passes.kernels.datapaths.defined.real_numbers import Reals
from numc.passes.kernels.datapaths.defined.whole_numbers import condition, element_of, emit_integer, to_element
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.ssa import Value

Made = dict[tuple[int, tuple[str, ...]], Value]


class Writer:
    """Appends a graph on some inputs. made: what was appended before, by number and operands: of a row or of lanes
    it is the same for many accumulators."""

    def __init__(self, code: Code, inputs: dict[int, Value], made: Made, isa: InstructionSet = PORTABLE) -> None:
        self.code, self.made, self.isa = code, made, isa
        self.known = inputs
        self.reals = Reals(code, lambda node: self.known[id(node)], isa)

    def append(self, numbers: Sequence[Node]) -> None:
        """Append these numbers, operands first."""
        for node in numbers:
            if id(node) not in self.known and has_value(node):
                args = tuple(self.known[id(arg)].name for arg in sources(node))
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
            return emit_integer(self.code, node, [self.known[id(arg)] for arg in node.args], self.isa)
        if node.op == "rounded":
            (x,) = node.args
            assert isinstance(x, Traced)
            assert node.to is not None
            return self.reals.rounded(x, node.to)
        if node.op == "decoded":
            return self.reals.decoded(node)
        choice, x, y = node.args
        return self.code.select(condition(self.code, self.known[id(choice)]), self.known[id(x)], self.known[id(y)])


def has_value(node: Node) -> bool:
    """Whether a number is in a register; an exact one is there only once it is rounded."""
    return isinstance(node, Number) or node.to is not None


def sources(node: Node) -> list[Node]:
    """The numbers in registers that a number is computed from."""
    numbers, waiting = [], list(operands(node))
    while waiting:
        each = waiting.pop()
        if has_value(each):
            numbers.append(each)
        else:
            waiting += operands(each)
    return numbers


def register_element(fma: Fma) -> str:
    """The type of the register of an operator."""
    register = traced(fma).c
    assert isinstance(register, Number)
    return element_of(register)


def emit_ended(code: Code, fma: Fma, c: Value, register: Value) -> Value:
    """Append what becomes of a register at the end of a reduction that began with `c`."""
    graph = ending(fma)
    writer = Writer(code, {id(graph.c): c, id(graph.register): register}, {})
    writer.append(graph.numbers)
    return writer.accumulator(fma, graph.result, NOTHING)
