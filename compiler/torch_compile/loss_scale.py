"""A loss scale with bounds, which counts its updates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from numc.support.arguments import checked, checked_integer
from numc.support.errors import NumcError, shown

_LARGEST = 2**63 - 1


class DynamicLossScale(torch.amp.GradScaler):  # type: ignore[misc]
    """torch.amp.GradScaler on the CPU, with a scale that stays within bounds, and with counts of updates.

    The scale is doubled after 2000 updates without an overflow, and halved after an update with an infinite gradient or
    a NaN. With ``init_scale=2.0**24`` this is the algorithm Backoff of OpenSeq2Seq.
    steps: the number of updates so far. skipped: the number of updates in which a gradient had overflowed, so that the
    optimizer did not step.
    """

    def __init__(
        self, init_scale: float = 65536.0, *, min_scale: float = 1.0, max_scale: float = 2.0**24, **options: Any
    ) -> None:
        """Take the first factor of the loss, and its bounds. options: the other keywords of torch.amp.GradScaler.

        Raises NumcError unless 0 < min_scale <= init_scale <= max_scale, all of them finite.
        """
        for name, scale in (("init_scale", init_scale), ("min_scale", min_scale), ("max_scale", max_scale)):
            if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
                raise NumcError(f"{name}: got {shown(scale)}, want a positive number")
        if not min_scale <= init_scale <= max_scale:
            raise NumcError(f"init_scale: got {init_scale:g}, want {min_scale:g} to {max_scale:g}: change the bounds")
        super().__init__("cpu", init_scale=float(init_scale), **options)
        self._bounds = float(min_scale), float(max_scale)
        self.steps = self.skipped = 0

    def update(self, new_scale: Any = None) -> None:
        """Adjust the scale for the next step as GradScaler does, keep it within its bounds, and count the step."""
        before = self.get_scale()
        super().update(new_scale)
        self.steps += 1
        self.skipped += new_scale is None and self.get_scale() < before
        if new_scale is None and self._scale is not None:
            self._scale.clamp_(*self._bounds)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of GradScaler, and the counts."""
        return {**super().state_dict(), "steps": self.steps, "skipped": self.skipped}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take what `state_dict` returned, or that of a GradScaler, which has no counts. Raises NumcError."""
        state = dict(checked(state_dict, "DynamicLossScale: checkpoint", Mapping, "what state_dict returns"))
        steps, skipped = (
            checked_integer(state.pop(name, 0), f"DynamicLossScale: checkpoint: {name}", 0, _LARGEST)
            for name in ("steps", "skipped")
        )
        if missing := super().state_dict().keys() - state.keys():
            raise NumcError(f"DynamicLossScale: checkpoint: there is no {min(missing)!r}, want what state_dict returns")
        super().load_state_dict(state)
        self.steps, self.skipped = steps, skipped
