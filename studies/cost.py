"""The cost model: the hardware that an arithmetic takes (docs/cost.md has the definitions and their sources)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any

from numc.compiler.arrays.words import checked_align, word_bytes
from numc.compiler.options import Options
from numc.frontends.load import has_inputs, load
from numc.hardware.areas import synthesized_area, table
from numc.hardware.synthesis import Synthesized
from numc.numerics.formats import Format
from numc.numerics.grammar import parse_fma
from numc.numerics.groups import GroupFormat
from numc.numerics.operators import Fma
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.policy import Decision, Policy
from numc.studies.explain import explain
from numc.studies.hardware.area import FP32_AREA, area, bf16_products, iso_area, passes
from numc.studies.hardware.contractions import contractions
from numc.studies.hardware.machine import Machine, load_machine
from numc.studies.hardware.units import Work
from numc.support.arguments import Fixed, checked, checked_fixed, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shown

if TYPE_CHECKING:
    import numpy.typing as npt


def step_speed_up(speed_up: float, fma_share: float) -> float:
    """Return Amdahl's law: how many times as fast a step is whose share `fma_share` is `speed_up` times as fast."""
    return 1 / ((1 - fma_share) + fma_share / speed_up)


@in_default_environment
@dataclass(frozen=True)
class Cost:
    """The cost of one contraction.

    layer, kind, role, shape, fma: as in the table of a policy. fmas: the number of multiply-adds. bf16_multiplications:
    of bf16 numbers. area: the area units of one FMA. area_time: area times the number of FMAs. iso_area: see
    `iso_area`. bytes: the size of A, B and the result in their formats. passes: of an fMAC over a pair of groups.
    moved: the estimated bytes to and from the memory of the machine. cycles, seconds: the estimated time. bound: what
    limits it: "compute", "latency" or "memory". utilisation: the share of the units that are busy with pairs of values
    in these cycles. joules: the estimated energy. All from `moved` on are None without a machine, and joules without
    published power.
    """

    layer: str
    kind: str
    role: str
    shape: str
    fma: str
    fmas: int
    bf16_multiplications: int
    area: int
    area_time: int
    iso_area: float
    bytes: int
    passes: int | None = None
    moved: int | None = None
    cycles: int | None = None
    seconds: float | None = None
    bound: str | None = None
    utilisation: float | None = None
    joules: float | None = None


@in_default_environment
@dataclass(frozen=True)
class Report:
    """The costs of the contractions of a model.

    speed_up: of the estimated time over that in fp32 on the same machine; None without a machine, or if it has no fp32
    units. fma_share: the share of FMAs in a whole step in fp32, or None if it is not known. step_speed_up: that of the
    whole step, of which only the FMAs become faster; None without fma_share.
    """

    costs: tuple[Cost, ...]
    machine: Machine | None
    speed_up: float | None
    fma_share: float | None = None

    @property
    def step_speed_up(self) -> float | None:
        """Amdahl's law for speed_up, or for iso_area without a machine; None without fma_share."""
        faster = self.iso_area if self.machine is None else self.speed_up
        return None if self.fma_share is None or faster is None else step_speed_up(faster, self.fma_share)

    @property
    def iso_area(self) -> float:
        """The ratio of area times FMAs in fp32 to that of the model's own operators."""
        total = sum(cost.area_time for cost in self.costs)
        return FP32_AREA * sum(cost.fmas for cost in self.costs) / total if total else 1.0

    @property
    def area(self) -> float:
        """The area units of an FMA, averaged over all of them."""
        return FP32_AREA / self.iso_area

    @property
    def gates(self) -> float:
        """The gates of an FMA after synthesis, averaged over all of them; 0 if there are none.

        Raises NumcError for an operator that has no circuit, and where Yosys is needed and missing.
        """
        fmas = sum(cost.fmas for cost in self.costs)
        return sum(row.gates * cost.fmas for row, cost in zip(self.synthesized, self.costs, strict=True)) / max(fmas, 1)

    @property
    def kept_gates(self) -> float | None:
        """The gates as `gates` has them, by the table that comes with numc alone; None if it lacks an operator."""
        rows = [table().get(str(parse_fma(cost.fma))) for cost in self.costs]
        known = [row.gates * cost.fmas for row, cost in zip(rows, self.costs, strict=True) if row is not None]
        return sum(known) / max(sum(cost.fmas for cost in self.costs), 1) if known and len(known) == len(rows) else None

    @property
    def synthesized(self) -> list[Synthesized]:
        """The operator of each contraction after synthesis, by the table that comes with numc or by Yosys.

        Raises NumcError as `gates` does.
        """
        return [synthesized_area(parse_fma(cost.fma)) for cost in self.costs]

    @property
    def bytes(self) -> int:
        """The size of all operands and results in their formats."""
        return sum(cost.bytes for cost in self.costs)

    @property
    def passes(self) -> float | None:
        """The passes of an fMAC, averaged over all FMAs; None if some operator is not block floating point."""
        known = [cost.passes * cost.fmas for cost in self.costs if cost.passes is not None]
        fmas = sum(cost.fmas for cost in self.costs)
        return sum(known) / fmas if fmas and len(known) == len(self.costs) else None

    @property
    def latency(self) -> float | None:
        """The estimated time in seconds; None without a machine."""
        return self._sum("seconds")

    @property
    def energy(self) -> float | None:
        """The estimated energy in joules; None without a machine whose power is known."""
        return self._sum("joules")

    def _sum(self, key: str) -> float | None:
        amounts = [getattr(cost, key) for cost in self.costs]
        return None if self.machine is None or None in amounts else sum(amounts)

    def total(self) -> dict[str, Any]:
        """Return the sums over all contractions, with averages over FMAs, and with the speed-ups that are known."""
        keys = ["fmas", "bf16_multiplications", "area_time", "bytes"]
        totals: dict[str, Any] = {key: sum(getattr(cost, key) for cost in self.costs) for key in keys}
        totals |= {"iso_area": self.iso_area, "passes": self.passes}
        if self.machine is not None:
            totals |= {key: self._sum(key) for key in ("moved", "cycles", "seconds", "joules")}
            totals["speed_up"] = self.speed_up
        if self.fma_share is not None:
            totals |= {"fma_share": self.fma_share, "step_speed_up": self.step_speed_up}
        return totals

    def as_json(self) -> dict[str, Any]:
        """Return the report in types that JSON has."""
        machine = None if self.machine is None else {"name": self.machine.name, "assumed": list(self.machine.assumed)}
        return {"layers": [asdict(cost) for cost in self.costs], "total": self.total(), "machine": machine}


