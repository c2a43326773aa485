"""Circuits compute what the functions that left them compute of whole numbers, within the ranges that they state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numc.numerics.circuits import (
    Whole,
    absolute,
    any_of,
    below,
    field,
    join,
    leading_zeros,
    lookup,
    maximum,
    minimum,
    select,
    trace,
    within,
)
from numc.support.errors import NumcError

_TABLE = [7, -3, 0, 12, 5, 5, -9, 1]
_BINARY: list[Callable[[Whole, Whole], Whole]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ y,
    lambda x, y: x << below(y, 3),
    lambda x, y: x >> below(y, 3),
    lambda x, y: (x < y) + 0,
    lambda x, y: (x <= y) + 0,
    lambda x, y: (x > y) + 0,
    lambda x, y: (x >= y) + 0,
    lambda x, y: (x == y) + 0,
    lambda x, y: (x != y) + 0,
    minimum,
    maximum,
    lambda x, y: select(x > y, x, -y),
    lambda x, y: -x + absolute(y) - any_of(x),
    lambda x, y: lookup(_TABLE, (x ^ y) & 7),
    lambda x, y: leading_zeros(below(x, 9), 12) + field(y, 2, 3),
    lambda x, y: join((below(x, 4), 4), (below(y, 3), 5)),
]


@given(
    st.lists(st.tuples(st.integers(0, len(_BINARY) - 1), st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=9),
    st.tuples(*[st.tuples(st.integers(-300, 300), st.integers(0, 200))] * 3),
    st.data(),
)
def test_a_circuit_computes_what_its_function_does(
    steps: list[tuple[int, int, int]], ends: tuple[tuple[int, int], ...], data: st.DataObject
) -> None:
    def function(a: Whole, b: Whole, c: Whole) -> Whole:
        known = [a, b, c]
        for op, x, y in steps:
            found = _BINARY[op](known[x % len(known)], known[y % len(known)])
            known.append(below(found, 40) - below(found >> 3, 20))  # no number grows without bounds
        return known[-1]

    ranges = {name: (low, low + size) for name, (low, size) in zip("abc", ends, strict=True)}
    circuit = trace("random", function, ranges)
    for _ in range(5):
        inputs = {name: data.draw(st.integers(*ends)) for name, ends in ranges.items()}
        result = function(**inputs)
        assert circuit(**inputs) == {"result": result}
        output = circuit.outputs["result"]
        assert output.low <= result <= output.high
        assert (result.bit_length() if result >= 0 else (~result).bit_length() + 1) <= output.width


def test_operations_are_shared_and_constants_folded() -> None:
    def function(a: Whole, b: Whole) -> Whole:
        return (a + b) * (a + b) + (below(a, 2) > 7) * b

    circuit = trace("shared", function, {"a": (0, 9), "b": (0, 9)})
    assert [number.op for number in circuit.numbers if number.op not in ("input", "constant")] == ["add", "mul"]
    assert circuit.outputs["result"].high == 18 * 18


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: 1 if a > 3 else 0, "if, and, or, not, in or while on a number that is traced"),
        (lambda a: [1, 2][a], r"a number that is traced as an index or in range\(\): want lookup\(values, index\)"),
        (lambda a: a << (a - 5), r"a shift by -5 to 2 bits, want at least 0: maximum\(n, 0\)"),
        (lambda a: 1 << (a << 13), r"a shift by up to 57344 bits, want at most 4096"),
        (lambda a: (a << 4000) * (a << 4000), r"a number of 8006 bits, want at most 4096"),
        (lambda a: a * 0.5, "an operand of type float, want whole numbers and numbers of the circuit"),
        (lambda a: leading_zeros(a, 2), r"leading_zeros of 0 to 7 in 2 bits, want a number of 0 to 2\^2 - 1"),
        (lambda a: lookup([1, 2], a), "an index of 0 to 7 into a table of 2 values"),
        (lambda a: join((a, 2)), "0 to 7 in 2 bits of join, want 0 to 3"),
        (lambda a: within(a, 9, 12), r"within\(9, 12\) of a number from 0 to 7"),
        (lambda a: "seven", "result is str, want a number of the circuit"),
    ],
)
def test_what_cannot_be_traced_names_its_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(NumcError, match=message) as caught:
        trace("f", function, {"a": (0, 7)})
    assert "test_circuits.py, line" in str(caught.value) or "result is str" in message


def test_values_outside_of_their_bounds_are_refused() -> None:
    circuit = trace("f", lambda a: within(a, 0, 3), {"a": (0, 7)})
    assert circuit(a=3) == {"result": 3}
    with pytest.raises(NumcError, match=r"test_circuits.py, line \d+: within: got 5, want 0 to 3"):
        circuit(a=5)
    with pytest.raises(NumcError, match="a: got 8, want 0 to 7"):
        circuit(a=8)
    with pytest.raises(NumcError, match=r"within\(0, 3\) is 5: the bounds are not those of the number"):
        within(5, 0, 3)
