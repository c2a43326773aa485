"""Elementwise loops over whole dense buffers become loops over vectors of any length: all shapes have one function."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from torch_mlir import ir

from numc.passes.buffers.loop_nest import ONE, ZERO, Loop, Nest, Size, Symbol


def flat(nest: Nest, before: ir.Operation) -> Nest:
    """Return a nest that is one loop through all of its operands on views of these that say no size.

    The views are made before an operation. Any other nest is returned as it is.
    """
    if not _is_flat(nest):
        return nest
    (loop,) = nest.parallel
    along = [stride == ONE for stride in loop.strides]
    with ir.InsertionPoint(before), before.location:
        operands = [_flat(v) if is_along else v for v, is_along in zip(nest.operands, along, strict=True)]
    count = Size(1, (Symbol("size", along.index(True), 0),))
    types = [v.type for v in operands]
    return replace(nest, operands=operands, types=types, parallel=[Loop(count, loop.strides, None)])


def _is_flat(nest: Nest) -> bool:
    """Whether a nest is one loop, of a size that is known, through all of dense operands, and through no other.

    Elementary functions have code for vectors and for what is left over: a size that is known needs less of it.
    """
    if len(nest.parallel) > 1 or nest.reductions or nest.lookups or nest.indices or nest.rows or any(nest.starts):
        return False
    if nest.has_functions:
        return False
    (loop,) = nest.parallel
    return ONE in loop.strides and all(
        stride == ZERO
        or (stride == ONE and _is_dense(operand_type) and loop.count == Size(prod(ir.MemRefType(operand_type).shape)))
        for operand_type, stride in zip(nest.types, loop.strides, strict=True)
    )


def _is_dense(kind: ir.Type) -> bool:
    return isinstance(kind, ir.MemRefType) and kind.has_static_shape and kind.layout == _identity(kind.rank)


def _identity(rank: int) -> ir.Attribute:
    return ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))


def _flat(value: ir.Value) -> ir.Value:
    """A dense buffer as a vector that does not say how long it is."""
    buffer_type = value.type
    if buffer_type.rank > 1:
        size = prod(buffer_type.shape)
        groups = ir.ArrayAttr.get([ir.ArrayAttr.get([_i64(n) for n in range(buffer_type.rank)])])
        flat_type = ir.MemRefType.get([size], buffer_type.element_type, memory_space=buffer_type.memory_space)
        value = ir.Operation.create(
            "memref.collapse_shape", results=[flat_type], operands=[value], attributes={"reassociation": groups}
        ).result
    dynamic = ir.ShapedType.get_dynamic_size()
    free = ir.MemRefType.get([dynamic], buffer_type.element_type, memory_space=buffer_type.memory_space)
    return ir.Operation.create("memref.cast", results=[free], operands=[value]).result


def _i64(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
