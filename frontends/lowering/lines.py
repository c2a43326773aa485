"""Convolutions of lines in groups, as convolutions of images that are one line high.

torch-mlir makes images of them, too, but adds the missing dimension behind the line: there would be one element in the
last dimension, along which kernels read vectors.
"""

from __future__ import annotations

import re

from torch_mlir import ir

from numc.frontends.lowering.reshapes import builtin_type, create, torch_constant, torch_integer
from numc.passes import linalg

# The operands of torch.aten.convolution that have a number for each dimension of the image, and what that is for the
# height of a line: stride, padding, dilation, padding of the output.
_LISTS = {3: 1, 4: 0, 5: 1, 7: 0}
_IMAGE, _WEIGHT, _GROUPS, _HEIGHT = 0, 1, 8, 2


def lift_lines(module: ir.Module) -> None:
    """Replace every convolution of several groups in one dimension by one in two."""
    for op in list(linalg.operations(module.operation, "torch.aten.convolution")):
        tensor_types = [
            builtin_type(value.type) for value in (op.operands[_IMAGE], op.operands[_WEIGHT], op.results[0])
        ]
        if (
            any(tensor_type is None or tensor_type.rank != 3 for tensor_type in tensor_types)
            or torch_integer(op.operands[_GROUPS]) == 1
        ):
            continue
        if all(op.operands[n].owner.name == "torch.prim.ListConstruct" for n in _LISTS):
            with ir.InsertionPoint(op), op.location:
                _lift(op)


def _lift(op: ir.Operation) -> None:
    operands = list(op.operands)
    height = torch_constant(_HEIGHT)
    for n in (_IMAGE, _WEIGHT):
        operands[n] = create("torch.aten.unsqueeze", _image(operands[n].type), operands[n], height)
    for n, number in _LISTS.items():
        both = torch_constant(number), *operands[n].owner.operands
        operands[n] = create("torch.prim.ListConstruct", operands[n].type, *both)
    convolution = create("torch.aten.convolution", _image(op.results[0].type), *operands)
    op.results[0].replace_all_uses_with(create("torch.aten.squeeze.dim", op.results[0].type, convolution, height))
    op.erase()


def _image(line: ir.Type) -> ir.Type:
    """The type of an image that is such a line."""
    return ir.Type.parse(re.sub(r"\[([^,]*,[^,]*),", r"[\1,1,", str(line)), line.context)
