"""A definition: the function of a user that says what a step, or a block of products, does to an accumulator."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from numc.numerics.circuits.functions import value_of
from numc.numerics.circuits.known import Known
from numc.numerics.circuits.number import Number, Whole, here
from numc.numerics.circuits.real import Real
from numc.numerics.circuits.traced import Traced
from numc.numerics.datapaths import Parameter
from numc.numerics.defined.bounded import bounded
from numc.numerics.operators import Fma
from numc.support.errors import NumcError, shortened

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A function that defines a datapath.

    in_blocks: whether it takes lists of `l` operands, and not one of each. parameters: its keyword-only arguments.
    register: the bits of the whole number, with its sign, that a reduction sums up from 0; 0 if the accumulator is a
    number of its format. last: the function that makes the result of that and of what the reduction began with.
    """

    name: str
    function: Function
    in_blocks: bool
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    register: int = 0
    last: Function | None = None

    def length(self, fma: Fma) -> int:
        """The number of products that a call adds, for an operator."""
        return fma.datapath["l"] if self.in_blocks else 1

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest number of the register."""
        return -(1 << self.register - 1), (1 << self.register - 1) - 1

    def accumulated(self, fma: Fma, a: Sequence[Real], b: Sequence[Real], c: Real) -> Real:
        """Return the accumulator after a block, exact: `acc` rounds it. Raises NumcError for what is no number."""
        return self._real(self._called(fma, a, b, c), fma, c)

    def registered(self, fma: Fma, a: Sequence[Real], b: Sequence[Real], register: Whole) -> Whole:
        """Return the register after a block. Raises NumcError for what is no whole number, or does not fit."""
        result = self._called(fma, a, b, register)
        if isinstance(result, bool) or not isinstance(result, int | Number):
            raise NumcError(f"operator '{self.name}': returns {_what(result)}, want the whole number of the register")
        low, high = (result.low, result.high) if isinstance(result, Number) else (result, result)
        least, most = self.range
        if low < least or high > most:
            line = result.place if isinstance(result, Number) else here()
            raise NumcError(
                f"{line}: the register of '{self.name}' can become {low} to {high}, want {least} to {most}: "
                f"wrapped(x, {self.register}) or saturated(x, {self.register})"
            )
        return result

    def ended(self, fma: Fma, c: Real, register: Whole) -> Real:
        """Return the result of a reduction that began with `c`, exact: `acc` rounds it."""
        assert self.last is not None
        return self._real(self._result(self.last, c, register), fma, c)

    def _called(self, fma: Fma, a: Sequence[Real], b: Sequence[Real], c: Real | Whole) -> Any:
        x, y = (list(a), list(b)) if self.in_blocks else (a[0], b[0])
        return self._result(self.function, x, y, c, **dict(fma.datapath.parameters))

    def _result(self, function: Function, *args: Any, **parameters: int) -> Any:
        """The result of a function of the user's; what it raises is told with its line."""
        is_traced = isinstance(args[-1], Number | Traced)
        try:
            with bounded(self.name, function) if is_traced else nullcontext():
                return function(*args, **parameters)
        except NumcError:
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(last.filename)}, line {last.lineno}"
            raise NumcError(
                f"operator '{self.name}': {where}: {type(error).__name__}: {shortened(error, 300)}"
            ) from error

    def _real(self, result: object, fma: Fma, like: Real) -> Real:
        if isinstance(result, bool) or not isinstance(result, int | float | Real | Number):
            raise NumcError(
                f"operator '{self.name}': returns {_what(result)}, want a real number, or a whole one: the code of one"
            )
        if isinstance(result, int | Number):
            result = value_of(result, fma.acc.settled)
        elif isinstance(result, float):
            result = like.constant(result)
        if isinstance(like, Traced) and isinstance(result, Known):
            return like.constant(float(result.value))
        return result


def _what(result: object) -> str:
    return "nothing" if result is None else type(result).__name__


#: Definitions by the names of their datapaths, with versions.
DEFINITIONS: dict[str, Definition] = {}


def definition_of(fma: Fma) -> Definition:
    """Return the definition of an operator's datapath."""
    return DEFINITIONS[fma.datapath.name]


def is_defined(fma: Fma) -> bool:
    """Whether a user has defined an operator's datapath."""
    return fma.datapath.name in DEFINITIONS
