"""Contractions that start from their bias: `bias = first` of a policy, where the model adds it to the result.

ONNX's Gemm and MatMul with Add, and PyTorch's Linear and addmm, add their bias by an operation of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from numc.numerics.policy.policy import BIASES, Decision
from numc.passes import linalg

Decided = tuple[ir.Operation, Decision]


def start_from_biases(decisions: Sequence[Decided]) -> list[Decided]:
    """Move what is added to the result of a contraction into its start, where the policy says so.

    Returns the decisions without those of the additions, which are gone.
    """
    gone = set()
    for contraction, decision in decisions:
        if decision.bias != BIASES[0] or decision.layer.position is None:
            continue
        addition = _addition(contraction)
        if addition is None:
            continue
        at = next(n for n, (op, _) in enumerate(decisions) if op == addition[0])
        if decisions[at][1].layer.name == decision.layer.name or _is_broadcast(*addition):
            _moved(contraction, *addition)
            gone.add(at)
    return [each for n, each in enumerate(decisions) if n not in gone]


def _addition(contraction: ir.Operation) -> tuple[ir.Operation, int] | None:
    """The addition whose only other operand the result of a contraction is, and the number of what it adds to it."""
    result = contraction.results[0]
    init = contraction.operands[linalg.input_count(contraction)]
    if len(contraction.results) != 1 or not linalg.is_zero(init) or linalg.uses(result) != 1:
        return None
    add = next(iter(result.uses)).owner.operation
    if add.name != "linalg.generic" or linalg.reduces(add) or linalg.input_count(add) != 2:
        return None
    operations = [op.operation for op in linalg.body(add).operations]
    arguments = list(linalg.body(add).arguments)
    sums = [op.name for op in operations] == ["arith.addf", "linalg.yield"]
    if not sums or set(operations[0].operands) != set(arguments[:2]) or not linalg.is_f32(operations[0].results[0]):
        return None
    position = list(add.operands).index(result)
    maps = linalg.indexing_maps(add)
    identity = ir.AffineMap.get_identity(maps[-1].n_dims)
    if position > 1 or maps[position] != identity or maps[-1] != identity:
        return None
    other = 1 - position
    return (add, other) if _is_before(add.operands[other], contraction) else None


def _is_before(value: ir.Value, op: ir.Operation) -> bool:
    """Whether a value is there when an operation of a block begins."""
    maker = linalg.maker(value)
    return maker is None or (maker.block == op.block and maker.is_before_in_block(op))


def _is_broadcast(add: ir.Operation, other: int) -> bool:
    """Whether an operand is the same for some places of the result: a bias, and no other result of a network."""
    return len(linalg.indexing_maps(add)[other].results) < len(linalg.iterator_types(add))


def _moved(contraction: ir.Operation, add: ir.Operation, other: int) -> None:
    at = linalg.input_count(contraction)
    init, bias, maps = contraction.operands[at], add.operands[other], linalg.indexing_maps(add)
    result = ir.RankedTensorType(init.type)
    with ir.InsertionPoint(contraction), contraction.location:
        room, kinds = linalg.room(init, result), ["parallel"] * result.rank
        contraction.operands[at] = linalg.generic([bias], room, [maps[other], maps[-1]], kinds, lambda x, _: x)
    linalg.replace(add, [contraction.results[0]])
