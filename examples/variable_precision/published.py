"""The accuracies that the thesis and its author's public notebook print, by experiment.

The tables and figures are those of the thesis' chapter 6. The sweeps are curves there; a notebook of the author has
their numbers. Table 6.1 accumulates in the format of the operands, every later experiment in fp32. Table 6.1 and the
notebook differ by 0.01 for bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping

NOTEBOOK = "results.ipynb in github.com/variable-precision-gpu/sim-dl-runner, commit 28ee62a (April 2021)"
SOURCES = {
    "standard": "table 6.1",
    "accumulate": "table 6.2, accumulated in fp32",
    "exponent": NOTEBOOK,
    "significand": NOTEBOOK,
    "12-bit": "figure 6.5",
}
SIGNIFICANDS: Mapping[str, Mapping[int, float]] = {"mlp": {23: 0.5, 22: 0.25, 21: 0.125, 20: 0.062}, "cnn": {}}
"""The shares of weights by significand bits in figure 6.4, as weights.ipynb beside that notebook has them."""
NETWORKS = {"mlp": "MLP2", "cnn": "CNN2"}
"""The author's nets, by ours: dense layers of 128, 64, 10; 3 x 3 convolutions of 4, 8, 16 channels, 1000, 10."""

_PERCENT: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "standard": {
        "mlp": {"fp32": 92.09, "tf32": 92.07, "fp16": 55.56, "bf16": 92.07, "fp8_e5m2": 69.46},
        "cnn": {"fp32": 99.15, "tf32": 99.15, "fp16": 99.15, "bf16": 99.14, "fp8_e5m2": 97.71},
    },
    "accumulate": {"mlp": {"fp8_e5m2": 88.69}, "cnn": {"fp8_e5m2": 98.23}},
    "exponent": {
        "mlp": {"e8m7": 92.08, "e7m7": 92.03, "e6m7": 90.14, "e5m7": 57.00, "e4m7": 13.24, "e3m7": 9.80, "e2m7": 9.80},
        "cnn": {"e8m7": 99.13, "e7m7": 99.13, "e6m7": 99.13, "e5m7": 99.13, "e4m7": 99.13, "e3m7": 9.80, "e2m7": 9.80},
    },
    "significand": {
        "mlp": {
            "e8m7": 92.08,
            "e8m6": 92.12,
            "e8m5": 92.19,
            "e8m4": 92.07,
            "e8m3": 91.86,
            "e8m2": 90.39,
            "e8m1": 82.24,
        },
        "cnn": {
            "e8m7": 99.13,
            "e8m6": 99.13,
            "e8m5": 99.11,
            "e8m4": 99.04,
            "e8m3": 98.96,
            "e8m2": 98.23,
            "e8m1": 68.56,
        },
    },
    "12-bit": {
        "mlp": {"e8m3": 91.86, "e7m4": 92.07, "e6m5": 91.90, "e5m6": 63.18, "e4m7": 13.24},
        "cnn": {"e8m3": 98.96, "e7m4": 99.04, "e6m5": 99.11, "e5m6": 99.13, "e4m7": 99.13},
    },
}


def accuracy(experiment: str, model: str, name: str) -> float | None:
    """Return the printed top-1 accuracy on MNIST's 10,000 test images, 0 to 1, of our model in a format; or None."""
    percent = _PERCENT[experiment][model].get(name)
    return None if percent is None else round(percent / 100, 4)
