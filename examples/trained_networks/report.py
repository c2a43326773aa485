"""Tables of rows in Markdown: what formats cost each network, with intervals over its items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from cells import markdown
from formats import ARITHMETICS, BASE, STANDARD
from measure import Outcome

from numc.studies.uncertainty.paired import of_differences
from numc.studies.uncertainty.proportions import paired_difference

HEADS = ("format", "right", "difference to fp32", "other answers", "error of outputs", "not finite")
MEASURES = {"text": "characters right", "turn": "lines right", "file": "files right", "speech": "frames right"}
Rows = Mapping[str, Outcome]


def right(outcome: Outcome) -> float:
    """Return the mean of the scores, in per cent."""
    return 100 * float(np.mean(outcome.scores))


def difference(outcome: Outcome, base: Outcome) -> tuple[float, float, float]:
    """Return the difference of two rows in per cent points, and the ends of its 95 % interval over the items.

    Right or wrong: the interval of Bonett and Price. Shares: Student's t of the paired differences.
    """
    mean = right(outcome) - right(base)
    if {*outcome.scores, *base.scores} <= {0.0, 1.0}:
        gained = sum(map(float.__gt__, outcome.scores, base.scores))
        lost = sum(map(float.__lt__, outcome.scores, base.scores))
        low, high = paired_difference(gained, lost, len(base.scores))
    else:
        interval = of_differences(outcome.scores, base.scores)
        low, high = interval.low, interval.high
    return mean, 100 * low, 100 * high


def changed(outcome: Outcome, base: Outcome) -> float:
    """Return the share of items with another answer than in fp32, in per cent. White space at ends does not count."""
    pairs = zip(outcome.answers, base.answers, strict=True)
    return 100 * float(np.mean([mine.strip() != other.strip() for mine, other in pairs]))


def row(label: str, rows: Rows) -> list[str]:
    """Return the cells of a row. A difference is bold where its interval excludes zero."""
    mine, base = rows[label], rows[BASE]
    names = [name for name, widths in STANDARD.items() if widths == label]
    widths, comma, rest = label.partition(",")
    title = " ".join([f"`{widths}`{comma}{rest}", *(f"({name})" for name in names)])
    error = "-" if mine.relative_error is None else f"{mine.relative_error:.1e}"
    if label == BASE:
        return [label, f"{right(mine):.1f}", "", "", "", ""]
    mean, low, high = difference(mine, base)
    bold = "" if low <= 0 <= high else "**"
    text = f"{bold}{mean:+.1f}{bold} ({low:+.1f} to {high:+.1f})"
    return [title, f"{right(mine):.1f}", text, f"{changed(mine, base):.1f}", error, str(mine.not_finite)]


def tables(rows: Mapping[str, Rows]) -> list[str]:
    """Return a table for each network, in per cent."""
    return [
        markdown([(HEADS[0], MEASURES[name], *HEADS[2:]), *(row(label, mine) for label in ARITHMETICS)])
        for name, mine in rows.items()
    ]
