"""The experiments: the nets in every format, or with the widths of each layer, that the thesis has a number for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import measure
import published

TITLES = {
    "standard": "Standard formats, accumulated in the format",
    "accumulate": "FP8, accumulated in fp32",
    "exponent": "Exponent sweep, 7 significand bits",
    "significand": "Significand sweep, 8 exponent bits",
    "12-bit": "Exponent or significand: 12 bits",
    "layers": "Significand bits by layer, 8 exponent bits",
    "chosen": "Narrow exponents, significand bits by layer",
}


@dataclass(frozen=True)
class Row(measure.Result):
    """A net with some widths. published: the accuracy of the net of the thesis that is like it, 0 to 1."""

    model: str
    widths: str
    published: float


def run(experiment: str, models: Sequence[str]) -> list[Row]:
    """Return the rows of every model."""
    rows: list[Row] = []
    for model in models:
        net = measure.net(model)
        result = net.narrow_sums if experiment == "standard" else net.wide_sums
        for label, percent in published.PERCENT[experiment][model].items():
            rows.append(Row(**asdict(result(label)), model=model, widths=label, published=round(percent / 100, 4)))
    return rows
