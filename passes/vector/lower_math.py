"""Replace math operations that would become libm calls by numc's own code, inlined where they stand.

A libm differs from machine to machine; the code of math_functions.py does not (arithmetic.md section 5). It is
straight-line code without branches or calls, so whatever loop it lands in can still be vectorised. A vector can have
the cheaper code of checked_functions.py in front of it. Functions that are one instruction (sqrt, absf, floor, ceil,
trunc, roundeven, fma, copysign) stay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.isa.instruction_set import Exponential, InstructionSet
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values import checked_functions as checked
from numc.passes.kernels.values.function_table import FUNCTIONS, Kernel
from numc.passes.kernels.values.math_functions import Lanes, integer_power
from numc.passes.parsed import parsed
from numc.support.errors import CompilerBug


def cheaper(isa: InstructionSet) -> dict[str, Callable[[Code, Value], checked.Checked]]:
    """The functions of f32 that have cheaper code with a check on an instruction set."""
    functions: dict[str, Callable[[Code, Value], checked.Checked]] = {}
    if (elementary := isa.elementary) is not None:
        functions["math.erf"] = partial(checked.erf, elementary)
    if isinstance(elementary, Exponential):
        functions["math.exp"] = partial(checked.exp, elementary)
        functions["math.tanh"] = partial(checked.tanh, elementary)
    return functions


def lower_math(op: Any, pass_: object = None, isa: InstructionSet = PORTABLE) -> None:
    """Replace math functions that would be calls of a libm by code that gives the same bits on every machine.

    They are the operations of FUNCTIONS under `op`, on scalars and 1-D vectors of f16, bf16, f32, f64.

    `op` is a module or a function; it is also a Python pass (``PassManager.add(lower_math)``). isa: what may be used.
    Raises CompilerBug for tensors and other shapes: elementwise tensor operations become linalg bodies earlier.
    """
    math_ops: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        if inner.name in FUNCTIONS:
            math_ops.append(inner)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit)
    bodies: dict[tuple[str, ...], ir.Module] = {}
    with_checks = cheaper(isa)
    for inner in math_ops:
        lanes, element = _lanes(inner)
        whole = element == "f32" and lanes in (isa.width, 2 * isa.width)
        if whole and (function := with_checks.get(inner.name)):
            replace(inner, partial(_checked_text, function=function, width=isa.width), bodies)
        else:
            replace(inner, lambda op: function_text(op, FUNCTIONS[op.name]), bodies)


def replace(op: ir.Operation, text: Callable[[ir.Operation], str], bodies: dict[tuple[str, ...], ir.Module]) -> None:
    """Put the code of the function that is the `text` for `op` in its place; `bodies` keeps it for the next one."""
    key = (op.name, *(str(value.type) for value in op.operands), str(_constant_power(op)))
    if key not in bodies:
        bodies[key] = parsed(text(op), op.context)
    block = bodies[key].body.operations[0].regions[0].blocks[0]
    values = dict(zip(block.arguments, op.operands, strict=True))
    with op.location:
        results = linalg.copy_body(block, ir.InsertionPoint(op), values)
    linalg.replace(op, results)


def _checked_text(op: ir.Operation, function: Callable[[Code, Value], checked.Checked], width: int) -> str:
    """A function of one or two vectors of f32: cheaper code, and for a vector where that could be wrong FUNCTIONS'."""
    (lanes, _), vector_type = _lanes(op), str(op.operands[0].type)
    f = Function("f", {"x0": vector_type}, vector_type, attributes="")
    code, x = f.lanes(lanes), f["x0"]
    value, doubt, again = function(code, x)
    single = f.lanes(width)

    def better() -> Value:
        values, doubts = (value, doubt) if again is None else again(value, doubt)
        return code.joined([vector(values, doubts, range(n, n + width)) for n in range(0, lanes, width)])

    def vector(values: Value, doubts: Value, there: range) -> Value:
        return _unless(single, single.shuffle(values, there), single.shuffle(doubts, there), lambda: exactly(there))

    def exactly(there: range) -> Value:
        wide = single.cast("extf", single.shuffle(x, there), "f64")
        return single.cast("truncf", FUNCTIONS[op.name][0](Lanes(single, wide=False), wide), "f32")

    return f.function(_unless(code, value, doubt, better))


def _unless(code: Code, value: Value, doubt: Value, better: Callable[[], Value]) -> Value:
    """The `value` of all lanes, or if some are in doubt, which is seldom, what the code of `better` gives."""
    f = code.scalar
    bits = f.reinterpret(doubt, f"i{doubt.type.lanes}")
    with f.choose(f.seldom(f.compare("ne", bits, f.int(0, bits.type.element))), value.type) as choice:
        with choice.then():
            choice.next = [better()]
        with choice.otherwise():
            choice.next = [value]
    return choice.results[0]


def function_text(op: ir.Operation, results_of: tuple[Kernel, ...]) -> str:
    """A function of the operands of `op` that returns its results, each by a kernel."""
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
    results = [kernel(m, *wide) for kernel in results_of] if power is None else [integer_power(m, wide[0], power)]
    return function.function(*(_narrowed(code, result, element) for result in results))


def _constant_power(op: ir.Operation) -> int | None:
    """The exponent of a power, where it is a small constant integer: products are cheaper, and as exact."""
    if op.name not in ("math.powf", "math.fpowi") or not isinstance(op.operands[1], ir.OpResult):
        return None
    source = op.operands[1].owner
    number = source.attributes["value"] if source.name == "arith.constant" else None
    if isinstance(number, ir.DenseElementsAttr) and number.is_splat:
        number = number.get_splat_value()
    if not isinstance(number, (ir.FloatAttr, ir.IntegerAttr)):
        return None
    value = number.value
    # A reciprocal of a binary64 product could lose a subnormal binary64 result.
    lowest = 0 if str(op.operands[0].type).rstrip(">").endswith("f64") else -32
    return int(value) if lowest <= value <= 32 and value == int(value) else None


def _lanes(op: ir.Operation) -> tuple[int, str]:
    """The number of lanes (0 for a scalar) and the element type of the first operand.

    Raises CompilerBug for a type that this pass does not know.
    """
    width, scalar_type = 0, op.operands[0].type
    if isinstance(scalar_type, ir.VectorType) and scalar_type.rank == 1 and not scalar_type.scalable:
        width, scalar_type = scalar_type.shape[0], scalar_type.element_type
    if str(scalar_type) not in ("f16", "bf16", "f32", "f64") and not isinstance(scalar_type, ir.IntegerType):
        raise CompilerBug(
            f"{op.name} on {scalar_type} reached lower-math, which takes scalars and 1-D vectors of f16, bf16, f32, f64"
        )
    return width, str(scalar_type)


def _widened(code: Code, x: Value) -> Value:
    """A number in binary64, whose value is kept."""
    if x.type.element == "f64":
        return x
    return code.cast("sitofp" if x.type.is_int else "extf", x, "f64")


def _narrowed(code: Code, x: Value, element: str) -> Value:
    """Round to the element type; the 16-bit types by way of f32, where the value of the function is defined."""
    if element == "f64":
        return x
    x = code.cast("truncf", x, "f32")
    return x if element == "f32" else code.cast("truncf", x, element)
