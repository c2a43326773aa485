"""Products of binary32 matrices by narrow multipliers: several parts, or residues; print the errors of each way.

Run from anywhere: ``python examples/narrow_products/run.py``. Needs numc alone. The elements of the matrices are
uniform numbers times exp(s n), where n is normal and the spread s says how far magnitudes are apart.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import numc

SIDE = 16
SPREADS = (0, 1, 2, 4)
MODULI = (256, 255, 253, 251, 247, 241, 239, 233)
"""Pairwise coprime, so that a number below their product is known by its residues, each of which has eight bits."""
EXACT = 53
"""The bits that sums of a bfp group may have."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Way:
    """A way to multiply. fma: the operator. count, bits: the multiplications of an FMA, and their width in bits."""

    fma: str
    count: int
    bits: int


def magnitude_bits(moduli: int, depth: int) -> int:
    """The bits of integers whose sums of `depth` products are below half of the product of so many moduli."""
    return int((math.log2(math.prod(MODULI[:moduli])) - 1 - math.log2(depth)) // 2)


def residues(moduli: int, depth: int) -> Way:
    """Ozaki scheme II: rows of A and columns of B are integers with one power of two, and their sums are exact.

    A bfp format whose group is the whole reduction has these integers, and a sum that is rounded once.
    """
    return Way(f"bfp({depth},8,{magnitude_bits(moduli, depth)}):rtz", moduli, 8)


def ways(depth: int) -> dict[str, Way]:
    """Return the ways to multiply by name, for sums of `depth` products."""
    counts = [count for count in range(4, len(MODULI)) if 2 * magnitude_bits(count, depth) + math.log2(depth) <= EXACT]
    return {
        "binary32": Way("fp32", 1, 24),
        "bf16, 1 part": Way("mp", 1, 8),
        "bf16, 2 parts": Way("fma(a=bf16x2,acc=fp32,products=3)", 3, 8),
        "bf16, 3 parts": Way("fma(a=bf16x3,acc=fp32,products=6)", 6, 8),
        "bf16, 3 parts, all products": Way("fma(a=bf16x3,acc=fp32,products=9)", 9, 8),
        "fp16, 2 parts": Way("fma(a=fp16x2,acc=fp32,products=3)", 3, 11),
        "tf32, 2 parts": Way("fma(a=tf32x2,acc=fp32,products=3)", 3, 11),
        **{f"{count} residues": residues(count, depth) for count in counts},
    }


def matrices(spread: float, depth: int, side: int = SIDE) -> tuple[Floats, Floats]:
    """Return A (side, depth) and B (depth, side)."""
    rng = np.random.default_rng(0)
    a, b = (
        (rng.random(shape) - 0.5) * np.exp(spread * rng.standard_normal(shape))
        for shape in ((side, depth), (depth, side))
    )
    return a.astype(np.float32), b.astype(np.float32)


def largest_error(fma: str, spread: float, depth: int) -> float:
    """Return the largest error of an element, relative to the sum of the magnitudes of its products."""
    a, b = matrices(spread, depth)
    found, errors = numc.matmul(a, b, fma=fma).astype(np.float64), []
    for i, one in enumerate(a.astype(np.float64)):
        for j, other in enumerate(b.T.astype(np.float64)):
            products = one * other  # exact in binary64
            errors.append(abs(math.fsum([*products, -found[i, j]])) / math.fsum(abs(products)))
    return float(np.max(errors))  # NaN if one is


def row(name: str, depth: int, spreads: Sequence[float] = SPREADS) -> str:
    """Return the line of one way in the table."""
    way = ways(depth)[name]
    errors = [largest_error(way.fma, spread, depth) for spread in spreads]
    shown = ["NaN" if math.isnan(error) else f"{error:.1e}" for error in errors]
    return f"| {name} | `{way.fma}` | {way.count} of {way.bits} x {way.bits} | {' | '.join(shown)} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, choices=(128, 1024), default=1024, help="products of a sum")
    depth = parser.parse_args(argv).depth
    print(f"| way | operator | multiplications | {' | '.join(f'spread {spread}' for spread in SPREADS)} |")
    print(f"|---|---|---|{'---|' * len(SPREADS)}")
    for name in ways(depth):
        print(row(name, depth), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
