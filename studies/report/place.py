"""The places of texts beside points and lines, so that no text covers another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

CHARACTER, LINE = 8.2, 15.0  # in pixels: the width of a letter of a bold text, and the height of a line
MARKER = 5.0


def apart(wanted: Sequence[float], low: float, high: float, gap: float = LINE) -> list[float]:
    """Return places close to those wanted, in the same order and at least `gap` apart.

    They are within `low` and `high` if all of them fit.
    """
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    blocks: list[tuple[float, list[int]]] = []  # the middle of a run of texts, and their numbers
    for n in order:
        middle, run = wanted[n], [n]
        while blocks:
            before, its = blocks[-1]
            if middle - gap * (len(run) - 1) / 2 >= before + gap * (len(its) - 1) / 2 + gap:
                break
            blocks.pop()
            middle = (before * len(its) + middle * len(run)) / (len(its) + len(run))
            run = its + run
            half = gap * (len(run) - 1) / 2
            middle = max(low + half, min(high - half, middle))
        half = gap * (len(run) - 1) / 2
        blocks.append((max(low + half, min(high - half, middle)), run))
    positions = [0.0] * len(wanted)
    for middle, run in blocks:
        for index, n in enumerate(run):
            positions[n] = middle + gap * (index - (len(run) - 1) / 2)
    return positions


def distinct(texts: Sequence[str], most: int) -> list[str]:
    """Return texts of at most `most` characters, which differ where the given ones do.

    Operators that are written as text begin alike: a text that is too long keeps its beginning, and of the rest what
    other long texts do not have in the same place.
    """
    long = [text for text in texts if len(text) > most]
    same = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*long, strict=False)))
    same = same if len(set(long)) > 1 else 0
    made = []
    for text in texts:
        rest = text[same:]
        if len(text) <= most:
            made.append(text)
        elif same <= 4:
            made.append(f"{text[: most - 1]}…")
        elif len(rest) < most:
            made.append(f"{text[: min(4, most - 1 - len(rest))]}…{rest}")
        else:
            made.append(f"…{rest[: most - 2]}…")
    counted = Counter(made)
    if any(count > 1 for count in counted.values()) and len(set(texts)) == len(texts):
        return [f"{n} {text[: most - 3]}…" if len(text) > most else text for n, text in enumerate(texts)]
    return made


@dataclass(frozen=True)
class Group:
    """The points at one place, by number, and the place of their texts, one line each, in pixels from the point.

    dx: the left end of the texts if positive, otherwise their right end. dy: the middle of the texts, downwards. far:
    whether the texts are so far away that a line has to lead to them.
    """

    members: tuple[int, ...]
    dx: float
    dy: float

    @property
    def far(self) -> bool:
        """Whether the texts are not beside the point."""
        return abs(self.dy) > LINE * (len(self.members) - 1) / 2 + 4 or abs(self.dx) > _BESIDE + 2


Rectangle = tuple[float, float, float, float]
_BESIDE = 10.0
_AWAY = (_BESIDE, 24.0, 44.0, 80.0)  # distances of texts to the side


def place_texts(
    points: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float
) -> list[Group]:
    """Return the places of the texts of points, which cover neither points nor each other.

    points: from 0 to 1 in both directions, y downwards. width, height: of the chart in pixels. A text that finds no
    room beside its point is moved, and its point is not.
    """
    groups = _groups(points, width, height)
    shifts = sorted((n * LINE / 2 for n in range(-32, 33)), key=abs)
    taken = [_points_box(points[group[0]], width, height) for group in groups]
    placed: list[Group] = []
    for group in groups:
        (x, y), count = points[group[0]], len(group)
        longest = max((texts[n] for n in group), key=len)
        best: tuple[float, float, float, Rectangle] | None = None
        for dx, dy in ((side * away, dy) for dy in shifts for away in _AWAY for side in (1, -1)):
            box = _text_box(x * width + dx, y * height + dy, dx > 0, longest, count)
            cost = abs(dy) * 0.2 + abs(dx) * 0.1 + (1.0 if dx < 0 else 0.0)
            cost += 20 * sum(_overlap(box, other) for other in taken)
            cost += 40 * max(0.0, -box[0], box[2] - width, -box[1], box[3] - height)
            if best is None or cost < best[0]:
                best = cost, dx, dy, box
        assert best is not None
        taken.append(best[3])
        placed.append(Group(tuple(group), best[1], best[2]))
    return placed


def _groups(points: Sequence[tuple[float, float]], width: float, height: float) -> list[list[int]]:
    groups: list[list[int]] = []
    for n, (x, y) in enumerate(points):
        for group in groups:
            a, b = points[group[0]]
            if abs(x - a) * width < 2 * MARKER and abs(y - b) * height < 2 * MARKER:
                group.append(n)
                break
        else:
            groups.append([n])
    return groups


def _points_box(point: tuple[float, float], width: float, height: float) -> Rectangle:
    x, y = point[0] * width, point[1] * height
    return x - MARKER, y - MARKER, x + MARKER, y + MARKER


def _text_box(x: float, y: float, to_right: bool, text: str, lines: int) -> Rectangle:
    width, half = CHARACTER * len(text), lines * LINE / 2
    left = x if to_right else x - width
    return left, y - half, left + width, y + half


def _overlap(a: Rectangle, b: Rectangle) -> float:
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def clearest(boxes: Sequence[Rectangle], paths: Sequence[Sequence[tuple[float, float]]], margin: float) -> Rectangle:
    """Return the first of the boxes with the fewest points of paths within `margin`, then with the least of lines.

    paths: the points of lines, or single points.
    """
    marks = [point for path in paths for point in path]
    lines = [point for path in paths for point in _along(path)]

    def near(box: Rectangle) -> tuple[int, int]:
        left, top, right, bottom = box[0] - margin, box[1] - margin, box[2] + margin, box[3] + margin
        on_marks, on_lines = (sum(left < x < right and top < y < bottom for x, y in each) for each in (marks, lines))
        return on_marks, on_lines

    return min(boxes, key=near)


def _along(path: Sequence[tuple[float, float]], step: float = 6.0) -> list[tuple[float, float]]:
    """The points of a path, and others between them about `step` apart."""
    dense = list(path[:1])
    for (a, b), (c, d) in pairwise(path):
        count = max(1, round(max(abs(c - a), abs(d - b)) / step))
        dense += [(a + (c - a) * n / count, b + (d - b) * n / count) for n in range(1, count + 1)]
    return dense
