"""Charts as SVG: one drawing, which a page shows and a file is.

Colours stand in attributes as they are on white, which every program that reads SVG knows, and beside them in
variables as they are on black, which the style sheet of charts takes where a reader wants dark pages.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from numc.studies.report.charts import Axis, Band, Chart, Rule, Series
from numc.studies.report.colours import colour
from numc.studies.report.place import CHARACTER, LINE, MARKER, apart, clearest, distinct, place_texts

SOFT, GRID, CARD = ("#566173", "#9aa7b8"), ("#dfe4ea", "#2b3442"), ("#ffffff", "#161b23")
SHAPES = (
    "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0z",
    "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0z",
    "M-4.3-4.3h8.6v8.6h-8.6z",
    "M0-5.4 5.2 4.2h-10.4z",
    "M0-5.8 5.8 0 0 5.8-5.8 0z",
    "M0 5.4 5.2-4.2h-10.4z",
)
CROWDED = 16
"""With more points, a line has no markers."""
_DIGIT = 7.4
_NAMED = 24
"""The names of so many places on an axis fit below it, when they are turned."""
_LETTERS = 'font-size="12" font-family="system-ui, DejaVu Sans, sans-serif"'
_HALO = f' paint-order="stroke" stroke="{CARD[0]}" stroke-width="3" stroke-linejoin="round"'
"""Of a text that may lie on lines."""
STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){svg{background:#161b23}.h{stroke:#161b23}.f{fill:var(--d)}.k{stroke:var(--d)}}
</style>"""


@dataclass(frozen=True)
class Box:
    """The drawing area of a chart, in pixels."""

    left: float
    top: float
    width: float
    height: float

    def x(self, axis: Axis, value: float) -> float:
        """Return the place of a value of the horizontal axis."""
        return self.left + self.width * axis.place(value)

    def y(self, axis: Axis, value: float) -> float:
        """Return the place of a value of the vertical axis."""
        return self.top + self.height * (1 - axis.place(value))


