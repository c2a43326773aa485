"""What a backward pass computes again in place of keeping it: results of cheap operations on what it reads anyway.

A normalisation reads its input in its backward pass, and the layer after it reads its result, often after a ReLU. A
loop makes the latter of the former, so that only one of both has to be kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.fx.node import map_arg

from numc.frontends.pytorch.graph import CONTRACTIONS
from numc.frontends.training.free_sizes import is_free
from numc.frontends.training.roles import VIEWS

aten = torch.ops.aten
SWITCH = "recompute"
_COMPARISONS = frozenset({aten.le, aten.lt, aten.ge, aten.gt, aten.eq, aten.ne})
_CHEAP = frozenset(
    {
        *(aten.add, aten.sub, aten.rsub, aten.neg, aten.mul, aten.div, aten.relu, aten.where, aten._to_copy),
        *(aten.clamp, aten.clamp_min, aten.clamp_max, aten.maximum, aten.minimum, aten.gelu, *_COMPARISONS),
    }
)
_NO_ARITHMETIC = VIEWS | CONTRACTIONS
# More operations, and more large tensors that they read, take longer than the memory is worth.
_MOST_OPERATIONS, _MOST_LEAVES = 16, 2
_MOST_TRIED = 8 * _MOST_OPERATIONS  # views and repetitions included
# A tensor with so many times fewer elements than a result that is computed again is kept for it.
_SMALL = 16

Again = dict[str, tuple[torch.Tensor, str]]


def recompute(forward: fx.Graph, backward: fx.Graph, user_results: int, alive: Collection[str]) -> Again:
    """Compute kept tensors again in the backward graph; return their values, and of what they are made, by name.

    user_results: how many results of the forward graph come before those that are kept. alive: the names of the
    primals that are in memory until the backward pass anyway.
    """
    output = forward.output_node()
    results: list[Any] = list(output.args[0])
    places = {node.name: node for node in backward.find_nodes(op="placeholder")}
    kept = {node for node in results[user_results:] if isinstance(node, fx.Node)} - set(results[:user_results])
    chains = _Chains(places, set(alive) - _overwritten(forward), _shared(forward, backward))
    for node in forward.nodes:
        if node in kept and node.name in places and places[node.name].users:
            chains.add(node)
    for node, chain in chains.found.items():
        for leaf in chain.leaves:
            if leaf.name not in places:
                results.insert(results.index(node), leaf)
                with backward.inserting_before(places[node.name]):
                    places[leaf.name] = backward.placeholder(leaf.name)
                places[leaf.name].meta = dict(leaf.meta)
    made = _copied(backward, chains.found.values(), places)
    for node in chains.found:
        results.remove(node)
        places[node.name].replace_all_uses_with(made[node])
        backward.erase_node(places[node.name])
    output.args = (tuple(results),)
    return {node.name: (node.meta["val"], str(chain)) for node, chain in chains.found.items()}


def _overwritten(forward: fx.Graph) -> set[str]:
    """Return the names of the inputs that torch overwrites with results of a forward graph."""
    described = forward.output_node().meta["desc"]
    taken = {each.mutated_input for each in described if isinstance(each, InputMutationAOTOutput)}
    return {node.name for node in forward.find_nodes(op="placeholder") if node.meta.get("desc") in taken}


@dataclass
class _Chain:
    """The operations, in their order, that make a result of leaves: of tensors that are kept or alive, or small."""

    result: fx.Node
    operations: dict[fx.Node, None] = field(default_factory=dict)
    leaves: dict[fx.Node, None] = field(default_factory=dict)
    tried: int = 0

    def is_small(self, node: fx.Node) -> bool:
        """Whether a tensor has far fewer elements than the result."""
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and _SMALL * value.numel() <= self.result.meta["val"].numel()

    @property
    def large(self) -> list[str]:
        """The names of the leaves that are not small."""
        return [leaf.name for leaf in self.leaves if not self.is_small(leaf)]

    def __str__(self) -> str:
        count = sum(node.target not in VIEWS for node in self.operations)
        how = f" by {count} operation{'s' * (count > 1)}" if count else ""
        return f"computed again from {', '.join(self.large) or 'small tensors'}{how}"


@dataclass
class _Chains:
    """Finds how kept tensors are computed again. They have to be added in the order in which they are made.

    places: the inputs of the backward graph, by name. alive: the names of the primals that may be read. shared: what
    the backward graph computes already.
    """

    places: Mapping[str, fx.Node]
    alive: Collection[str]
    shared: Collection[fx.Node]
    found: dict[fx.Node, _Chain] = field(default_factory=dict)

    def add(self, node: fx.Node) -> None:
        """Compute a kept tensor again if that is possible and cheap."""
        value, chain = node.meta.get("val"), _Chain(node)
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or is_free(value):
            return
        if not value.is_floating_point() or "saved_tensor_with_no_vc_check" in node.meta:
            return
        if not self._reach(node, chain) or len(chain.large) > _MOST_LEAVES:
            return
        if sum(not self._is_free(each) for each in chain.operations) <= _MOST_OPERATIONS:
            self.found[node] = chain

    def _reach(self, node: fx.Node, chain: _Chain) -> bool:
        """Whether a node can be had; it is among the operations or the leaves of the chain then."""
        if node in chain.operations or node in chain.leaves:
            return True
        chain.tried += 1
        if chain.tried > _MOST_TRIED:
            return False
        if node is not chain.result and self._is_leaf(node):
            chain.leaves[node] = None
            return True
        before = dict(chain.operations), dict(chain.leaves)
        if self._is_cheap(node, chain) and all(self._reach(each, chain) for each in node.all_input_nodes):
            chain.operations[node] = None
            return True
        chain.operations, chain.leaves = before
        if node is chain.result or node.op != "call_function" or node.target in VIEWS or not chain.is_small(node):
            return False
        chain.leaves[node] = None
        return True

    def _is_leaf(self, node: fx.Node) -> bool:
        """Whether a tensor is in memory anyway, in float32."""
        if node.op == "placeholder" and node.name in self.alive:
            return True
        return node.name in self.places and node not in self.found and _is_read_in_full(self.places[node.name])

    def _is_cheap(self, node: fx.Node, chain: _Chain) -> bool:
        if node.op != "call_function" or is_free(node.meta.get("val")):
            return False
        return self._is_free(node) or (
            getattr(node.target, "overloadpacket", None) in _CHEAP and not chain.is_small(node)
        )

    def _is_free(self, node: fx.Node) -> bool:
        """Whether an operation moves nothing, or is one of the backward pass already: equal ones become one."""
        return node.target in VIEWS or (node in self.shared and node.target not in CONTRACTIONS)


def _is_read_in_full(place: fx.Node) -> bool:
    """Whether arithmetic reads a tensor, and not only contractions, which may round it, and comparisons."""
    value = place.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return True
    for user in place.users:
        packet = getattr(user.target, "overloadpacket", None)
        if user.target in VIEWS and _is_read_in_full(user):
            return True
        if user.op == "call_function" and user.target not in _NO_ARITHMETIC and packet not in _COMPARISONS:
            return True
    return False


def _shared(forward: fx.Graph, backward: fx.Graph) -> set[fx.Node]:
    """Return the operations of the forward graph whose results the backward graph computes, too."""
    numbers: dict[str, int] = {}
    names = {node.name for node in backward.find_nodes(op="placeholder")}

    def numbered(graph: fx.Graph) -> dict[fx.Node, int]:
        known: dict[fx.Node, int] = {}
        for node in graph.nodes:
            described = node.name
            if node.op == "call_function" and node.name not in names:
                given = map_arg([node.args, node.kwargs], lambda n: f"%{known[n]}")
                described = f"{node.target} {given}"
            known[node] = numbers.setdefault(described, len(numbers))
        return known

    computed = {number for node, number in numbered(backward).items() if node.op == "call_function"}
    return {node for node, number in numbered(forward).items() if node.op == "call_function" and number in computed}


def _copied(backward: fx.Graph, chains: Collection[_Chain], places: Mapping[str, fx.Node]) -> dict[fx.Node, fx.Node]:
    """Compute the operations of chains once each, right before what needs them first; return them by the originals."""
    order = {node: number for number, node in enumerate(backward.nodes)}
    before: dict[fx.Node, fx.Node] = {}

    def needed(node: fx.Node, by: fx.Node) -> None:
        before[node] = min(by, before.get(node, by), key=order.__getitem__)

    operations = dict.fromkeys(each for chain in chains for each in chain.operations)
    for chain in chains:
        for user in places[chain.result.name].users:
            needed(chain.result, user)
    for node in reversed(operations):
        for each in node.all_input_nodes:
            if each in operations:
                needed(each, before[node])
    made = {leaf: places[leaf.name] for chain in chains for leaf in chain.leaves}
    for node in operations:
        with backward.inserting_before(before[node]):
            made[node] = backward.node_copy(node, made.__getitem__)
        made[node].meta["partitioner_tag"] = "is_forward"  # its arithmetic is that of the forward pass
    return made
