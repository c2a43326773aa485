"""The table of the study: every arithmetic beside fp32, seed by seed, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import settings
from cells import difference, markdown, spread, visible
from settings import BASE, FP32_UPDATE
from tasks import Images
from training import Outcome

Runs = Mapping[str, Sequence[Outcome]]
"""Arithmetic -> the outcomes, a seed each."""

MEASURES: Mapping[str, tuple[str, Callable[[Outcome], float], str]] = {
    "accuracy": (Images.quality, lambda run: run.quality, ".2f"),
    "held-out loss": ("loss on held-out images", lambda run: run.held_out_loss, ".4f"),
    "training loss": ("training loss at the end", lambda run: run.losses[-1], ".4f"),
}
"""What is measured -> its name in the table, its value in a run, and the form of its numbers."""


def tables(runs: Runs) -> Iterator[str]:
    """Yield a table for each measure: its values, differences to fp32, and what the study could have seen of them."""
    for name, value, form in MEASURES.values():
        base = [value(run) for run in runs[BASE]]
        rows = [["update", name, "minus fp32", "could have seen"]]
        for arm, outcomes in runs.items():
            mine = [value(run) for run in outcomes]
            told = ["", ""] if arm == BASE else [difference(mine, base, form), visible(mine, base, form)]
            rows.append([arm, spread(mine, form), *told])
        yield markdown(rows)
    if FP32_UPDATE in runs and len(runs) > 2:
        yield _against_fp32_update(runs)


def _against_fp32_update(runs: Runs) -> str:
    """Return what the updates in bf16 lose beside the same training with an update in fp32."""
    arms = [arm for arm in settings.ARMS if arm in runs and arm not in (BASE, "MP", FP32_UPDATE)]
    rows = [["measure", *(f"{arm}, minus update in fp32" for arm in arms)]]
    for name, value, form in MEASURES.values():
        base = [value(run) for run in runs[FP32_UPDATE]]
        rows.append([name, *(difference([value(run) for run in runs[arm]], base, form) for arm in arms)])
    return markdown(rows)