def report(
    decisions: Iterable[Decision],
    machine: Machine | None = None,
    *,
    free: int = 1,
    fma_share: float | None = None,
    align: int | None = None,
) -> Report:
    """Return the costs of the contractions among `decisions`, with sizes that the model leaves free set to `free`.

    fma_share: as `checked_share` returns it. align: as for `cost`. Raises NumcError if the machine has no unit for an
    operator, or if a format cannot be aligned.
    """
    chosen = [(d.layer.fixed(free), d.fma) for d in decisions if d.layer.position is not None]
    costs = tuple(_cost(layer, fma, machine, align) for layer, fma in chosen)
    speed_up = None
    if machine is not None and "fp32" in machine.units:
        fp32 = parse_fma("fp32")
        before = sum(_cost(layer, fp32, machine, align).seconds or 0 for layer, _ in chosen)
        after = sum(cost.seconds or 0 for cost in costs)
        speed_up = before / after if after else 1.0
    return Report(costs, machine, speed_up, fma_share)


def checked_share(fma_share: float | None, machine: Machine | None) -> float | None:
    """Return a share of FMAs, or None for none. Raises NumcError unless it is from 0 to 1 and the machine has fp32."""
    if fma_share is None:
        return None
    if isinstance(fma_share, bool) or not isinstance(fma_share, Real) or not 0 <= fma_share <= 1:
        raise NumcError(f"fma_share: got {shown(fma_share)}, want a number from 0 to 1")
    if machine is not None and "fp32" not in machine.units:
        raise NumcError(
            f"fma_share: machine '{machine.name}' has no fp32 units to compare with: leave out the share or the machine"
        )
    return float(fma_share)


@in_default_environment
def cost(
    model: Any,
    inputs: Any = None,
    *,
    policy: str | os.PathLike[str] | Policy | None = None,
    fma: str = "fp32",
    machine: str | os.PathLike[str] | Machine | None = None,
    training: bool = False,
    batch: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
    fma_share: float | None = None,
    align: int | None = None,
) -> Report:
    """Return the hardware cost of every contraction of a model; of a PyTorch module, also those of its backward pass.

    model, inputs, policy, fma, shapes, values: as for numc.explain. machine: a name of `numc list machines`, a file, or
    None for no estimate of times. training: of a file, the contractions of the backward pass, too. batch: the value of
    sizes that the model leaves free. fma_share: the share of FMAs in a whole step in fp32, 0 to 1, from which the
    speed-up of the step follows by Amdahl's law. align: store values in words of 8, 16, 32 or 64 bits, as numc.pack
    does. Raises NumcError if the model, the machine or an option is not valid.
    """
    checked_integer(batch, "batch", 1, 2**63 - 1)
    checked(training, "training", bool, "True or False")
    known = machine if machine is None or isinstance(machine, Machine) else load_machine(machine)
    share, align = checked_share(fma_share, known), checked_align(align)
    fixed = checked_fixed(shapes, values)
    decisions = decisions_of(model, inputs, Options(fma=fma, policy=policy), training=training, shapes=fixed)
    return report(decisions, known, free=batch, fma_share=share, align=align)


