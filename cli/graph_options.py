"""``numc explain --graph``: its options, and the page that it writes."""

from __future__ import annotations

from dataclasses import dataclass

import click

from numc.cli import output
from numc.cli.grouped import grouped
from numc.cli.inputs import gather, read_data
from numc.cli.report_places import check_page
from numc.cli.source import Arithmetic, check_model, program_from
from numc.support.errors import NumcError


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The options of a graph."""

    graph: str | None
    run: bool

    def check(self) -> None:
        """Raise NumcError for an option without --graph, and for a page that cannot be written."""
        if self.graph is None:
            if not self.run:
                raise NumcError("--no-run is about a graph: ask for one with --graph")
            return
        check_page(self.graph)


graph_options = grouped(
    "drawn",
    Drawn,
    click.option(
        "--graph", metavar="FILE.html", help="Write the layers as a picture, with the error and time of each."
    ),
    click.option("--run/--no-run", default=True, help="Of --graph: run the model, for errors and times (default)."),
)


def write_graph(
    model: str, arithmetic: Arithmetic, drawn: Drawn, *, data: tuple[str, ...], threads: int | None, batch: int | None
) -> None:
    """Write the page of a model's graph. data: files of inputs, random numbers if there are none.

    Raises NumcError.
    """
    assert drawn.graph is not None
    check_model(model)
    inputs = None
    if drawn.run:
        inputs = (
            read_data(data)
            if data
            else gather(program_from(model, Arithmetic(fixed=arithmetic.fixed)), (), 0, batch or 1)
        )
    from numc.frontends.load import load_file
    from numc.studies.model_graph.model_graph import graph_of

    with output.busy(f"drawing {model}"):
        imported, options = load_file(model, arithmetic.fixed), arithmetic.options()
        graph_of(model, imported, options, inputs, threads=threads, random=not data).write(drawn.graph)
