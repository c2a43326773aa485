"""The accuracy of two trained networks in every unit, on held-out data, beside fp32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from variants import FP32, Unit

import numc

EXAMPLES = Path(__file__).parents[1]


@dataclass(frozen=True)
class Network:
    """A trained network, and what is measured of it. high: whether more is better."""

    name: str
    title: str
    metric: str
    high: bool


NETWORKS = (
    Network("cnn", "CNN on 360 digits", "top1", high=True),
    Network("transformer", "transformer on 4,096 letters", "perplexity", high=False),
)


@dataclass(frozen=True)
class Accuracy:
    """A unit's metric, and the relative error of the outputs beside fp32: sum((x - r)^2) / sum(r^2)."""

    metric: float
    error: float


def measure(network: str, units: Sequence[Unit], samples: int | None) -> dict[str, Accuracy]:
    """Run a network in fp32 and in the units, on so many samples or on all. Raises NumcError."""
    model, inputs, labels, metric = _task(network)
    comparison = numc.compare(
        model,
        {name: values[:samples] for name, values in inputs.items()},
        labels=labels[:samples],
        metrics=[metric],
        fmas=[],
        policies={unit.name: f"default {unit.text}" for unit in units},
        statistics=False,
    )
    names = [FP32.name, *(unit.name for unit in units)]
    return {
        name: Accuracy(result.metrics[metric], result.error)
        for name, result in zip(names, comparison.results, strict=True)
    }


def _task(network: str) -> tuple[Path, dict[str, np.ndarray], np.ndarray, str]:
    """The file of a network, its inputs, the labels and the metric."""
    if network == "cnn":
        digits = np.load(EXAMPLES / "digits" / "heldout.npz")
        return EXAMPLES / "digits" / "cnn.onnx", {"x": digits["images"]}, digits["labels"], "top1"
    text = np.load(EXAMPLES / "own_unit" / "held_out.npz")
    model = EXAMPLES / "own_unit" / "transformer.onnx"
    return model, {"letters": text["letters"]}, text["following"], "perplexity"
