"""A loss scale that says how many updates it has skipped."""

from __future__ import annotations

from typing import Any

import torch


class DynamicLossScale(torch.amp.GradScaler):  # type: ignore[misc]
    """torch.amp.GradScaler on the CPU, which also counts updates.

    init_scale: the first factor of the loss. options: the other keywords of torch.amp.GradScaler. steps: the number of
    calls of `update`. skipped: in how many of them a gradient had overflowed, so that the optimizer did not step.
    """

    def __init__(self, init_scale: float = 65536.0, **options: Any) -> None:
        super().__init__("cpu", init_scale=init_scale, **options)
        self.steps = self.skipped = 0

    def update(self, new_scale: Any = None) -> None:
        """Adjust the scale for the next step as GradScaler does, and count the step."""
        before = self.get_scale()
        super().update(new_scale)
        self.steps += 1
        self.skipped += new_scale is None and self.get_scale() < before
