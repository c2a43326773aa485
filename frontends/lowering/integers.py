"""Operations on integers that torch-mlir would compute by way of float32, which has not all of their values."""

from __future__ import annotations

from torch_mlir import ir

from numc.frontends.lowering.reshapes import builtin_type
from numc.passes import linalg


def multiply_negations(module: ir.Module) -> None:
    """Replace every aten.neg of integers by a product with -1."""
    for op in list(linalg.operations(module.operation, "torch.aten.neg")):
        tensor_type = builtin_type(op.results[0].type)
        if tensor_type is None or not isinstance(tensor_type.element_type, ir.IntegerType):
            continue
        width = tensor_type.element_type.width
        sign = "ui" if ",ui" in str(op.results[0].type) else "si"
        minus = 2**width - 1 if sign == "ui" else -1
        with ir.InsertionPoint(op), op.location:
            factor = ir.Operation.create(
                "torch.vtensor.literal",
                results=[ir.Type.parse(f"!torch.vtensor<[],{sign}{width}>")],
                attributes={"value": ir.Attribute.parse(f"dense<{minus}> : tensor<{sign}{width}>")},
            )
            product = ir.Operation.create(
                "torch.aten.mul.Tensor", results=[op.results[0].type], operands=[op.operands[0], factor.results[0]]
            )
        op.results[0].replace_all_uses_with(product.results[0])
        op.erase()
