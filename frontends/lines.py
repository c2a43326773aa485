"""Convolutions of lines in groups, as convolutions of images that are one line high.

torch-mlir makes images of them, too, but adds the missing dimension behind the line: there would be one element in the
last dimension, along which kernels read vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch_mlir import ir

from numc.frontends.reshapes import builtin_type
from numc.passes import linalg

# The operands of torch.aten.convolution that have a number for each dimension of the image, and what that is for the
# height of a line: stride, padding, dilation, padding of the output.
_LISTS = {3: 1, 4: 0, 5: 1, 7: 0}
_IMAGE, _WEIGHT, _GROUPS, _HEIGHT = 0, 1, 8, 2


def lift_lines(module: ir.Module) -> None:
    """Replace every convolution of several groups in one dimension by one in two."""
    for op in list(linalg.operations(module.operation, "torch.aten.convolution")):
        kinds = [builtin_type(value.type) for value in (op.operands[_IMAGE], op.operands[_WEIGHT], op.results[0])]
        if any(kind is None or kind.rank != 3 for kind in kinds) or _is_one(op.operands[_GROUPS]):
            continue
        if all(op.operands[n].owner.name == "torch.prim.ListConstruct" for n in _LISTS):
            with ir.InsertionPoint(op), op.location:
                _lift(op)


def _lift(op: ir.Operation) -> None:
    operands = list(op.operands)
    height = _integer(_HEIGHT)
    for n in (_IMAGE, _WEIGHT):
        operands[n] = _create("torch.aten.unsqueeze", _image(operands[n].type), [operands[n], height])
    for n, number in _LISTS.items():
        both = [_integer(number), *operands[n].owner.operands]
        operands[n] = _create("torch.prim.ListConstruct", operands[n].type, both)
    found = _create("torch.aten.convolution", _image(op.results[0].type), operands)
    op.results[0].replace_all_uses_with(_create("torch.aten.squeeze.dim", op.results[0].type, [found, height]))
    op.erase()


def _is_one(value: ir.Value) -> bool:
    made = linalg.maker(value)
    return (
        made is not None and made.name == "torch.constant.int" and ir.IntegerAttr(made.attributes["value"]).value == 1
    )


def _image(line: ir.Type) -> ir.Type:
    """The type of an image that is such a line."""
    return ir.Type.parse(re.sub(r"\[([^,]*,[^,]*),", r"[\1,1,", str(line)), line.context)


def _create(name: str, result: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    return ir.Operation.create(name, results=[result], operands=operands).results[0]


def _integer(number: int) -> ir.Value:
    value = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    kind = ir.Type.parse("!torch.int")
    return ir.Operation.create("torch.constant.int", results=[kind], attributes={"value": value}).results[0]
