"""The roles of the operations of a training graph: see ROLES in numerics/policy/layer.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import fx

from numc.frontends.pytorch.graphs.graph import CONTRACTIONS
from numc.numerics.policy.layer import SWAPPED

aten = torch.ops.aten
_NORMS = ("batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm")
_SOFTMAX = ("_softmax", "log_softmax", "logsumexp")
_OPTIMIZER = "/torch/optim/"
# Operations without arithmetic, whose result counts as a weight if their operand does.
VIEWS = frozenset(
    {
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.permute.default,
        aten.transpose.int,
        aten.t.default,
        aten.flip.default,
        aten.unsqueeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.expand.default,
        aten.clone.default,
        aten.alias.default,
        aten.slice.Tensor,
        aten.select.int,
        aten.constant_pad_nd.default,
    }
)


def forward_roles(graph: fx.Graph) -> dict[fx.Node, str]:
    """Return the roles in a forward graph, or in a graph without gradients: forward, norm, softmax or update."""
    return {node: _marked(node) or "forward" for node in graph.nodes if node.op == "call_function"}


def backward_roles(graph: fx.Graph, parameters: Collection[str]) -> dict[fx.Node, str]:
    """Return the roles in a backward graph: dgrad, wgrad, norm or softmax.

    parameters: the names of the primals that are parameters. The outputs of the graph are the gradients of primals_1,
    primals_2 and so on. An operation that only gradients of parameters depend on is wgrad, unless it is a contraction
    with a parameter.
    """
    nodes = list(graph.nodes)
    ends: dict[fx.Node, set[str]] = {node: set() for node in nodes}
    (gradients,) = nodes[-1].args
    for number, gradient in enumerate(gradients, 1):
        if isinstance(gradient, fx.Node):
            ends[gradient].add("wgrad" if f"primals_{number}" in parameters else "dgrad")
    weights, tangents = _dependent(nodes, parameters)
    roles: dict[fx.Node, str] = {}
    for node in reversed(nodes[:-1]):
        contracts = node.target in CONTRACTIONS
        is_wgrad = ends[node] == {"wgrad"} and not (contracts and weights.intersection(node.all_input_nodes))
        for operand in node.all_input_nodes:
            ends[operand] |= {"dgrad"} if contracts else ends[node]
        if node.op != "call_function":
            continue
        # A value that is recomputed instead of kept has to have the same bits.
        again = node.meta.get("partitioner_tag") == "is_forward"
        roles[node] = _marked(node) or ("forward" if again else "wgrad" if is_wgrad else "dgrad")
        if contracts and roles[node] in ("dgrad", "wgrad"):
            first, second = node.args[:2]
            if second in tangents and first not in tangents:
                roles[node] += SWAPPED
    return roles


def _dependent(nodes: list[fx.Node], parameters: Collection[str]) -> tuple[set[fx.Node], set[fx.Node]]:
    """Return the nodes that are parameters, or views of them, and the nodes that depend on a gradient."""
    weights: set[fx.Node] = set()
    tangents: set[fx.Node] = set()
    for node in nodes:
        if node.op == "placeholder":
            if node.name in parameters:
                weights.add(node)
            if node.name.startswith("tangents"):
                tangents.add(node)
        else:
            if node.target in VIEWS and weights.intersection(node.all_input_nodes):
                weights.add(node)
            if tangents.intersection(node.all_input_nodes):
                tangents.add(node)
    return weights, tangents


def _marked(node: fx.Node) -> str:
    """Return the role that an operation has in both directions: norm, softmax or update; "" if there is none."""
    if _OPTIMIZER in (node.meta.get("stack_trace") or ""):
        return "update"
    origin = str(node.meta.get("original_aten", ""))
    if any(name in origin for name in _NORMS):
        return "norm"
    return "softmax" if any(name in origin for name in _SOFTMAX) else ""


def by_name(roles: Mapping[fx.Node, str], names: Mapping[fx.Node, str]) -> dict[str, str]:
    """Return the roles by name of the operation."""
    return {names[node]: role for node, role in roles.items() if node in names}
