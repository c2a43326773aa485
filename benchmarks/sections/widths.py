"""Operators with open widths against those that have the same widths fixed, and how a change of widths compares."""

from __future__ import annotations

from typing import Any

import numpy as np

import numc
from benchmarks.cases import OPEN_WIDTHS, OPEN_WIDTHS_SLOWDOWN, Product
from benchmarks.measure import in_turns, ratio
from benchmarks.models import graphs

Row = dict[str, Any]
#: A square, a convolution as a product, and one row times a weight, which is converted once.
PRODUCTS = (Product(512, 512, 512), Product(3136, 64, 576), Product(1, 1024, 4096, constant=True))


def widths(seconds: float, quick: bool) -> list[Row]:
    """Time each open operator in turns with the fixed one, and with runs that change the width of a weight."""
    rows = []
    with graphs.folder() as folder:
        for product in PRODUCTS[:1] if quick else PRODUCTS:
            model, feeds, _ = graphs.matmul(product, folder)
            arrays = list(feeds.values())
            for operator, (fixed, chosen, other) in OPEN_WIDTHS.items():
                programs = numc.compile(model, fma=operator), numc.compile(model, fma=fixed)
                assert np.array_equal(programs[0](*arrays, widths=chosen), programs[1](*arrays))
                opened, closed = programs
                both = (chosen, other)
                calls = {
                    "open": lambda: opened(*arrays, threads=1, widths=chosen),  # noqa: B023
                    "fixed": lambda: closed(*arrays, threads=1),  # noqa: B023
                    "changing": lambda: [opened(*arrays, threads=1, widths=each) for each in both],  # noqa: B023
                }
                timings = in_turns(calls, seconds=seconds)
                row = {"shape": product.name, "operator": operator, "fixed": fixed, "must": OPEN_WIDTHS_SLOWDOWN}
                row |= {"seconds": timings["open"].best, "fixed_seconds": timings["fixed"].best}
                row |= {"changing_seconds": timings["changing"].best / len(both)}
                rows.append({**row, "slowdown": ratio(timings, "open", "fixed")})
    return rows
