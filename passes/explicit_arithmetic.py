"""explicit-arithmetic: write every FMA operator and every rounding of the model into the IR.

A multiply whose single use is an add in the same linalg body becomes ``numc.fma``; its operands are converted by
``numc.round`` right there, and what feeds its accumulator from outside is converted too. Every other float operation is
rounded around its f32 evaluation when `ops` is not fp32 (arithmetic.md sections 3 to 5).
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from numc.compiler.dialect import FmaOp, RoundOp
from numc.compiler.fma import Fma
from numc.compiler.formats import Conversion
from numc.passes import walk

FP32 = "fp32"


def explicit_arithmetic(module: ir.Operation, choose: Callable[[ir.Operation], tuple[Fma, Conversion]]) -> None:
    """Rewrite all linalg.generic bodies of `module` in place, each in the operator and the format that it is given."""
    with module.context, ir.Location.unknown():
        for generic in walk.operations(module, "linalg.generic"):
            fma, ops = choose(generic)
            for add in list(walk.body(generic).operations):
                if add.operation.name == "arith.addf" and walk.is_f32(add.operation.results[0]):
                    _contract(generic, add.operation, fma)
            if str(ops) != FP32:
                for op in list(walk.body(generic).operations):
                    _round_around(op.operation, ops)


def _contract(generic: ir.Operation, add: ir.Operation, fma: Fma) -> None:
    for n in (0, 1):
        product, addend = add.operands[n], add.operands[1 - n]
        if isinstance(product.owner, ir.Block) or product.owner.name != "arith.mulf" or walk.uses(product) != 1:
            continue
        multiply = product.owner
        accumulates = _is_accumulator(generic, addend)
        with ir.InsertionPoint(add), add.location:
            a = _round(multiply.operands[0], fma.a)
            b = _round(multiply.operands[1], fma.b)
            c = addend if accumulates else _round(addend, fma.acc)
            operator = fma if accumulates else fma.step
            result = FmaOp(ir.F32Type.get(), a, b, c, fma=ir.StringAttr.get(str(operator))).result
        if accumulates:
            _round_init(generic, addend, fma.acc)
        add.results[0].replace_all_uses_with(result)
        add.erase()
        multiply.erase()
        return


def _round(value: ir.Value, to: Conversion) -> ir.Value:
    if str(to) == FP32:
        return value
    return RoundOp(ir.F32Type.get(), value, to=ir.StringAttr.get(str(to))).result


def _is_accumulator(generic: ir.Operation, value: ir.Value) -> bool:
    """Whether `value` is the running value of a reduction: an outs argument of a body that reduces."""
    if not isinstance(value.owner, ir.Block) or "reduction" not in walk.iterator_types(generic):
        return False
    return bool(ir.BlockArgument(value).arg_number >= walk.input_count(generic))


def _round_init(generic: ir.Operation, argument: ir.Value, to: Conversion) -> None:
    """Convert what a reduction starts from to the accumulator format, by a generic of its own before it."""
    if str(to) == FP32:
        return
    index = ir.BlockArgument(argument).arg_number
    init = generic.operands[index]
    if walk.filled_with(init) == "0.000000e+00 : f32":  # +0 is in every format
        return
    rank = ir.RankedTensorType(init.type).rank
    identity = ir.AffineMap.get_identity(rank)
    with ir.InsertionPoint(generic), generic.location:
        text = f"""func.func private @f(%x: {init.type}) -> {init.type} {{
          %r = linalg.generic {{indexing_maps = [affine_map<{identity}>],
              iterator_types = [{", ".join(['"parallel"'] * rank)}]}}
              outs(%x : {init.type}) {{
          ^bb0(%v: f32):
            %y = "numc.round"(%v) {{to = "{to}"}} : (f32) -> f32
            linalg.yield %y : f32
          }} -> {init.type}
          return %r : {init.type}
        }}"""
        source = ir.Module.parse(text)
        clone = source.body.operations[0].regions[0].blocks[0].operations[0].operation.clone()
    clone.operands[0] = init
    generic.operands[index] = clone.results[0]


def _round_around(op: ir.Operation, ops: Conversion) -> None:
    """Round the operands and the result of one float operation to `ops`."""
    if op.name.split(".")[0] not in ("arith", "math") or op.name in ("arith.constant", "arith.select"):
        return
    if len(op.results) != 1 or not walk.is_f32(op.results[0]):
        return
    with op.location:
        with ir.InsertionPoint(op):
            for n, operand in enumerate(op.operands):
                if walk.is_f32(operand) and not _is_rounded(operand, ops):
                    op.operands[n] = _round(operand, ops)
        block = op.block
        following = list(block.operations)
        position = next(n for n, other in enumerate(following) if other.operation == op)
        with ir.InsertionPoint(following[position + 1]):
            rounded = RoundOp(ir.F32Type.get(), op.results[0], to=ir.StringAttr.get(str(ops)))
        op.results[0].replace_all_uses_except(rounded.result, rounded.operation)


def _is_rounded(value: ir.Value, ops: Conversion) -> bool:
    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name == "numc.round"
        and ir.StringAttr(owner.attributes["to"]).value == str(ops)
    )


def escaped(module: ir.Operation) -> list[str]:
    """Return the locations of float multiply-adds that have no operator; empty after this pass (the legality check)."""
    found = []
    for add in walk.operations(module, "arith.addf"):
        for operand in add.operands:
            if (
                not isinstance(operand.owner, ir.Block)
                and operand.owner.name == "arith.mulf"
                and walk.uses(operand) == 1
            ):
                found.append(str(add.location))
    return found
