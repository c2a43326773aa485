"""Tensors that a backward pass computes again, and none keeps: results of cheap operations on what it reads anyway.

A normalisation reads its input in its backward pass, and the layer after it reads its result, often after a ReLU. A
loop makes the latter of the former, so that only one of both has to be kept.

The probabilities of attention have an element for each pair of tokens. If that is many times what the queries and keys
have, from which a product and a softmax make them, these are computed again, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.fx.node import map_arg

from numc.compiler.torch_compile.graphs.free_sizes import is_free
from numc.compiler.torch_compile.graphs.roles import VIEWS, forward_roles
from numc.frontends.pytorch.graphs.graph import CONTRACTIONS, LAYER, names_of

aten = torch.ops.aten
SWITCH = "recompute"
_COMPARISONS = frozenset({aten.le, aten.lt, aten.ge, aten.gt, aten.eq, aten.ne})
_CHEAP = frozenset(
    {
        *(aten.add, aten.sub, aten.rsub, aten.neg, aten.mul, aten.div, aten.relu, aten.where, aten._to_copy),
        *(aten.clamp, aten.clamp_min, aten.clamp_max, aten.maximum, aten.minimum, aten.gelu, *_COMPARISONS),
    }
)
# What makes the probabilities of attention besides: scores, softmax, masks, and zeros for rows that see nothing.
_ATTENTION = frozenset(
    {
        *(aten.bmm, aten._softmax, aten.full_like),
        *(aten.arange, aten.empty_strided, aten.logical_and, aten.scalar_tensor),
    }
)
_NO_ARITHMETIC = VIEWS | CONTRACTIONS
# More operations, and more large tensors that they read, take longer than the memory is worth.
_MOST_OPERATIONS, _MOST_LEAVES = 16, 2
_MOST_TRIED = 8 * _MOST_OPERATIONS  # views and repetitions included
# A tensor with so many times fewer elements than a result that is computed again is kept for it.
_SMALL = 16
# Attention is computed again if its probabilities have so many times more elements than all that they are made of.
_MUCH_LARGER = 4

Again = dict[str, tuple[torch.Tensor, str]]


def recompute(
    forward: fx.Graph, backward: fx.Graph, user_results: int, alive: Collection[str], products: bool
) -> Again:
    """Compute kept tensors again in the backward graph; return their values, and of what they are made, by name.

    user_results: how many results of the forward graph come before those that are kept. alive: the names of the
    primals that are in memory until the backward pass anyway. products: whether a product has the same bits again.
    """
    output = forward.output_node()
    results: list[Any] = list(output.args[0])
    places = {node.name: node for node in backward.find_nodes(op="placeholder")}
    kept = {node for node in results[user_results:] if isinstance(node, fx.Node)} - set(results[:user_results])
    chains = _Chains(places, set(alive) - _overwritten(forward), _shared(forward, backward), products)
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
    names = names_of(forward, forward_roles(forward))
    for node in made.keys() & names.keys():
        if node.target in CONTRACTIONS:
            made[node].meta[LAYER] = names[node]
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
    """The operations, in their order, that make a result of leaves: of tensors that are kept or alive, or small.

    attends: whether they may be those of attention, whose products have these operands among the leaves.
    """

    result: fx.Node
    attends: bool = False
    operations: dict[fx.Node, None] = field(default_factory=dict)
    leaves: dict[fx.Node, None] = field(default_factory=dict)
    operands: dict[fx.Node, None] = field(default_factory=dict)
    tried: int = 0

    def is_small(self, node: fx.Node) -> bool:
        """Whether a tensor has far fewer elements than the result."""
        value, factor = node.meta.get("val"), _MUCH_LARGER if self.attends else _SMALL
        return isinstance(value, torch.Tensor) and factor * value.numel() <= self.result.meta["val"].numel()

    @property
    def is_of_little(self) -> bool:
        """Whether all leaves together have far fewer elements than the result."""
        elements = sum(leaf.meta["val"].numel() for leaf in self.leaves)
        return bool(_MUCH_LARGER * elements <= self.result.meta["val"].numel())

    @property
    def large(self) -> list[str]:
        """The names of the leaves that are not small."""
        return [leaf.name for leaf in self.leaves if not self.is_small(leaf)]

    def __str__(self) -> str:
        count = sum(node.target not in VIEWS for node in self.operations)
        how = f" by {count} operation{'s' * (count > 1)}" if count else ""
        large = [leaf.name for leaf in self.operands] or self.large
        return f"computed again from {', '.join(large) or 'small tensors'}{how}"


@dataclass
class _Chains:
    """Finds how kept tensors are computed again. They have to be added in the order in which they are made.

    places: the inputs of the backward graph, by name. alive: the names of the primals that may be read. shared: what
    the backward graph computes already. products: whether products may be computed again. operands: what is kept for
    that.
    """

    places: Mapping[str, fx.Node]
    alive: Collection[str]
    shared: Collection[fx.Node]
    products: bool
    found: dict[fx.Node, _Chain] = field(default_factory=dict)
    operands: set[fx.Node] = field(default_factory=set)

    def add(self, node: fx.Node) -> None:
        """Compute a kept tensor again if that is possible, and cheap or worth a product."""
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or is_free(value):
            return
        if not value.is_floating_point() or "saved_tensor_with_no_vc_check" in node.meta:
            return
        if self._can_be(chain := _Chain(node)) and len(chain.large) <= _MOST_LEAVES:
            self.found[node] = chain
        elif self.products and self._can_be(chain := _Chain(node, attends=True)) and chain.is_of_little:
            self.found[node] = chain
            self.operands |= chain.operands.keys()

    def _can_be(self, chain: _Chain) -> bool:
        """Whether a chain of few operations makes its result."""
        reached = self._reach(chain.result, chain)
        return reached and sum(not self._is_free(each) for each in chain.operations) <= _MOST_OPERATIONS

    def _reach(self, node: fx.Node, chain: _Chain) -> bool:
        """Whether a node can be had; it is among the operations or the leaves of the chain then."""
        if node in chain.operations or node in chain.leaves:
            return True
        if node in self.found and self.found[node].attends:
            return True  # its operations come before those of this chain
        chain.tried += 1
        if chain.tried > _MOST_TRIED:
            return False
        if node is not chain.result and self._is_leaf(node):
            chain.leaves[node] = None
            return True
        before = dict(chain.operations), dict(chain.leaves), dict(chain.operands)
        reach = self._reach_operand if node.target in CONTRACTIONS else self._reach
        if self._is_cheap(node, chain) and all(reach(each, chain) for each in node.all_input_nodes):
            chain.operations[node] = None
            return True
        chain.operations, chain.leaves, chain.operands = before
        if node is chain.result or node.op != "call_function" or node.target in VIEWS or not chain.is_small(node):
            return False
        chain.leaves[node] = None
        return True

    def _reach_operand(self, node: fx.Node, chain: _Chain) -> bool:
        """Whether an operand of a product can be had: it is kept, in the format in which products read it."""
        if node in self.found:
            return self._reach(node, chain)
        is_there = node.name in self.places or node.name in self.alive
        if node.target in VIEWS and not is_there:
            if not self._reach_operand(node.all_input_nodes[0], chain):
                return False
            chain.operations[node] = None
            return True
        if node.op != "call_function" and not is_there:
            return False
        chain.leaves[node] = chain.operands[node] = None
        return True

    def _is_leaf(self, node: fx.Node) -> bool:
        """Whether a tensor is in memory anyway, in float32 or for other products."""
        if node in self.operands or (node.op == "placeholder" and node.name in self.alive):
            return True
        return node.name in self.places and node not in self.found and _is_read_in_full(self.places[node.name])

    def _is_cheap(self, node: fx.Node, chain: _Chain) -> bool:
        if node.op != "call_function" or is_free(node.meta.get("val")):
            return False
        packet = getattr(node.target, "overloadpacket", None)
        if chain.attends and packet in _ATTENTION:
            return True
        return self._is_free(node) or (packet in _CHEAP and (chain.attends or not chain.is_small(node)))

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
                arguments = map_arg([node.args, node.kwargs], lambda n: f"%{known[n]}")
                described = f"{node.target} {arguments}"
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
