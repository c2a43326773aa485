"""What the tables of studies are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numc.studies.uncertainty.paired import of_differences


def spread(values: Sequence[float], form: str) -> str:
    """Return mean ± sample standard deviation, or the only value. form: of numbers, such as ``+.2f``."""
    mean = f"{np.mean(values):{form}}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):{form.removeprefix('+')}}"


def markdown(rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Return a Markdown table whose first row is its head; all but the first `texts` columns are aligned right."""
    rule = ["---"] * texts + ["---:"] * (len(rows[0]) - texts)
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:]))


def difference(values: Sequence[float], base: Sequence[float], form: str) -> str:
    """Return the mean of paired differences and its 95 % interval, such as ``-2.13 (-2.60 to -1.66)``.

    The mean is bold if the interval excludes zero. One pair has no interval. form: of numbers without sign.
    """
    interval = of_differences(values, base)
    mean = f"{interval.mean:+{form}}"
    if interval.count < 2:
        return mean
    mean = f"**{mean}**" if interval.excludes_zero else mean
    return f"{mean} ({interval.low:+{form}} to {interval.high:+{form}})"


def visible(values: Sequence[float], base: Sequence[float], form: str) -> str:
    """Return the smallest effect that as many pairs with such a spread would have shown four times in five."""
    interval = of_differences(values, base)
    return f"{interval.visible:{form}}" if interval.count > 1 else "-"