@dataclass(frozen=True)
class Drawing:
    """A chart that can be drawn in any width.

    labels: "points" if each point has its text beside it, "ends" if each line has its text at its end, "" for none.
    height: of the drawing area. names: of the places of the horizontal axis, instead of their numbers. thin: whether
    lines have no markers.
    """

    chart: Chart
    labels: str = ""
    height: float = 300.0
    names: Sequence[str] = field(default=())
    thin: bool = False

    @property
    def title(self) -> str:
        """The title of the chart."""
        return self.chart.title

    def showing(self, names: Sequence[str], thin: bool) -> Drawing:
        """Return the drawing with names of places, or with lines without markers."""
        return replace(self, names=names, thin=thin)

    def svg(self, width: float, alone: bool = False) -> str:
        """Return the SVG. alone: as a file, with a title and a style sheet."""
        chart = self.chart
        box, total = self._box(width, alone)
        parts = [*_axes(chart, box, self._names(box))]
        parts += [_line(box, rule.axis, _at(chart, box, rule.axis, rule.value)) for rule in chart.rules]
        parts += [part for rule in chart.rules for part in _rule_text(chart, box, rule)]
        parts += _guide(chart, box)
        parts += ['<g class="lines">', *self._lines(box), "</g>"]
        parts += [part for series in chart.series for part in self._points(series, box)]
        parts += self._texts(box)
        parts += _bands(chart.bands, chart.x, box)
        if alone:
            rows = list(_keys(chart.bands, width, total))
            parts, total = [*parts, *rows], total + (LINE + 6 if rows else 0)
        head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {total:g}"' if alone else (
            f'class="drawing" viewBox="0 0 {width:g} {total:g}"'
        )  # fmt: skip
        title = f"{STYLE}{written(8, 16, chart.title, colour('ink'), weight=600)}" if alone else ""
        size = f'width="{width:g}" height="{total:g}"'
        return f'<svg {head} {size} role="img" aria-label="{html.escape(chart.title)}">{title}{"".join(parts)}</svg>'

    def _box(self, width: float, alone: bool) -> tuple[Box, float]:
        chart = self.chart
        left = 14 + _DIGIT * max([len(text) for _, text in chart.y.ticks], default=3)
        right = 14.0
        if self.labels == "ends":
            longest = max((len(text) for text in self._ends(width)), default=0)
            right = 26 + CHARACTER * longest
        top = 32.0 + (22 if alone else 0)
        box = Box(left, top, width - left - right, self.height)
        below = 11 * len(chart.bands) + 40 + self._turned(box)
        return box, top + self.height + below

    def _names(self, box: Box) -> dict[int, str]:
        """The names below the horizontal axis, by the number of the place."""
        if not self.names or len(self.names) > _NAMED or box.width / len(self.names) < LINE:
            return {}
        return dict(enumerate(distinct(self.names, 16)))

    def _turned(self, box: Box) -> float:
        """The height of turned names."""
        return 4.6 * max(map(len, self._names(box).values()), default=0)

    def _ends(self, width: float) -> list[str]:
        labels = [series.label for series in self.chart.series if series.line and not series.faint]
        return distinct(labels, 20 if width > 400 else 12)

    def _lines(self, box: Box) -> Iterator[str]:
        """Lines; one that lies on others is dashed, so that they stay visible."""
        chart, before = self.chart, list[Series]()
        for series in chart.series:
            yield from self._area(series, box)
        for series in chart.series:
            if not series.line:
                continue
            points = [(box.x(chart.x, x), box.y(chart.y, y)) for x, y in series.points]
            gaps = 0 if self.thin else sum(_covers(chart, series, other, box) for other in before)
            before.append(series)
            width = 0.8 if series.faint else 1.6 if self.thin else 2.25
            more = f' stroke-dasharray="8 {8 * gaps}"' if gaps else ""
            more += ' opacity=".4"' if series.faint else ""
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            yield (
                f'<polyline class="line k" points="{path}" fill="none" stroke-width="{width}" stroke-linejoin="round"'
                f"{more} {stroked(colour(series.colour))}><title>{html.escape(series.label)}</title></polyline>"
            )

    def _area(self, one: Series, box: Box) -> Iterator[str]:
        """The band around a line, behind all lines."""
        if not one.area:
            return
        axes = self.chart.x, self.chart.y
        ends = [(x, high) for x, _, high in one.area] + [(x, low) for x, low, _ in reversed(one.area)]
        path = " ".join(f"{box.x(axes[0], x):.1f},{box.y(axes[1], y):.1f}" for x, y in ends)
        yield f'<polygon class="area f" points="{path}" opacity=".2" stroke="none" {filled(colour(one.colour))}/>'

    def _points(self, one: Series, box: Box) -> Iterator[str]:
        chart = self.chart
        crowded = max(len(s.points) for s in chart.series) > CROWDED
        told = one.told if len(one.told) == len(one.points) else one.told * len(one.points)
        for n, ((x, y), text) in enumerate(zip(one.points, told, strict=True)):
            at, marked = (box.x(chart.x, x), box.y(chart.y, y)), n in one.marks
            if self.thin or (crowded and not marked):
                continue
            yield marker(one.shape, *at, colour(one.colour), text)
            if marked:
                yield (
                    f'<circle class="k" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="9.5" fill="none" stroke-width="2" '
                    f"{stroked(colour(one.colour))}><title>{html.escape(text)}</title></circle>"
                )

    def _texts(self, box: Box) -> Iterator[str]:
        """Texts of points and of lines, with a leader to each that is away from its point."""
        chart = self.chart
        if self.labels == "points":
            yield from _beside(chart, box)
        elif self.labels == "ends":
            lines = [series for series in chart.series if series.line and not series.faint and series.points]
            ends = [box.y(chart.y, series.points[-1][1]) for series in lines]
            places = apart(ends, box.top, box.top + box.height)
            for series, text, end, to in zip(lines, self._ends(box.width + 80), ends, places, strict=True):
                x, right = box.x(chart.x, series.points[-1][0]), box.left + box.width
                corners = ((x + 7, end), (right + 4, end), (right + 11, to), (right + 15, to))
                path = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
                shade = colour(series.colour)
                yield f'<polyline class="leader k" points="{path}" fill="none" opacity=".55" {stroked(shade)}/>'
                yield written(right + 18, to + 4, text, shade, weight=600, told=series.label)


