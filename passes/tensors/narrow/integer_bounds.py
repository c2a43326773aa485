"""The least and the largest value that integers of a tensor can have, by what makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from torch_mlir import ir

from numc.passes import linalg

Bounds = tuple[int, int]
"""The least and the largest value of an integer."""

RESHAPES = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")
VIEWS = (*RESHAPES, "tensor.extract_slice")


def bounds(value: ir.Value, known: dict[ir.Value, Bounds | None]) -> Bounds | None:
    """Return the bounds of the elements of a tensor of integers, or of a scalar; None if nothing tells."""
    waiting = [value]
    while waiting:
        if missing := [part for part in _parts(waiting[-1]) if part not in known]:
            waiting += missing
        elif (current := waiting.pop()) not in known:
            known[current] = _found(current, known)
    return known[value]


def _maker(value: ir.Value) -> ir.Operation | None:
    """The operation that makes integers; that of floats tells nothing."""
    return linalg.maker(value) if isinstance(getattr(value.type, "element_type", value.type), ir.IntegerType) else None


def _parts(value: ir.Value) -> list[ir.Value]:
    """The values whose bounds tell those of a value."""
    made = _maker(value)
    if made is None:
        return []
    if made.name in (*VIEWS, "tensor.insert_slice"):
        return list(made.operands)[: 1 if made.name in VIEWS else 2]
    if made.name == "linalg.generic" and not linalg.reduces(made):
        return list(made.operands)[: linalg.input_count(made)]
    return list(made.operands) if made.name == "tensor.concat" else []


def _found(value: ir.Value, known: Mapping[ir.Value, Bounds | None]) -> Bounds | None:
    """The bounds of a value, given those of its parts."""
    made, parts = _maker(value), [known[part] for part in _parts(value)]
    if made is None or (made.name == "linalg.generic" and linalg.reduces(made)):
        return None
    if made.name == "arith.constant":
        return _constant(made.attributes["value"])
    if made.name != "linalg.generic":
        return _union(parts)
    block = linalg.body(made)
    results = list(block.operations)[-1].operands
    return bounds_of_body(results[ir.OpResult(value).result_number], dict(zip(block.arguments, parts, strict=False)))


def _constant(attribute: ir.Attribute) -> Bounds | None:
    if isinstance(attribute, ir.IntegerAttr):
        return attribute.value, attribute.value
    if not isinstance(attribute, ir.DenseIntElementsAttr) or "i1>" in str(attribute.type):
        return None
    if attribute.is_splat:
        number = int(ir.IntegerAttr(attribute.get_splat_value()).value)
        return number, number
    numbers = np.array(attribute)
    return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)


def _union(parts: Sequence[Bounds | None]) -> Bounds | None:
    known = [part for part in parts if part is not None]
    return (min(p[0] for p in known), max(p[1] for p in known)) if known and len(known) == len(parts) else None


def bounds_of_body(value: ir.Value, values: Mapping[ir.Value, Bounds | None]) -> Bounds | None:
    """Return the bounds of a value in a body, given those of its arguments. What wraps has none."""
    if value in values:
        return values[value]
    made = linalg.maker(value)
    if made is None:
        return None
    if made.name == "arith.constant":
        return _constant(made.attributes["value"])
    if made.name in ("arith.extsi", "arith.extui"):
        return _widened(made, values)
    if made.name not in _RULES:  # what floats are made of is a graph with many paths
        return None
    operands = [bounds_of_body(operand, values) for operand in made.operands]
    if None in operands:
        return None
    limits = _RULES[made.name](*operands)
    half = 1 << (ir.IntegerType(value.type).width - 1)
    return limits if -half <= limits[0] and limits[1] < half else None


def _widened(made: ir.Operation, values: Mapping[ir.Value, Bounds | None]) -> Bounds | None:
    source = made.operands[0]
    known, width = bounds_of_body(source, values), ir.IntegerType(source.type).width
    if made.name == "arith.extui":
        if known is not None and (known[0] >= 0 or known[0] == known[1]):
            return known[0] % (1 << width), known[1] % (1 << width)  # as numbers with signs, large ones are negative
        return 0, (1 << width) - 1
    return known or (-(1 << (width - 1)), (1 << (width - 1)) - 1)


_RULES: Mapping[str, Callable[..., Bounds]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.trunci": lambda a: a,
}
