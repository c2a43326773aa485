"""The drawing of a schedule: a row of bars for each stream, and below it the bytes in use."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numc.studies.report.charts import Axis, linear
from numc.studies.report.colours import CATEGORICAL, INK, colour
from numc.studies.report.place import CHARACTER, LINE
from numc.studies.report.svg import CARD, GRID, SOFT, STYLE, Box, filled, stroked, written
from numc.studies.report.write import check_installed
from numc.support.errors import NumcError, quoted
from numc.support.files import write_whole

SUFFIXES = (".svg", ".png")
_FEW = 200
"""So many bars have edges, which would hide narrow ones."""
_WIDE, _LEFT, _TOP, _ROW, _ROWS, _LOW = 900.0, 66.0, 40.0, 24.0, 24, 110.0
Bar = tuple[int, float, float, str]
"""A stream, when an operation begins and ends in seconds, and what it is called in the legend."""
Steps = Sequence[tuple[float, int]]


def check_drawing(path: Path) -> None:
    """Raise NumcError for a file that is neither .svg nor .png, and if what makes a .png is not installed."""
    if path.suffix not in SUFFIXES:
        raise NumcError(f"schedule {quoted(path)}: want a name that ends in {' or '.join(SUFFIXES)}")
    if path.suffix == ".png":
        check_installed("matplotlib", "resvg_py")


def draw(path: Path, title: str, bars: Sequence[Bar], memory: Mapping[str, Steps], seconds: float) -> None:
    """Write the drawing. memory: steps of the bytes in use, by the name of each line; seconds: where lines end.

    Raises NumcError as `check_drawing` does, or if the file cannot be written.
    """
    check_drawing(path)
    text = timeline(title, bars, memory, seconds)
    if path.suffix == ".svg":
        data = text.encode()
    else:
        from numc.studies.report.plots import png

        data = png(text)
    write_whole(path, lambda file: file.write(data))


def timeline(title: str, bars: Sequence[Bar], memory: Mapping[str, Steps], seconds: float) -> str:
    """Return the drawing as SVG."""
    streams = max((stream for stream, *_ in bars), default=0) + 1
    time = _from_zero(linear("ms", [0.0, 1e3 * max([seconds, *(end for _, _, end, _ in bars)])], margin=0.0, parts=8))
    box = Box(_LEFT, _TOP, _WIDE - _LEFT - 14, _ROW * min(streams, _ROWS))
    parts = [written(8, 18, title, INK, weight=600), written(box.left, box.top - 6, "stream", SOFT)]
    parts += _ticks(time, box)
    parts += _streams(bars, streams, time, box)
    bottom = box.top + box.height
    if memory:
        low = Box(box.left, bottom + 34, box.width, _LOW)
        parts += _memory(memory, time, low, seconds)
        bottom = low.top + low.height
    for value, text in time.ticks:
        last = time.place(value) > 0.97 and len(text) > 2
        parts.append(written(box.x(time, value) + 6 * last, bottom + 16, text, SOFT, "end" if last else "middle"))
    parts.append(written(box.left + box.width / 2, bottom + 34, time.label, SOFT, "middle"))
    keys, bottom = _keys(_shades(bars), bottom + 44)
    size = f'viewBox="0 0 {_WIDE:g} {bottom:g}" width="{_WIDE:g}" height="{bottom:g}"'
    label = html.escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">{STYLE}'
        f"{''.join([*parts, *keys])}</svg>"
    )


def _shades(bars: Sequence[Bar]) -> dict[str, tuple[str, str]]:
    """The colours of names: those that differ most, and then greys."""
    names, count = list(dict.fromkeys(name for *_, name in bars)), len(CATEGORICAL)
    greys = max(1, len(names) - count)
    return {name: colour(f"c{n}" if n < count else f"g{(n - count) / greys:.3f}") for n, name in enumerate(names)}


def _from_zero(axis: Axis) -> Axis:
    return Axis(axis.label, 0.0, axis.high, tuple(tick for tick in axis.ticks if tick[0] >= 0))


def _ticks(time: Axis, box: Box) -> Iterator[str]:
    for value, _ in time.ticks:
        x = box.x(time, value)
        yield f'<path class="k" d="M{x:.1f} {box.top:.1f}v{box.height:.1f}" {stroked(GRID)}/>'


def _streams(bars: Sequence[Bar], streams: int, time: Axis, box: Box) -> Iterator[str]:
    """The numbers of streams, and for each name a path of its bars."""
    high = box.height / streams
    for stream in range(0, streams, max(1, streams // 12)):
        yield written(box.left - 8, box.top + high * (stream + 0.5) + 4, str(stream), SOFT, "end")
    edge = f'stroke="{CARD[0]}" stroke-width="0.5"' if len(bars) < _FEW else ""
    for name, shade in _shades(bars).items():
        path = ""
        for stream, begin, end, own in bars:
            if own == name:
                left, right = box.x(time, 1e3 * begin), box.x(time, 1e3 * end)
                top = box.top + high * stream
                path += f"M{left:.2f} {top + 0.1 * high:.2f}H{right:.2f}V{top + 0.9 * high:.2f}H{left:.2f}z"
        yield f'<path class="bars f" d="{path}" {edge} {filled(shade)}><title>{html.escape(name)}</title></path>'


def _memory(memory: Mapping[str, Steps], time: Axis, box: Box, seconds: float) -> Iterator[str]:
    """The bytes in use, a line of steps for each name, with a key above."""
    most = max((used for steps in memory.values() for _, used in steps), default=0) / 2**20
    axis = _from_zero(linear("MiB of buffers", [0.0, most or 1.0], margin=0.08, parts=3))
    yield written(box.left, box.top - 8, axis.label, SOFT)
    yield from _ticks(time, box)
    for value, text in axis.ticks:
        y = box.y(axis, value)
        yield f'<path class="k" d="M{box.left:.1f} {y:.1f}h{box.width:.1f}" {stroked(GRID)}/>'
        yield written(box.left - 8, y + 4, text, SOFT, "end")
    left = box.left + 140
    for n, (name, steps) in enumerate(memory.items()):
        shade = colour(f"c{n}")
        path = ""
        for at, used in steps:
            x, y = box.x(time, 1e3 * at), box.y(axis, used / 2**20)
            path += f"H{x:.2f}V{y:.2f}" if path else f"M{x:.2f} {y:.2f}"
        path += f"H{box.x(time, 1e3 * seconds):.2f}" if path else "M0 0"
        yield f'<path class="steps k" d="{path}" fill="none" stroke-width="1.75" {stroked(shade)}/>'
        yield f'<path class="k" d="M{left:.1f} {box.top - 12:.1f}h18" stroke-width="3" {stroked(shade)}/>'
        yield written(left + 24, box.top - 8, name, SOFT)
        left += 48 + CHARACTER * len(name)


def _keys(names: Mapping[str, tuple[str, str]], top: float) -> tuple[list[str], float]:
    """The colours of bars with their names, in lines, and where these end."""
    parts, left = [], _LEFT
    for name, shade in names.items():
        wide = 34 + CHARACTER * len(name)
        if left > _LEFT and left + wide > _WIDE:
            left, top = _LEFT, top + LINE + 4
        parts.append(f'<rect class="f" x="{left:.1f}" y="{top:.1f}" width="14" height="10" rx="2" {filled(shade)}/>')
        parts.append(written(left + 19, top + 9, name, SOFT))
        left += wide
    return parts, top + LINE + 6
