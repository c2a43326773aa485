"""The graph of a model, read from its IR before arithmetic is explicit: which layer takes what from which others."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from numc.numerics.policy.policy import Decision
from numc.numerics.policy.table import rows
from numc.passes import facts, linalg
from numc.studies.model_graph.nodes import INPUT, OUTPUT, WEIGHT, Node

Sources = frozenset[int]
Edges = tuple[tuple[int, int], ...]
_MOVES = ("arith.constant", "arith.extf", "arith.truncf", "arith.bitcast")


@dataclass
class _Group:
    """The operations of a node. before: the numbers of the groups that it depends on, as bits."""

    name: str
    word: str
    role: str = ""
    decisions: list[Decision] = field(default_factory=list)
    takes: set[int] = field(default_factory=set)
    before: int = 0
    type: ir.Type | None = None


def read(
    module: ir.Operation, decided: Sequence[tuple[ir.Operation, Decision]], names: tuple[Sequence[str], Sequence[str]]
) -> tuple[tuple[Node, ...], Edges]:
    """Return the nodes of a module in program order, and their edges.

    decided: the arithmetic of its operations. names: of its inputs and its outputs. Operations of one name and role are
    a node, as far as nothing else lies between them. What only moves numbers, such as a transposition, is a part of the
    edges.
    """
    reader = _Reader(decided)
    main = linalg.main(module).regions[0].blocks[0]
    weights = facts.of_arguments(module, "numc.weight")
    inputs = iter(names[0])
    for number, argument in enumerate(main.arguments):
        stored = weights.get(number)
        name = next(inputs, f"input {number}") if stored is None else stored
        reader.sources[argument] = reader.add(_Group(name, INPUT if stored is None else WEIGHT, type=argument.type))
    reader.block(main)
    for number, value in enumerate(main.operations[len(main.operations) - 1].operands):
        name = names[1][number] if number < len(names[1]) else f"output {number}"
        reader.add(_Group(name, OUTPUT, takes=set(reader.sources.get(value, ())), type=value.type))
    return _nodes(reader.groups)


class _Reader:
    """Goes through a module in program order; `sources` are the nodes that a tensor comes from."""

    def __init__(self, decided: Sequence[tuple[ir.Operation, Decision]]) -> None:
        self.groups: list[_Group] = []
        self.sources: dict[ir.Value, Sources] = {}
        self._decided = dict(decided)
        self._latest: dict[tuple[str, str], int] = {}

    def add(self, group: _Group) -> Sources:
        """Add a group and return its number, as a source."""
        self.groups.append(group)
        return frozenset((len(self.groups) - 1,))

    def block(self, block: ir.Block) -> Sources:
        """Read the operations of a block, and return where its results come from."""
        takes: Sources = frozenset()
        for each in block.operations:
            op = each.operation
            takes = self._of(op.operands)
            for after in op.successors:
                for argument in after.arguments:
                    self.sources[argument] = self.sources.get(argument, frozenset()) | takes
            takes |= self._of(_captured(op)) if op.name == "linalg.generic" else self._inside(op, takes)
            decision = self._decided.get(op)
            if decision is not None and (decision.layer.computes or _chooses(op)):
                takes = frozenset((self._node(op, decision, takes),))
            for result in op.results:
                self.sources[result] = takes
        return takes

    def _inside(self, op: ir.Operation, takes: Sources) -> Sources:
        """Read the regions of an operation; what a loop hands to its next round is no edge."""
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    self.sources.setdefault(argument, takes)
                takes |= self.block(block)
        return takes

    def _of(self, values: Iterable[ir.Value]) -> Sources:
        """The sources of tensors among values: sizes are no edges."""
        tensors = (v for v in values if isinstance(v.type, ir.RankedTensorType))
        return frozenset().union(*(self.sources.get(v, frozenset()) for v in tensors))

    def _node(self, op: ir.Operation, decision: Decision, takes: Sources) -> int:
        """The number of the group of an operation, which is a new one where the last of its name would be a circle."""
        layer = decision.layer
        key = layer.name, layer.role
        number = self._latest.get(key) if layer.name else None
        if number is None or any(self.groups[n].before >> number & 1 for n in takes - {number}):
            (number,) = self.add(_Group(layer.name or layer.kind, layer.kind, layer.role))
            self._latest[key] = number
        group = self.groups[number]
        if layer.position is not None:
            group.word = layer.kind
        group.decisions.append(decision)
        group.type = op.results[0].type
        group.takes |= takes - {number}
        new = 0
        for n in takes - {number}:
            new |= self.groups[n].before | 1 << n
        if new & ~group.before:
            for other in self.groups[number:]:
                if other is group or other.before >> number & 1:
                    other.before |= new
        return number


def _chooses(generic: ir.Operation) -> bool:
    """Whether a body has an operation on floats that rounds nothing, such as the maximum of a ReLU."""
    names = (op.name for op in linalg.operations(generic) if any(map(linalg.is_f32, op.results)))
    return any(name.startswith(("arith.", "math.")) and name not in _MOVES for name in names)


def _captured(generic: ir.Operation) -> Iterator[ir.Value]:
    """The tensors that the body of a linalg.generic uses from outside, such as tables in which it looks elements up."""
    for inner in linalg.operations(generic):
        if inner.name == "tensor.extract":
            yield inner.operands[0]


def _nodes(groups: Sequence[_Group]) -> tuple[tuple[Node, ...], Edges]:
    """The nodes that are no weights, with weights as facts of those that take them."""
    order = _ordered(groups)
    number = {old: new for new, old in enumerate(order)}
    nodes = []
    for old in order:
        group = groups[old]
        weights = [groups[n] for n in sorted(group.takes) if groups[n].word == WEIGHT]
        shape, dtype = _tensor(group.type)
        nodes.append(
            Node(
                name=group.name, word=group.word, role=group.role, rows=tuple(rows(group.decisions)), shape=shape,
                dtype=dtype, weights=tuple((each.name, _tensor(each.type)[0]) for each in weights),
            )
        )  # fmt: skip
    edges = {(number[n], number[old]) for old in order for n in groups[old].takes if groups[n].word != WEIGHT}
    return tuple(nodes), tuple(sorted(edges))


def _ordered(groups: Sequence[_Group]) -> list[int]:
    """The numbers of groups that are no weights: each after those that it takes from, otherwise as in the program."""
    waits = {n: {m for m in group.takes if groups[m].word != WEIGHT} for n, group in enumerate(groups)}
    users: dict[int, list[int]] = {}
    for n, takes in waits.items():
        for m in takes:
            users.setdefault(m, []).append(n)
    ready = [n for n, takes in waits.items() if not takes and groups[n].word != WEIGHT]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for n in users.get(order[-1], ()):
            waits[n].discard(order[-1])
            if not waits[n]:
                heapq.heappush(ready, n)
    return order


def _tensor(of: ir.Type | None) -> tuple[tuple[int | None, ...], str]:
    """The shape and the dtype of a type; () and "" of one that is no tensor."""
    if not isinstance(of, ir.RankedTensorType):
        return (), ""
    sizes = tuple(None if of.is_dynamic_dim(n) else of.get_dim_size(n) for n in range(of.rank))
    return sizes, str(of.element_type)
