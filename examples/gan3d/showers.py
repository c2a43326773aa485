"""Synthetic showers in a calorimeter of 16 x 16 x 16 cells, in the place of a Monte Carlo simulation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 16
ENERGIES = np.arange(1, 9) / 2
"""Of the primary particle, in 100 GeV."""
UNIT = 100.0
"""What the cells hold for a deposited energy of 1, so that the largest of them are near 1."""
Showers = NDArray[np.float32]


def showers(energies: NDArray[np.float64], rng: np.random.Generator) -> Showers:
    """Return one shower [1, x, y, z] for each energy.

    Along z, the mean profile is a gamma distribution whose maximum is deeper for larger energies; along x and y, it is
    a Gaussian around the axis, with 1.5 cells of standard deviation. The axis, every cell and the deposited energy
    fluctuate.
    """
    count, cells = len(energies), np.arange(SIDE) + 0.5
    shape = 0.6 * (4 + np.log(energies))[:, None]
    along = cells**shape * np.exp(-0.6 * cells)
    across = [np.exp(-0.5 * ((cells - SIDE / 2 - rng.normal(0, 0.3, (count, 1))) / 1.5) ** 2) for _ in "xy"]
    found = np.einsum("nx,ny,nz->nxyz", *across, along) * rng.lognormal(0, 0.3, (count, SIDE, SIDE, SIDE))
    deposited = energies * (0.75 + 0.05 * np.log(energies)) * rng.normal(1, 0.03, count)
    found *= (UNIT * deposited / found.sum((1, 2, 3)))[:, None, None, None]
    return found[:, None].astype(np.float32)


def profiles(volumes: Showers, energies: NDArray[np.float64]) -> dict[str, list[float]]:
    """Return the mean deposits along x, y and z, and the sampling fraction (deposited by primary energy) by energy."""
    cells = volumes[:, 0].astype(np.float64) / UNIT
    found = {axis: cells.mean(0).sum(tuple({0, 1, 2} - {place})) for place, axis in enumerate("xyz")}
    fractions = cells.sum((1, 2, 3)) / energies
    found["sampling fraction"] = np.array([fractions[energies == energy].mean() for energy in ENERGIES])
    return {name: values.tolist() for name, values in found.items()}


MEASURES = ("x", "y", "z", "sampling fraction")
