"""Decisions of a recipe after each step, and the lines of text that keep it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shortened
from numc.support.json_values import parsed


@in_default_environment
@dataclass(frozen=True)
class Decision:
    """The decision of a recipe after one step of the optimizer.

    step: the number of the step, from 0. used: the name of the arithmetic of this step. values: the numbers that the
    decision was made from, such as ``loss``. next: the arithmetic of the next step. reason: why, as a text; empty if
    nothing was to be decided.
    """

    step: int
    used: str
    values: Mapping[str, float] = field(default_factory=dict)
    next: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the decision in types that JSON has.

        ``hex`` holds `values` to the bit, as ``float.hex`` writes them; in ``values``, for readers, numbers that are
        not finite are null.
        """
        readable = {name: value if math.isfinite(value) else None for name, value in self.values.items()}
        exact = {name: float(value).hex() for name, value in self.values.items()}
        parts = {"used": self.used, "next": self.next, "reason": self.reason, "values": readable, "hex": exact}
        return {"step": self.step, **parts}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Decision:
        """Return the decision that `to_json` gave; `data` may be its text. Raises NumcError for anything else."""
        try:
            fields = parsed(data) if isinstance(data, str) else data
            values = {str(name): float.fromhex(value) for name, value in fields["hex"].items()}
            texts = [fields[key] for key in ("used", "next", "reason")]
            if type(fields["step"]) is not int or not all(isinstance(text, str) for text in texts):
                raise TypeError("a field of another type")
            return cls(fields["step"], texts[0], values, *texts[1:])
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise NumcError(
                f"not a decision of a recipe ({shortened(error, 60)}): want what Decision.to_json returns"
            ) from None
