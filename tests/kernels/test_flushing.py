"""Accumulators without subnormal numbers, whose cheap sequence lets the processor flush (flushing.py)."""

from __future__ import annotations

import numpy as np
import pytest

import arithmetic_vectorised as reference
from numc.compiler.programs.compile import compile
from numc.compiler.targets import TARGETS
from numc.frontends.imported import Imported
from numc.numerics.grammar import parse_fma
from numc.passes.kernels.datapaths.table import datapath_of
from numc.runtime.library import cpu_features

MATMUL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        *(("fmac(e6m9n)", "x86-64-v3"), ("fmac(e6m9n)", "host"), ("fma(a=fp32,acc=e5m4n)", "host")),
        *(pytest.param(*each, marks=pytest.mark.all) for each in (("fma(a=bf16,acc=e7m10n)", "host"),)),
    ],
)
def test_sums_around_the_least_number(text: str, target: str) -> None:
    """Products and partial sums that the format flushes, or just does not, of both signs; then each bound passed."""
    if target != "host" and not cpu_features().issuperset(TARGETS[target].features):
        pytest.skip("the processor lacks the target's instructions")
    fma = parse_fma(text)
    assert datapath_of(fma, rows=8).flushes
    program = compile(Imported(mlir=MATMUL), fma=text, target=target)
    rng = np.random.default_rng(0)
    middle = fma.acc.format.emin // 2
    for of_a, of_b in ((middle - 2, middle - 2), (middle, middle), (-100, 70), (70, -100), (-140, 20), (20, -140)):
        a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((19, 70), (70, 37), (19, 37)))
        a, b = np.ldexp(a, of_a), np.ldexp(b, of_b)
        c = np.where(rng.random(c.shape) < 0.5, 0, np.ldexp(c, fma.acc.format.emin)).astype(np.float32)
        start = reference.round(c, fma.acc)
        want = reference.matmul(a, b, start, text)
        got = np.asarray(program(a, b, start))
        assert (found := reference.first_mismatch(got, want)) is None, f"2^{of_a}, 2^{of_b}: {found}"
