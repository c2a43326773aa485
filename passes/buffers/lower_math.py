"""Replace math operations that would become libm calls by numc's own code, inlined where they stand.

A libm differs from machine to machine; the code of math_functions.py does not (arithmetic.md section 5). It is
straight-line code without branches or calls, so whatever loop it lands in can still be vectorised. Functions that are
one instruction (sqrt, absf, floor, ceil, trunc, roundeven, fma, copysign) stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch_mlir import ir

from numc.compiler.support.errors import CompilerBug
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values import math_functions as kernels
from numc.passes.kernels.values.math_functions import Lanes

Kernel = Callable[..., Value]

# operation -> one kernel per result
FUNCTIONS: dict[str, tuple[Kernel, ...]] = {
    "math.acos": (kernels.acos,),
    "math.acosh": (kernels.acosh,),
    "math.asin": (kernels.asin,),
    "math.asinh": (kernels.asinh,),
    "math.atan": (kernels.atan,),
    "math.atan2": (kernels.atan2,),
    "math.atanh": (kernels.atanh,),
    "math.cbrt": (kernels.cbrt,),
    "math.cos": (kernels.cos,),
    "math.cosh": (kernels.cosh,),
    "math.erf": (kernels.erf,),
    "math.erfc": (kernels.erfc,),
    "math.exp": (kernels.exp,),
    "math.exp2": (kernels.exp2,),
    "math.expm1": (kernels.expm1,),
    "math.fpowi": (kernels.pow,),
    "math.log": (kernels.log,),
    "math.log10": (kernels.log10,),
    "math.log1p": (kernels.log1p,),
    "math.log2": (kernels.log2,),
    "math.powf": (kernels.pow,),
    "math.round": (kernels.round,),
    "math.rsqrt": (kernels.rsqrt,),
    "math.sin": (kernels.sin,),
    "math.sincos": (kernels.sin, kernels.cos),
    "math.sinh": (kernels.sinh,),
    "math.tan": (kernels.tan,),
    "math.tanh": (kernels.tanh,),
}


def lower_math(op: Any, pass_: object = None) -> None:
    """Replace math functions that would be calls of a libm by code that gives the same bits on every machine.

    They are the operations of FUNCTIONS under `op`, on scalars and 1-D vectors of f16, bf16, f32, f64.

    `op` is a module or a function; it is also a Python pass (``PassManager.add(lower_math)``).
    Raises CompilerBug for tensors and other shapes: elementwise tensor operations become linalg bodies earlier.
    """
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        if inner.name in FUNCTIONS:
            found.append(inner)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit)
    bodies: dict[tuple[str, ...], ir.Module] = {}
    for inner in found:
        replace(inner, FUNCTIONS, bodies)


def replace(
    op: ir.Operation, functions: Mapping[str, tuple[Kernel, ...]], bodies: dict[tuple[str, ...], ir.Module]
) -> None:
    """Put the code that `functions` has for `op` in its place; `bodies` keeps what was generated for the next one."""
    key = (op.name, *(str(value.type) for value in op.operands), str(_constant_power(op)))
    if key not in bodies:
        bodies[key] = ir.Module.parse(_function_text(op, functions[op.name]), op.context)
    block = bodies[key].body.operations[0].regions[0].blocks[0]
    values = dict(zip(block.arguments, op.operands, strict=True))
    point = ir.InsertionPoint(op)
    for source in block.operations:
        if source.operation.name == "func.return":
            for result, value in zip(op.results, source.operands, strict=True):
                result.replace_all_uses_with(values[value])
            break
        copy = source.operation.clone(point)
        copy.location = op.location
        for i, operand in enumerate(source.operands):
            copy.operands[i] = values[operand]
        for old, new in zip(source.results, copy.results, strict=True):
            values[old] = new
    op.erase()


def _function_text(op: ir.Operation, results_of: tuple[Kernel, ...]) -> str:
    """A function of the operands of `op` that returns its results."""
    width, element = _lanes(op)
    function = Function(
        "f",
        {f"x{n}": str(value.type) for n, value in enumerate(op.operands)},
        ", ".join(str(result.type) for result in op.results),
        attributes="",
    )
    code = function.lanes(width)
    m = Lanes(code, wide=element == "f64")
    wide = [_widened(code, x) for x in function.arguments.values()]
    power = _constant_power(op)
    if power is None:
        results = [kernel(m, *wide) for kernel in results_of]
    else:
        results = [kernels.integer_power(m, wide[0], power)]
    return function.function(*(_narrowed(code, result, element) for result in results))


def _constant_power(op: ir.Operation) -> int | None:
    """The exponent of a power, where it is a small constant integer: products are cheaper, and as exact."""
    if op.name not in ("math.powf", "math.fpowi") or not isinstance(op.operands[1], ir.OpResult):
        return None
    source = op.operands[1].owner
    if source.name != "arith.constant" or not isinstance(source.attributes["value"], (ir.FloatAttr, ir.IntegerAttr)):
        return None
    value = source.attributes["value"].value
    # A reciprocal of a binary64 product could lose a subnormal binary64 result.
    lowest = 0 if str(op.operands[0].type) == "f64" else -32
    return int(value) if lowest <= value <= 32 and value == int(value) else None


def _lanes(op: ir.Operation) -> tuple[int, str]:
    """The number of lanes (0 for a scalar) and the element type of the first operand.

    Raises CompilerBug for a type that this pass does not know.
    """
    width, kind = 0, op.operands[0].type
    if isinstance(kind, ir.VectorType) and kind.rank == 1 and not kind.scalable:
        width, kind = kind.shape[0], kind.element_type
    if str(kind) not in ("f16", "bf16", "f32", "f64") and not isinstance(kind, ir.IntegerType):
        raise CompilerBug(
            f"{op.name} on {kind} reached lower-math, which takes scalars and 1-D vectors of f16, bf16, f32, f64"
        )
    return width, str(kind)


def _widened(code: Code, x: Value) -> Value:
    """The same number in binary64."""
    if x.type.element == "f64":
        return x
    return code.cast("sitofp" if x.type.is_int else "extf", x, "f64")


def _narrowed(code: Code, x: Value, element: str) -> Value:
    """Round to the element type; the 16-bit types by way of f32, where the value of the function is defined."""
    if element == "f64":
        return x
    x = code.cast("truncf", x, "f32")
    return x if element == "f32" else code.cast("truncf", x, element)
