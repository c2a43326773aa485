"""Elementwise operations on a reshaped tensor as operations on the tensor before, whose result is reshaped instead.

A linear layer works on a matrix, and what follows it on more dimensions: without the reshape between them they are one
loop.
"""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import tensor

from numc.passes import linalg
from numc.passes.dialect import varies

Groups = list[list[int]]
"""The dimensions that become one, for each dimension of a collapsed tensor."""


def collapsed(generic: ir.Operation, reshape: ir.Operation) -> ir.Operation | None:
    """An elementwise `generic` that reads the result of `reshape`, a tensor.expand_shape, on what that expands.

    Returns what takes its place. None if another operand does not allow it, or if the body asks where an element is.
    """
    result_type = ir.RankedTensorType(generic.results[0].type)
    groups = _groups(reshape)
    inputs, maps = linalg.input_count(generic), linalg.indexing_maps(generic)
    types = [v.type for v in generic.operands if isinstance(v.type, ir.RankedTensorType)]
    static = all(each.has_static_shape for each in types)
    if (
        not static or not groups or maps[inputs] != ir.AffineMap.get_identity(result_type.rank)
    ):  # a number has no groups
        return None
    if any(op.name in ("linalg.index", "tensor.extract") or varies(op) for op in linalg.operations(generic)):
        return None
    if not linalg.is_unused(linalg.body(generic).arguments[inputs]):
        return None
    parts = [_collapsed_map(m, groups) for m in maps[:inputs]]
    new_maps, of_operands = [p[0] for p in parts if p is not None], [p[1] for p in parts if p is not None]
    if len(new_maps) != inputs:
        return None
    shape = [math.prod(result_type.shape[d] for d in group) for group in groups]
    with ir.InsertionPoint(generic), generic.location:
        operands = [_collapse(v, g) for v, g in zip(generic.operands, of_operands, strict=False)]
        empty = tensor.EmptyOp(shape, result_type.element_type).result
        new = linalg.with_operands(
            generic,
            [*operands, empty],
            [*new_maps, ir.AffineMap.get_identity(len(groups))],
            empty.type,
            ["parallel"] * len(groups),
        )
        expanded = tensor.ExpandShapeOp(result_type, new.results[0], groups, [], list(result_type.shape)).result
    for use in list(generic.results[0].uses):
        user = use.owner.operation
        if user.name == "tensor.collapse_shape" and _groups(user) == groups:
            linalg.replace(user, new.results)
    linalg.replace(generic, [expanded])
    if linalg.is_unused(expanded):
        expanded.owner.erase()
    return new


def _groups(reshape: ir.Operation) -> Groups:
    groups = ir.ArrayAttr(reshape.attributes["reassociation"])
    return [[int(ir.IntegerAttr(d).value) for d in ir.ArrayAttr(group)] for group in groups]


def _collapsed_map(map_: ir.AffineMap, groups: Groups) -> tuple[ir.AffineMap, Groups] | None:
    """The reading of an operand by collapsed loops, and which of its dimensions become one.

    None if it has some but not all dimensions of a group, or others between them.
    """
    of = {d: n for n, group in enumerate(groups) for d in group}
    results = list(map_.results)
    exprs: list[ir.AffineExpr] = []
    own: Groups = []
    position = 0
    while position < len(results):
        expr, count = results[position], 1
        if isinstance(expr, ir.AffineDimExpr):
            group = groups[of[expr.position]]
            count = len(group)
            if results[position : position + count] != [ir.AffineDimExpr.get(d) for d in group]:
                return None
            expr = ir.AffineDimExpr.get(of[expr.position])
        elif not isinstance(expr, ir.AffineConstantExpr):
            return None
        exprs.append(expr)
        own.append(list(range(position, position + count)))
        position += count
    return ir.AffineMap.get(len(groups), 0, exprs), own


def _collapse(value: ir.Value, groups: Groups) -> ir.Value:
    """A tensor with these dimensions joined; what was expanded alike before is taken instead."""
    if all(len(group) == 1 for group in groups):
        return value
    maker = linalg.maker(value)
    if maker is not None and maker.name == "tensor.expand_shape" and _groups(maker) == groups:
        return maker.operands[0]
    tensor_type = ir.RankedTensorType(value.type)
    shape = [math.prod(tensor_type.shape[d] for d in group) for group in groups]
    return tensor.CollapseShapeOp(ir.RankedTensorType.get(shape, tensor_type.element_type), value, groups).result
