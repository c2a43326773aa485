"""permuted-results: a contraction writes its result in the order in which its only reader, a permuting copy, wants it.

Gradients of the weights of convolutions are computed by convolutions whose results have the channels exchanged.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import linalg
from numc.passes.dialect import draws


def permuted_results(module: ir.Operation) -> None:
    """Let contractions write what is copied in another order where the copy would be.

    Those that draw random bits do so by the places of their results, which have to stay.
    """
    with module.context, ir.Location.unknown():
        for generic in list(linalg.operations(module, "linalg.generic")):
            if not linalg.contracts(generic) or any(map(draws, linalg.operations(generic))):
                continue
            copy = _permuting_copy(generic)
            number = linalg.filled_with(generic.operands[linalg.input_count(generic)])
            if copy is not None and number is not None:
                _write_as(generic, copy, number)


def _permuting_copy(contraction: ir.Operation) -> ir.Operation | None:
    """The operation that alone reads the result of a contraction, and only copies it in another order."""
    if len(contraction.results) != 1 or linalg.uses(contraction.results[0]) != 1:
        return None
    (use,) = contraction.results[0].uses
    copy: ir.Operation = use.owner.operation
    if copy.name != "linalg.generic" or use.operand_number != 0 or len(copy.operands) != 2:
        return None
    ops, arguments = list(linalg.body(copy).operations), linalg.body(copy).arguments
    only_copies = len(ops) == 1 and ops[0].operands[0] == arguments[0]
    is_whole = copy.block == contraction.block and all(m.is_permutation for m in linalg.indexing_maps(copy))
    return copy if only_copies and is_whole and ir.RankedTensorType(copy.results[0].type).has_static_shape else None


def _write_as(contraction: ir.Operation, copy: ir.Operation, number: str) -> None:
    """Replace both by a contraction with the copy's result, whose accumulators begin with `number`."""
    inputs, result_type = linalg.input_count(contraction), ir.RankedTensorType(copy.results[0].type)
    reads, writes = ([ir.AffineDimExpr(e).position for e in m.results] for m in linalg.indexing_maps(copy))
    *maps, old = linalg.indexing_maps(contraction)
    to = ir.AffineMap.get(old.n_dims, 0, [old.results[reads.index(loop)] for loop in writes])
    with ir.InsertionPoint(contraction), contraction.location:
        start = arith.ConstantOp(result_type.element_type, ir.Attribute.parse(number)).result
        empty = tensor.EmptyOp(result_type.shape, result_type.element_type).result
        to_fill = [ir.AffineMap.get(result_type.rank, 0, []), ir.AffineMap.get_identity(result_type.rank)]
        filled = linalg.generic([start], empty, to_fill, ["parallel"] * result_type.rank, lambda value, _: value)
    new = linalg.with_operands(contraction, [*list(contraction.operands)[:inputs], filled], [*maps, to], result_type)
    for name in contraction.attributes:
        if name not in new.attributes:
            new.attributes[name] = contraction.attributes[name]
    linalg.replace(copy, new.results)
    contraction.erase()
