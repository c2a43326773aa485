"""What is measured of every matrix unit: three networks, dot products, and steps beside the published model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import numc
from numc.numerics.numpy_groups import convert_operand, largest_magnitude
from numc.numerics.operators import Fma

ROOT = Path(__file__).parents[2]
NETWORKS: Mapping[str, tuple[str, str, str]] = {
    "CNN": ("examples/digits/cnn.onnx", "examples/digits/heldout.npz", "images"),
    "transformer": ("examples/models/transformer.onnx", "examples/models/transformer.npz", "input"),
    "LSTM": ("examples/models/lstm.onnx", "examples/models/lstm.npz", "input"),
}
PLAIN = ("fp32", "mp")  # what stands above the units
LENGTH, SIDE = 4096, 16  # of a dot product; SIDE x SIDE of them


@dataclass(frozen=True)
class Errors:
    """Relative errors of a network beside fp32, sum((x - r)^2) / sum(r^2): of its outputs, and by layer."""

    outputs: float
    layers: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Dots:
    """Errors of dot products, in ulp of float32 at the size of the exact result: the median and the largest."""

    median: float
    largest: float


@dataclass(frozen=True)
class Published:
    """Steps of a unit beside those of the published model, and how many results differ in a bit."""

    steps: int
    differ: int


def distinct() -> dict[str, tuple[str, ...]]:
    """The names of units that compute the same, by the first of them."""
    found: dict[Fma, list[str]] = {}
    for name, fma in numc.units.items():
        found.setdefault(replace(fma, name=""), []).append(name)
    return {names[0]: tuple(names) for names in found.values()}


def networks(fmas: Sequence[str], progress: Callable[[str], None] = print) -> dict[str, dict[str, Errors]]:
    """The errors of all networks, by operator and by network."""
    found: dict[str, dict[str, Errors]] = {fma: {} for fma in fmas}
    for title, (model, data, array) in NETWORKS.items():
        progress(f"{title} under {len(fmas)} operators")
        inputs = np.load(ROOT / data)[array]
        compared = numc.compare(ROOT / model, inputs, fmas=list(fmas), statistics=False)
        for result in compared.results:
            if result.name in found:
                layers = tuple((layer.name, layer.error) for layer in result.layers)
                found[result.name][title] = Errors(result.error, layers)
    return found


def dots(name: str) -> Dots:
    """The errors of SIDE x SIDE dot products of LENGTH standard normal numbers in the formats of an operator."""
    fma = {**numc.fmas, **numc.units}[name]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIDE, LENGTH)).astype(np.float32) for _ in range(2))
    x, y = _exact(a, fma, 0), _exact(b, fma, 1)
    exact = x @ y.T
    if fma.groups is None:
        a, b = x.astype(np.float32), y.astype(np.float32)
    ulp = np.abs(numc.matmul(a, np.ascontiguousarray(b.T), fma=name) - exact)
    ulp /= np.spacing(np.abs(exact).astype(np.float32))
    return Dots(float(np.median(ulp)), float(ulp.max()))


def _exact(rows: npt.NDArray[np.float32], fma: Fma, which: int) -> npt.NDArray[np.float64]:
    """Rows of an operand as an operator takes them."""
    if fma.groups is None:
        return np.asarray(numc.round(rows, str((fma.a, fma.b)[which])), np.float64)
    to = fma.groups[which]
    largest = largest_magnitude(rows, to.format)
    parts = convert_operand(rows, to, largest, factors="elements")
    tensor = to.format.shared_by(float(largest)) if to.format.shares_tensor else 1
    values = np.asarray(parts.values, np.float64) * tensor
    if parts.units.shape[1]:  # integers have no scale but that of the tensor
        values *= np.repeat(np.asarray(parts.units, np.float64), LENGTH // parts.units.shape[1], axis=1)
    return values


def published(name: str, steps: int) -> Published | None:
    """Steps beside the published model (PyPI: mmasim), which has no integers: None for those."""
    if numc.units[name].datapath.name == "int":
        return None
    if (shared := str(ROOT / "tests" / "shared")) not in sys.path:
        sys.path.insert(0, shared)
    import unit_steps

    parts = list(unit_steps.many(unit_steps.of_one_level(name), steps))
    return Published(sum(part.steps for part in parts), sum(part.differ for part in parts))


def as_json(value: Any) -> Any:
    """A record as JSON has it."""
    return None if value is None else asdict(value)
