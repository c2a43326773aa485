"""The tables of docs/accelerators.md, from the results file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from measured import NETWORKS

Row = Mapping[str, Any]  # of the results file: names, errors by network, dots, published
MARKS = ("units", "layers")


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """The tables by the marks in the page."""
    return {"units": _units(rows), "layers": "\n\n".join(_layers(rows, network) for network in NETWORKS)}


def written(text: str, rows: Sequence[Row]) -> str:
    """The text of the page with its tables, which stand between ``<!-- NAME -->`` and ``<!-- end of NAME -->``."""
    for mark, table in tables(rows).items():
        begin, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}{table}{end}{rest.split(end)[1]}"
    return text


def _units(rows: Sequence[Row]) -> str:
    cells = []
    for row in rows:
        errors = [_error(row["errors"][network]["outputs"]) for network in NETWORKS]
        dots = [f"{row['dots'][which]:.1f}" for which in ("median", "largest")]
        cells.append([_names(row), *errors, *dots, *_verdict(row)])
    head = [*NETWORKS, "median, ulp", "largest, ulp", "steps compared", "differ"]
    return _table(["operator", *head], cells)


def _layers(rows: Sequence[Row], network: str) -> str:
    """The errors of the layers; operators with the same numbers, as they are printed, share a row."""
    found: dict[tuple[str, ...], list[str]] = {}
    most = max(len(row["errors"][network]["layers"]) for row in rows)
    for row in rows:
        errors = [_error(error) for _, error in row["errors"][network]["layers"]]
        found.setdefault((*["-"] * (most - len(errors)), *errors), []).append(_names(row))
    cells = [[", ".join(names), *errors] for errors, names in found.items()]
    return _table([network, *map(str, range(most))], cells)


def _names(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row["names"])


def _error(error: float) -> str:
    return f"{error:.1e}" if error else "0"


def _verdict(row: Row) -> tuple[str, str]:
    if (found := row["published"]) is None:
        return "-", "-"
    return f"{found['steps']:,}", str(found["differ"])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
