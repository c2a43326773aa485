"""Graphs of whole and of real numbers: an order in which they can be computed, and a text that tells two apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from numc.numerics.circuits.number import Number
from numc.numerics.circuits.traced import Traced

Node = Number | Traced


def operands(node: Node) -> tuple[Node, ...]:
    """Return what a number is computed from."""
    return (node.of,) if isinstance(node, Number) and isinstance(node.of, Traced) else node.args


def ordered(outputs: Sequence[Node]) -> Iterator[Node]:
    """Yield every number that the outputs need, operands before results; without recursion, for long chains."""
    seen: set[int] = set()
    waiting: list[tuple[Node, bool]] = [(each, False) for each in reversed(outputs)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.append((node, True))
            waiting.extend((arg, False) for arg in reversed(operands(node)))


def digest(outputs: Sequence[Node]) -> str:
    """Return the hash of a graph, in hexadecimal digits: what computes the same in the same way has the same."""
    hashed, numbers = hashlib.sha256(), dict[int, int]()
    for node in ordered(outputs):
        ends = (node.low, node.high) if isinstance(node, Number) else str(node.to)
        places = [numbers[id(arg)] for arg in operands(node)]
        numbers[id(node)] = len(numbers)
        hashed.update(repr((node.op, places, ends, node.data)).encode())
    return hashed.hexdigest()
