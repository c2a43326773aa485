"""Checks of a run: assumptions of torch on free sizes when it traced a model.

A decomposition or a module may look at a size, and the trace then holds only for sizes of which the same is true.
torch.export and run_decompositions keep such conditions to themselves: other sizes would give wrong results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._sympy.interp import sympy_interp
from torch_mlir import ir
from torch_mlir.dialects import arith, cf, math, tensor

from numc.frontends.imported import ConversionError
from numc.support.errors import shortened

Place = tuple[int, int]
"""The number of an argument and a dimension of it."""
Binary = Callable[[ir.Value, ir.Value], ir.Value]


def conditions(graph: fx.Graph) -> list[sympy.Basic]:
    """Return what has to be true of the free sizes of a graph, beside their limits.

    That a size is not 1 is left out: such a size is not stretched anyway, which a run checks where it matters. So is
    what torch has found of strides: tensors of programs have none.
    """
    values = (value for node in graph.nodes for value in pytree.tree_leaves(node.meta.get("val")))
    mode = next((v.fake_mode for v in values if isinstance(v, torch._subclasses.FakeTensor)), None)
    if mode is None or mode.shape_env is None:
        return []
    # A size that was found to be equal to another has its name in the graph.
    expressions = dict.fromkeys(
        mode.shape_env.replace(guard.expr) for guard in mode.shape_env.guards if not _is_of_strides(guard)
    )
    return [expr for expr in expressions if not _is_idle(expr)]


_OF_STRIDES = ("check_contiguous_sizes_strides", "is_contiguous", "is_contiguous_for_memory_format")
"""Functions of torch that ask how elements lie in memory."""


def _is_of_strides(guard: Any) -> bool:
    frame = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    name, file = getattr(frame, "name", ""), getattr(frame, "filename", "")
    is_wrapper = name == "__new__" and file.endswith("functional_tensor.py")
    return is_wrapper or name.startswith((*_OF_STRIDES, "is_channels_last", "is_non_overlapping"))


def _is_idle(expr: sympy.Basic) -> bool:
    if isinstance(expr, (sympy.Ne, sympy.Gt)) and expr.rhs == 1:
        return True
    return bool(expr == sympy.true)


def check(
    module: ir.Module, expressions: Iterable[sympy.Basic], sizes: Mapping[sympy.Symbol, tuple[Place, str]]
) -> None:
    """Let ``@main`` check conditions when it begins. sizes: where the free sizes are, and their names for messages.

    Raises ConversionError for a condition that is no arithmetic on sizes of arguments.
    """
    expressions = list(expressions)
    if not expressions:
        return
    main = next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
    block = main.regions[0].blocks[0]
    with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
        values = {symbol: _size(block.arguments[position[0]], position[1]) for symbol, (position, _) in sizes.items()}
        for expr in expressions:
            names = {symbol: sympy.Symbol(name) for symbol, (_, name) in sizes.items()}
            named = expr.xreplace(names)
            if named == sympy.true:  # equal sizes of one name, which every run checks
                continue
            text = shortened(str(named))
            try:
                condition = sympy_interp(_Arithmetic, values, expr)
            except (AttributeError, KeyError, NotImplementedError, TypeError):
                raise ConversionError(f"traced for sizes with {text}, which a run cannot check: fix a size") from None
            cf.AssertOp(condition, f"sizes do not fit: the model was traced for sizes with {text}")


def _size(argument: ir.Value, dim: int) -> ir.Value:
    return tensor.DimOp(argument, _index(dim)).result


def _index(number: int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), number).result


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type, ir.F64Type)


def _as_float(value: ir.Value) -> ir.Value:
    if _is_float(value):
        return value
    word = arith.IndexCastOp(ir.IntegerType.get_signless(64), value).result
    return arith.SIToFPOp(ir.F64Type.get(), word).result


def _as_index(value: ir.Value) -> ir.Value:
    word = arith.FPToSIOp(ir.IntegerType.get_signless(64), value).result
    return arith.IndexCastOp(ir.IndexType.get(), word).result


def _compared(predicate: arith.CmpIPredicate, of_floats: arith.CmpFPredicate) -> Binary:
    def compared(a: ir.Value, b: ir.Value) -> ir.Value:
        if _is_float(a) or _is_float(b):
            return arith.CmpFOp(of_floats, _as_float(a), _as_float(b)).result
        return arith.CmpIOp(predicate, a, b).result

    return staticmethod(compared)


def _made(operation: Any, of_floats: Any = None) -> Binary:
    def made(a: ir.Value, b: ir.Value) -> ir.Value:
        if _is_float(a) or _is_float(b):
            a, b, chosen = _as_float(a), _as_float(b), of_floats
        else:
            chosen = operation
        result: ir.Value = chosen(a, b).result
        return result

    return staticmethod(made)


class _Arithmetic:
    """Operations of sympy on sizes, as operations on values of the types index and f64."""

    add, mul = _made(arith.AddIOp, arith.AddFOp), _made(arith.MulIOp, arith.MulFOp)
    minimum, maximum = _made(arith.MinSIOp, arith.MinimumFOp), _made(arith.MaxSIOp, arith.MaximumFOp)
    floordiv, mod, and_, or_ = map(_made, (arith.FloorDivSIOp, arith.RemSIOp, arith.AndIOp, arith.OrIOp))
    eq = _compared(arith.CmpIPredicate.eq, arith.CmpFPredicate.OEQ)
    ne = _compared(arith.CmpIPredicate.ne, arith.CmpFPredicate.UNE)
    lt = _compared(arith.CmpIPredicate.slt, arith.CmpFPredicate.OLT)
    le = _compared(arith.CmpIPredicate.sle, arith.CmpFPredicate.OLE)
    gt = _compared(arith.CmpIPredicate.sgt, arith.CmpFPredicate.OGT)
    ge = _compared(arith.CmpIPredicate.sge, arith.CmpFPredicate.OGE)

    @staticmethod
    def constant(number: Any, dtype: torch.dtype) -> ir.Value:
        if isinstance(number, bool):
            return arith.ConstantOp(ir.IntegerType.get_signless(1), int(number)).result
        if dtype == torch.double:
            return arith.ConstantOp(ir.F64Type.get(), float(number)).result
        return _index(operator.index(number))

    @staticmethod
    def python_mod(a: ir.Value, b: ir.Value) -> ir.Value:
        """The remainder with the sign of b."""
        whole = arith.FloorDivSIOp(a, b).result
        return arith.SubIOp(a, arith.MulIOp(whole, b).result).result

    @staticmethod
    def truediv(a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.DivFOp(_as_float(a), _as_float(b)).result

    int_truediv = truediv

    @staticmethod
    def to_dtype(value: ir.Value, dtype: torch.dtype) -> ir.Value:
        return _as_float(value) if dtype == torch.double else value

    @staticmethod
    def trunc_to_int(value: ir.Value, _: torch.dtype) -> ir.Value:
        return _as_index(value)

    @staticmethod
    def floor_to_int(value: ir.Value, _: torch.dtype) -> ir.Value:
        return _as_index(math.FloorOp(value).result)

    @staticmethod
    def ceil_to_int(value: ir.Value, _: torch.dtype) -> ir.Value:
        return _as_index(math.CeilOp(value).result)

    @staticmethod
    def not_(value: ir.Value) -> ir.Value:
        true = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
        return arith.XOrIOp(value, true).result

    @staticmethod
    def pow(value: ir.Value, exponent: ir.Value) -> ir.Value:
        """A power of floats; a root is rounded once, as in Python."""
        written = getattr(exponent.owner, "attributes", {})
        if "value" in written and ir.FloatAttr(written["value"]).value == 0.5:
            return math.SqrtOp(_as_float(value)).result
        return math.PowFOp(_as_float(value), _as_float(exponent)).result

    @staticmethod
    def pow_by_natural(value: ir.Value, exponent: ir.Value) -> ir.Value:
        count = ir.IntegerAttr(exponent.owner.attributes["value"]).value
        power = _index(1)
        for _ in range(count):
            power = arith.MulIOp(power, value).result
        return power
