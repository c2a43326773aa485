"""What the tables of studies are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread(values: Sequence[float], form: str) -> str:
    """Return mean ± sample standard deviation, or the only value. form: of numbers, such as ``+.2f``."""
    mean = f"{np.mean(values):{form}}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):{form.removeprefix('+')}}"


def markdown(rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Return a Markdown table whose first row is its head; all but the first `texts` columns are aligned right."""
    rule = ["---"] * texts + ["---:"] * (len(rows[0]) - texts)
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:]))
