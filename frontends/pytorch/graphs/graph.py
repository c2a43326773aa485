"""Graphs of aten operations: the names of their operations, and what is refused without trying to lower it.

load.py uses it for torch.export, compiler/torch_compile for torch.compile. Importing it imports torch, but not MLIR.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx
from torch._higher_order_ops.effects import with_effects
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from numc.frontends.pytorch.graphs.narrow import NARROW_DTYPES
from numc.frontends.pytorch.graphs.selections import sizes
from numc.frontends.pytorch.operators import grouped_mm
from numc.frontends.pytorch.places import place_in
from numc.numerics.policy.layer import SWAPPED

aten = torch.ops.aten
#: Marks nodes on complex numbers that others compute by real ones.
IN_PARTS = "numc_in_parts"
DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    **NARROW_DTYPES,
}
_QUANTISED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})
_SCALED = frozenset(
    {
        aten._scaled_mm.default,
        aten._scaled_mm_v2.default,
        aten._scaled_grouped_mm.default,
        aten._scaled_grouped_mm_v2.default,
    }
)
CONTRACTIONS = frozenset(
    {
        aten.mm.default,
        aten.bmm.default,
        aten.mv.default,
        aten.dot.default,
        aten.addmm.default,
        aten.baddbmm.default,
        aten.convolution.default,
        aten.convolution_backward.default,
        grouped_mm,
    }
)


@dataclass(frozen=True)
class Refusal:
    """An operation that cannot be compiled.

    op: its name in torch. path: of the module that it is in. source: the user's line. reason, advice: for the message.
    """

    op: str
    path: str
    source: str
    reason: str
    advice: str

    @property
    def is_of_tensors(self) -> bool:
        """Whether the reason is the dtype, the device or the layout of a tensor."""
        return self.reason.startswith("is ")

    def __str__(self) -> str:
        where = ", ".join(filter(None, (f"module '{self.path}'" if self.path else "", self.source)))
        return f"{self.op}{f' ({where})' if where else ''}: {self.reason}; {self.advice}"


def listed(refusals: Sequence[Refusal]) -> str:
    """Return all refusals as one line."""
    distinct = list(dict.fromkeys(map(str, refusals)))
    count = f"{len(distinct)} operation{'s' * (len(distinct) > 1)}"
    return f"{count} cannot be compiled: {' | '.join(distinct)}"


def path_of(node: fx.Node) -> str:
    """Return the path of the module whose forward made a node; "" for the outermost module."""
    # torch.compile writes L['self'].layers[0].conv where torch.export writes layers.0.conv.
    path = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", _module_of(node)[0])
    return re.sub(r"^[LG]\.(self|fn)\b\.?|^[LG]\.", "", path).replace("._modules.", ".")


def _module_of(node: fx.Node) -> tuple[str, str]:
    """The path and the class of the module whose forward made a node, as torch writes them."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    entries = (entry for entry in reversed(list(stack.values())) if "hook" not in str(entry[0]))
    path, of = next(entries, ("", ""))
    return str(path), of.__name__ if isinstance(of, type) else str(of).rpartition(".")[2]


def words_of(node: fx.Node) -> str:
    """Return the words for what a node is: its operation, the function that was called, and the class of the module."""
    words = (str(node.target).replace(" ", "_"), _called(node), _module_of(node)[1])
    return " ".join(dict.fromkeys(word for word in words if word and word.isprintable() and " " not in word))


def _called(node: fx.Node) -> str:
    """The function that a user called, where it is not the node's own; none for what torch puts around it."""
    caller, _, called = (node.meta.get("torch_fn") or ("", ""))[1].partition(".")
    called = called.partition(".")[0] if caller == "OpOverload" else called.rpartition(".")[2]
    if not called and (stack := node.meta.get("source_fn_stack")):
        called = getattr(stack[-1][1], "__name__", "")
    own = str(node.target).removeprefix("aten.").partition(".")[0]
    return "" if called in (own, "lift_fresh_copy") or called.startswith("wrap_with") else called


def source_of(node: fx.Node) -> str:
    """Return the line that made a node, as `place_of` of places.py does."""
    return place_in(node.meta.get("stack_trace") or "")


LAYER = "numc.layer"
"""In the metadata of a contraction that is computed again: its name in the forward graph."""


def names_of(graph: fx.Graph, roles: Mapping[fx.Node, str] | None = None) -> dict[fx.Node, str]:
    """Return a name for every operation: that of its module, and its role unless it is in the forward pass.

    Contractions of the same module and role are distinguished by what they do in the forward pass, or by a number.
    """
    contractions: dict[tuple[str, str], list[fx.Node]] = {}
    names: dict[fx.Node, str] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        path, role = path_of(node), (roles or {}).get(node, "forward").removesuffix(SWAPPED)
        names[node] = "/".join(filter(None, (path, role))) if role != "forward" else path or _word(node)
        if LAYER in node.meta:
            names[node] = node.meta[LAYER]
        elif node.target in CONTRACTIONS:
            contractions.setdefault((path, role), []).append(node)
        elif role in ("dgrad", "wgrad"):  # elementwise operations may have another arithmetic than contractions
            names[node] += "/elementwise"
    for (path, role), nodes in contractions.items():
        if len(nodes) == 1 and path:
            continue
        seen: dict[str, int] = {}
        for node in nodes:
            word = _word(node) if role == "forward" else role
            count = seen[word] = seen.get(word, 0) + 1
            names[node] = "/".join(filter(None, (path, word))) + (f"_{count}" if count > 1 else "")
    return names