def decisions_of(
    model: Any, inputs: Any, options: Options, *, training: bool, shapes: Fixed | None = None
) -> Sequence[Decision]:
    """Return the decisions of an arithmetic for a model; for a module of PyTorch, always those of a training step.

    model, inputs, training, shapes: as for `cost`. Raises NumcError.
    """
    if has_inputs(model) or type(model).__name__ == "ExportedProgram":
        return contractions(load(model, inputs, shapes=shapes, purpose="cost"), options, training=training)
    if shapes:
        raise NumcError(f"{type(model).__name__}: shapes and values are for files: the inputs say what sizes are")
    explained: Sequence[Decision] = explain(
        model, inputs, policy=options.policy, fma=options.fma, ops=options.ops
    ).decisions
    return explained


def _cost(layer: Layer, fma: Fma, machine: Machine | None, align: int | None) -> Cost:
    fmas = math.prod(size or 0 for size in layer.sizes.values())
    formats = (fma.a.format, fma.b.format, fma.acc.format)
    sizes = [math.prod(n or 0 for n in shape) for shape in layer.operands]
    stored = [_bytes(size, fmt, align) for size, fmt in zip(sizes, formats, strict=True)]
    fields: dict[str, Any] = {
        "layer": layer.name,
        "kind": layer.kind,
        "role": layer.role,
        "shape": layer.shape,
        "fma": str(fma),
        "fmas": fmas,
        "bf16_multiplications": fmas * bf16_products(fma),
        "area": area(fma),
        "area_time": fmas * area(fma),
        "iso_area": float(iso_area(fma)),
        "bytes": sum(stored),
        "passes": passes(*formats[:2]),
    }
    return Cost(**fields, **({} if machine is None else _estimate(layer, fma, stored, machine)))


def _bytes(values: int, fmt: Format | GroupFormat, align: int | None) -> int:
    if align is not None:
        return word_bytes(values, fmt, align)
    bits = Fraction(fmt.bits) if isinstance(fmt, Format) else fmt.bits_per_value
    return math.ceil(values * bits / 8)


def _estimate(layer: Layer, fma: Fma, stored: list[int], machine: Machine) -> dict[str, Any]:
    """Return the fields of Cost that a machine gives; the largest of the bounds on cycles counts."""
    name, steps = machine.unit_for(fma)
    unit, work = machine.units[name], Work.of(layer, steps)
    moved = _moved(layer, stored, machine)
    bounds: dict[str, float] = {**unit.cycles(work)}
    if machine.bandwidth is not None:
        bounds["memory"] = moved * machine.clock / machine.bandwidth
    bound = max(bounds, key=lambda key: bounds[key])
    cycles, seconds, watts = bounds[bound], bounds[bound] / machine.clock, machine.watts(name)
    pairs = work.b * work.m * work.n * work.k * work.steps
    return {
        "moved": moved,
        "cycles": math.ceil(cycles),
        "seconds": seconds,
        "bound": bound,
        "utilisation": pairs / (cycles * unit.count * unit.values) if cycles else 0.0,
        "joules": None if watts is None else seconds * watts,
    }


def _moved(layer: Layer, stored: list[int], machine: Machine) -> int:
    """Return the bytes to and from memory.

    Everything is moved once if it fits into the largest cache, otherwise once for every square tile.
    """
    total, cache = sum(stored), max(machine.caches, default=0)
    if total <= cache or not cache:
        return total
    b, m, n, _ = (size or 1 for size in layer.sizes.values())
    values = sum(math.prod(s or 1 for s in shape) for shape in layer.operands)
    side = max(
        1, math.isqrt(int(cache * values / total / 3))
    )  # three tiles, of A, B and the result, fit into the cache
    again = stored[0] * math.ceil(n / side) + stored[1] * math.ceil(m / side) + stored[2]
    return min(again, total + b * m * n * sum(stored[:2]))
