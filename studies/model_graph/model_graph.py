"""numc.graph: the layers of a model with their arithmetic, and what flows between them, as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numc.compiler.lower import lowered, signature
from numc.compiler.options import Options
from numc.numerics.policy.policy import Decision, Policy
from numc.passes.explicit.layers_of import decide
from numc.studies.compare import named_model
from numc.studies.data import named
from numc.studies.model_graph.nodes import GraphData, Node
from numc.studies.model_graph.reader import read
from numc.studies.model_graph.run_numbers import measured
from numc.studies.report.write import check_installed
from numc.support import notebook
from numc.support.arguments import checked_fixed, checked_integer
from numc.support.environment import in_default_environment
from numc.support.files import write_whole

if TYPE_CHECKING:
    import numpy.typing as npt


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class ModelGraph(GraphData):
    """The outcome of `numc.graph`.

    model: its name. policy: what was applied. nodes: layers in program order, and inputs and outputs. edges: pairs of
    numbers of nodes, from the one that gives a tensor to the one that takes it; the first is smaller. run: how errors
    and times were measured, None if they were not.
    """

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the layers, without times, which another run changes."""
        rows = [
            [node.name, node.word, ", ".join(node.operators) or "exact", f"{node.fmas:,}", error]
            for node in self.layers
            for error in ["-" if node.error is None else f"{node.error:.1e}"]
        ]
        table = notebook.table(("layer", "is", "arithmetic", "multiply-adds", "error"), rows)
        about = f"{len(rows)} layers; .write(FILE) draws them"
        return notebook.card(os.path.basename(self.model) or "a model", table, about=about)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page that needs no other file: the picture, and its layers as a table.

        Raises NumcError if the file cannot be written, or if jinja2 is not installed.
        """
        check_installed("jinja2")
        from numc.studies.model_graph.graph_page import render

        text = render(self)
        write_whole(Path(path), lambda file: file.write(text.encode()))


@in_default_environment
def graph(
    model: Any,
    inputs: Any = None,
    *,
    fma: str = "fp32",
    ops: str = "fp32",
    policy: str | os.PathLike[str] | Policy | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
    threads: int | None = None,
) -> ModelGraph:
    """Return the layers of a model with their arithmetic, and what flows between them.

    model: as for numc.compile. inputs: an array, or arrays by name of the input, on which the model runs in this
    arithmetic and in fp32, for the error and the time of each layer; None for neither. fma, ops, policy, shapes,
    values: as for numc.compile. threads: of the run. Raises NumcError if the model, its inputs or an option is not
    valid.
    """
    options = Options(fma=fma, ops=ops, policy=policy)
    options.resolved()
    if threads is not None:
        checked_integer(threads, "threads", 1, 1024)
    title, imported = named_model(model, None, checked_fixed(shapes, values), None, purpose="draw")
    return graph_of(title, imported, options, inputs, threads=threads)


def graph_of(
    title: str, imported: Any, options: Options, inputs: Any = None, *, threads: int | None = None, random: bool = False
) -> ModelGraph:
    """Return the graph of a model that is imported. random: whether the inputs are random numbers. Raises NumcError."""
    module = lowered(imported, options, "linalg")
    decisions = decide(module.operation, options.resolved()[0])
    takes, gives = signature(imported)
    nodes, edges = read(module.operation, decisions, ([spec.name for spec in takes], [spec.name for spec in gives]))
    run = None
    samples = 1
    if inputs is not None:
        arrays = named(inputs, takes)
        nodes, run = measured(nodes, imported, options, arrays, threads=threads, random=random)
        samples = run.samples
    nodes = _counted(nodes, [decision for _, decision in decisions], samples)
    return ModelGraph(model=title, policy=str(options.resolved()[0]), nodes=nodes, edges=edges, run=run)


def _counted(nodes: tuple[Node, ...], decisions: list[Decision], samples: int) -> tuple[Node, ...]:
    """The nodes with the multiply-adds of their contractions; free sizes are the number of samples."""
    counts = {}
    for decision in decisions:
        if decision.layer.position is not None:
            sizes = decision.layer.fixed(samples).sizes
            counts[decision.layer.position] = _product(sizes)
    return tuple(
        replace(node, fmas=sum(counts[row["position"]] for row in node.rows if row["position"] is not None))
        for node in nodes
    )


def _product(sizes: Mapping[str, int | None]) -> int:
    total = 1
    for size in sizes.values():
        total *= size or 1
    return total
