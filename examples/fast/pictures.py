"""The pictures of the study: figures 6, 7, 19 and 20."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import settings
from measured import Outcome
from tables import Runs, differences

from numc.train.recipes.fast import KINDS


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def widths(path: Path, run: Outcome) -> None:
    """Draw figure 19: the magnitude bits of every tensor by layer and step, of one seed. Needs matplotlib."""
    pyplot = _pyplot()
    figure, grid = pyplot.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
    layers = list(dict.fromkeys(name.rsplit(" ", 1)[0] for name in run.bits))
    for kind, title, axes in zip(KINDS, ("weights", "activations", "gradients"), grid, strict=True):
        image = np.array([run.bits[f"{layer} {kind}"] for layer in layers])
        axes.imshow(image, aspect="auto", interpolation="nearest", cmap="Blues", vmin=1, vmax=5)
        axes.set(title=title, xlabel="step")
        axes.set_yticks(range(len(layers)), [layer.removeprefix("model.") for layer in layers])
    figure.suptitle("light: 2 bits, dark: 4 bits")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def groups(path: Path, runs: Runs) -> None:
    """Draw figure 20: accuracy minus that in fp32 over the magnitude bits, a line for each size of groups."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
    for number, g in enumerate(settings.GROUPS):
        cells = [differences(runs, settings.cell(g, m)) for m in settings.BITS]
        axes.plot(settings.BITS, [np.mean(cell) for cell in cells], color=f"C{number}", label=f"g = {g}")
        for m, cell in zip(settings.BITS, cells, strict=True):
            axes.plot([m + 0.04 * (number - 1)] * len(cell), cell, ".", color=f"C{number}", alpha=0.5)
    axes.axhline(0, color="#888", linewidth=1)
    axes.set_xticks(settings.BITS)
    axes.set(xlabel="magnitude bits m", ylabel="top-1 (%) minus fp32")
    axes.grid(color="#e4e4e4")
    axes.legend()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def exponents(path: Path, found: Mapping[str, tuple[np.ndarray, dict[int, np.ndarray]]]) -> None:
    """Draw figures 6 and 7: exponents of each kind of tensor, and their distances from the largest in a group."""
    pyplot = _pyplot()
    figure, grid = pyplot.subplots(2, len(found), figsize=(11, 6), layout="constrained")
    for (kind, (values, shares)), (top, bottom) in zip(found.items(), grid.T, strict=True):
        top.hist(values, bins=np.arange(values.min(), values.max() + 2) - 0.5, density=True, color="C0")
        top.set(title=f"{kind}, as figure 6", xlabel="exponent")
        for number, (g, share) in enumerate(shares.items()):
            bottom.bar(np.arange(len(share)) + 0.27 * (number - 1), share, 0.27, label=f"g = {g}")
        ticks = [*map(str, range(len(share) - 1)), f"{len(share) - 1}+"]
        bottom.set_xticks(range(len(share)), ticks)
        bottom.set(title=f"{kind}, as figure 7", xlabel="distance from the largest exponent of the group")
        bottom.legend()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
