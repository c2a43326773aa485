"""Results that are views, which torch makes itself if sizes are free, or if several results share memory."""

from __future__ import annotations

from collections import Counter
from operator import getitem

from torch import fx

from numc.compiler.torch_compile.graphs.free_sizes import has_free_sizes


def result_views(graph: fx.Graph, alone: bool) -> set[fx.Node]:
    """Let results that are views be made last, if they have to be; return the operations that are left to torch.

    With free sizes, all: of a result that is a view of an input, torch makes such a view again, with the strides and
    the offset of what it is given. Those of the dense tensor that a program returns would be of other elements. With
    fixed sizes, it knows how. Of something that is computed, it does not, unless there is a backward pass: then
    results that share memory in eager torch share it. alone: whether there is none.
    """
    output = graph.output_node()
    is_free = has_free_sizes(graph)
    if not (is_free or alone):
        return set()
    bases = Counter(_base(node) for node in set(output.all_input_nodes))
    made: dict[fx.Node, fx.Node] = {}

    def again(node: fx.Node) -> fx.Node:
        wanted = is_free or (bases[_base(node)] > 1 and _base(node).op != "placeholder")
        if node not in made and wanted and _is_view(node):
            sources = {source: again(source) for source in node.all_input_nodes}
            with graph.inserting_before(output):
                made[node] = graph.node_copy(node, sources.__getitem__)
        return made.get(node, node)

    output.args = fx.map_arg(output.args, again)
    for node in reversed(made):
        if not node.users:
            graph.erase_node(node)
    return set(made.values())


def _base(node: fx.Node) -> fx.Node:
    """Return the node whose memory a node shares."""
    return _base(node.all_input_nodes[0]) if _is_view(node) else node


def _is_view(node: fx.Node) -> bool:
    """Whether the result of an operation shares memory with an operand."""
    return _is_view(node.args[0]) if node.target is getitem else bool(getattr(node.target, "is_view", False))
