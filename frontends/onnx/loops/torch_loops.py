"""Loops of ONNX in torch-mlir as those of torch: its own lowering takes no condition. Runs in the worker."""

from __future__ import annotations

from torch_mlir import ir

from numc.frontends.lowering.reshapes import create
from numc.frontends.lowering.torch_mlir_passes import operations

_ALWAYS = 2**63 - 1
"""The number of steps of a loop that a condition ends."""


def loops_by_torch(module: ir.Module) -> None:
    """Replace every Loop that write_loops.py has written, in place."""
    with module.context:
        for op in operations(module):
            if op.name == "torch.operator" and ir.StringAttr(op.attributes["name"]).value == "onnx.Loop":
                _replace(op)


def _replace(op: ir.Operation) -> None:
    count, condition, *starts = op.operands
    inner = op.regions[0].blocks[0]
    integer, boolean, none = (ir.Type.parse(f"!torch.{name}") for name in ("int", "bool", "none"))
    is_counted = condition.type == none
    with ir.InsertionPoint(op), op.location:
        steps = create("torch.aten.Int.Tensor", integer, count) if is_counted else _constant("int", _ALWAYS)
        first = _constant("bool", True) if is_counted else create("torch.aten.Bool.Tensor", boolean, _held(condition))
        types = [argument.type for argument in list(inner.arguments)[2:]]
        loop = ir.Operation.create(
            "torch.prim.Loop",
            results=types,
            operands=[steps, first, *map(_cast, starts, types)],
            regions=1,
        )
        block = loop.regions[0].blocks.append(integer, *types, arg_locs=[op.location] * (1 + len(types)))
    with ir.InsertionPoint(block), op.location:
        number = create("torch.prim.NumToTensor.Scalar", inner.arguments[0].type, block.arguments[0])
    for was, now in zip(inner.arguments, (number, None, *list(block.arguments)[1:]), strict=True):
        if now is not None:
            was.replace_all_uses_with(now)
    *body, end = [each.operation for each in inner.operations]
    for each in body:
        block.append(each)
    goes_on, *states = end.operands
    with ir.InsertionPoint(block), op.location:
        following = _constant("bool", True) if is_counted else create("torch.aten.Bool.Tensor", boolean, goes_on)
        ir.Operation.create("torch.prim.Loop.condition", operands=[following, *map(_cast, states, types)])
    with ir.InsertionPoint(op), op.location:
        results = [_cast(now, was.type) for was, now in zip(op.results, loop.results, strict=True)]
    for was, now in zip(op.results, results, strict=True):
        was.replace_all_uses_with(now)
    op.erase()


def _held(condition: ir.Value) -> ir.Value:
    """The condition, which must not become a constant: torch-mlir asks no more in a loop that begins for sure."""
    name = ir.StringAttr.get("torch.numc.held")
    return ir.Operation.create(
        "torch.operator", results=[condition.type], operands=[condition], attributes={"name": name}
    ).result


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """The value with more or fewer known sizes."""
    return value if value.type == kind else create("torch.tensor_static_info_cast", kind, value)


def _constant(kind: str, value: int) -> ir.Value:
    wide = ir.IntegerType.get_signless(64)
    attribute = ir.BoolAttr.get(bool(value)) if kind == "bool" else ir.IntegerAttr.get(wide, value)
    return ir.Operation.create(
        f"torch.constant.{kind}", results=[ir.Type.parse(f"!torch.{kind}")], attributes={"value": attribute}
    ).result
