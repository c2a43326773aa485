"""Accumulators of few exponent bits, whose overflow the processor's flag tells (overflowing.py)."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import arithmetic_vectorised as reference
import numc
from numc.numerics.grammar import parse_fma
from numc.passes.kernels.datapaths.table import datapath_of
from targets_here import runnable
from tiers import pairs

OPERATORS = [
    *("fmac(fp16)", "fma(a=bf16,acc=e4m3)", "fma(a=fp8_e4m3,acc=fp8_e4m3:nan)", "fmac(e5m12n)"),
    *("mac(fp16)", "fma(a=fp16,product=fp16,acc=fp32)", "fma(a=bf16,product=e4m3fn,acc=fp16)"),
    *("fmac(fp16,chunk=24)", "fma(a=bf16,acc=fp16,datapath=exact)"),
]


@pytest.mark.parametrize(("text", "target"), pairs(OPERATORS, ["x86-64-v3", "x86-64-v4"]))
def test_sums_around_the_largest_number(text: str, target: str) -> None:
    """Sums that exceed it at a step and come back, or stay infinite, in some tiles and in none; over blocks of k."""
    runnable(target)
    fma = parse_fma(text)
    assert datapath_of(fma, rows=8).limits is not datapath_of(fma, rows=1).limits
    rng = np.random.default_rng(0)
    top = min(to.format.emax for to in (fma.product, fma.acc) if to is not None)
    for exponent, k in ((top // 2 - 5, 600), (top // 2 - 2, 600), (top // 2, 7), (top - 2, 70), (-70, 40)):
        a, b = rng.standard_normal((19, k)).astype(np.float32), rng.standard_normal((k, 70)).astype(np.float32)
        a, b = np.ldexp(a, exponent), np.ldexp(b, min(exponent, top - exponent))
        c = reference.round(np.ldexp(rng.standard_normal((19, 70)), top - 1).astype(np.float32), fma.acc)
        c[:, ::7] = -0.0
        c[3, 5], c[7, 40], c[11, 69] = np.inf, -np.inf, np.nan
        for start in (c, None):
            got = numc.matmul(a, b, start, fma=text, target=target)
            want = reference.matmul(a, b, start, text)
            assert (found := reference.first_mismatch(got, want)) is None, f"2^{exponent}, k = {k}: {found}"


def test_a_process_that_traps_overflow() -> None:
    """As feenableexcept of glibc asks for: the flag is raised on purpose."""
    script = """
import ctypes, numpy, numc
ones = numpy.full((8, 64), 32, numpy.float32)
numc.matmul(ones, ones.T, fma="fmac(fp16)")  # a compiler may well overflow
ctypes.CDLL("libm.so.6").feenableexcept(0x08)
print(numc.matmul(ones, ones.T, fma="fmac(fp16)")[0, 0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "inf\n"), done.stderr
