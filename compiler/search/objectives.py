"""What a search makes small: a number of the cost model (docs/cost.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from numc.compiler.studies.cost import FP32_AREA, Report
from numc.compiler.studies.cost_machines import Machine
from numc.compiler.support.errors import NumcError, did_you_mean, quoted


@dataclass(frozen=True)
class Objective:
    """A cost of a model. needs_machine: whether it is the cost on a machine."""

    name: str
    about: str
    of: Callable[[Report], float]
    needs_machine: bool = False


def _area(found: Report) -> float:
    return FP32_AREA / found.iso_area


def _passes(found: Report) -> float:
    other = next((cost for cost in found.costs if cost.passes is None), None)
    if other is not None:
        raise NumcError(
            f"objective 'passes': {quoted(other.layer)} computes in {other.fma}, which has no passes: want bfp operands"
        )
    fmas = sum(cost.fmas for cost in found.costs)
    return sum(cost.fmas * (cost.passes or 0) for cost in found.costs) / max(1, fmas)


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        one.name: one
        for one in (
            Objective("bytes", "bytes of A, B and the result of all contractions", lambda r: float(r.total()["bytes"])),
            Objective("area", "mean area units of an FMA", _area),
            Objective("passes", "mean passes of an fMAC", _passes),
            Objective("latency", "seconds on the machine", lambda r: float(r.total()["seconds"]), True),
        )
    }
)


def objective(name: str, machine: Machine | None) -> Objective:
    """Return an objective by name. Raises NumcError for an unknown one, and for one that lacks a machine."""
    if name not in OBJECTIVES:
        near = did_you_mean(str(name), OBJECTIVES)
        raise NumcError(f"objective {quoted(name)}: unknown{near}: want {', '.join(OBJECTIVES)}")
    if OBJECTIVES[name].needs_machine and machine is None:
        raise NumcError(f"objective '{name}': is the cost on a machine: give one (`numc list machines`)")
    return OBJECTIVES[name]
