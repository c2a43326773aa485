"""Operators of which one operand has groups, as weights often have: its values are those of the conversion."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import torch

import arithmetic_vectorised as vectorised
import numc
from numc import reference
from numc.numerics.grammar import parse_fma
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import FP32
from numc.support.errors import NumcError
from targets_here import runnable
from tiers import by_default, one_in

F32 = npt.NDArray[np.float32]
GROUPED = [
    "mxfp4",
    "mxint8",
    "mxfp8_e5m2:rtz",
    "bfp(16,3,4)",
    "bfp(7,8,9):rne",
    "mx(e2m1fn,5,ceil)",
    "int8",
    "int4:rup",
]
REST = [
    *("a=bf16,acc=fp32", "a=bf16,acc=bf16", "a=e4m3fn,acc=fp32:rtz,datapath=fused(l=16,bits=25)"),
    *("a=bf16x2,acc=bf16x2", "a=fp16,acc=fp16,chunk=10", "a=e5m2,acc=e6m9:sr8,datapath=exact"),
    "a=bf16,acc=fp32,product=fp16",
]
CASES = [
    *("fma(a=bf16,b=mxfp4,acc=fp32)", "fma(a=bf16,b=int8:channel,acc=bf16)", "fma(a=bfp(16,3,4):sr4,b=fp16,acc=fp16)"),
    *("fma(a=bf16,b=nvfp4,acc=fp32)", "fma(a=mx(nf4,64,scale=fp32):sr4,b=fp16,acc=fp16)"),
    *("fma(a=int4:channel,b=bf16x2,acc=fp32)", "fma(a=e5m2,b=mx(e2m1fn,5):sr4,acc=fp16:sr4)"),
    *(f"fma({rest.replace(',', f',b={grouped},', 1)})" for grouped, rest in product(GROUPED, REST)),
]


def operands() -> tuple[F32, F32]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((9, 70), np.float32), rng.standard_normal((70, 21), np.float32)
    a[2, 7], b[20, 3], b[:, 5] = np.inf, np.nan, 0
    a[3] *= np.float32(1e-39)
    b[3], b[40, :4] = b[3] * np.float32(1e-39), [448, -3e38, 3e38, -0.0]
    return a, b


def compare(found: F32, want: F32) -> None:
    assert (difference := vectorised.first_mismatch(found, want)) is None, difference


@pytest.mark.parametrize("text", one_in(40, CASES, *CASES[:2]))
def test_against_the_definition(text: str) -> None:
    a, b = operands()
    seed = 1 if ":sr" in text else None
    for target, rows in (("host", 9), ("x86-64-v2", 1)) if text == CASES[0] else (("host", 9),):
        found = numc.matmul(a[:rows], b, fma=text, target=target, seed=seed)
        compare(found, reference.matmul(a[:rows], b, fma=text, seed=1))


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("text", CASES)
@pytest.mark.slow
def test_every_target(text: str, target: str) -> None:
    a, b = operands()
    runnable(target)
    for rows, lanes in ((9, 21), (1, 21), (2, 3)):
        found = numc.matmul(a[:rows], b[:, :lanes], fma=text, target=target, seed=5)
        compare(found, reference.matmul(a[:rows], b[:, :lanes], fma=text, seed=5))


@pytest.mark.parametrize("text", one_in(12, [case for case in CASES if ":sr" not in case and ":channel" not in case]))
def test_the_definition(text: str) -> None:
    """Converted along the reduction, then multiplied as binary32 numbers by the operator of single values."""
    a, b = operands()
    op = parse_fma(text)
    singles = [FP32 if isinstance(to, GroupConversion) else to for to in (op.a, op.b)]
    plain = replace(op, name="", a=singles[0], b=singles[1])
    assert isinstance(op.b, GroupConversion)
    with np.errstate(over="ignore"):  # the largest values of some groups are beyond binary32
        converted = reference.round_groups(b, op.b, 0)
    compare(reference.matmul(a[:3], b[:, :9], fma=text), reference.matmul(a[:3], converted[:, :9], fma=plain))


MODELS = [
    "fma(a=bf16,b=mxfp4,acc=fp32)",
    "fma(a=fp16,b=bfp(16,3,2..4),acc=fp16)",
    "fma(a=bf16,b=int8:channel,acc=fp32)",
]


@pytest.mark.parametrize("text", by_default(MODELS, MODELS[:1]))
def test_models(text: str) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)]
    model, x = torch.nn.Sequential(*layers).eval(), torch.randn(2, 3, 6, 6)
    programs = [numc.compile(model, (x,), fma=text, pack_weights=packs) for packs in (False, True)]
    inputs = {programs[0].inputs[0].name: x.numpy()}
    for program in programs:
        assert (report := numc.verify(program, inputs, samples=20)).mismatches == 0, report.first
    compare(programs[0](x.numpy()), programs[1](x.numpy()))
    if text == MODELS[0]:
        held = [weight["held"] for weight in programs[1].manifest["weights"]]
        assert held.count("codes of mxfp4_e2m1 with the scales of groups") == 2


@pytest.mark.parametrize("text", ["fma(a=bf16,b=mxfp4,acc=fp32)", pytest.param("mp", marks=pytest.mark.all)])
def test_zeros_of_transposed_convolutions_have_places_in_groups(text: str) -> None:
    layer, x = torch.nn.ConvTranspose2d(4, 4, 3, stride=2), torch.randn(1, 4, 5, 5)
    (contraction,) = numc.compile(layer, (x,), fma=text).manifest["contractions"]
    assert bool(contraction["phases"]) == (text == "mp")


def test_statistics_see_converted_values() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    text = "fma(a=bf16,b=int4,acc=bf16)"
    with numc.collect_stats(("rounding", "exponents")) as collected:
        found = numc.matmul(a, b, fma=text)
    (row,) = collected.statistics.rows
    want = reference.matmul(a, b, fma="fma(a=bf16,b=int4,acc=fp32)").astype(np.float64)
    error = np.sum((found - want) ** 2) / np.sum(want**2)
    assert row.rounding is not None
    assert np.isclose(row.rounding[0] / row.rounding[1], error)


def test_one_step_takes_the_operand_as_it_is() -> None:
    assert str(parse_fma("fma(a=bf16,b=mxfp4,acc=fp16)").step) == "fma(a=bf16,b=fp32,acc=fp16)"
    one, x, zero = np.array([1, 0.3, 0], np.float32)
    assert numc.fma(one, x, zero, fma="fma(a=bf16,b=mxfp4,acc=fp32)") == x


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fma(a=mxfp8:sr4,b=bf16,acc=fp16:sr8)",
            "fma(a=mxfp8_e4m3:sr4,b=bf16,acc=fp16:sr8): a=mxfp8_e4m3:sr4 and acc=fp16:sr8 would draw the same bits: "
            "use a stochastic rounding for a or acc alone",
        ),
        (
            "fma(a=bf16,b=mxfp8:sr4,acc=fp16,product=bf16:sr8)",
            "fma(a=bf16,b=mxfp8_e4m3:sr4,acc=fp16): b=mxfp8_e4m3:sr4 and product=bf16:sr8 would draw the same bits: "
            "use a stochastic rounding for b or product alone",
        ),
        (
            "fma(a=bf16,b=bfp(5000,3,4),acc=fp32)",
            "fma(a=bf16,b=bfp(5000,3,4),acc=fp32): groups of 5000 values, an operator takes up to 4096",
        ),
        (
            "fma(a=bf16,b=bfp(16,3,4),acc=fp32,datapath=fmac2)",
            "fma(a=bf16,b=bfp(16,3,4),acc=fp32): datapath 'fmac2' multiplies block floating point, want a=bfp(g,e,m)",
        ),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(text)
    assert str(error.value) == message
