"""The accuracies that the thesis and its author's public notebook print, by experiment, net and widths.

The sweeps are curves in the thesis; a notebook of the author has their numbers. Table 6.1 accumulates in the format of
the operands, every later experiment in fp32. Table 6.1 and the notebook differ by 0.01 for bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NOTEBOOK = "results.ipynb in github.com/variable-precision-gpu/sim-dl-runner, commit 28ee62a (April 2021)"
SOURCES = {
    "standard": "table 6.1",
    "accumulate": "table 6.2",
    "exponent": NOTEBOOK,
    "significand": NOTEBOOK,
    "12-bit": "figure 6.5",
    "layers": "tables 6.3 to 6.6",
    "chosen": "tables 6.7 and 6.8",
}

PERCENT: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "standard": {
            "mlp": {"e8m23": 92.09, "e8m10": 92.07, "e5m10": 55.56, "e8m7": 92.07, "e5m2": 69.46},
            "cnn": {"e8m23": 99.15, "e8m10": 99.15, "e5m10": 99.15, "e8m7": 99.14, "e5m2": 97.71},
        },
        "accumulate": {"mlp": {"e5m2": 88.69}, "cnn": {"e5m2": 98.23}},
        "exponent": {
            "mlp": {
                "e8m7": 92.08,
                "e7m7": 92.03,
                "e6m7": 90.14,
                "e5m7": 57.00,
                "e4m7": 13.24,
                "e3m7": 9.80,
                "e2m7": 9.80,
                "e1m7": 9.80,
            },
            "cnn": {
                "e8m7": 99.13,
                "e7m7": 99.13,
                "e6m7": 99.13,
                "e5m7": 99.13,
                "e4m7": 99.13,
                "e3m7": 9.80,
                "e2m7": 9.80,
                "e1m7": 9.80,
            },
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
        "layers": {
            "mlp": {
                "e8m7-3-1": 90.77,
                "e8m1-3-7": 88.36,
                "e8m3-1-1": 89.57,
                "e8m1-1-3": 82.22,
                "e8m1-1-1": 82.24,
                "e8m3-1-3": 90.50,
                "e8m3-3-1": 90.62,
                "e8m1-3-3": 88.10,
            },
            "cnn": {
                "e8m7-7-7-7-7": 99.13,
                "e8m3-3-3-7-7": 98.96,
                "e8m1-1-1-7-7": 80.33,
                "e8m7-3-1-7-7": 98.24,
                "e8m1-3-7-7-7": 98.11,
                "e8m7-7-7-3-3": 99.04,
                "e8m7-7-7-1-1": 98.59,
            },
        },
        "chosen": {
            "mlp": {
                "e8m23": 92.10,
                "e6m3-3-3": 91.54,
                "e6m2-2-2": 90.91,
                "e6m3-2-1": 90.48,
                "e6m3-3-2": 91.33,
                "e6m4-3-2": 91.55,
            },
            "cnn": {
                "e8m23": 99.15,
                "e4m4-4-4-4-4": 99.05,
                "e4m3-3-3-3-3": 95.62,
                "e4m2-2-2-2-2": 98.31,
                "e4m3-3-3-2-2": 98.89,
                "e4m3-3-3-1-1": 98.51,
                "e4m2-2-2-1-1": 97.41,
            },
        },
    }
)
"""Top-1 accuracy on MNIST's 10,000 test images, by `eXmY`, or `eXmY-Y-Y` with the significand bits of each layer."""

SIGNIFICANDS: Mapping[str, Mapping[int, float]] = MappingProxyType(
    {"mlp": {23: 0.5, 22: 0.25, 21: 0.125, 20: 0.062}, "cnn": {}}
)
"""The shares of weights by significand bits in figure 6.4, as weights.ipynb beside that notebook has them."""
