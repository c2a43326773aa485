"""The colours of a report, which differ in lightness too, for readers who cannot tell red from green."""

from __future__ import annotations

# (on white, on black): each has a contrast of at least 3 with the background.
INK = ("#1b2430", "#e8edf3")
CATEGORICAL = (
    ("#0b62b8", "#6cb6ff"),  # blue
    ("#c2530a", "#ffa057"),  # orange
    ("#0a7d5c", "#42d6a4"),  # green
    ("#a8327f", "#ff8fc8"),  # magenta
    ("#7a5cc9", "#b9a3ff"),  # violet
    ("#8a6a00", "#e8c547"),  # ochre
    ("#0c7f96", "#5fd3e8"),  # cyan
    ("#84492b", "#dba58c"),  # brown
)
# From matplotlib's plasma, without its palest and darkest colours.
_LIGHT = ("#0d0887", "#4c02a1", "#7e03a8", "#aa2395", "#cc4778", "#e0633f")
_DARK = ("#b04fd0", "#cc4778", "#e66c5c", "#f89540", "#fdc527", "#f0f921")
# Shades for areas beside lines in colours.
_GREY_LIGHT = ("#2c3a4d", "#8593a6", "#cfd6df")
_GREY_DARK = ("#dfe6ee", "#8a98ab", "#3f4c5e")


def colour(name: str) -> tuple[str, str]:
    """Return a colour on white and on black: ``ink``, ``c0`` to ``c7``, or, on a scale, ``q0.000`` to ``q1.000``.

    ``g0.000`` to ``g1.000`` is a scale of greys.
    """
    if name == "ink":
        return INK
    if name[0] == "c":
        return CATEGORICAL[int(name[1:])]
    position = float(name[1:])
    light, dark = (_LIGHT, _DARK) if name[0] == "q" else (_GREY_LIGHT, _GREY_DARK)
    return _between(light, position), _between(dark, position)


def _between(stops: tuple[str, ...], place: float) -> str:
    at = min(place, 1.0) * (len(stops) - 1)
    first = min(int(at), len(stops) - 2)
    start, end = ([int(stop[n : n + 2], 16) for n in (1, 3, 5)] for stop in stops[first : first + 2])
    mixed = (round(a + (b - a) * (at - first)) for a, b in zip(start, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
