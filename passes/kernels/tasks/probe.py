"""The function that copies a tile to where an observer wants to see accumulators."""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import PTR

PROBE = "numc_probe"

# Where to; 0 for initial values and 1 for results; batch, rows and lanes: the first, how many there are in the tile and
# in all; the tile, and how far its rows are apart.
_ARGUMENTS = {
    "to": PTR,
    **dict.fromkeys(("phase", "batch", "batches", "row", "row_count", "rows", "lane", "lane_count", "lanes"), "i64"),
    "tile": PTR,
    "pitch": "i64",
}


def probe_text() -> str:
    """The function ``@numc_probe``, which fills a part of an array [phase][batch][row][lane]."""
    f = Function(PROBE, _ARGUMENTS)
    batch = f.i64("addi", f.i64("muli", f["phase"], f["batches"]), f["batch"])
    first = f.i64("addi", f.i64("muli", batch, f["rows"]), f["row"])
    with f.loop(0, f["row_count"]) as r:
        row = f.i64("addi", f.i64("muli", f.i64("addi", first, r), f["lanes"]), f["lane"])
        of_tile = f.i64("muli", r, f["pitch"])
        with f.loop(0, f["lane_count"]) as lane:
            to = f.i64("addi", row, lane)
            source = f.i64("addi", of_tile, lane)
            target = f.at(f["to"], to)
            f.store(f.load(f.at(f["tile"], source)), target)
    return f.function()
