"""Numbers of the thesis that its author published separately: those of two of its six experiments.

The text of the thesis was not available to us, but a notebook of its author was. It plots accuracies in per cent over
the exponent width and over the significand width. Both curves have the values 92.08 and 99.13 at 8 exponent bits and 7
significand bits, so each of them varies one width of bfloat16.
"""

from __future__ import annotations

SOURCE = "results.ipynb in github.com/variable-precision-gpu/sim-dl-runner, commit 28ee62a (April 2021)"
NETWORKS = {"mlp": "MLP2", "cnn": "CNN2"}
"""The author's nets, by ours: dense layers of 256, 128, 64, 10; 3 x 3 convolutions of 4, 8, 16 channels, 1000, 10."""

_EXPONENT = {
    "mlp": {8: 92.08, 7: 92.03, 6: 90.14, 5: 57.00, 4: 13.24, 3: 9.80, 2: 9.80},
    "cnn": {8: 99.13, 7: 99.13, 6: 99.13, 5: 99.13, 4: 99.13, 3: 9.80, 2: 9.80},
}
_SIGNIFICAND = {
    "mlp": {7: 92.08, 6: 92.12, 5: 92.19, 4: 92.07, 3: 91.86, 2: 90.39, 1: 82.24},
    "cnn": {7: 99.13, 6: 99.13, 5: 99.11, 4: 99.04, 3: 98.96, 2: 98.23, 1: 68.56},
}
ACCURACY = {
    (model, name): round(percent / 100, 4)
    for model in NETWORKS
    for name, percent in (
        *((f"e{bits}m7", percent) for bits, percent in _EXPONENT[model].items()),
        *((f"e8m{bits}", percent) for bits, percent in _SIGNIFICAND[model].items()),
        ("bf16", _SIGNIFICAND[model][7]),
    )
}
"""Top-1 accuracy on the 10,000 test images of MNIST, by our model and the format."""
