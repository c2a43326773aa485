"""The HTML page of a profile: the values that fill in its template. jinja2 is imported only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numc.studies.profile.rows import BETWEEN, OUTSIDE, TEXTS, ProfileData
from numc.studies.report.colours import CATEGORICAL, colour
from numc.studies.report.write import check_installed
from numc.support.files import write_whole
from numc.support.processor import processor_name

_LEAST = 0.0005
"""A share below this is too narrow for a bar of 1000 pixels."""


def write_page(profile: ProfileData, path: Path) -> None:
    """Write the page, completely or not at all. Raises NumcError if jinja2 is missing or the file cannot be written."""
    check_installed("jinja2")
    text = render(profile)
    write_whole(path, lambda file: file.write(text.encode()))


def render(profile: ProfileData) -> str:
    """Return the page as text. It refers to no other file."""
    from numc.studies.report.drawing import environment

    columns, rows = profile.cells()
    kinds = list(profile.by("kind"))
    looks = {kind: _look(kind, n) for n, kind in enumerate(kinds)}
    order = _in_order(profile)
    bar = [
        {"number": n, "share": row.share, "told": _told(columns, rows[n]), **looks[row.kind]}
        for n, row in sorted(enumerate(profile.rows), key=lambda one: order.get(one[1].layer, -1))
        if row.share >= _LEAST
    ]
    template = environment(Path(__file__).parent).get_template("profile.html.jinja")
    return template.render(
        profile=profile,
        columns=columns,
        rows=rows[:-1],
        total=rows[-1],
        looks=[looks[row.kind] for row in profile.rows],
        bar=bar,
        kinds=[{"label": kind, "share": share, **looks[kind]} for kind, share in profile.by("kind").items()],
        roles=[(name, share) for name, share in profile.by("role").items()],
        steps=[(n, step.seconds, list(step.roles.items())) for n, step in enumerate(profile.steps)],
        role_names=list(dict.fromkeys(name for step in profile.steps for name in step.roles)),
        left=TEXTS,
        name=", ".join(profile.models) or "A model",
        fmas=[fma for fma in profile.by("fma") if fma in {row.fma for row in profile.rows if row.fma}],
        machine=processor_name(),
        beyond=any(row.roofline is not None and row.roofline > 1 for row in profile.rows),
    )


def _look(kind: str, number: int) -> dict[str, str]:
    light, dark = colour("g0.700" if kind in (BETWEEN, OUTSIDE) else f"c{number % len(CATEGORICAL)}")
    return {"light": light, "dark": dark}


def _in_order(profile: ProfileData) -> dict[str, int]:
    """The layers of the fastest step in the order in which they ran."""
    layers = dict.fromkeys(event.layer for event in profile.events if event.step == profile.fastest and event.layer)
    return {layer: n for n, layer in enumerate(layers)}


def _told(columns: list[str], row: list[str]) -> str:
    """A row as one text, which appears over its piece of the bar."""
    cells: list[Any] = [f"{column} {cell}" for column, cell in zip(columns, row, strict=True) if cell != "-"]
    return ", ".join(cells)
