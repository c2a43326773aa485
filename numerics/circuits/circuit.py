"""A circuit: named inputs and outputs, and the numbers between them in an order in which they can be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numc.numerics.circuits.number import OPERATIONS, Number, Range, Whole, constant, make
from numc.numerics.circuits.ordering import ordered
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Circuit:
    """The graph that a function left. inputs, outputs: numbers by name, in the order of the function."""

    name: str
    inputs: Mapping[str, Number]
    outputs: Mapping[str, Number]

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        """Every number that the outputs need, operands before results, inputs among them."""
        return tuple(each for each in ordered([*self.outputs.values()]) if isinstance(each, Number))

    def __call__(self, **inputs: int) -> dict[str, int]:
        """Return the outputs for whole numbers as inputs.

        Raises NumcError for an input or a number `within` bounds that is outside of its range.
        """
        known: dict[int, int] = {}
        for name, number in self.inputs.items():
            known[id(number)] = _in_range(name, inputs[name], number)
        for number in self.numbers:
            if id(number) not in known:
                known[id(number)] = _value(number, [known[id(arg)] for arg in number.args])
        return {name: known[id(number)] for name, number in self.outputs.items()}


def trace(name: str, function: Callable[..., Any], inputs: Mapping[str, Range]) -> Circuit:
    """Return the circuit of a function, called with numbers of these ranges by keyword.

    The function returns a number, or a mapping of numbers by name; a number alone is called ``result``.
    Raises NumcError, with the line, for what cannot be traced.
    """
    numbers = {key: make("input", data=key, to=ends) for key, ends in inputs.items()}
    returned = function(**numbers)
    outputs: Mapping[str, Whole] = returned if isinstance(returned, Mapping) else {"result": returned}
    for key, each in outputs.items():
        if not isinstance(each, (int, Number)):
            raise NumcError(f"{name}: {key} is {type(each).__name__}, want a number of the circuit")
    made = {key: each if isinstance(each, Number) else constant(int(each)) for key, each in outputs.items()}
    return Circuit(name, numbers, made)


def _value(number: Number, args: list[int]) -> int:
    if number.op == "constant":
        assert isinstance(number.data, int)
        return number.data
    if number.op == "lookup":
        assert isinstance(number.data, tuple)
        return number.data[args[0]]
    if number.op == "within":
        return _in_range(f"{number.place}: within", args[0], number)
    return OPERATIONS[number.op].of(*args)


def _in_range(what: str, value: int, number: Number) -> int:
    if not number.low <= value <= number.high:
        raise NumcError(f"{what}: got {value}, want {number.low} to {number.high}")
    return value
