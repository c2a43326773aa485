"""The places of texts beside points and lines, so that no text covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHARACTER, LINE = 6.7, 15.0  # in pixels: the width of a character and the height of a line of small text
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
    found = [0.0] * len(wanted)
    for middle, run in blocks:
        for place, n in enumerate(run):
            found[n] = middle + gap * (place - (len(run) - 1) / 2)
    return found


def short(text: str, most: int = 20) -> str:
    """Return a text, shortened to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def aside(number: int, count: int) -> float:
    """Return the horizontal distance, in pixels, that separates a point of a group from the group's centre."""
    return 2.2 * MARKER * (number - (count - 1) / 2)


@dataclass(frozen=True)
class Group:
    """The points at one place, by number, and the place of their texts, one line each, in pixels from the point.

    dx: the left end of the texts if positive, otherwise their right end. dy: the middle of the texts, downwards.
    """

    members: tuple[int, ...]
    dx: float
    dy: float


Box = tuple[float, float, float, float]


def place_texts(
    points: Sequence[tuple[float, float]], texts: Sequence[str], widths: Sequence[float], height: float
) -> list[Group]:
    """Return the places of the texts of points, which cover neither points nor each other at any of the widths.

    points: from 0 to 1 in both directions, y downwards. widths, height: of the chart in pixels, the narrowest first.
    """
    groups = _groups(points, widths[0], height)
    shifts = sorted((n * LINE / 2 for n in range(-16, 17)), key=abs)
    found: list[Group] = []
    taken = [[_points_box(points[group[0]], len(group), width, height) for group in groups] for width in widths]
    for group in groups:
        (x, y), count = points[group[0]], len(group)
        longest = max((short(texts[n]) for n in group), key=len)
        start = 10.0 - aside(0, count)
        best: tuple[float, float, float, list[Box]] | None = None
        for dx, dy in ((dx, dy) for dy in shifts for dx in (start, -start)):
            boxes, cost = [], abs(dy) * 0.2 + (1.0 if dx < 0 else 0.0)
            for width, others in zip(widths, taken, strict=True):
                box = _text_box(x * width, y * height, dx, dy, longest, count)
                boxes.append(box)
                cost += sum(_overlap(box, other) for other in others)
                cost += 40 * max(0.0, -box[0], box[2] - width, -box[1], box[3] - height)
            if best is None or cost < best[0]:
                best = cost, dx, dy, boxes
        assert best is not None
        for others, box in zip(taken, best[3], strict=True):
            others.append(box)
        found.append(Group(tuple(group), best[1], best[2]))
    return found


def _groups(points: Sequence[tuple[float, float]], width: float, height: float) -> list[list[int]]:
    found: list[list[int]] = []
    for n, (x, y) in enumerate(points):
        for group in found:
            a, b = points[group[0]]
            if abs(x - a) * width < 2 * MARKER and abs(y - b) * height < 2 * MARKER:
                group.append(n)
                break
        else:
            found.append([n])
    return found


def _points_box(point: tuple[float, float], count: int, width: float, height: float) -> Box:
    x, y, half = point[0] * width, point[1] * height, MARKER - aside(0, count)
    return x - half, y - MARKER, x + half, y + MARKER


def _text_box(x: float, y: float, dx: float, dy: float, text: str, lines: int) -> Box:
    width = CHARACTER * len(text) + (16 if lines > 1 else 0)
    left, half = (x + dx if dx > 0 else x + dx - width), lines * LINE / 2
    return left, y + dy - half, left + width, y + dy + half


def _overlap(a: Box, b: Box) -> float:
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0
