"""The drawing of a graph: boxes for layers, lines for what flows, and frames around blocks that repeat."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from numc.studies.model_graph.arrange import Arranged, Point, Size, arrange
from numc.studies.model_graph.nodes import INPUT, OUTPUT, Node
from numc.studies.model_graph.repeats import Repeat

WIDE, HIGH, LOW = 216.0, 64.0, 44.0  # of the box of a layer, and of that of an input or an output
_INSIDE, _HEAD, _EDGE = 16.0, 30.0, 12.0  # of a frame: beside and below its boxes, its title, around the drawing
_MOST = 26  # letters in a box

Texts = Callable[[tuple[int, ...]], tuple[tuple[str, str, str], Mapping[str, str]]]
Attributes = Callable[[tuple[int, ...]], str]


@dataclass(frozen=True)
class Box:
    """A box in a drawing: its left and upper corner, its size, and the numbers of the nodes that it stands for."""

    x: float
    y: float
    width: float
    height: float
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Frame:
    """A frame around the boxes of a repeat."""

    x: float
    y: float
    width: float
    height: float
    repeat: Repeat


@dataclass(frozen=True)
class Arrow:
    """A line with the nodes that it joins; None stands for the border of the frame in which it begins or ends."""

    start: int | None
    end: int | None
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Picture:
    """Everything in a drawing, with its places."""

    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float


def picture(nodes: Sequence[Node], edges: Sequence[tuple[int, int]], folded: Sequence[Repeat] = ()) -> Picture:
    """Return the places of all nodes, or of those that remain where repeats are drawn once."""
    units: list[int | Repeat] = []  # nodes and frames that are arranged with one another
    n = 0
    starts = {repeat.first: repeat for repeat in folded}
    unit_of: list[int] = []
    while n < len(nodes):
        repeat = starts.get(n)
        count = 1 if repeat is None else repeat.end - n
        unit_of += [len(units)] * count
        units.append(n if repeat is None else repeat)
        n += count
    inner = {at: _Inner.of(nodes, edges, unit) for at, unit in enumerate(units) if isinstance(unit, Repeat)}
    sizes = [inner[at].size if at in inner else _size(nodes[unit]) for at, unit in enumerate(units)]  # type: ignore[index]
    joined = sorted({(unit_of[a], unit_of[b]) for a, b in edges if unit_of[a] != unit_of[b]})
    outer = arrange(sizes, joined)
    boxes: list[Box] = []
    frames: list[Frame] = []
    arrows: list[Arrow] = []
    for at, unit in enumerate(units):
        x, y = outer.corners[at][0] + _EDGE, outer.corners[at][1] + _EDGE
        if isinstance(unit, Repeat):
            frames.append(Frame(x, y, sizes[at].width, sizes[at].height, unit))
            boxes += inner[at].boxes(nodes, x, y)
            arrows += inner[at].arrows(x, y)
        else:
            boxes.append(Box(x, y, sizes[at].width, sizes[at].height, (unit,)))
    for line in outer.lines:
        start, end = (None if isinstance(unit, Repeat) else unit for unit in (units[line.start], units[line.end]))
        arrows.append(Arrow(start, end, _moved(line.points, _EDGE, _EDGE)))
    return Picture(tuple(boxes), tuple(frames), tuple(arrows), outer.width + 2 * _EDGE, outer.height + 2 * _EDGE)


@dataclass(frozen=True)
class _Inner:
    """The inside of a frame. Its box 0 is where lines come in, the last one where they go out."""

    repeat: Repeat
    arranged: Arranged
    sizes: tuple[Size, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node], edges: Sequence[tuple[int, int]], repeat: Repeat) -> _Inner:
        first, last = repeat.first, repeat.length + 1
        sizes = (Size(1.0, 0.5), *(_size(nodes[first + n]) for n in range(repeat.length)), Size(1.0, 0.5))
        joined = set()
        for start, end in edges:
            inside = [first <= n < repeat.end for n in (start, end)]
            places = [1 + (n - first) % repeat.length for n in (start, end)]
            block = [(n - first) // repeat.length for n in (start, end)]
            if inside[0] and (not inside[1] or block[0] != block[1]):
                joined.add((places[0], last))
            if inside[1] and (not inside[0] or block[0] != block[1]):
                joined.add((0, places[1]))
            if all(inside) and block[0] == block[1] == 0:
                joined.add((places[0], places[1]))
        return cls(repeat, arrange(sizes, sorted(joined)), sizes)

    @property
    def size(self) -> Size:
        """The size of the frame, and where its lines come in and go out."""
        width = max(self.arranged.width, WIDE) + 2 * _INSIDE
        middle = width / 2
        enters, leaves = (_INSIDE + self.arranged.corners[n][0] + 0.5 - middle for n in (0, -1))
        return Size(width, self.arranged.height + _HEAD + _INSIDE, enters, leaves)

    def boxes(self, nodes: Sequence[Node], x: float, y: float) -> Iterator[Box]:
        """The boxes in the frame whose corner is at x, y."""
        for n in range(self.repeat.length):
            left, top = self.arranged.corners[n + 1]
            size = self.sizes[n + 1]
            copies = self.repeat.copies(self.repeat.first + n)
            yield Box(x + _INSIDE + left, y + _HEAD + top, size.width, size.height, copies)

    def arrows(self, x: float, y: float) -> Iterator[Arrow]:
        """The lines in the frame, which begin and end at its border where they are joined with what is outside."""
        for line in self.arranged.lines:
            points = _moved(line.points, x + _INSIDE, y + _HEAD)
            start = None if line.start == 0 else self.repeat.first + line.start - 1
            end = None if line.end == self.repeat.length + 1 else self.repeat.first + line.end - 1
            points = ((points[0][0], y), *points[1:]) if start is None else points
            points = (*points[:-1], (points[-1][0], y + self.size.height)) if end is None else points
            yield Arrow(start, end, points)


def _size(node: Node) -> Size:
    return Size(WIDE, LOW if node.word in (INPUT, OUTPUT) else HIGH)


def _moved(points: Iterable[Point], x: float, y: float) -> tuple[Point, ...]:
    return tuple((a + x, b + y) for a, b in points)


def svg(drawn: Picture, name: str, texts: Texts, attributes: Attributes) -> str:
    """Return the SVG of a picture.

    texts: the three lines in the box of some nodes, and values by the class of the text that shows them at the end of
    the last line. attributes: of a box, as text, among them its class.
    """
    parts = [_frame(frame) for frame in drawn.frames]
    parts += [_arrow(arrow) for arrow in drawn.arrows]
    parts += [_box(box, *texts(box.nodes), attributes(box.nodes)) for box in drawn.boxes]
    size = f'viewBox="0 0 {drawn.width:g} {drawn.height:g}" width="{drawn.width:g}" height="{drawn.height:g}"'
    return f'<svg class="graph" {size} role="group" aria-label="{html.escape(name)}">{"".join(parts)}</svg>'


def _box(box: Box, texts: tuple[str, str, str], values: Mapping[str, str], attributes: str) -> str:
    name, *others = texts
    lines = [f'<text class="name" x="14" y="20">{html.escape(middle(name))}</text>']
    lines += [f'<text x="14" y="{37 + 17 * n}">{html.escape(middle(t))}</text>' for n, t in enumerate(others) if t]
    lines += [
        f'<text class="value {name}" x="{box.width - 8:g}" y="54">{html.escape(value)}</text>'
        for name, value in values.items()
    ]
    mark = f'<rect class="mark" width="5" height="{box.height:g}" rx="2"/>'
    ground = f'<rect class="ground" width="{box.width:g}" height="{box.height:g}" rx="6"/>'
    at = f'transform="translate({box.x:.1f},{box.y:.1f})"'
    return f"<g {attributes} {at}>{ground}{mark}{''.join(lines)}</g>"


def _frame(frame: Frame) -> str:
    repeat = frame.repeat
    box = f'x="{frame.x:.1f}" y="{frame.y:.1f}" width="{frame.width:.1f}" height="{frame.height:.1f}" rx="10"'
    # Lines come in at the top, beside the title.
    title = f'<text x="{frame.x + _INSIDE:.1f}" y="{frame.y + 20:.1f}">{repeat.count} ×</text>'
    return f'<g class="frame"><rect {box}/>{title}</g>'


def _arrow(arrow: Arrow) -> str:
    (x, y), *_ = arrow.points
    path = f"M{x:.1f} {y:.1f}"
    for (a, b), (c, d) in pairwise(arrow.points):
        bend = (b + d) / 2
        path += f"V{d:.1f}" if a == c else f"C{a:.1f} {bend:.1f} {c:.1f} {bend:.1f} {c:.1f} {d:.1f}"
    ends = "".join(f' data-{side}="{n}"' for side, n in (("from", arrow.start), ("to", arrow.end)) if n is not None)
    head = ' marker-end="url(#head)"' if arrow.end is not None else ""
    return f'<path class="edge" d="{path}"{ends}{head}/>'


def middle(text: str, most: int = _MOST) -> str:
    """Return a text of at most `most` letters, which keeps its end: names that begin alike differ there."""
    return text if len(text) <= most else f"{text[: most // 3]}…{text[len(text) - (most - most // 3 - 1) :]}"
