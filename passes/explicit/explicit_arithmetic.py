"""explicit-arithmetic: write every FMA operator and every rounding of the model into the IR.

A multiply whose single use is an add in the same linalg body becomes ``numc.fma``; its operands are converted by
``numc.round`` right there, and what feeds its accumulator from outside is converted too. Every other float operation is
rounded around its f32 evaluation when `ops` is not fp32 (arithmetic.md sections 3 to 5).

Operations are numbered here, so that each stochastic rounding draws from a stream of its own: a multiply-add takes four
numbers (A, B, the start, the accumulator), another rounding one. What a reduction reads is rounded stochastically by an
operation of its own before it: once for every element, not once for every use. Formats with groups are converted in
the contraction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.numerics.formats import Conversion
from numc.numerics.groups import GroupConversion
from numc.numerics.policy.ops import Ops
from numc.numerics.policy.policy import Decision, Policy
from numc.numerics.policy.table import rows
from numc.passes import facts, linalg
from numc.passes.dialect import FmaOp, RoundOp, draws, rounded
from numc.passes.explicit.bias_first import start_from_biases
from numc.passes.explicit.layers_of import decide
from numc.passes.explicit.width_slots import Slots
from numc.support.errors import NumcError, quoted

FP32 = "fp32"


def explicit_arithmetic(module: ir.Operation, policy: Policy) -> None:
    """Write the FMA operators and the roundings that the policy chooses into the bodies of all linalg.generic.

    The decisions stay in the IR: `numc.layer` on operations, and on the module the table `numc.layers`.
    Raises NumcError for a policy that does not fit the model.
    """
    with module.context, ir.Location.unknown():
        decisions = start_from_biases(decide(module, policy))
    facts.put(module, "numc.layers", rows(decision for _, decision in decisions))
    for name in ("numc.nodes", "numc.roles"):
        facts.drop(module, name)
    with module.context, ir.Location.unknown():
        numbers, slots = count(), Slots()
        for op in linalg.operations(module):
            if op.name in ("numc.round", "numc.fma"):  # written by hand
                _number(op, next(numbers))
        for generic, decision in decisions:
            ops = decision.ops
            if decision.layer.computes:
                facts.put(generic, "numc.layer", _about(decision))
            if decision.bias == "last" and decision.layer.position is not None:
                _add_bias(generic, ops.format, numbers)
            for add in list(linalg.body(generic).operations):
                if not linalg.multiply_adds(add.operation):
                    continue
                if linalg.is_f32(add.operation.results[0]):
                    _contract(generic, add.operation, decision, numbers, slots)
                else:
                    _check_float64(generic, decision)
            summed = _round_sums(generic, ops, numbers)
            if not _is_identity(ops.format):
                for op in list(linalg.body(generic).operations):
                    if op.operation not in summed:
                        _round_around(op.operation, ops.format, numbers)
        slots.write(module)


def _about(decision: Decision) -> dict[str, object]:
    """The attribute `numc.layer`: name, kind and role; of a contraction its number, and whether it is swapped."""
    layer = decision.layer
    numbered = {} if layer.position is None else {"position": layer.position}
    swapped = {"swapped": True} if layer.swapped else {}
    return {"name": layer.name, "kind": layer.kind, "role": layer.role, **numbered, **swapped}


def _number(op: ir.Operation, number: int) -> None:
    """Give an operation that draws its number; the others need none."""
    if draws(op) and "number" not in op.attributes:
        op.attributes["number"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


def _check_float64(generic: ir.Operation, decision: Decision) -> None:
    """Refuse an operator for a contraction of float64, which is computed in float64."""
    if linalg.reduces(generic) and str(decision.fma) != FP32:
        raise NumcError(
            f"contraction {quoted(decision.layer.name)} multiplies float64, and '{decision.fma}' is an operator of "
            "float32: convert its operands to float32, or let a policy give it fp32, which computes it in float64"
        )


def _contract(
    generic: ir.Operation, add: ir.Operation, decision: Decision, numbers: Iterator[int], slots: Slots
) -> None:
    """Make an addition of a product a numc.fma."""
    fma = decision.fma
    multiply, addend = linalg.multiply_adds(add)[0]
    accumulates = linalg.accumulated(generic, addend) is not None
    number = [next(numbers) for _ in range(4)]
    operator = fma if accumulates else fma.step
    widths = slots.of(decision.layer, operator)
    factors = list(multiply.operands)
    with ir.InsertionPoint(add), add.location:
        a, b = (
            factor if _rounded_before(generic, factor, to, *which) else _round(factor, to, *which)
            for factor, to, which in zip(
                factors,
                (operator.a, operator.b),
                ((number[0], widths.get("a")), (number[1], widths.get("b"))),
                strict=True,
            )
        )
        c = addend if accumulates else _round(addend, operator.acc, number[2])
        made = FmaOp(ir.F32Type.get(), a, b, c, fma=ir.StringAttr.get(str(operator)))
        _number(made.operation, number[3])
        if widths:
            facts.put(made.operation, "widths", widths)
        result = made.result
    if accumulates:
        _round_init(generic, addend, fma.acc, number[2])
    linalg.replace(add, [result])
    multiply.erase()


def _add_bias(contraction: ir.Operation, ops: Conversion, numbers: Iterator[int]) -> None:
    """Let a contraction start from zero, and add what it started from to its result, as an operation of its own."""
    init = contraction.operands[linalg.input_count(contraction)]
    if linalg.is_zero(init):
        return
    tensor_type = ir.RankedTensorType(init.type)
    maps, parallel = [ir.AffineMap.get_identity(tensor_type.rank)], ["parallel"] * tensor_type.rank
    with contraction.location:
        with ir.InsertionPoint(contraction):
            zero = arith.ConstantOp(tensor_type.element_type, 0.0).result
            contraction.operands[linalg.input_count(contraction)] = linalg.filled(linalg.room(init, tensor_type), zero)
        result = contraction.results[0]
        with ir.InsertionPoint.after(contraction):
            total = linalg.generic(
                [result, init],
                linalg.room(init, tensor_type),
                maps * 3,
                parallel,
                lambda x, y, _: arith.AddFOp(x, y).result,
            )
        made = total.owner.operation
        result.replace_all_uses_except(total, made)
        if not _is_identity(ops):
            _round_around(linalg.body(made).operations[0].operation, ops, numbers)


# From another type to float32: `ops` rounds what they convert once.
_CONVERSIONS = frozenset(("arith.truncf", "arith.sitofp", "arith.uitofp"))


def _is_identity(to: Conversion) -> bool:
    """Whether a conversion changes no binary32 number."""
    return str(to) == FP32 or (to.noise is not None and str(to.settled) == FP32)


def _round(value: ir.Value, to: Conversion | GroupConversion, number: int, slot: int | None = None) -> ir.Value:
    # Groups lie along a reduction: their conversion is a part of the operator.
    if isinstance(to, GroupConversion) or _is_identity(to):
        return value
    return _made(value, to, number, slot)


def _made(value: ir.Value, to: Conversion, number: int, slot: int | None) -> ir.Value:
    """Append a rounding; slot: of its widths, if they are open."""
    rounded = RoundOp(ir.F32Type.get(), value, to=ir.StringAttr.get(str(to)))
    _number(rounded.operation, number)
    if slot is not None:
        facts.put(rounded.operation, "width", slot)
    result: ir.Value = rounded.result
    return result


def _rounded_before(
    generic: ir.Operation, factor: ir.Value, to: Conversion | GroupConversion, number: int, slot: int | None
) -> bool:
    """Round an input of a reduction stochastically, as a whole, before it; False where nothing asks for that."""
    if to.noise is None or isinstance(to, GroupConversion) or _is_identity(to):
        return False
    if not linalg.reduces(generic):
        return False
    if not isinstance(factor.owner, ir.Block) or linalg.uses(factor) != 1:
        return False
    index = ir.BlockArgument(factor).arg_number
    if index >= linalg.input_count(generic) or not isinstance(generic.operands[index].type, ir.RankedTensorType):
        return False
    with ir.InsertionPoint(generic), generic.location:
        factor = generic.operands[index]
        generic.operands[index] = _rounded(factor, to, number, slot, sizes=factor)
    return True


def _round_init(generic: ir.Operation, argument: ir.Value, to: Conversion, number: int) -> None:
    """Convert what a reduction starts from to the accumulator format, by a generic of its own before it."""
    if _is_identity(to):
        return
    index = ir.BlockArgument(argument).arg_number
    init = generic.operands[index]
    if linalg.is_zero(init):  # it is in every format
        return
    with ir.InsertionPoint(generic), generic.location:
        generic.operands[index] = _rounded(init, to, number)


def _round_sums(generic: ir.Operation, ops: Ops, numbers: Iterator[int]) -> list[ir.Operation]:
    """Give the sums of a reduction an accumulator of another format than what they add and their totals.

    Returns the additions, which are rounded then.
    """
    if ops.sums == ops.format or not linalg.reduces(generic):
        return []
    additions = []
    *_, last = linalg.body(generic).operations
    for position, stored in enumerate(last.operands):
        add = linalg.maker(stored)
        if add is None or add.name != "arith.addf" or not linalg.is_f32(stored):
            continue
        totals = [n for n, operand in enumerate(add.operands) if linalg.accumulated(generic, operand) == position]
        if len(totals) != 1:
            continue
        (running,) = totals
        with add.location:
            with ir.InsertionPoint(add):
                add.operands[1 - running] = _round(add.operands[1 - running], ops.format, next(numbers))
            _round_init(generic, add.operands[running], ops.sums, next(numbers))
            with ir.InsertionPoint(last):
                last.operands[position] = _round(stored, ops.sums, next(numbers))
        _round_result(generic, position, ops.format, next(numbers))
        additions.append(add)
    return additions


def _round_result(generic: ir.Operation, position: int, to: Conversion, number: int) -> None:
    """Round a result of a generic, by one of its own behind it."""
    if _is_identity(to):
        return
    result = generic.results[position]
    start = generic.operands[linalg.input_count(generic) + position]
    with ir.InsertionPoint.after(generic), generic.location:
        stored = _rounded(result, to, number, sizes=start)
    result.replace_all_uses_except(stored, stored.owner.operation)


def _rounded(
    value: ir.Value, to: Conversion, number: int, slot: int | None = None, *, sizes: ir.Value | None = None
) -> ir.Value:
    """A tensor rounded by a generic at the insertion point: in place, or in room like another of these sizes."""
    tensor_type = ir.RankedTensorType(value.type)

    def rounded(x: ir.Value, *_: ir.Value) -> ir.Value:
        return _made(x, to, number, slot)

    inputs, output = ([], value) if sizes is None else ([value], linalg.room(sizes, tensor_type))
    maps = [ir.AffineMap.get_identity(tensor_type.rank)] * (len(inputs) + 1)
    return linalg.generic(inputs, output, maps, ["parallel"] * tensor_type.rank, rounded)


def _round_around(op: ir.Operation, ops: Conversion, numbers: Iterator[int]) -> None:
    """Round the operands and the result of one float operation to `ops`."""
    if not linalg.computes(op):
        return
    if op.name in _CONVERSIONS:
        with ir.InsertionPoint(op), op.location:
            made = rounded(op.operands[0], ops, unsigned=op.name == "arith.uitofp")
            _number(made.owner.operation, next(numbers))
        linalg.replace(op, [made])
        return
    with op.location:
        with ir.InsertionPoint(op):
            for n, operand in enumerate(op.operands):
                if linalg.is_f32(operand) and not _is_rounded(operand, ops):
                    op.operands[n] = _round(operand, ops, next(numbers))
        with ir.InsertionPoint.after(op):
            stored = RoundOp(ir.F32Type.get(), op.results[0], to=ir.StringAttr.get(str(ops)))
            _number(stored.operation, next(numbers))
        op.results[0].replace_all_uses_except(stored.result, stored.operation)


def _is_rounded(value: ir.Value, ops: Conversion) -> bool:
    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name == "numc.round"
        and ir.StringAttr(owner.attributes["to"]).value == str(ops)
    )


def check_arithmetic(module: ir.Operation) -> None:
    """Prove that no multiply-add escaped its operator.

    Raises AssertionError naming the first that did.
    """
    if left := escaped(module):
        raise AssertionError(f"a multiply-add has no operator: {left[0]}")


def escaped(module: ir.Operation) -> list[str]:
    """Return the locations of float multiply-adds that have no operator; empty after this pass (the legality check)."""
    adds = [op for op in linalg.operations(module, "arith.addf") if linalg.is_f32(op.results[0])]
    return [str(add.location) for add in adds for _ in linalg.multiply_adds(add)]
