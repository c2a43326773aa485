"""The rows of the experiments: the networks in every format, or with the widths of each layer, of the thesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import measure
import numpy as np
import published
from measure import Outcome

TITLES = {
    "standard": "Standard formats, accumulated in the format",
    "accumulate": "FP8, accumulated in fp32",
    "exponent": "Exponent sweep, 7 significand bits",
    "significand": "Significand sweep, 8 exponent bits",
    "12-bit": "Exponent or significand: 12 bits",
    "layers": "Significand bits by layer, 8 exponent bits",
    "chosen": "Narrow exponents, significand bits by layer",
}
PARTS = ("exponent", "significand")

ORDERS = {
    "mlp": (("e8m7-3-1", "e8m1-3-7"), ("e8m3-1-1", "e8m1-1-3"), ("e8m3-3-1", "e8m1-3-3")),
    "cnn": (("e8m7-3-1-7-7", "e8m1-3-7-7-7"), ("e8m7-7-7-1-1", "e8m1-1-1-7-7")),
}
"""What the thesis concludes of layers: the first widths of a pair, with more bits in early layers, are better.

Of the last pair, the dense layers have few bits, and then the convolutions.
"""

Runs = Mapping[str, Sequence[Outcome]]
"""The name of a network -> its outcomes, a seed each."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network with some widths. published, accuracy: in per cent; the latter from every seed, and those in fp32 too.

    error: the median of the errors of the logits, None if those of some seed are not finite. nan: images with a NaN.
    """

    model: str
    widths: str
    published: float
    accuracy: list[float]
    fp32: list[float]
    error: float | None
    nan: list[int]


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Weights of a network that need so many bits for a part of them: a share of those of all seeds.

    published: that of the network of the thesis, None if there is none.
    """

    model: str
    part: str
    bits: int
    share: float
    published: float | None


def rows(experiment: str, runs: Runs) -> list[Row]:
    """Return the rows of every network."""
    found = []
    for model, outcomes in runs.items():
        for label, percent in published.PERCENT[experiment][model].items():
            cells = [(run.narrow if experiment == measure.NARROW else run.wide)[label] for run in outcomes]
            errors = [error for _, error, _ in cells]
            row = Row(
                model=model,
                widths=label,
                published=percent,
                accuracy=[accuracy for accuracy, _, _ in cells],
                fp32=[run.accuracy for run in outcomes],
                error=None if None in errors else float(np.median(errors)),
                nan=[nan for _, _, nan in cells],
            )
            found.append(row)
    return found


def accuracies(runs: Sequence[Outcome], label: str) -> list[float]:
    """Return the accuracies of a network with some widths and sums in fp32, a seed each."""
    return [run.wide[label][0] for run in runs]


def bins(runs: Runs) -> list[Bin]:
    """Return the bins of every network, those with the most bits first."""
    found = []
    for model, outcomes in runs.items():
        for part in PARTS:
            counts = [getattr(run, f"{part}s") for run in outcomes]
            total = sum(sum(count.values()) for count in counts)
            for bits in sorted({int(name) for count in counts for name in count}, reverse=True):
                share = sum(count.get(str(bits), 0) for count in counts) / total
                known = published.SIGNIFICANDS[model].get(bits) if part == "significand" else None
                found.append(Bin(model=model, part=part, bits=bits, share=share, published=known))
    return found
