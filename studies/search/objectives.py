"""The objective of a search, which it makes small: a number of the cost model (docs/cost.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from numc.hardware.areas import NAME
from numc.studies.cost import Report
from numc.studies.hardware.machine import Machine
from numc.support.errors import NumcError, did_you_mean, quoted

OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "gates": f"gates of an FMA after synthesis, the mean over all FMAs ({NAME})",
        "bytes": "bytes of A, B and the results of all contractions",
        "area": "area units of an FMA, those of its multipliers alone, the mean over all FMAs",
        "passes": "passes of an fMAC, the mean over all FMAs; block floating point only",
        "latency": "seconds on a machine",
        "energy": "joules on a machine whose power is known",
    }
)
"""Properties of cost.Report."""
_OF_MACHINES = ("latency", "energy")


def check_objective(name: str, machine: Machine | None) -> None:
    """Raise NumcError for an unknown objective, and for one that lacks a machine."""
    if name not in OBJECTIVES:
        near = did_you_mean(str(name), OBJECTIVES)
        raise NumcError(f"objective {quoted(name)}: unknown{near}: want {', '.join(OBJECTIVES)}")
    if name in _OF_MACHINES and machine is None:
        raise NumcError(f"objective '{name}': is the cost on a machine: give one (`numc list machines`)")


def cost_of(name: str, found: Report) -> float:
    """Return the value of an objective. Raises NumcError if an operator or the machine has none."""
    value = getattr(found, name)
    if value is not None:
        return float(value)
    if name == "passes":
        other = next(cost for cost in found.costs if cost.passes is None)
        why = f"{quoted(other.layer)} computes in {other.fma}, which has none: want block floating point everywhere"
    else:
        machine = found.machine.name if found.machine is not None else ""
        why = f"machine '{machine}' has no published power: want another machine or objective"
    raise NumcError(f"objective '{name}': {why}")
