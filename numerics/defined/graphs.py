"""The graphs of definitions for the formats of an operator, each traced once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from numc.numerics.circuits.number import Number, make
from numc.numerics.circuits.ordering import Node, ordered
from numc.numerics.circuits.real import Real
from numc.numerics.circuits.traced import Traced, check_exact
from numc.numerics.defined.definition import definition_of
from numc.numerics.operators import Fma


@dataclass(frozen=True)
class Graph:
    """The graph of a block: of its operands and the accumulator, a real number or a register."""

    a: tuple[Traced, ...]
    b: tuple[Traced, ...]
    c: Node
    result: Node

    @cached_property
    def numbers(self) -> tuple[Node, ...]:
        """Every number that the result needs, operands before what is computed from them."""
        return tuple(ordered([self.result]))


@dataclass(frozen=True)
class Ending:
    """The graph of the end of a reduction that began with `c`: of that and the register."""

    c: Traced
    register: Number
    result: Traced

    @cached_property
    def numbers(self) -> tuple[Node, ...]:
        """Every number that the result needs, operands before what is computed from them."""
        return tuple(ordered([self.result]))


#: The exponent that magnitudes of operands are below where they are known to be usual, so that products of two of them
#: are no number of the highest binades.
USUAL = 62


@cache
def traced(fma: Fma, *, usual: bool = False, regular: bool = False) -> Graph:
    """Return the graph of an operator's datapath for its formats; of operands that are `usual`, if that is known: they
    are finite, and below 2^62.

    regular: the accumulator is finite, too, and not in the highest binade if that is binary32's.

    Raises NumcError for what has no kernel.
    """
    definition = definition_of(fma)
    (to_a, to_b), length = fma.singles, definition.length(fma)
    a, b = (
        tuple(
            Traced("operand", to=to.settled, data=f"{side}{n}", finite=usual, below=USUAL if usual else None)
            for n in range(length)
        )
        for side, to in (("a", to_a), ("b", to_b))
    )
    if definition.register:
        register = _register(definition.range)
        made = definition.registered(fma, a, b, register)
        result: Node = made if isinstance(made, Number) else make("constant", data=made, to=(made, made))
        return Graph(a, b, register, _checked(result))
    c = Traced("operand", to=fma.acc.settled, data="c", finite=regular, below=regular_below(fma) if regular else None)
    return Graph(a, b, c, _checked_real(definition.accumulated(fma, a, b, c)))


def regular_below(fma: Fma) -> int:
    """Return the exponent that magnitudes of regular accumulators are below: infinities, and the highest binade of
    binary32, are seldom reached."""
    emax: int = fma.acc.format.emax
    return min(emax + 1, 127)


@cache
def ending(fma: Fma) -> Ending:
    """Return what becomes of the register of an operator. Raises NumcError for what has no kernel."""
    definition = definition_of(fma)
    c = Traced("operand", to=fma.acc.settled, data="c")
    register = _register(definition.range)
    return Ending(c, register, _checked_real(definition.ended(fma, c, register)))


def _register(ends: tuple[int, int]) -> Number:
    return make("input", data="register", to=ends)


def _checked_real(result: Real) -> Traced:
    assert isinstance(result, Traced)
    _checked(result)
    return result


def _checked(result: Node) -> Node:
    for node in ordered([result]):
        check_exact(node)
    return result


def outputs(fma: Fma) -> Sequence[Node]:
    """Return the results of all graphs of an operator."""
    last = [ending(fma).result] if definition_of(fma).register else []
    return [traced(fma).result, *last]
