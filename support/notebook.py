"""Views of objects in notebooks: small HTML without scripts, for light and dark grounds alike.

Texts take the colour of the notebook, and lines are grey with transparency, so that no ground has to be known. Every
text is escaped: names come from users and models.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from numc.support.errors import shortened

ROWS = 24
"""A table shows so many rows; a line below it says how many more there are."""
BLUE, ORANGE, GREEN = "#3f83c8", "#d0722a", "#2f9a77"  # each has a contrast of 3 or more with white and with black
_CARD = (
    "display:inline-block;max-width:100%;overflow-x:auto;box-sizing:border-box;padding:10px 14px;border-radius:8px;"
    "border:1px solid rgba(128,128,128,.4);font:13px/1.5 system-ui,sans-serif;color:inherit;text-align:left"
)
_CELL = "padding:2px 16px 2px 0;border:0;background:none;white-space:nowrap;vertical-align:top"
_FADE = 48
"""So many pixels at the right of a wide table fade out, more than the room between columns, so that a reader sees it.
The last column has that much room behind it: nothing of a table that fits, or was scrolled to its end, fades."""
_MASK = f"linear-gradient(to right,#000 calc(100% - {_FADE}px),transparent)"
_WIDE = f"overflow-x:auto;-webkit-mask-image:{_MASK};mask-image:{_MASK}"
_RULE = ";border-bottom:1px solid rgba(128,128,128,.4)"


def text(value: object, most: int = 80) -> str:
    """Return a text of a user or a model for HTML: shortened, and without what would be taken for markup."""
    return html.escape(shortened(value, most))


def card(title: str, *parts: str, about: str = "") -> str:
    """Return a frame with a title, what the thing is, and parts that are HTML."""
    small = f' <span style="opacity:.7">{text(about)}</span>' if about else ""
    head = f'<div style="margin-bottom:4px"><b>{text(title, 120)}</b>{small}</div>'
    return f'<div style="{_CARD}">{head}{"".join(parts)}</div>'


def facts(given: Mapping[str, object]) -> str:
    """Return names with their values, without those whose value is None or empty."""
    rows = [
        f'<tr style="background:none"><td style="{_CELL};text-align:left;opacity:.7">{text(name)}</td>'
        f'<td style="{_CELL};text-align:left;white-space:normal;overflow-wrap:anywhere">{text(value, 240)}</td></tr>'
        for name, value in given.items()
        if value is not None and value != ""
    ]
    return f'<table style="border-collapse:collapse;border:0;margin:0">{"".join(rows)}</table>'


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table whose first column is names, and all others numbers. Where it goes on to the right, it fades."""

    def row(cells: Iterable[object], kind: str, more: str = "") -> str:
        aligned = ("left", *("right" for _ in columns[1:]))
        made = [
            f'<{kind} style="{_CELL};text-align:{side}{more}">{text(cell)}</{kind}>'
            for cell, side in zip(cells, aligned, strict=True)
        ]
        return f'<tr style="background:none">{"".join(made)}</tr>'

    body = "".join(row(cells, "td") for cells in rows[:ROWS])
    rest = note(f"and {len(rows) - ROWS} more") if len(rows) > ROWS else ""
    head = row(columns, "th", ";font-weight:600;opacity:.7" + _RULE)
    whole = f'<table style="border-collapse:collapse;border:0;margin:0">{head}{body}</table>'
    room = f"display:inline-block;padding-right:{_FADE - 16}px"
    return f'<div style="{_WIDE}"><div style="{room}">{whole}</div></div>{rest}'


def note(sentence: str) -> str:
    """Return a sentence in small letters."""
    return f'<div style="opacity:.7;font-size:12px;margin-top:4px;max-width:72ch">{text(sentence, 400)}</div>'


def on_white(drawing: str) -> str:
    """Return a drawing on a white ground, for which its colours are made: no one says whether a notebook is dark."""
    fitting = drawing.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
    return f'<div style="background:#fff;border-radius:6px;margin-top:10px;max-width:486px;padding:8px">{fitting}</div>'


def fields(parts: Sequence[tuple[str, int]]) -> str:
    """Return the picture of a code: a box for each bit, in the colour of its field."""
    colours = {"sign": ORANGE, "exponent": GREEN}
    boxes, at, most = [], 0, 12
    for name, bits in parts:
        box = f'y="1" width="{most - 2}" height="14" rx="2" fill="{colours.get(name, BLUE)}"'
        boxes += [f'<rect x="{(at + n) * most + 1}" {box}><title>{text(name)}</title></rect>' for n in range(bits)]
        at += bits
    words = "bits: " + ", ".join(f"{bits} {name}" for name, bits in parts)
    width = f'width="{at * most}" height="16" viewBox="0 0 {at * most} 16"'
    picture = f'<svg {width} role="img" aria-label="{text(words)}">{"".join(boxes)}</svg>'
    return f'<div>{picture}</div><div style="opacity:.7;font-size:12px">{text(words)}</div>'


def line_of(values: Sequence[float]) -> str:
    """Return the picture of a number line with a stroke at each value; they ascend and are finite."""
    low, high = values[0], values[-1]
    width, span = 480, (high - low) or 1.0
    places = sorted({round(6 + (width - 12) * (value - low) / span, 1) for value in values})
    strokes = "".join(f"M{x:g} 4v16" for x in places)
    ends = (
        f'<text x="6" y="36" fill="currentColor" font-size="11">{low:g}</text>'
        f'<text x="{width - 6}" y="36" fill="currentColor" font-size="11" text-anchor="end">{high:g}</text>'
    )
    return (
        f'<div><svg width="{width}" height="40" viewBox="0 0 {width} 40" style="max-width:100%" role="img" '
        f'aria-label="{len(values)} values"><path d="M6 20H{width - 6}" stroke="currentColor" stroke-opacity=".4"/>'
        f'<path d="{strokes}" stroke="{BLUE}" stroke-width="1"/>{ends}</svg></div>'
    )
