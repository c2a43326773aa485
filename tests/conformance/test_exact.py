"""The cheap sequences of the exact datapath: one rounding of a*b + c, where two would differ and where not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as reference
from numc.compiler.arrays.arrays import matmul
from targets_here import WITHOUT_GROUPS
from tiers import by_default, one_in, pairs

F32 = npt.NDArray[np.float32]
OPERATORS = {
    f"fma(a={a},acc={acc},datapath=exact)": (a, acc)
    for a, acc in (
        *(("bf16", acc) for acc in ("bf16", "bf16x2", "bf16x3", "e8m1", "e8m12", "fp32", "e6m9n")),
        *(
            ("e6m9", "e6m9"),
            ("e6m9n", "e6m9n"),
            ("tf32", "tf32"),
            ("tf32", "bf16x2"),
            ("tf32", "e7m16"),
        ),
        *(("fp16", "fp16"), ("e5m2", "e5m2"), ("fp32", "bf16")),
    )
}


def significands(rng: np.random.Generator, to: str, n: int) -> F32:
    """Numbers of a format near 1 whose products have the hard patterns: few bits, runs of ones, a one far below."""
    far = np.exp2(-rng.integers(1, 24, n))
    kinds = [1 + far, 1 - far, rng.integers(1, 32, n) / 16, 1 + rng.random(n)]
    values = np.choose(rng.integers(0, 4, n), kinds) * rng.choice([-1.0, 1.0], n)
    return reference.round(values.astype(np.float32), to)


def near(rng: np.random.Generator, product: npt.NDArray[np.float64], to: str) -> F32:
    """Accumulators of every distance from the products: far above and below, a tie apart, all but cancelled."""
    shape = product.shape
    distance = np.exp2(rng.integers(-40, 41, shape))
    c = significands(rng, to, product.size).reshape(shape) * distance * np.exp2(np.floor(np.log2(np.abs(product))))
    # Two more parts, for accumulators that have them, at any depth.
    c *= 1 + np.exp2(-rng.integers(4, 17, shape)) * rng.choice([-1, 0, 1], shape)
    c = np.where(rng.integers(0, 4, shape) == 0, -product * (1 + rng.choice([0, 2.0**-7, 2.0**-12], shape)), c)
    return reference.round(np.where(rng.integers(0, 16, shape) == 0, 0, c).astype(np.float32), to)


def cases(a_to: str, acc: str, m: int, n: int) -> Iterator[tuple[F32, F32, F32]]:
    """Outer products: one step on m x n independent triples, whose exponents stay inside of every guard or meet it."""
    rng = np.random.default_rng(7)
    for exponent in (0, -14, 13, -30, -69, 50):
        a, b = significands(rng, a_to, m), significands(rng, a_to, n)
        with np.errstate(all="ignore"):
            a = reference.round(np.ldexp(a, exponent // 2), a_to)
            b = reference.round(np.ldexp(b, exponent - exponent // 2), a_to)
            a, b = (np.where(np.isfinite(x) & (x != 0), x, 1).astype(np.float32) for x in (a, b))
            yield a[:, None], b[None, :], near(rng, a[:, None].astype(np.float64) * b[None, :], acc)


TARGETS = [WITHOUT_GROUPS[-1], WITHOUT_GROUPS[0]]


@pytest.mark.parametrize(
    ("fma", "target"), by_default(one_in(2, pairs(list(OPERATORS), TARGETS)), [(fma, TARGETS[0]) for fma in OPERATORS])
)
def test_one_step(fma: str, target: str) -> None:
    for a, b, c in cases(*OPERATORS[fma], 160, 1024):
        got = matmul(a, b, c, fma=fma, target=target)
        want = reference.matmul(a, b, c, fma)
        assert (found := reference.first_mismatch(got, want, a, b, c)) is None, found


@pytest.mark.parametrize("fma", OPERATORS)
def test_the_cases_tell_two_roundings_from_one(fma: str) -> None:
    """Data for which the fp32 datapath would do shows nothing; BF16x3 and fp32 hold all 24 bits of its one rounding."""
    twice = fma.replace(",datapath=exact", "")
    differ = sum(
        int((reference.matmul(a, b, c, fma) != reference.matmul(a, b, c, twice)).sum())
        for a, b, c in cases(*OPERATORS[fma], 40, 512)
    )
    assert (differ == 0) == (OPERATORS[fma][1] in ("bf16x3", "fp32")), differ


@pytest.mark.slow
@pytest.mark.parametrize("target", WITHOUT_GROUPS)
@pytest.mark.parametrize("acc", ["bf16", "bf16x2"])
def test_every_pair_of_significands(acc: str, target: str) -> None:
    """All products of two bf16 significands, all 8-bit accumulators, all distances: 2 * 10^8 steps."""
    fma = f"fma(a=bf16,acc={acc},datapath=exact)"
    one = (np.arange(128, 256) / 128).astype(np.float32)
    lanes = np.repeat(one, 256)
    starts = np.tile(np.concatenate([one, -one]), 128)
    for distance in range(-28, 29):
        c = np.broadcast_to(np.ldexp(starts, distance), (128, len(lanes)))
        got = matmul(one[:, None], lanes[None, :], np.array(c), fma=fma, target=target)
        want = reference.matmul(one[:, None], lanes[None, :], c, fma)
        assert (found := reference.first_mismatch(got, want, one[:, None], lanes[None, :], c)) is None, found
