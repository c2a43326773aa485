"""Results that are views, which torch makes itself if sizes are free."""

from __future__ import annotations

from operator import getitem

from torch import fx

from numc.frontends.training.free_sizes import has_free_sizes


def result_views(graph: fx.Graph) -> set[fx.Node]:
    """Let results that are views be made last in a graph with free sizes; return the operations that are left to torch.

    Of a result that is a view of an input, torch makes such a view again, with the strides and the offset of what it is
    given. Those of the dense tensor that a program returns would be of other elements. With fixed sizes, it knows how.
    """
    if not has_free_sizes(graph):
        return set()
    output = graph.output_node()
    made: dict[fx.Node, fx.Node] = {}

    def again(node: fx.Node) -> fx.Node:
        if node not in made and _is_view(node):
            sources = {source: again(source) for source in node.all_input_nodes}
            with graph.inserting_before(output):
                made[node] = graph.node_copy(node, sources.__getitem__)
        return made.get(node, node)

    output.args = fx.map_arg(output.args, again)
    for node in reversed(made):
        if not node.users:
            graph.erase_node(node)
    return set(made.values())


def _is_view(node: fx.Node) -> bool:
    """Whether the result of an operation shares memory with an operand."""
    return _is_view(node.args[0]) if node.target is getitem else bool(getattr(node.target, "is_view", False))