def marker(shape: int, x: float, y: float, shade: tuple[str, str], told: str = "") -> str:
    """Return the marker of a point."""
    title = f"<title>{html.escape(told)}</title>" if told else ""
    return (
        f'<path class="marker f" transform="translate({x:.1f},{y:.1f})" d="{SHAPES[shape % 6]}" stroke-width="1" '
        f'stroke="{CARD[0]}" {filled(shade)}>{title}</path>'
    )


def _beside(chart: Chart, box: Box) -> Iterator[str]:
    places = [(chart.x.place(x), 1 - chart.y.place(y)) for series in chart.series for x, y in series.points[:1]]
    labels = distinct([series.label for series in chart.series], 22 if box.width > 360 else 15)
    for group in place_texts(places, labels, box.width, box.height):
        x, y = places[group.members[0]]
        x, y = box.left + x * box.width, box.top + y * box.height
        if group.far:  # a text beside no point of its own
            side = 4.0 if group.dx > 0 else -4.0
            yield (
                f'<path class="leader k" d="M{x:.1f} {y:.1f}L{x + group.dx - side:.1f} {y + group.dy:.1f}" fill="none" '
                f'opacity=".7" {stroked(SOFT)}/>'
            )
        first = y + group.dy - LINE * (len(group.members) - 1) / 2
        for number, n in enumerate(group.members):
            series, anchor = chart.series[n], "start" if group.dx > 0 else "end"
            yield written(
                x + group.dx,
                first + number * LINE + 4,
                labels[n],
                colour(series.colour),
                anchor=anchor,
                weight=600,
                told=series.label,
                more=_HALO,
            )


def _covers(chart: Chart, one: Series, other: Series, box: Box) -> bool:
    pairs = list(zip(one.points, other.points, strict=False))
    near = 0
    for (x, y), (u, v) in pairs:
        a, b = box.y(chart.y, y), box.y(chart.y, v)
        near += abs(a - b) < 2 and x == u and box.top < a < box.top + box.height
    return len(pairs) > 1 and 2 * near >= len(pairs)


def _axes(chart: Chart, box: Box, names: dict[int, str]) -> Iterator[str]:
    bottom, right = box.top + box.height, box.left + box.width
    label = chart.y.label if chart.y.label != chart.title else ""
    yield written(box.left, box.top - 16, _with_better(label, chart.y), SOFT)
    for value, text in chart.y.ticks:
        y = box.y(chart.y, value)
        yield f'<path class="k" d="M{box.left:.1f} {y:.1f}H{right:.1f}" {stroked(GRID)}/>'
        yield written(box.left - 8, y + 4, text, SOFT, "end")
    below = bottom + 11 * len(chart.bands) + (4 if chart.bands else 0)
    for value, text in chart.x.ticks:
        x = box.x(chart.x, value)
        yield f'<path class="k" d="M{x:.1f} {box.top:.1f}V{bottom:.1f}" {stroked(GRID)}/>'
        if not names:
            last = chart.x.place(value) > 0.95 and len(text) > 4
            yield written(right if last else x, below + 16, text, SOFT, "end" if last else "middle")
    for number, name in names.items():
        x = box.x(chart.x, number)
        turn = f' transform="rotate(-35 {x:.1f} {below + 14:.1f})"'
        yield written(x + 4, below + 14, name, SOFT, "end", more=turn)
    down = 4.6 * max(map(len, names.values()), default=0)
    yield written(box.left + box.width / 2, below + 34 + down, _with_better(chart.x.label, chart.x), SOFT, "middle")


def _with_better(label: str, axis: Axis) -> str:
    return f"{label} ({axis.better} is better)" if axis.better and label else label


def _at(chart: Chart, box: Box, axis: str, value: float) -> float:
    return box.x(chart.x, value) if axis == "x" else box.y(chart.y, value)


def _line(box: Box, axis: str, at: float) -> str:
    across = f"M{at:.1f} {box.top:.1f}v{box.height:.1f}" if axis == "x" else f"M{box.left:.1f} {at:.1f}h{box.width:.1f}"
    return f'<path class="k" d="{across}" stroke-width="1.25" stroke-dasharray="5 4" {stroked(SOFT)}/>'