def _word(node: fx.Node) -> str:
    target = node.target
    return str(target._opname if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", target))


def values_of(node: fx.Node) -> list[Any]:
    """Return what a node yields in the trace: fake tensors, numbers or symbols."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def refusal(node: fx.Node, known: Set[sympy.Symbol] = frozenset()) -> Refusal | None:
    """Return the reason to refuse an operation that can be found without trying to lower it, or None.

    known: the sizes that depend on data and that a run finds.
    """
    if node.op != "call_function":
        return None
    reason = _reason(node, known)
    return Refusal(str(node.target), path_of(node), source_of(node), *reason) if reason else None


def failed(node: fx.Node, reason: str) -> Refusal:
    """Return the refusal of an operation that cannot be lowered."""
    advice = "rewrite it with other operations, or run it eagerly: torch.compile(backend='numc')"
    return Refusal(str(node.target), path_of(node), source_of(node), reason, advice)


def refusals(graph: fx.Graph) -> list[Refusal]:
    """Return the refusals of a graph: of the operations that cause problems, not of all that depend on them."""
    known = sizes(graph)
    refusal_of = {node: why for node in graph.nodes if IN_PARTS not in node.meta and (why := refusal(node, known))}
    return [
        against
        for node, against in refusal_of.items()
        if all(n not in refusal_of or refusal_of[n].reason != against.reason for n in node.all_input_nodes)
    ]


def _reason(node: fx.Node, known: Set[sympy.Symbol]) -> tuple[str, str] | None:
    target = node.target
    if target is with_effects and aten._linalg_check_errors.default in node.args:
        return "checks a factorization", "compute without inverses, solutions and factorizations of matrices"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "control flow and custom operators are not available", "write the branch that is taken"
    if isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags:
        return "draws random numbers", "call module.eval() first, or train with torch.compile(backend='numc')"
    if _QUANTISED.intersection(v for v in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(v, torch.dtype)):
        return "makes a tensor that torch quantises", "compute with floats: torch.fake_quantize_per_tensor_affine"
    if target in _SCALED:  # what the decompositions of scaled.py have left
        return "has other scales than one float32 for each tensor, or for each row and column", "multiply by them apart"
    if target is aten.logcumsumexp.default:
        return "its exponentials would overflow", "use x.exp().cumsum(dim).log() if they do not"
    for value in values_of(node):
        if free_unbacked_symbols(value) - known:
            return (
                "a size or number depends on data",
                "make it constant, or the size of a selection by a mask, which a run finds",
            )
    if target is aten._assert_scalar.default:
        if any(free_unbacked_symbols(v) - known for n in node.all_input_nodes for v in values_of(n)):
            return None  # what makes that size is refused
        return "checks more than arithmetic on sizes", "leave the check out"
    if target in (aten.index.Tensor, aten.index_put.default) and _has_uint8(node.args[1]):
        return "takes a mask of uint8", "use .bool()"
    for value in [v for n in (node, *node.all_input_nodes) for v in values_of(n)]:
        if isinstance(value, torch.Tensor) and (problem := tensor_problem(value, ("cpu", "cuda"))):
            return problem
    return None


def _has_uint8(indices: Any) -> bool:
    return any(v.dtype == torch.uint8 for n in indices if isinstance(n, fx.Node) for v in values_of(n))


def tensor_problem(tensor: torch.Tensor, devices: Collection[str] = ("cpu",)) -> tuple[str, str] | None:
    """Return why numc cannot take a tensor, and what to do; None if it can. devices: the types that it may be on."""
    if tensor.device.type not in devices:
        return f"is on device {tensor.device}", "numc computes on the CPU: use .to('cpu')"
    if tensor.layout != torch.strided:
        return f"is {str(tensor.layout).removeprefix('torch.')}", "only dense tensors are available: use .to_dense()"
    if tensor.dtype not in DTYPES:
        dtype = str(tensor.dtype).removeprefix("torch.")
        what = "use .float()" if tensor.dtype.is_floating_point else "use .to(torch.int64)"
        if tensor.is_quantized:
            what = "compute with floats: use .dequantize()"
        if tensor.dtype.is_complex:
            what = "take its real and imaginary parts, as torch.view_as_real does"
        return f"is {dtype}, not {', '.join(DTYPES.values())}", what
    return None
