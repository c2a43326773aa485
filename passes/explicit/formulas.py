"""Sizes as formulas of the sizes of a program's inputs, in postfix notation (runtime/run_counts.py reads them)."""

from __future__ import annotations

from typing import TypeAlias

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.explicit.sizes import Size, size_of, slices, traced

Formula: TypeAlias = str
_MOST_TERMS = 64
_OPERATIONS = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.divsi": "/",  # of sizes, which are not negative
    "arith.divui": "/",
    "arith.floordivsi": "/",
    "arith.maxsi": "max",
    "arith.maxui": "max",
    "arith.minsi": "min",
    "arith.minui": "min",
}
_SAME = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci")


def formula_of(size: Size) -> Formula | None:
    """Return the formula of a size; None where it follows from data, or is longer than it may be."""
    found = _formula(size, 0)
    return None if found is None or found.count(" ") > _MOST_TERMS else found


def _formula(size: Size, depth: int) -> Formula | None:
    if depth > _MOST_TERMS:
        return None
    if isinstance(size, int):
        return str(size)
    if isinstance(size, tuple):
        return _of_dimension(*size, depth + 1)
    return _of_value(size, depth + 1)


def _of_dimension(tensor: ir.Value, n: int, depth: int) -> Formula | None:
    """The size of a dimension of a tensor, by what has made it."""
    size = size_of(tensor, n)
    if not isinstance(size, tuple) or size != (tensor, n):
        return _formula(size, depth)
    maker = linalg.maker(tensor)
    if maker is None:
        return _of_input(tensor, n)
    if maker.name == "tensor.collapse_shape":
        groups = [list(map(int, group)) for group in ir.ArrayAttr(maker.attributes["reassociation"])]
        return _folded("*", [_formula((maker.operands[0], d), depth) for d in groups[n]])
    if maker.name == "tensor.expand_shape":
        static = list(ir.DenseI64ArrayAttr(maker.attributes["static_output_shape"]))
        free = [d for d, length in enumerate(static) if length == ir.ShapedType.get_dynamic_size()]
        return _formula(traced(maker.operands[1 + free.index(n)]), depth)
    if maker.name == "tensor.extract_slice":
        kept = list(slices(maker, 1))
        if len(kept) == ir.RankedTensorType(tensor.type).rank:
            return _formula(kept[n][1], depth)
        return None
    if maker.name == "tensor.concat":
        axis = int(ir.IntegerAttr(maker.attributes["dim"]).value)
        parts = [_formula((operand, n), depth) for operand in maker.operands]
        return _folded("+", parts) if n == axis else parts[0]
    if maker.name.startswith("linalg.") and maker.operands:
        return _formula((maker.operands[len(maker.operands) - 1], n), depth)
    return None


def _of_input(tensor: ir.Value, n: int) -> Formula | None:
    """The size of a dimension of an input of the program."""
    argument = ir.BlockArgument(tensor)
    function = argument.owner.owner.operation
    is_main = function.name == "func.func" and ir.StringAttr(function.attributes["sym_name"]).value == "main"
    return f"x{argument.arg_number}.{n}" if is_main else None


def _of_value(value: ir.Value, depth: int) -> Formula | None:
    """An index or an integer."""
    known = traced(value)
    if not isinstance(known, ir.Value):
        return _formula(known, depth)
    maker = linalg.maker(value)
    if maker is None:
        return None
    if maker.name in _SAME:
        return _formula(traced(maker.operands[0]), depth)
    if maker.name in _OPERATIONS:
        return _folded(_OPERATIONS[maker.name], [_formula(traced(operand), depth) for operand in maker.operands])
    if maker.name == "tensor.extract" and len(maker.operands) == 1 and linalg.maker(maker.operands[0]) is None:
        scalar = _of_input(maker.operands[0], 0)
        return None if scalar is None else scalar.partition(".")[0]
    return None


def _folded(operation: str, formulas: list[Formula | None]) -> Formula | None:
    """Formulas and an operation between them."""
    known = [formula for formula in formulas if formula is not None]
    if len(known) < len(formulas):
        return None
    return " ".join([*known, *[operation] * (len(known) - 1)])
