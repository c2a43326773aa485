"""Matrix units of accelerators against the model of their instructions (PyPI: mmasim), bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc.numerics import reference
from numc.numerics.formats import FORMATS, Conversion
from numc.numerics.formats.rounding import round_real
from numc.numerics.grammar import parse_fma
from numc.numerics.units import UNITS
from numc.support.errors import NumcError
from targets_here import HERE
from tiers import by_default, one_in
from unit_models import DATA, instruction, operands
from unit_steps import PLAIN, compared, many

FIRST = ("volta_fp16_into_fp16", *PLAIN[::14])


@pytest.mark.parametrize("unit", by_default(one_in(9, PLAIN, *FIRST), FIRST))
def test_the_model_of_the_units(unit: str) -> None:
    for seed, data in enumerate(DATA):
        part = compared(unit, data, seed, 16)
        assert part.steps
        assert part.first is None, f"{unit}, {data}, seed {seed}: {part.first}"


@pytest.mark.parametrize(
    "unit", by_default(["hopper_bf16", "ada_e4m3", "cdna1_bf16", "cdna2_bf16_1k", "cdna3_fp16"], ["hopper_bf16"])
)
def test_split_k_adds_chains_of_the_model(unit: str) -> None:
    """Four chains of the model from +0, added in float32 in order: the last one is short."""
    import torch

    fma, model = UNITS[unit], instruction(unit)
    total = "" if fma.acc.format == FORMATS["fp32"] else ",total=fp32"
    text = f"fma(a={fma.a},b={fma.b},acc={fma.acc},datapath={fma.datapath},splits=4{total})"
    depth = 7 * model.k
    a, b, c = operands((9, depth, 11), "normal", 0)
    a, b = (numc.round(x, str(to)) for x, to in zip((a, b), fma.singles, strict=True))
    x, y, want = torch.tensor(a).to(model.a_type), torch.tensor(b).to(model.b_type), numc.round(c, str(fma.acc))
    for first in range(0, depth, 2 * model.k):
        run = torch.zeros(c.shape, dtype=model.c_type)
        for k in range(first, min(first + 2 * model.k, depth), model.k):
            run = model(x[:, k : k + model.k], y[k : k + model.k], run)
        want = want + run.numpy()
    assert (found := vectorised.first_mismatch(numc.matmul(a, b, c, fma=text), want)) is None, found


@pytest.mark.slow
@pytest.mark.parametrize("unit", PLAIN)
def test_a_million_steps(unit: str) -> None:
    for part in many(unit, 1_000_000):
        assert part.first is None, f"{unit}: {part.first}"


@pytest.mark.slow
@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("unit", [*PLAIN[::9], "hopper_e4m3", "cdna1_fp16", "cdna2_fp16", "cdna3_bf16", "cdna3_fp8"])
def test_units_on_every_target(unit: str, target: str) -> None:
    """Awkward shapes, with more than one block of k, against kernels without cheap sequences."""
    for seed, (data, shape) in enumerate(
        zip(DATA, [(1, 40, 70), (7, 700, 17), (3, 0, 2), (70, 33, 4)] * 2, strict=False)
    ):
        a, b, c = operands(shape, data, seed)
        want = reference.matmul(a, b, c, unit) if a.size < 2000 else numc.matmul(a, b, c, fma=unit, target="portable")
        found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=unit, target=target, threads=2), want)
        assert found is None, f"{unit}, {data}, {shape}, {target}: {found}"


OTHERS = [
    "fma(a=bf16,acc=bf16,datapath=pairwise(l=3))",
    "fma(a=fp32,acc=fp32,datapath=pairwise(l=16,flush=1))",
    "fma(a=fp16,acc=e6m9:rtz,datapath=dot(l=5))",
    "fma(a=fp32,acc=bf16:sr8,datapath=dot(l=7))",
    "fma(a=e4m3,acc=fp16,datapath=staged(l=6,bits=9,sum=12),chunk=12)",
    "fma(a=fp32,acc=fp32,datapath=staged(l=5,bits=20,sum=22,apart=1))",
    "fma(a=bf16,acc=e8m9:rtz,datapath=staged(l=3,bits=30,sum=40,apart=1))",
    "fma(a=bf16,acc=e8m5,datapath=fused(l=7,bits=12))",
    "fma(a=e5m2,acc=e4m3fn,datapath=fused(l=9,bits=20,least=3))",
    "fma(a=tf32,b=bf16,acc=fp32,datapath=fused(l=40,bits=25))",
]


@pytest.mark.parametrize(
    "fma", [*by_default(one_in(3, OTHERS), OTHERS[::3]), "cdna1_bf16", "cdna2_bf16", "cdna3_xf32", "cdna3_fp8"]
)
def test_kernels_are_the_definition(fma: str) -> None:
    """Also where the last block is short."""
    for seed, data in enumerate(DATA):
        a, b, c = operands((5, 37, 7), data, seed)
        want = reference.matmul(a, b, c, fma, seed=seed)
        found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=fma, seed=seed), want)
        assert found is None, f"{fma}, {data}: {found}"


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_in_two_stages_are_floored(sign: int) -> None:
    """To 31 bits below their own exponents: what lies right above a tie becomes one, or goes beyond it."""
    a = np.float32([[2**-8, 2**-8, sign * 2**-24, sign * 2**-32, 0, 0, 0, 0]])
    b, c = np.float32([1, -1, 1, 1, 1, 1, 1, 1])[:, None], np.float32([[sign]])
    for found in (reference.matmul(a, b, c, "cdna3_bf16"), numc.matmul(a, b, c, fma="cdna3_bf16")):
        assert found.item() == (1 if sign > 0 else -1 - 2**-23)


@pytest.mark.parametrize(
    ("fma", "a", "b", "c", "want"),
    [
        # Three quarters of an ulp, of which each part by itself would be lost.
        ("dot(l=3)", [1.0, 2**-25, 2**-25], [1.0, 1.0, 1.0], 2**-25, 1 + 2**-23),
        ("dot(l=2)", [1.0, -1.0], [1.0, 1.0], -0.0, 0.0),
        ("pairwise(l=4)", [1.0, 2**-24, 2**-24, 2**-24], [1.0] * 4, 0.0, 1 + 2**-23),
        ("pairwise(l=2,flush=1)", [2**-127, 1.0], [1.0, 2**-126], 0.0, 2**-126),
        ("staged(l=2,bits=4,sum=8)", [1.0, -(2**-5)], [1.0, 1.0], 0.0, 1.0),  # cut toward zero
        ("staged(l=2,bits=4,sum=8)", [1.0, 0.0], [1.0, 1.0], -(2**-5), 1 - 2**-4),  # floored
        ("staged(l=2,bits=4,sum=8,apart=1)", [1.0, -(2**-5)], [1.0, 1.0], 0.0, 1 - 2**-4),  # each sum is floored
        ("staged(l=2,bits=4,sum=8,apart=1)", [1.0, 0.0], [1.0, 1.0], -(2**-6), 1.0),  # the accumulator is too small
        ("staged(l=1,bits=4,sum=8)", [2.0**127], [2.0], 0.0, math.inf),
        ("staged(l=1,bits=4,sum=8)", [2.0**127], [-2.0], math.inf, math.nan),
    ],
)
def test_by_hand(fma: str, a: list[float], b: list[float], c: float, want: float) -> None:
    text = f"fma(a=fp32,acc=fp32,datapath={fma})"
    x, y, start = np.float32([a]), np.float32(b)[:, None], np.float32([[c]])
    for found in (reference.matmul(x, y, start, text), numc.matmul(x, y, start, fma=text)):
        assert found.item() == want or (np.isnan(found.item()) and np.isnan(want))
        assert np.isnan(want) or np.signbit(found.item()) == np.signbit(want)


@pytest.mark.parametrize("unit", ["cdna1_bf16", "cdna1_fp16"])
@pytest.mark.parametrize(
    ("products", "c"),
    [
        ([2**-12, 0.0], 2**12),  # a tie
        ([2**-12, 2**-24], 2**12),  # the smaller product breaks it, 36 bits below
        ([2**-12, -(2**-24)], 2**12 + 2**-11),
        ([-(2**-12), 2**-24], -(2**12) - 2**-11),
        ([2**-12, 2**-12], 2**12 + 2**-11),
        ([1 + 2**-7, -(1 + 2**-7)], -0.0),
        ([-0.0, -0.0], -0.0),
        ([1.0, 2**-24], -(1 + 2**-23)),
        ([2**-24, 2**-24], 2.0**-149),
    ],
)
def test_sums_that_are_rounded_once(unit: str, products: list[float], c: float) -> None:
    """Beside exact rationals: whole tiles of equal sums, whose guard holds."""
    exact = round_real(sum(map(Fraction, [*products, c])), Conversion(FORMATS["fp32"]))
    a, b = np.float32([products] * 8), np.ones((2, 40), np.float32)
    start = np.full((8, 40), c, np.float32)
    for target in HERE:
        found = numc.matmul(a, b, start, fma=unit, target=target)
        assert (found == float(exact)).all()
        assert not np.signbit(found[found == 0]).any()


def test_names() -> None:
    assert len(UNITS) == 137
    for name, fma in UNITS.items():
        assert parse_fma(name) is fma
        assert str(fma) == name
        written = f"fma(a={fma.a},b={fma.b},acc={fma.acc},datapath={fma.datapath})"
        assert parse_fma(written) == fma
    assert numc.units is UNITS
    with pytest.raises(NumcError, match=r"unknown FMA operator 'hoper_bf16' \(did you mean 'hopper_bf16'"):
        parse_fma("hoper_bf16")


def test_bad_parameters() -> None:
    with pytest.raises(NumcError, match="datapath 'dot': parameter l is missing"):
        parse_fma("fma(a=bf16,acc=fp32,datapath=dot())")
    with pytest.raises(NumcError, match="datapath 'staged': bits=31"):
        parse_fma("fma(a=bf16,acc=fp32,datapath=staged(l=4,bits=31,sum=31))")
    with pytest.raises(NumcError, match="datapath 'pairwise' takes formats of one part"):
        parse_fma("fma(a=bf16x2,acc=fp32,datapath=pairwise(l=4))")
