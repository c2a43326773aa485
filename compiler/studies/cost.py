"""The cost model: the hardware that an arithmetic takes (docs/cost.md has the definitions and their sources)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

from numc.compiler.arithmetic.formats import Format
from numc.compiler.arithmetic.grammar import parse_fma
from numc.compiler.arithmetic.groups import GroupFormat
from numc.compiler.arithmetic.kinds.bfp import CHUNK
from numc.compiler.arithmetic.operators import BF16, Fma
from numc.compiler.arithmetic.policy.layer import Layer
from numc.compiler.arithmetic.policy.policy import Decision, Policy
from numc.compiler.studies.cost_machines import Machine, Unit, load_machine
from numc.compiler.studies.explain import explain
from numc.compiler.support.arguments import checked_integer
from numc.compiler.support.errors import NumcError, shown

FP32_AREA = 24 * 24


def passes(a: Format | GroupFormat, b: Format | GroupFormat) -> int | None:
    """Return how many passes an fMAC makes over a pair of groups; None without block floating point.

    An fMAC multiplies two bits of a magnitude by two in each pass (FAST, section V).
    """
    if isinstance(a, Format) or isinstance(b, Format) or "fmac2" not in a.datapaths or "fmac2" not in b.datapaths:
        return None
    return a.parts("fmac2") * b.parts("fmac2")


def area(fma: Fma) -> int:
    """Return the area units of an operator: for each of its multipliers, significand bits of A times those of B.

    The hidden bit counts (thesis, section 7.4.2: the square of the number of significand bits). The area of an fMAC,
    which has 2 x 2 multipliers, is counted once for each pass.
    """
    a, b = fma.a.format, fma.b.format
    found = passes(a, b)
    if found is not None:
        return found * CHUNK * CHUNK
    return fma.products * a.precision * b.precision


def iso_area(fma: Fma) -> Fraction:
    """Return the ratio of the number of products per area of an operator to that of fp32."""
    return Fraction(FP32_AREA, area(fma))


def bf16_products(fma: Fma) -> int:
    """Return the number of multiplications of bf16 numbers in one FMA; 0 if its operands have other formats."""
    parts = (fma.a.format, fma.b.format)
    return fma.products if all(_is_bf16(f) for f in parts) else 0


def step_speed_up(speed_up: float, fma_share: float) -> float:
    """Return Amdahl's law: how many times as fast a step is whose share `fma_share` is `speed_up` times as fast."""
    return 1 / ((1 - fma_share) + fma_share / speed_up)


def _is_bf16(fmt: Format | GroupFormat) -> bool:
    one = BF16.format
    return isinstance(fmt, Format) and (fmt.exponent_bits, fmt.significand_bits, fmt.subnormals, fmt.finite) == (
        one.exponent_bits, one.significand_bits, one.subnormals, one.finite
    )  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The cost of one contraction.

    layer, kind, shape, fma: as in the table of a policy. fmas: the number of multiply-adds. bf16_multiplications: of
    bf16 numbers. area: the area units of one FMA. area_time: area times the number of FMAs. iso_area: see `iso_area`.
    bytes: the size of A, B and the result in their formats. passes: of an fMAC over a pair of groups.
    moved: the estimated bytes to and from the memory of the machine. seconds: the estimated time. bound: what limits
    it: "compute", "latency" or "memory". These three are None without a machine.
    """

    layer: str
    kind: str
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
    seconds: float | None = None
    bound: str | None = None


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

    def total(self) -> dict[str, Any]:
        """Return the sums over all contractions, with iso_area, and with the speed-ups that are known."""
        keys = ["fmas", "bf16_multiplications", "area_time", "bytes"]
        found: dict[str, Any] = {key: sum(getattr(cost, key) for cost in self.costs) for key in keys}
        found["iso_area"] = self.iso_area
        if self.machine is not None:
            found |= {key: sum(getattr(cost, key) for cost in self.costs) for key in ("moved", "seconds")}
            found["speed_up"] = self.speed_up
        if self.fma_share is not None:
            found |= {"fma_share": self.fma_share, "step_speed_up": self.step_speed_up}
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the report in types that JSON has."""
        machine = None if self.machine is None else {"name": self.machine.name, "assumed": list(self.machine.assumed)}
        return {"layers": [asdict(cost) for cost in self.costs], "total": self.total(), "machine": machine}


