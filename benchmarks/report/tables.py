"""Tables of results, for the terminal and for the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table as RichTable

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of text: a cell for each row and column. The first `left` columns are names, the others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


def markdown(table: Table) -> str:
    """Return the table as Markdown for a page."""
    rule = ["---" if n < table.left else "---:" for n in range(len(table.columns))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (table.columns, rule, *table.rows))


def rich(title: str, table: Table) -> RichTable:
    """Return a table for the terminal."""
    shown = RichTable(title=title, title_justify="left")
    for n, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if n < table.left else "right")
    for row in table.rows:
        shown.add_row(*(cell.replace("**", "") for cell in row))
    return shown


def number(value: float | None, digits: int = 3) -> str:
    """Return `value` with about three significant digits and no exponent; an empty text for None."""
    if value is None:
        return ""
    text = f"{value:#.{digits}g}".removesuffix(".")
    return f"{value:.{0 if value > 1 else 8}f}" if "e" in text else text


def against(value: float, must: float | None) -> str:
    """Return `value`, with a mark if it misses its bar."""
    return number(value) if must is None or value <= must else f"{number(value)} ✗"


def duration(value: float | None) -> str:
    """Return a time in the unit that gives a readable number."""
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value / 1e-6)} µs"


def short(operator: str) -> str:
    """Return an operator's name for tables: long texts are shortened by what the datapath implies."""
    for text, name in (
        ("fma(a=bf16x2,acc=bf16x2", "bf16_2_2{4}"),
        ("fma(a=bf16,acc=bf16x2", "bf16_1_2"),
        ("fma(a=bf16,acc=bf16", "bf16_1_1"),
    ):
        if operator.startswith(text) and operator.endswith("datapath=exact)"):
            return f"exact `{name}`"
    return f"`{operator}`" if "torch" not in operator and "onnxruntime" not in operator else operator


def pivot(
    rows: Iterable[Row],
    index: tuple[str, ...],
    column: str,
    cell: Callable[[Row], str],
    head: Callable[[Any], str] = str,
) -> Table:
    """Return a table with one line per combination of the `index` keys and one column per value of `column`."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    for row in rows:
        name = head(row[column])
        columns[name] = None
        lines.setdefault(tuple(str(row[key]) for key in index), {})[name] = cell(row)
    body = tuple((*key, *(cells.get(name, "") for name in columns)) for key, cells in lines.items())
    return Table((*index, *columns), body, len(index))
