"""Conversion of a prepared ONNX model to linalg text by torch-mlir. Runs in the worker."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import onnx_importer

from numc.frontends.lowering.loops import call_checks, to_calls
from numc.frontends.lowering.reshapes import builtin_type, torch_constant
from numc.frontends.lowering.torch_mlir_passes import conversion_errors, erase_checks, lower, operations
from numc.frontends.onnx.conditions.apply import CHECKS
from numc.frontends.onnx.contract import to_backend_contract
from numc.frontends.onnx.loops.torch_loops import loops_by_torch
from numc.frontends.onnx.rewrites.reductions import AXIS
from numc.frontends.onnx.sizes.broadcast import PAIRS

_LIST = re.compile(r"!torch\.vtensor<\[\d+\],si64>")
# ONNX defines these operators by functions, but torch-mlir's own lowerings are shorter and take dynamic sizes.
_NOT_EXPANDED = {"LayerNormalization", "LogSoftmax", "Relu", "Softmax", "Softplus"}
_CHECKS = f"torch.onnx.{CHECKS}"
_AXIS = f"torch.onnx.{AXIS}"
_PAIRS = f"torch.onnx.{PAIRS}"
_CENTRED = "torch.onnx.center_point_box"
# torch's numbers of dtypes, by their elements in MLIR.
_TORCH_DTYPES = {"si16": 2, "f32": 6, "f8E5M2": 23, "f8E4M3FN": 24}
# Above, log(1 + exp(x)) is x in float64, too.
_SOFTPLUS_IS_X = 40
# Checks of what has a value, as 1/0 does: a size of 0 that a reshape is given is computed of sizes, and stays 0.
_IDLE_CHECKS = ("Expected dim size > 0.", "unimplemented: tensor with zero element")


def to_linalg(model: onnx.ModelProto, *, no_broadcast: bool = False) -> str:
    """Return the text of a module whose ``@main`` takes the inputs of the graph.

    Operations have the names of their nodes as locations. no_broadcast: promises that two dynamic sizes that have to
    fit together are equal, which avoids checks at run time. Raises ConversionError if torch-mlir fails, or if the
    result could abort at run time.
    """
    context = ir.Context()
    context.enable_multithreading(False)  # a worker may not start threads
    torch_dialect.register_dialect(context)
    # None expands every operator that ONNX defines by a function, except those denied.
    config = onnx_importer.Config(function_expansion_allowlists_by_domain=None)
    denied = {domain: set(ops) for domain, ops in config.function_expansion_denylists_by_domain.items()}
    denied[""] |= _NOT_EXPANDED
    config.function_expansion_denylists_by_domain = denied
    with conversion_errors():
        info = onnx_importer.ModelInfo(model, config=config)
        module = info.create_module(context=context)
        importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
        importer.import_all()
        loops_by_torch(module)
        _cast_by_torch(module)
        _softplus_by_torch(module)
        _products_by_torch(module)
        _call_operators(module)
        if no_broadcast:
            main = module.body.operations[0]
            main.operation.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get(context)
        to_backend_contract(module)
        lower(module)
    _name_locations(module)
    erase_checks(module, _IDLE_CHECKS)
    return str(module.operation.get_asm(enable_debug_info=True))


def _cast_by_torch(module: ir.Module) -> None:
    """Make casts to and from float8 and to int16 those of torch: torch-mlir does not lower those of ONNX."""
    with module.context:
        for op in _onnx_operators(module, "Cast"):
            type_texts = [str(value.type) for value in (op.operands[0], op.results[0])]
            dtype = next(
                (number for element, number in _TORCH_DTYPES.items() if type_texts[1].endswith(f",{element}>")), None
            )
            if dtype is None or not (
                any(",f8" in type_text for type_text in type_texts) or type_texts[1].endswith(",si16>")
            ):
                continue
            with ir.InsertionPoint(op), op.location:
                made = ir.Operation.create(
                    "torch.prims.convert_element_type",
                    results=[op.results[0].type],
                    operands=[op.operands[0], torch_constant(dtype)],
                )
            op.results[0].replace_all_uses_with(made.results[0])
            op.erase()


def _softplus_by_torch(module: ir.Module) -> None:
    """Make Softplus that of torch: ONNX's function, log(1 + exp(x)), overflows where its result does not."""
    with module.context:
        for op in _onnx_operators(module, "Softplus"):
            with ir.InsertionPoint(op), op.location:
                made = ir.Operation.create(
                    "torch.aten.softplus",
                    results=[op.results[0].type],
                    operands=[op.operands[0], *map(torch_constant, (1, _SOFTPLUS_IS_X))],
                )
            op.results[0].replace_all_uses_with(made.results[0])
            op.erase()


