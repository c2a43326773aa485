"""The page of a graph: the values that fill in its template, and the facts that it shows of a layer."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import Any

from numc.studies.model_graph.nodes import INPUT, OUTPUT, GraphData, Node
from numc.studies.model_graph.picture import picture, svg
from numc.studies.model_graph.repeats import Repeat, repeats
from numc.studies.report.colours import CATEGORICAL, colour
from numc.studies.report.drawing import environment, number, percent

_OTHERS = "other operators"


def render(graph: GraphData) -> str:
    """Return the page as text. It refers to no other file; its one script shows facts, zooms and finds."""
    page = _Page(graph)
    folded = repeats(graph.nodes, graph.edges)
    every = picture(graph.nodes, graph.edges)
    views = {"all": svg(every, f"all layers of {Path(graph.model).name}", page.texts, page.attributes)}
    if folded:
        drawn = picture(graph.nodes, graph.edges, folded)
        name = f"layers of {Path(graph.model).name}, repeated blocks once"
        views = {"folded": svg(drawn, name, page.texts, page.attributes), **views}
    facts = json.dumps([page.facts(n) for n in range(len(graph.nodes))], ensure_ascii=False)
    return (
        environment(Path(__file__).parent)
        .get_template("model.html.jinja")
        .render(
            g=graph,
            name=Path(graph.model).name,
            views=views,
            operators=page.looks.items(),
            saved=[(repeat, _names(graph, repeat)) for repeat in folded],
            facts=facts.replace("<", "\\u003c"),
            rows=[(n, node, page.lines(n)[2], page.tints(n)) for n, node in enumerate(graph.nodes) if _is_layer(node)],
            most=1e3 * page.longest,
            fmas=sum(node.fmas for node in graph.nodes),
        )
    )


class _Page:
    """The looks and the texts of nodes."""

    def __init__(self, graph: GraphData) -> None:
        self.graph = graph
        self.longest = max((node.seconds or 0.0 for node in graph.nodes), default=0.0)
        self._most = max((node.fmas for node in graph.nodes), default=0)
        counts: dict[str, int] = {}
        for node in graph.layers:
            counts[_operators(node)] = counts.get(_operators(node), 0) + 1
        self.looks: dict[str, tuple[str, str]] = {}
        for n, name in enumerate(sorted(counts, key=lambda name: (name == _EXACT, -counts[name]))):
            grey = name == _EXACT or n >= len(CATEGORICAL)
            self.looks[name if n < len(CATEGORICAL) else _OTHERS] = colour("g0.500" if grey else f"c{n}")

    def lines(self, n: int) -> tuple[str, str, str]:
        """The three lines in the box of a node."""
        node = self.graph.nodes[n]
        if not _is_layer(node):
            return node.name, f"{node.word} {_shape(node.shape)}", ""
        return node.name, f"{node.word} · {_operators(node)}", _shape(node.shape)

    def texts(self, numbers: tuple[int, ...]) -> tuple[tuple[str, str, str], dict[str, str]]:
        """The lines in the box of some nodes, and the largest error and time of these nodes."""
        nodes = [self.graph.nodes[n] for n in numbers]
        errors = [node.error for node in nodes if node.error is not None]
        seconds = [node.seconds for node in nodes if node.seconds is not None]
        values = {"error": number(max(errors, key=_worst), 2)} if errors else {}
        if seconds:
            values["time"] = f"{1e3 * max(seconds):.4f} ms"
        return self.lines(numbers[0]), values

    def tints(self, *numbers: int) -> dict[str, float | None]:
        """Strengths of the colours for the error, time and multiply-adds of some nodes; None for no number."""
        nodes = [self.graph.nodes[n] for n in numbers]
        errors = [node.error for node in nodes if node.error is not None]
        seconds = [node.seconds for node in nodes if node.seconds is not None]
        fmas = max((node.fmas for node in nodes), default=0)
        return {
            "error": max(map(_tint, errors), default=None),
            "time": max(seconds) / self.longest if seconds and self.longest else None,
            "work": fmas / self._most if fmas and self._most else None,
        }

    def attributes(self, numbers: tuple[int, ...]) -> str:
        """The attributes of a box: what it stands for, its colours, and what it is called."""
        node = self.graph.nodes[numbers[0]]
        light, dark = self.looks.get(_operators(node)) or self.looks.get(_OTHERS) or colour("g0.500")
        if not _is_layer(node):
            light, dark = colour("g0.500")
        tints = {name: tint for name, tint in self.tints(*numbers).items() if tint is not None}
        style = "".join(f";--{name}:{tint:.3f}" for name, tint in tints.items())
        classes = " ".join(["node", *([] if _is_layer(node) else ["end"]), *(f"has-{name}" for name in tints)])
        label = html.escape(", ".join(filter(None, self.lines(numbers[0]))))
        nodes = " ".join(map(str, numbers))
        return (
            f'class="{classes}" data-nodes="{nodes}" style="--l:{light};--d:{dark}{style}" tabindex="0" '
            f'role="button" aria-label="{label}"'
        )

    def facts(self, n: int) -> dict[str, Any]:
        """The facts that the page shows of a node: its name, and pairs of a name and a text."""
        node = self.graph.nodes[n]
        share = self.graph.run.seconds if self.graph.run is not None else 0.0
        total = sum(each.fmas for each in self.graph.nodes) or 1
        pairs = [
            ("is", node.word if node.role in ("", "forward") else f"{node.word}, {node.role}"),
            ("gives", f"{_shape(node.shape)} {node.dtype}"),
            *(("weight", f"{name} {_shape(shape)}") for name, shape in node.weights),
            ("multiply-adds", f"{node.fmas:,} ({percent(node.fmas / total)})" if node.fmas else ""),
            ("error", number(node.error, 2) if node.error is not None else ""),
            ("time", _time(node, share)),
        ]
        for row in node.rows:
            pairs.append(("contraction" if row["position"] is not None else "operations", _row(row)))
            pairs.append(("decided by", row["rule"]))
        if _is_layer(node) and not node.rows:
            pairs.append(("arithmetic", "exact: nothing is rounded"))
        return {"name": node.name, "facts": [pair for pair in dict.fromkeys(pairs) if pair[1]]}


_EXACT = "exact"


def _operators(node: Node) -> str:
    return ", ".join(node.operators) or _EXACT


def _is_layer(node: Node) -> bool:
    return node.word not in (INPUT, OUTPUT)


def _worst(error: float) -> tuple[bool, float]:
    return error != error, error


def _tint(error: float) -> float:
    """From an error of 10^-10, without tint, to 1, the full tint."""
    if not math.isfinite(error):
        return 1.0
    return min(1.0, max(0.0, 1 + math.log10(error) / 10)) if error > 0 else 0.0


def _shape(shape: tuple[int | None, ...]) -> str:
    return " × ".join("?" if size is None else str(size) for size in shape) or "a number"


def _time(node: Node, whole: float) -> str:
    if node.seconds is None:
        return ""
    return f"{1e3 * node.seconds:.4f} ms ({percent(node.seconds / whole if whole else 0.0)})"


def _row(row: Any) -> str:
    """A row of the table of a policy as one text."""
    parts = [f"{row['shape'].replace(' x ', ' × ')} in {row['fma']}"] if row["position"] is not None else []
    return "; ".join([*parts, f"other operations in {row['ops']}" if parts else f"in {row['ops']}"])


def _names(graph: GraphData, repeat: Repeat) -> tuple[str, str]:
    return graph.nodes[repeat.first].name, graph.nodes[repeat.end - 1].name