def _rule_text(chart: Chart, box: Box, rule: Rule) -> Iterator[str]:
    """The text of a rule, on a ground of its own, where the fewest lines and markers are."""
    at, wide = _at(chart, box, rule.axis, rule.value), _DIGIT * len(rule.label) + 6
    if rule.axis == "x":
        sides = (at - wide - 5, at + 5) if at > box.left + box.width / 2 else (at + 5, at - wide - 5)
        steps = [box.top + box.height - 20 - n * (box.height - 24) / 8 for n in range(9)]
        corners = [(x, y) for x in sides for y in steps if box.left <= x <= box.left + box.width - wide]
    else:
        corners = [(box.left + (box.width - wide) * (1 - n / 32), at + y) for y in (-8, -26, 10) for n in range(33)]
    paths = [[(box.x(chart.x, x), box.y(chart.y, y)) for x, y in each.points] for each in chart.series]
    points = paths if any(each.line for each in chart.series) else [[point] for path in paths for point in path]
    x, y, *_ = clearest([(x, y, x + wide, y + 16) for x, y in corners], points, 2 * MARKER)
    yield f'<rect class="f" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="16" {filled(CARD)}/>'
    yield written(x + 3, y + 12, rule.label, SOFT, more=' data-rule=""')


def _guide(chart: Chart, box: Box) -> Iterator[str]:
    if chart.guide:
        path = " ".join(f"{box.x(chart.x, x):.1f},{box.y(chart.y, y):.1f}" for x, y in chart.guide)
        yield (
            f'<polyline class="guide k" points="{path}" fill="none" stroke-width="1.5" stroke-dasharray="2 4" '
            f'opacity=".7" {stroked(SOFT)}/>'
        )


def _bands(bands: Sequence[Band], axis: Axis, box: Box) -> Iterator[str]:
    for number, band in enumerate(bands):
        top = box.top + box.height + 5 + 11 * number
        if band.colour:
            mark = f'x="{box.left - 8:.1f}" y="{top:.1f}" width="5" height="9" rx="2"'
            yield f'<rect class="f" {mark} {filled(colour(band.colour))}/>'
        for name, shade, boxes in band.parts:
            path = ""
            for x0, x1, y0, y1 in boxes:
                left, right = box.x(axis, x0), box.x(axis, x1)
                path += f"M{left:.1f} {top + 9 * y0:.1f}H{right:.1f}V{top + 9 * y1:.1f}H{left:.1f}z"
            told = html.escape(f"{band.label}: {name}" if band.label else name)
            yield f'<path class="f" d="{path}" {filled(colour(shade))}><title>{told}</title></path>'


def _keys(bands: Sequence[Band], width: float, top: float) -> Iterator[str]:
    """The colours of bands with their names, in a line, as far as it is wide enough: a page has a key of its own."""
    left = 8.0
    for name, shade in {name: shade for band in bands for name, shade, _ in band.parts}.items():
        wide = 26 + _DIGIT * len(name)
        if left + wide > width:
            return
        yield f'<rect class="f" x="{left:.1f}" y="{top:.1f}" width="14" height="10" rx="2" {filled(colour(shade))}/>'
        yield written(left + 19, top + 9, name, SOFT)
        left += wide


def filled(shade: tuple[str, str]) -> str:
    """Return the attributes of an area in a colour."""
    return f'fill="{shade[0]}" style="--d:{shade[1]}"'


def stroked(shade: tuple[str, str]) -> str:
    """Return the attributes of a line in a colour."""
    return f'stroke="{shade[0]}" style="--d:{shade[1]}"'


def written(
    x: float,
    y: float,
    text: str,
    shade: tuple[str, str],
    anchor: str = "start",
    weight: int = 400,
    told: str = "",
    more: str = "",
) -> str:
    """Return a text; told: what a pointer shows of it."""
    if not text:
        return ""
    bold = f' font-weight="{weight}"' if weight != 400 else ""
    title = f"<title>{html.escape(told)}</title>" if told and told != text else ""
    return (
        f'<text class="f{" h" if more is _HALO else ""}" x="{x:.1f}" y="{y:.1f}" {_LETTERS} '
        f'text-anchor="{anchor}"{bold}{more} {filled(shade)}>{html.escape(text)}{title}</text>'
    )