def _products_by_torch(module: ir.Module) -> None:
    """Make products along one axis those of torch: torch-mlir does not lower those of ONNX where sizes are free."""
    with module.context:
        for op in _onnx_operators(module, "ReduceProd"):
            if _AXIS not in op.attributes:
                continue
            axis = ir.IntegerAttr(op.attributes[_AXIS]).value
            with ir.InsertionPoint(op), op.location:
                none = ir.Operation.create("torch.constant.none", results=[ir.Type.parse("!torch.none")]).result
                keeps = ir.Operation.create(
                    "torch.constant.bool",
                    results=[ir.Type.parse("!torch.bool")],
                    attributes={"value": ir.BoolAttr.get(True)},
                ).result
                made = ir.Operation.create(
                    "torch.aten.prod.dim_int",
                    results=[op.results[0].type],
                    operands=[op.operands[0], torch_constant(axis), keeps, none],
                )
            op.results[0].replace_all_uses_with(made.results[0])
            op.erase()


def _call_operators(module: ir.Module) -> None:
    """Make operators of ONNX those of numc, of which torch-mlir sees calls (frontends/lowering/loops.py)."""
    main = module.body.operations[0]
    with module.context:
        for op in _onnx_operators(module, "BitCast"):
            op.attributes["name"] = ir.StringAttr.get("torch.numc.bit_cast")
        for op in _onnx_operators(module, "ConvInteger"):  # of int32: what ONNX calls Conv is of floats
            op.attributes["name"] = ir.StringAttr.get("onnx.Conv")
        for op in _onnx_operators(module, "Expand"):
            if _PAIRS in op.attributes:
                _call_stretch(op)
            elif _is_free(op) and _LIST.fullmatch(str(op.operands[1].type)):
                op.attributes["name"] = ir.StringAttr.get("torch.numc.expand")
        for op in _onnx_operators(module, "NonMaxSuppression"):
            _call_non_max_suppression(op)
        for number, op in enumerate(_onnx_operators(module, "Identity")):
            if _CHECKS in op.attributes:
                call_checks(op, op.attributes[_CHECKS], number)
        to_calls(module)
        for function in module.body.operations:
            for name in ("torch.onnx_meta.opset_version", "torch.onnx_meta.ir_version"):
                function.attributes[name] = main.attributes[name]


def _call_stretch(op: ir.Operation) -> None:
    """Tell by numbers which dimensions take their sizes from which of another tensor."""
    value, _, other = op.operands
    pairs = [ir.IntegerAttr(each).value for each in ir.ArrayAttr(op.attributes[_PAIRS])]
    _call(op, "torch.numc.stretch", [value, other], pairs)


def _is_free(op: ir.Operation) -> bool:
    """Whether the ranks of the first operand and of the result are known, sizes are free, and not all are stretched."""
    tensor_types = [builtin_type(value.type) for value in (op.operands[0], op.results[0])]
    known = [tensor_type for tensor_type in tensor_types if tensor_type is not None]
    if len(known) < 2 or all(size == 1 for size in known[0].shape):  # torch-mlir stretches what is 1 for sure
        return False
    return not all(tensor_type.has_static_shape for tensor_type in known)


def _call_non_max_suppression(op: ir.Operation) -> None:
    """Tell by numbers how boxes are given, and which of the limits are there."""
    none = ir.Type.parse("!torch.none")
    boxes, scores, *limits = op.operands
    there = [n < len(limits) and limits[n].type != none for n in range(3)]
    present = [limit for limit, is_there in zip(limits, there, strict=False) if is_there]
    centred = _CENTRED in op.attributes and ir.IntegerAttr(op.attributes[_CENTRED]).value != 0
    _call(op, "torch.numc.non_max_suppression", [boxes, scores, *present], [int(flag) for flag in (centred, *there)])


def _call(op: ir.Operation, name: str, operands: Sequence[ir.Value], numbers: Sequence[int]) -> None:
    """Replace an operator by one of numc's, of operands and numbers."""
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(
            "torch.operator",
            results=[op.results[0].type],
            operands=[*operands, *map(torch_constant, numbers)],
            attributes={"name": ir.StringAttr.get(name)},
        )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()


def _onnx_operators(module: ir.Module, name: str) -> list[ir.Operation]:
    """The operations of an operator of ONNX."""
    operators = [op for op in operations(module) if op.name == "torch.operator"]
    return [op for op in operators if ir.StringAttr(op.attributes["name"]).value == f"onnx.{name}"]


def _name_locations(module: ir.Module) -> None:
    """Give every operation the location ``loc("node")``, also in the functions by which ONNX defines a node."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = node_name(op.location)
        if name is not None and not isinstance(op.location, ir.NameLoc):
            op.location = ir.Location.name(name, context=op.context)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def node_name(location: ir.Location) -> str | None:
    """Return the name of the node that an operation comes from.

    For a call it is the caller, for a fused location the first one.
    """
    if isinstance(location, ir.NameLoc):
        return str(location.name_str) or None
    if isinstance(location, ir.CallSiteLoc):
        return node_name(location.caller) or node_name(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(node_name, location.locations)), None)
    return None
