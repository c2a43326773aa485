"""examples/narrow_products: products by residues beside the Chinese remainder theorem, and the table of the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import numc
from arithmetic_vectorised import first_mismatch
from example_scripts import example

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "narrow_products") as module:
        yield module


def whole(rows: np.ndarray, bits: int) -> tuple[list[list[int]], list[int]]:
    """Integers below 2^bits, cut towards zero, and the exponent of the power of two of each row."""
    powers = [math.frexp(float(abs(row).max()))[1] - bits for row in rows]
    return [[int(math.ldexp(float(x), -e)) for x in row] for row, e in zip(rows, powers, strict=True)], powers


@pytest.mark.parametrize("moduli", [4, 7])
@pytest.mark.parametrize("spread", [0, 4])
def test_sums_are_those_of_residues(run: ModuleType, moduli: int, spread: int) -> None:
    """Residues are multiplied and added modulo each modulus alone, and tell the sum together."""
    depth = 128
    bits = run.magnitude_bits(moduli, depth)
    a, b = run.matrices(spread, depth, side=5)
    (rows, row_powers), (columns, column_powers) = whole(a, bits), whole(b.T, bits)
    used = run.MODULI[:moduli]
    product = math.prod(used)
    bases = [product // p * pow(product // p, -1, p) for p in used]
    expected = np.empty((5, 5), np.float32)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            residues = [sum((x % p) * (y % p) for x, y in zip(row, column, strict=True)) % p for p in used]
            total = sum(base * residue for base, residue in zip(bases, residues, strict=True)) % product
            total -= product * (total > product // 2)
            expected[i, j] = math.ldexp(total, row_powers[i] + column_powers[j])  # exact in binary64
    assert first_mismatch(numc.matmul(a, b, fma=run.residues(moduli, depth).fma), expected) is None


@pytest.mark.parametrize(("name", "depth"), [("tf32, 2 parts", 1024), ("7 residues", 128)])
def test_the_page_has_the_errors(run: ModuleType, name: str, depth: int) -> None:
    assert run.row(name, depth) in (ROOT / "docs" / "narrow-products.md").read_text(encoding="utf-8")


def test_ways_of_a_depth(run: ModuleType) -> None:
    """As many residues as a bfp group can add, and moduli whose residues tell a number."""
    assert [max(n for n in range(4, 8) if f"{n} residues" in run.ways(depth)) for depth in (128, 1024)] == [7, 6]
    assert all(math.gcd(p, q) == 1 for n, p in enumerate(run.MODULI) for q in run.MODULI[:n])
    assert max(run.MODULI) <= 256