def report(
    decisions: Iterable[Decision], machine: Machine | None = None, *, free: int = 1, fma_share: float | None = None
) -> Report:
    """Return the costs of the contractions among `decisions`, with sizes that the model leaves free set to `free`.

    fma_share: as `checked_share` returns it. Raises NumcError if the machine has no unit for an operator.
    """
    chosen = [(d.layer.fixed(free), d.fma) for d in decisions if d.layer.position is not None]
    costs = tuple(_cost(layer, fma, machine) for layer, fma in chosen)
    speed_up = None
    if machine is not None and "fp32" in machine.units:
        fp32 = parse_fma("fp32")
        before = sum(_cost(layer, fp32, machine).seconds or 0 for layer, _ in chosen)
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


def cost(
    model: Any,
    inputs: Any = None,
    *,
    policy: str | os.PathLike[str] | Policy | None = None,
    fma: str = "fp32",
    machine: str | os.PathLike[str] | Machine | None = None,
    batch: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    fma_share: float | None = None,
) -> Report:
    """Return the hardware cost of every contraction of a model; of a PyTorch module, also those of its backward pass.

    model, inputs, policy, fma, shapes: as for numc.explain. machine: a name of `numc list machines`, a file, or None
    for no estimate of times. batch: the value of sizes that the model leaves free. fma_share: the share of FMAs in a
    whole step in fp32, 0 to 1, from which the speed-up of the step follows by Amdahl's law. Raises NumcError if the
    model, the machine or an option is not valid.
    """
    checked_integer(batch, "batch", 1, 2**63 - 1)
    known = machine if machine is None or isinstance(machine, Machine) else load_machine(machine)
    share = checked_share(fma_share, known)
    decisions = explain(model, inputs, policy=policy, fma=fma, shapes=shapes).decisions
    return report(decisions, known, free=batch, fma_share=share)


def _cost(layer: Layer, fma: Fma, machine: Machine | None) -> Cost:
    sizes = [size or 0 for size in layer.sizes.values()]
    fmas = math.prod(sizes)
    formats = (fma.a.format, fma.b.format, fma.acc.format)
    stored = [_bytes(math.prod(n or 0 for n in s), f) for s, f in zip(layer.operands, formats, strict=True)]
    found: dict[str, Any] = {
        "layer": layer.name,
        "kind": layer.kind,
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
    if machine is not None:
        moved = _moved(layer, stored, machine)
        seconds, bound = _time(layer, fma, moved, machine)
        found |= {"moved": moved, "seconds": seconds, "bound": bound}
    return Cost(**found)


def _bytes(values: int, fmt: Format | GroupFormat) -> int:
    bits = Fraction(fmt.bits) if isinstance(fmt, Format) else fmt.bits_per_value
    return math.ceil(values * bits / 8)


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


def _time(layer: Layer, fma: Fma, moved: int, machine: Machine) -> tuple[float, str]:
    unit, steps = _unit(fma, machine)
    b, m, n, k = (size or 0 for size in layer.sizes.values())
    chain = steps * math.ceil(k / unit.values)  # the steps of one result, each of which depends on the last
    found = {
        "compute": math.ceil(b * m * n * chain / unit.count) / machine.clock,
        "latency": chain * unit.latency / machine.clock,
        "memory": moved / machine.bandwidth,
    }
    bound = max(found, key=lambda name: found[name])
    return found[bound], bound


def _unit(fma: Fma, machine: Machine) -> tuple[Unit, int]:
    """Return the units that compute an operator, and how many of their steps an FMA takes.

    Raises NumcError if the machine has none.
    """
    count = passes(fma.a.format, fma.b.format)
    if count is not None and "fmac" in machine.units:
        return machine.units["fmac"], count
    bf16 = bf16_products(fma)
    if bf16 and "bf16" in machine.units:
        return machine.units["bf16"], bf16
    if "fp32" in machine.units and isinstance(fma.a.format, Format) and isinstance(fma.b.format, Format):
        return machine.units["fp32"], fma.products
    raise NumcError(
        f"machine '{machine.name}' has no unit for the operator '{fma}': it has {', '.join(machine.units)} "
        "(fmac computes bfp, bf16 the parts of bf16xN, fp32 any format of single values)"
    )
