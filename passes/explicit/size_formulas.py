"""Sizes as formulas of the sizes of a program's inputs, in postfix notation (runtime/run_counts.py reads them)."""

from __future__ import annotations

from typing import TypeAlias

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.explicit.sizes import Size, size_of, slices, traced

Formula: TypeAlias = str
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
    "arith.andi": "min",  # of truth values
    "arith.ori": "max",
    "arith.select": "?",
}
#: By the number of a predicate of arith.cmpi: the operation, and whether its operands are exchanged.
_PREDICATES = {0: ("==", False), 1: ("!=", False), 2: ("<", False), 3: ("<=", False), 4: ("<", True), 5: ("<=", True)}
_SAME = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci")


class SizeFormulas:
    """The formulas of the sizes of a module, each of which may refer to those before it.

    ``t3`` in a formula is the value of `steps` number 3.
    """

    def __init__(self) -> None:
        self.steps: list[Formula] = []
        self._known: dict[ir.Value | tuple[ir.Value, int], Formula | None] = {}

    def of(self, size: Size) -> Formula | None:
        """Return a formula of one term for a size; None where it follows from data."""
        if isinstance(size, int):
            return str(size)
        if size not in self._known:
            self._known[size] = self._of_dimension(*size) if isinstance(size, tuple) else self._of_value(size)
        return self._known[size]

    def _of_dimension(self, tensor: ir.Value, n: int) -> Formula | None:
        """The size of a dimension of a tensor, by what has made it."""
        size = size_of(tensor, n)
        if size != (tensor, n):
            return self.of(size)
        maker = linalg.maker(tensor)
        if maker is None:
            return _of_input(tensor, n)
        if maker.name == "tensor.collapse_shape":
            groups = [list(map(int, group)) for group in ir.ArrayAttr(maker.attributes["reassociation"])]
            return self._step("*", [(maker.operands[0], d) for d in groups[n]])
        if maker.name == "tensor.expand_shape":
            static = list(ir.DenseI64ArrayAttr(maker.attributes["static_output_shape"]))
            free = [d for d, length in enumerate(static) if length == ir.ShapedType.get_dynamic_size()]
            return self.of(traced(maker.operands[1 + free.index(n)]))
        if maker.name == "tensor.extract_slice":
            sizes = [size for _, size, _ in slices(maker, 1)]
            return self.of(sizes[n]) if len(sizes) == ir.RankedTensorType(tensor.type).rank else None
        if maker.name == "tensor.reshape":
            shape = linalg.maker(maker.operands[1])
            known = shape is not None and shape.name == "tensor.from_elements"
            return self.of(traced(shape.operands[n])) if shape is not None and known else None
        if maker.name == "tensor.concat":
            axis = ir.IntegerAttr(maker.attributes["dim"]).value
            parts: list[Size] = [(operand, n) for operand in maker.operands]
            return self._step("+", parts) if n == axis else self.of(parts[0])
        if maker.name.startswith("linalg.") and maker.operands:
            return self.of((maker.operands[len(maker.operands) - 1], n))
        return None

    def _of_value(self, value: ir.Value) -> Formula | None:
        """An index, an integer or a truth value."""
        size = traced(value)
        if size != value:
            return self.of(size)
        maker = linalg.maker(value)
        if maker is None:
            return None
        if maker.name in _SAME:
            return self.of(traced(maker.operands[0]))
        if maker.name == "arith.cmpi":
            operation, exchanged = _PREDICATES.get(ir.IntegerAttr(maker.attributes["predicate"]).value, ("", False))
            operands = list(reversed(maker.operands)) if exchanged else list(maker.operands)
            return self._step(operation, [traced(operand) for operand in operands]) if operation else None
        if maker.name == "affine.apply":
            (expression,) = ir.AffineMapAttr(maker.attributes["map"]).value.results
            return self._of_affine(expression, maker)
        if maker.name in _OPERATIONS:
            return self._step(_OPERATIONS[maker.name], [traced(operand) for operand in maker.operands])
        if maker.name == "tensor.extract" and len(maker.operands) == 1 and linalg.maker(maker.operands[0]) is None:
            scalar = _of_input(maker.operands[0], 0)
            return None if scalar is None else scalar.partition(".")[0]
        return None

    def _of_affine(self, expression: ir.AffineExpr, apply: ir.Operation) -> Formula | None:
        """A sum or a product of the dimensions and symbols of an affine.apply."""
        if isinstance(expression, ir.AffineConstantExpr):
            return str(expression.value)
        if isinstance(expression, ir.AffineDimExpr):
            return self.of(traced(apply.operands[expression.position]))
        if isinstance(expression, ir.AffineSymbolExpr):
            dimensions = int(ir.AffineMapAttr(apply.attributes["map"]).value.n_dims)
            return self.of(traced(apply.operands[dimensions + expression.position]))
        if not isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr)):
            return None
        operation = "+" if isinstance(expression, ir.AffineAddExpr) else "*"
        return self._folded(operation, [self._of_affine(side, apply) for side in (expression.lhs, expression.rhs)])

    def _step(self, operation: str, sizes: list[Size]) -> Formula | None:
        """An operation between sizes, as a step of its own."""
        return self._folded(operation, [self.of(size) for size in sizes])

    def _folded(self, operation: str, formulas: list[Formula | None]) -> Formula | None:
        known = [formula for formula in formulas if formula is not None]
        if len(known) < len(formulas):
            return None
        self.steps.append(" ".join([*known, *[operation] * (1 if operation == "?" else len(known) - 1)]))
        return f"t{len(self.steps) - 1}"


def _of_input(tensor: ir.Value, n: int) -> Formula | None:
    """The size of a dimension of an input of the program."""
    argument = ir.BlockArgument(tensor)
    function = argument.owner.owner.operation
    is_main = function.name == "func.func" and ir.StringAttr(function.attributes["sym_name"]).value == "main"
    return f"x{argument.arg_number}.{n}" if is_main else None
