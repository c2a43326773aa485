"""Search for the fewest significand bits that keep the accuracy: first for all layers together, then layer by layer.

The search uses every other image. Its result is judged on the other half as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import measure
from rich.console import Console

import numc

MOST = 23  # significand bits of fp32


@dataclass(frozen=True)
class Layer:
    """A contraction: its multiply-adds for one image, and the significand bits chosen for it."""

    name: str
    fmas: int
    bits: int


@dataclass(frozen=True)
class Stage:
    """An arithmetic of the search: its accuracies on the images of the search and on the others.

    bits: the mean significand bits of the multiply-adds. iso_area: units that fit in the area of one for fp32.
    """

    arithmetic: str
    searched: float
    rest: float
    bits: float
    iso_area: float


@dataclass(frozen=True)
class Found:
    """The outcome of a search. trials: how many arithmetics were compiled and run."""

    model: str
    policy: str
    layers: tuple[Layer, ...]
    stages: tuple[Stage, ...]
    trials: int


def policy(bits: Mapping[str, int]) -> str:
    """Return the policy in which each layer computes with 8 exponent bits and the significand bits of `bits`."""
    width = max(map(len, bits)) + 2
    lines = (f"""layer {f'"{name}"':{width}} fma = fmac(e8m{n}), ops = e8m{n}""" for name, n in bits.items())
    return "\n".join(lines)


def search(model: str, tolerance: float, limit: int | None) -> Found:
    """Find the bits of every layer of `model` that keep the accuracy within `tolerance` of fp32's.

    Bits are removed one at a time, from the layers with the most multiply-adds first, as long as the accuracy holds.
    """
    images = measure.held_out(limit)
    seen, rest = images.part(slice(0, None, 2)), images.part(slice(1, None, 2))
    path = measure.DIGITS / f"{model}.onnx"
    fmas = {cost.layer: cost.fmas for cost in numc.cost(path).costs}
    exact = measure.accuracy(measure.logits(model, seen, fma="fp32"), seen)
    trials = 0

    def holds(bits: Mapping[str, int]) -> bool:
        nonlocal trials
        trials += 1
        status.update(f"{model}.onnx, trial {trials}: {', '.join(map(str, bits.values()))} bits")
        found = measure.accuracy(measure.logits(model, seen, policy=policy(bits)), seen)
        return found >= exact - tolerance - 1e-9

    with Console(stderr=True).status(model) as status:
        uniform = next(n for n in range(1, MOST + 1) if n == MOST or holds(dict.fromkeys(fmas, n)))
        bits = dict.fromkeys(fmas, uniform)
        for name in sorted(fmas, key=lambda name: -fmas[name]):
            while bits[name] > 1 and holds(bits | {name: bits[name] - 1}):
                bits[name] -= 1

    def stage(arithmetic: str, chosen: Mapping[str, int]) -> Stage:
        text = policy(chosen)
        searched, others = (measure.accuracy(measure.logits(model, x, policy=text), x) for x in (seen, rest))
        mean = sum(fmas[name] * count for name, count in chosen.items()) / sum(fmas.values())
        return Stage(arithmetic, searched, others, mean, numc.cost(path, policy=text).iso_area)

    stages = (
        stage("fp32", dict.fromkeys(fmas, MOST)),
        stage("uniform", dict.fromkeys(fmas, uniform)),
        stage("by layer", bits),
    )
    chosen = tuple(Layer(name, fmas[name], bits[name]) for name in fmas)
    return Found(model, policy(bits), chosen, stages, trials)
