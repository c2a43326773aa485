"""tidy-conversions: drop roundings that change nothing, and move those of weights to compile time.

A conversion is idempotent, so one whose operand is in the format already is the identity; a weight whose every use is
the same conversion can be converted once, when the program is written (arithmetic.md section 6), unless that conversion
varies: each execution draws anew, and chooses the widths that are open.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.passes import facts, linalg
from numc.passes.dialect import fma_of, slot_of, varies

# Operations on a single float operand that return one of the values they were given.
_KEEPING = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.select")
_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice")


def tidy_conversions(module: ir.Operation) -> None:
    """Drop roundings that change nothing, and move those of weights to compile time.

    `numc.conversion` of an argument is the format that its data must be converted to when a program is written.
    """
    with module.context:
        for op in linalg.operations(module, "numc.round"):
            if not linalg.is_f32(op.operands[0]):
                continue
            if slot_of(op) is None and _is_in(op.operands[0], ir.StringAttr(op.attributes["to"]).value, 0):
                linalg.replace(op, op.operands)
        weights = facts.of_arguments(module, "numc.weight")
        if weights:
            done = facts.of_arguments(module, "numc.conversion")
            facts.put_arguments(module, "numc.conversion", done | _weights(module, sorted(weights)))


def _is_in(value: ir.Value, to: str, depth: int) -> bool:
    """Whether `value` is known to be in the format `to`, looking through bodies and tensors."""
    if depth > 8:
        return False
    if isinstance(value.owner, ir.Block):
        generic = value.owner.owner
        if generic.name != "linalg.generic":
            return False
        argument = ir.BlockArgument(value).arg_number
        return argument < linalg.input_count(generic.operation) and tensor_is_in(
            generic.operands[argument], to, depth + 1
        )
    owner = value.owner
    if owner.name == "numc.round":
        return bool(ir.StringAttr(owner.attributes["to"]).value == to)
    if owner.name == "numc.fma":
        return str(fma_of(owner).acc) == to
    if owner.name == "arith.constant":
        return linalg.is_zero(value)
    if owner.name == "arith.extf":
        narrow = NARROW_ELEMENTS.get(str(owner.operands[0].type))
        return narrow is not None and str(narrow.stored) == to
    if owner.name in _KEEPING:
        return all(_is_in(v, to, depth + 1) for v in owner.operands if linalg.is_f32(v))
    return False


def tensor_is_in(value: ir.Value, to: str, depth: int = 0) -> bool:
    """Whether the elements of a tensor are known to be in the format `to`; depth: how far this looked already."""
    if isinstance(value.owner, ir.Block):
        return False
    owner = value.owner
    if owner.name in _VIEWS:
        return tensor_is_in(owner.operands[0], to, depth + 1)
    if owner.name != "linalg.generic":
        return False
    # A reduction yields its accumulator unchanged when there is nothing to reduce: its start must be in the format too,
    # which explicit-arithmetic saw to.
    number = ir.OpResult(value).result_number
    block = linalg.body(owner.operation if hasattr(owner, "operation") else owner)
    return _is_in(list(block.operations)[-1].operands[number], to, depth + 1)


def _weights(module: ir.Operation, weights: list[int]) -> dict[int, str]:
    """The arguments whose every use is one conversion, which is dropped, and this conversion."""
    block = linalg.main(module).regions[0].blocks[0]
    conversions: dict[int, str] = {}
    for index in weights:
        roundings = _roundings(block.arguments[index])
        if (
            roundings
            and not any(map(varies, roundings))
            and len({ir.StringAttr(op.attributes["to"]).value for op in roundings}) == 1
        ):
            conversions[index] = ir.StringAttr(roundings[0].attributes["to"]).value
            for op in roundings:
                linalg.replace(op, op.operands)
    return conversions


def _roundings(tensor: ir.Value) -> list[ir.Operation] | None:
    """All the roundings a tensor's elements go into, or None if an element is used in any other way."""
    roundings: list[ir.Operation] = []
    for use in tensor.uses:
        owner = use.owner
        if owner.name in _VIEWS:
            inner = _roundings(owner.results[0])
        elif owner.name == "linalg.generic" and use.operand_number < linalg.input_count(owner.operation):
            inner = _body_roundings(owner.operation, use.operand_number)
        else:
            inner = None
        if inner is None:
            return None
        roundings += inner
    return roundings


def _body_roundings(generic: ir.Operation, operand: int) -> list[ir.Operation] | None:
    argument = linalg.body(generic).arguments[operand]
    roundings: list[ir.Operation] = []
    for use in argument.uses:
        if use.owner.name == "numc.round" and linalg.is_f32(argument):
            roundings.append(use.owner.operation)
        elif use.owner.name == "linalg.yield":
            inner = _roundings(generic.results[use.operand_number])
            if inner is None:
                return None
            roundings += inner
        else:
            return None
    return roundings
