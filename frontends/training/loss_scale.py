"""A loss scale that counts its updates."""

from __future__ import annotations

from typing import Any

import torch


class DynamicLossScale(torch.amp.GradScaler):  # type: ignore[misc]
    """torch.amp.GradScaler on the CPU, which also counts updates.

    init_scale: the initial factor of the loss. options: the other keywords of torch.amp.GradScaler. steps: the number
    of updates so far. skipped: the number of updates in which a gradient had overflowed, so that the optimizer did not
    step.
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
