"""The records of a sensitivity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numc.support.environment import in_default_environment
from numc.support.json_values import json_values


@dataclass(frozen=True)
class Part:
    """A part of the arithmetic that was narrow, and what that does to the outputs.

    what: "all", "layer", "kind", "role", "operand" or "accumulator". name: of the layer, kind or role, or the format.
    policy: its text. share: of a layer, kind or role in all multiply-adds; None for others. error: Σ(x - r)² / Σr² of
    what is measured, x, against the same in fp32, r. metrics: values by name.
    """

    what: str
    name: str
    policy: str
    share: float | None
    error: float
    metrics: Mapping[str, float]


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class SensitivityData:
    """The data of a sensitivity, from which a page is made; `Sensitivity` describes the fields."""

    model: str
    fma: str
    samples: int
    metrics: tuple[str, ...]
    fp32: Mapping[str, float]
    parts: tuple[Part, ...]
    measured: str = "outputs"

    def of(self, *what: str) -> tuple[Part, ...]:
        """Return the parts that are of these kinds."""
        return tuple(part for part in self.parts if part.what in what)

    def errors(self, what: str) -> dict[str, float]:
        """Return the errors of the parts of a kind by their names, as the order of `numc.search` takes them."""
        return {part.name: part.error for part in self.of(what)}

    def as_json(self) -> dict[str, Any]:
        """Return everything in types that JSON has; numbers that are not finite are strings."""
        return json_values(asdict(self))  # type: ignore[no-any-return]
