"""Marks of transposed convolutions: the zeros between and around their elements are none of the model's.

A transposed convolution, or the gradient of a convolution's input, becomes a convolution of a larger image, most of
which is zeros. No product with them exists in the model, so that a weight that is infinite makes no NaN of them. Which
zeros these are is known here; passes/tensors/products/inserted_zeros.py sees to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import tensor

from numc.frontends.lowering.tensor_code import sizes_of
from numc.passes import linalg
from numc.passes.tensors.products.inserted_zeros import INSERTED

_SHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")


def copy_inserted(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Write the operator `inserted` as a copy with a mark, which looks like any other reading to torch-mlir."""
    (value,) = operands
    sizes = sizes_of(value)
    empty = tensor.EmptyOp(sizes, ir.RankedTensorType(kind).element_type).result

    def body(_: ir.Value) -> ir.Value:
        return tensor.ExtractOp(value, [_index(dim) for dim in range(len(sizes))]).result

    maps = [ir.AffineMap.get_identity(len(sizes))]
    copy = linalg.generic([], empty, maps, ["parallel"] * len(sizes), body)
    copy.owner.attributes[INSERTED] = ir.UnitAttr.get()
    return copy


def _index(dim: int) -> ir.Value:
    attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes=attributes).result


def mark_inserted(module: ir.Module) -> None:
    """Mark the convolutions of images with zeros that are none of the model's."""
    for copy in list(linalg.operations(module.operation, "linalg.generic")):
        if INSERTED in copy.attributes:
            for convolution in _convolutions_of(copy.results[0]):
                convolution.attributes[INSERTED] = ir.UnitAttr.get()
            read = next(op for op in linalg.operations(copy, "tensor.extract"))
            linalg.replace(copy, [read.operands[0]])
    for op in linalg.operations(module.operation):
        if _is_convolution(op) and _is_transposed(op):
            op.attributes[INSERTED] = ir.UnitAttr.get()


def _is_convolution(op: ir.Operation) -> bool:
    """Whether an operation is a convolution; those of volumes in groups have no name."""
    if op.name == "linalg.generic":
        return (
            linalg.input_count(op) == 2 and linalg.reduces(op) and any(map(linalg.multiply_adds, linalg.operations(op)))
        )
    return op.name.startswith(("linalg.conv_", "linalg.depthwise_conv_"))


def _convolutions_of(value: ir.Value) -> list[ir.Operation]:
    """The convolutions of an image, whose dimensions may be split and whose elements may be widened on the way."""
    convolutions = []
    for use in value.uses:
        user = use.owner.operation
        if _is_convolution(user):
            convolutions += [user] if use.operand_number == 0 else []
        elif user.name in _SHAPES or (user.name == "linalg.generic" and not linalg.reduces(user)):
            convolutions += _convolutions_of(user.results[0])
    return convolutions


def _is_transposed(convolution: ir.Operation) -> bool:
    """Whether a convolution is what torch-mlir makes of a transposed one: its image is inserted into zeros.

    Both are of one operation of the model, and have its location. Padding is another operation, tensor.pad.
    """
    made = linalg.maker(convolution.operands[0])
    while made is not None and made.name in _SHAPES:
        made = linalg.maker(made.operands[0])
    if made is None or made.name != "tensor.insert_slice" or made.location != convolution.location:
        return False
    into = linalg.maker(made.operands[1])
    return into is not None and linalg.fills_zero(into)
