"""The driver of the rewriting: nodes that torch-mlir does not lower rightly become other nodes, until none is left.

What nodes become is in ``rewrites/``. Runs in the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import onnx

from numc.frontends.onnx.carriers.carry import as_given
from numc.frontends.onnx.conditions.apply import check
from numc.frontends.onnx.reading.read import origin, unsupported
from numc.frontends.onnx.rewrites.axes import check_axes
from numc.frontends.onnx.rewrites.fits import misfit
from numc.frontends.onnx.rewrites.node import Array, Node, RefusedError, UnknownRankError
from numc.frontends.onnx.rewrites.reductions import without_elements
from numc.frontends.onnx.rewrites.table import CONTROL, RULES, Rule, Rules
from numc.support.errors import NumcError

MAX_NODES = 200_000
"""The largest number of nodes, which loops that are unrolled could exceed."""


Refusal = tuple[str, str, "int | None", str]
"""What `unsupported` takes."""


class RefusedNodesError(Exception):
    """Nodes are refused."""

    def __init__(self, nodes: list[Refusal]) -> None:
        super().__init__()
        self.nodes = nodes


@dataclass
class Rewriting:
    """The rewriting of one model.

    kinds: by name of a node, the operator of the source that it belongs to. settled: the first outputs of the nodes
    that a rule has made of its own operator, to which it is not applied again. checked: those of the nodes whose
    conditions are seen to, or that were made of another node.
    """

    kinds: dict[str, str]
    settled: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)

    def step(
        self,
        graph: onnx.GraphProto,
        constants: dict[str, Array],
        opset: int,
        rules: Rules,
        others: Callable[[], list[Refusal]],
    ) -> bool:
        """Replace nodes in place, one after the other, and return whether there were any.

        The types of values are those in `graph`, whose nodes have names; those of new values have to be inferred before
        the next step. Raises NumcError with a list of the nodes that must be refused, and of `others` then.
        """
        # What a rule needs to know may become known by another: nothing is refused before none of all rules applies.
        try:
            return self._replace(graph, constants, opset, rules, last=False) or (
                rules is RULES and self._replace(graph, constants, opset, rules, last=True)
            )
        except RefusedNodesError as refused:
            known = {each[0] for each in refused.nodes}
            raise unsupported([*refused.nodes, *(each for each in others() if each[0] not in known)]) from None

    def _replace(
        self, graph: onnx.GraphProto, constants: dict[str, Array], opset: int, rules: Rules, *, last: bool
    ) -> bool:
        types = {value.name: value.type for value in [*graph.input, *graph.output, *graph.value_info]}
        taken = {*types, *constants, *(name for node in graph.node for name in node.output)}
        sequences: dict[str, list[str]] = {}
        nothing = frozenset(n.output[0] for n in graph.node if n.op_type == "Optional" and not any(n.input))
        nodes: list[onnx.NodeProto] = []
        refused: list[Refusal] = []
        unknown: list[Refusal] = []
        changed = False
        for proto in graph.node:
            domain = "" if proto.domain == "ai.onnx" else proto.domain
            rule = rules.get((domain, proto.op_type))
            made: list[onnx.NodeProto] = []
            operator = self.kinds.get(origin(proto), proto.op_type)
            node = Node(
                proto=proto,
                types=types,
                constants=constants,
                opset=opset,
                taken=taken,
                last=last,
                sequences=sequences,
                nothing=nothing,
                kind=operator,
            )
            about = origin(proto), self.kinds.get(proto.name, proto.op_type), opset
            if not self.settled.intersection(proto.output):
                try:
                    made = self._rewritten(node, rules, rule)
                except UnknownRankError as reason:
                    unknown.append((*about, as_given(str(reason))))
                except RefusedError as reason:
                    refused.append((*about, as_given(str(reason))))
                except (LookupError, TypeError, ValueError) as error:
                    refused.append((*about, f"it is not what ONNX defines: {error}"))
            changed = changed or bool(made)
            for new_node in made:
                new_node.doc_string = new_node.doc_string or origin(proto)
            for new_node in made or [proto]:
                if new_node.op_type == "SequenceConstruct":
                    sequences[new_node.output[0]] = list(new_node.input)
            nodes += made or [onnx.NodeProto.FromString(proto.SerializeToString())]
            if len(nodes) > MAX_NODES:
                raise NumcError(f"node '{origin(proto)}' ({proto.op_type}) becomes too many nodes: the model may have "
                                f"{MAX_NODES}")  # fmt: skip
        if last and (refused or unknown):
            raise RefusedNodesError(refused or unknown)  # what follows from another refusal is not told
        if changed:
            del graph.node[:]
            graph.node.extend(nodes)
        return changed

    def _rewritten(self, node: Node, rules: Rules, rule: Rule | None) -> list[onnx.NodeProto]:
        """The nodes that replace one; none if it stays."""
        if rules is RULES:
            check_axes(node)
            if why := misfit(node):
                raise RefusedError(why)
        if rules is not CONTROL and (rules is RULES or rule) and (checks := self._checks(node)):
            return checks
        if rules is RULES:
            without_elements(node)
        if rule and not node.made:
            rule(node)
        if node.made:
            self._note(node)
        return node.made

    def _checks(self, node: Node) -> list[onnx.NodeProto]:
        """A node of the model behind a check of what it asks of its inputs, which is written once."""
        if self.checked.intersection(node.proto.output):
            return []
        try:
            check(node)
        except UnknownRankError:
            if not node.last:
                raise  # nothing is made of the node before
        self.checked.update(filter(None, node.proto.output))
        for made in node.made:
            self.kinds.setdefault(made.name, self.kinds.get(node.proto.name, node.proto.op_type))
        return node.made

    def _note(self, rewritten: Node) -> None:
        proto = rewritten.proto
        operator = self.kinds.get(proto.name, proto.op_type)
        inlines = any(attribute.type == onnx.AttributeProto.GRAPH for attribute in proto.attribute)
        for node in rewritten.made:
            self.kinds.setdefault(node.name, node.op_type if inlines else operator)
            if not inlines:
                self.checked.update(filter(None, node.output))
            if node.op_type == proto.op_type and node.domain == proto.domain and not (inlines or rewritten.again):
                self.settled.add(next(filter(None, node.output), ""))
