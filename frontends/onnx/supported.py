"""Which nodes of a model can be refused without trying to convert them. Runs in the worker."""

from __future__ import annotations

import onnx

from numc.compiler.support.errors import did_you_mean
from numc.frontends.onnx.read import label, unsupported
from numc.frontends.onnx.rewrites.table import RULES

_NO_NUMBERS = ("ImageDecoder", "Regex", "String")
_NEED_NOT_BE = {
    "ai.onnx.ml.ZipMap": "it makes a dictionary of each row: convert the model without it (zipmap=False), or remove it",
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


def _reason(node: onnx.NodeProto, domain: str, version: int | None) -> str:
    if domain:
        if instead := _NEED_NOT_BE.get(domain) or _NEED_NOT_BE.get(f"{domain}.{node.op_type}"):
            return instead
        known = [operator for where, operator in RULES if where == domain]
        if not known:
            return f"operators of domain '{domain}' are not available"
        near = did_you_mean(node.op_type, known)
        return "" if node.op_type in known else f"domain '{domain}' has no such operator here{near}"
    if (domain, node.op_type) in RULES and not onnx.defs.has(node.op_type, domain):
        return ""  # what onnxruntime has in ONNX's domain
    if version is None or not onnx.defs.has(node.op_type, version, domain):
        return f"opset {version} has no such operator"
    if node.op_type == "Hardmax" and version < 13:
        return "its input is flattened before opset 13: export with opset 13 or newer"
    if node.op_type == "Scan" and version < 9:
        return "its inputs have a batch before opset 9: export with opset 9 or newer"
    if node.op_type.startswith(_NO_NUMBERS):
        return "only what computes tensors of numbers is available: do this before the model"
    return ""
