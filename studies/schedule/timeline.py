"""The drawing of a schedule: a row of bars for each stream, and below it the bytes in use."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numc.studies.report.colours import INK, colour
from numc.studies.report.write import check_installed
from numc.support.errors import NumcError, quoted
from numc.support.files import write_whole

SUFFIXES = (".svg", ".png")
_FEW = 200
"""So many bars have edges, which would hide narrow ones."""
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#dfe4ea",
    "axes.labelcolor": "#566173",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dfe4ea",
    "xtick.color": "#566173",
    "ytick.color": "#566173",
    "text.color": INK[0],
    "font.size": 9,
    "svg.fonttype": "none",
}
Bar = tuple[int, float, float, str]
"""A stream, when an operation begins and ends in seconds, and what it is called in the legend."""


def check_drawing(path: Path) -> None:
    """Raise NumcError for a file that is neither .svg nor .png, and if matplotlib is not installed."""
    if path.suffix not in SUFFIXES:
        raise NumcError(f"schedule {quoted(path)}: want a name that ends in {' or '.join(SUFFIXES)}")
    check_installed("matplotlib")


def draw(
    path: Path, title: str, bars: Sequence[Bar], memory: Mapping[str, Sequence[tuple[float, int]]], seconds: float
) -> None:
    """Write the drawing. memory: steps of the bytes in use, by the name of each line; seconds: where lines end.

    Raises NumcError as `check_drawing` does, or if the file cannot be written.
    """
    check_drawing(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    streams = max((stream for stream, *_ in bars), default=0) + 1
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 2.8 + 0.25 * min(streams, 24)), layout="constrained")
        upper, lower = figure.subplots(2, sharex=True, height_ratios=[max(2, 0.3 * min(streams, 24)), 1.2])
        names = list(dict.fromkeys(name for *_, name in bars))
        look: Any = {"linewidth": 0.5, "edgecolor": "white"} if len(bars) < _FEW else {"linewidth": 0}
        for n, name in enumerate(names):
            label: str | None = name
            for stream in dict.fromkeys(stream for stream, *_, own in bars if own == name):
                spans = [(1e3 * a, 1e3 * (b - a)) for of, a, b, own in bars if of == stream and own == name]
                upper.broken_barh(spans, (stream - 0.4, 0.8), color=colour(f"c{n % 8}")[0], label=label, **look)
                label = None
        upper.set_title(title)
        upper.set_ylabel("stream")
        upper.set_yticks(range(0, streams, max(1, streams // 8)))
        upper.set_ylim(streams - 0.5, -0.5)
        if names:
            figure.legend(loc="outside lower left", ncols=6, frameon=False, fontsize=8)
        for n, (name, steps) in enumerate(memory.items()):
            times = [*(1e3 * time for time, _ in steps), 1e3 * seconds]
            used = [used / 2**20 for _, used in steps]
            if used:
                lower.step(times, [*used, used[-1]], where="post", color=colour(f"c{n}")[0], label=name)
        lower.set_ylabel("MiB of buffers")
        lower.set_xlabel("ms")
        if memory:
            lower.legend(frameon=False, fontsize=8)
        data = _image(figure, path.suffix[1:])
    write_whole(path, lambda file: file.write(data))


def _image(figure: Any, kind: str) -> bytes:
    """Return a figure as a file of a kind, ``png`` or ``svg``: the same bytes for the same figure."""
    data = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    figure.savefig(data, format=kind, dpi=150, metadata=metadata)
    return data.getvalue()
