"""Which nodes of a model can be refused without trying to convert them. Runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from numc.frontends.onnx.reading.read import label, origin, unsupported
from numc.frontends.onnx.reading.schema import fault, mistyped
from numc.frontends.onnx.rewrites.table import RULES
from numc.support.errors import did_you_mean

_NO_NUMBERS = ("ImageDecoder", "Regex", "String")
_NEED_NOT_BE = {
    "ai.onnx.ml.ZipMap": "it makes a dictionary of each row: convert the model without it (zipmap=False), or remove it",
    "ai.onnx.ml.CategoryMapper": "it maps strings: only tensors of numbers are available: do this before the model",
    "ai.onnx.ml.DictVectorizer": "it reads a dictionary: only tensors are available: do this before the model",
    "ai.onnx.ml.CastMap": "it reads a dictionary: only tensors are available: do this before the model",
    "com.microsoft.nchwc": "its layout of images is of one processor: save the model with ORT_ENABLE_EXTENDED or less",
}
"""What converters and onnxruntime leave out if they are told to: domains, and operators behind theirs."""


def check_nodes(model: onnx.ModelProto) -> None:
    """Raise NumcError, with a list of all nodes, if some cannot be compiled whatever their inputs are."""
    versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    refused = []
    for node in model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = versions.get(domain)
        if reason := _reason(node, domain, version):
            refused.append((label(node), node.op_type, version, reason))
    if refused:
        raise unsupported(refused)


def check_types(
    graph: onnx.GraphProto,
    inferred: onnx.GraphProto,
    constants: Mapping[str, npt.NDArray[np.generic]],
    opset: int,
    kinds: Mapping[str, str],
) -> None:
    """Raise NumcError, with a list of all nodes, if some compute with bool instead of floats, or the like.

    inferred: the types of values. kinds: by name of a node, the operator of the source that it belongs to.
    """
    values = [*inferred.input, *inferred.value_info, *inferred.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values if value.type.HasField("tensor_type")}
    types |= {name: onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in constants.items()}
    refused = []
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type, opset):
            continue
        if reason := mistyped(node, onnx.defs.get_schema(node.op_type, opset), types) or _powers(node, types):
            refused.append((origin(node), kinds.get(node.name, node.op_type), opset, reason))
    if refused:
        raise unsupported(refused)


def _powers(node: onnx.NodeProto, types: Mapping[str, int]) -> str:
    """Say that ONNX has no result of a DequantizeLinear in the type of its scales, which are powers of two."""
    named = any(attribute.name == "output_dtype" and attribute.i for attribute in node.attribute)
    if node.op_type != "DequantizeLinear" or named or types.get(node.input[1]) != onnx.TensorProto.FLOAT8E8M0:
        return ""
    return (
        f"its scale '{node.input[1]}' is float8e8m0, which no result is: want output_dtype float, float16 or bfloat16"
    )


def _reason(node: onnx.NodeProto, domain: str, version: int | None) -> str:
    defined = version is not None and onnx.defs.has(node.op_type, version, domain)
    if domain:
        if instead := _NEED_NOT_BE.get(domain) or _NEED_NOT_BE.get(f"{domain}.{node.op_type}"):
            return instead
        known = [operator for where, operator in RULES if where == domain]
        if not known:
            return f"operators of domain '{domain}' are not available"
        if node.op_type not in known:
            return f"domain '{domain}' has no such operator here{did_you_mean(node.op_type, known)}"
    elif not defined and (onnx.defs.has(node.op_type) or (domain, node.op_type) not in RULES):
        return f"opset {version} has no such operator"
    elif defined and (instead := _refused(node.op_type, version or 0)):
        return instead
    # Others are what onnxruntime has in its domains, or in ONNX's.
    return fault(node, onnx.defs.get_schema(node.op_type, version or 0, domain)) if defined else ""


def _refused(operator: str, version: int) -> str:
    if operator == "Scan" and version < 9:
        return "its inputs have a batch before opset 9: export with opset 9 or newer"
    if operator.startswith(_NO_NUMBERS):
        return "only what computes tensors of numbers is available: do this before the model"
    return ""
