"""Contractions of every operator on emulated GPUs: the bits of this processor's kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import definitions
import numc
from emulated_gpu import NEEDS, both, difference, operands
from numc.numerics.grammar import parse_fma
from numc.numerics.units import UNITS
from numc.support.errors import NumcError
from tiers import by_default, one_in

pytest.importorskip("triton", reason=NEEDS)

# A step, a compound one, chunks, random bits, a block; groups: exact sums, integers, scaled sums, blocks with scales.
OPERATORS = ["bf16_1_1", "bf16_2_2{3}", "fma(a=e5m2,acc=fp16,chunk=8)", "fma(a=bf16:sr4,acc=fp16:sr8)", "hopper_e4m3"]
OPERATORS += ["highbfp", "int8", "fma(a=int16,acc=fp32)", "nvfp4", "blackwell_nvfp4"]
# Then a record with subnormals and one without, a product of its own format, one rounding of all, splits, a table, and
# units of the other datapaths. Groups of one operand, of other sizes than tiles, of drawn elements, of channels; sums
# of integers that wrap or saturate; scales of tiles, rows and tensors, zero points, and what is rotated.
MORE = [
    *(
        "fp32",
        "mp",
        "bf16_1_2",
        "bf16_2_2",
        "bf16_3_3{6}",
        "fmac(e6m9)",
        "fma(a=tf32x2,acc=fp32,products=3)",
        "fma(a=posit8,acc=fp32)",
    ),
    *("fma(a=e4m3fn,product=bf16,acc=bf16)", "fma(a=bf16,acc=bf16x2,datapath=exact)", "fma(a=bf16,acc=bf16:rtz)"),
    *("fma(a=bf16,acc=fp32,splits=3)", "cdna1_bf16", "cdna2_bf16", "cdna3_fp16"),
    *("fma(a=e5m2,acc=fp32,datapath=fused(l=3,bits=20))", "fma(a=bf16,acc=posit16)"),
    *("mxfp8", "fma(a=mxint8,acc=fp32)", "fma(a=mxfp6,b=mxfp4,acc=fp32)", "fma(a=bf16,b=mxfp4,acc=bf16)"),
    *("fma(a=bfp(16,3,4),b=bfp(16,3,2),acc=fp32)", "fma(a=bfp(5,3,4),acc=fp32)", "fma(a=bfp(48,3,7),acc=fp32)"),
    *("lowbfp", "fma(a=bfp(4,4,4):sr4,acc=fp32)", "mxfp8:sr8", "fma(a=mx(e2m1fn,20),acc=fp32)"),
    *("fma(a=int8:channel,b=int4,acc=fp32)", "fma(a=int8:sr8,acc=fp32)"),
    *("fma(a=int8,acc=fp32,datapath=int(bits=16))", "fma(a=int8,acc=fp32,datapath=int(bits=16,saturate=1,l=4))"),
    *("fma(a=bf16,b=int8,acc=bf16)", "fma(a=nvfp4,b=bf16,acc=bf16)", "fma(a=bf16,b=mxfp8,acc=fp32,chunk=4)"),
    *("fma(a=bf16,b=mxfp8,acc=fp16,datapath=fused(l=4,bits=12))", "blackwell_mxfp8"),
    *("fma(a=bf16,acc=bf16:sr8,datapath=fused(l=4,bits=12))", "fma(a=bf16,b=mxfp4,acc=bf16:sr8)"),
    *("fma(a=mx(uint4,16,scale=fp16),acc=fp32)", "fma(a=mx(e4m3fn,tensor,scale=fp32,rule=inverse),acc=fp32)"),
    *("fma(a=mx(e4m3fn,32,scale=fp32),acc=fp32,unit=hopper_e4m3)", "fma(a=bf16,acc=fp32,hadamard=16,signs=3)"),
]
LEFT = [name for name in UNITS if name not in (*OPERATORS, *MORE)]


class Product(torch.nn.Module):
    """Two factors as they come."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


@pytest.mark.parametrize(
    "fma",
    [
        *OPERATORS,
        *by_default(one_in(9, MORE), ()),
        *(pytest.param(fma, marks=pytest.mark.slow) for fma in LEFT),
    ],
)
def test_batches_of_products(fma: str) -> None:
    """Of sizes that no tile divides: the last steps of k, rows and lanes that are missing."""
    for seed, kind in enumerate(("normal", "wide", "special")):
        inputs = operands(kind, (2, 5, 37), seed), operands(kind, (2, 37, 70), seed + 9)
        assert both(Product(), inputs, fma=fma, seed=7 if ":sr" in fma else None) == []


def test_shapes() -> None:
    """One row, one lane, one step, no step, more rows than a tile has, and a factor that batches share."""
    for rows, depth, lanes in ((1, 5, 1), (3, 1, 65), (130, 3, 2), (2, 0, 3), (33, 16, 64)):
        assert both(Product(), (torch.randn(rows, depth), torch.randn(depth, lanes)), fma="bf16_1_1") == []
    assert both(Product(), (torch.randn(3, 4, 5), torch.randn(5, 6)), fma="bf16_2_2{3}") == []
    for depth in (0, 5, 32, 70, 128):
        assert both(Product(), (torch.randn(3, depth), torch.randn(depth, 5)), fma="mxfp8") == []


@pytest.mark.slow
def test_windows() -> None:
    """Convolutions with strides, dilations, groups and padding are products of windows."""
    for how in ({}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}, {"groups": 4, "bias": False}):
        layer = torch.nn.Conv2d(4, 8, 3, **how)  # type: ignore[arg-type]
        assert both(layer.eval(), (torch.randn(2, 4, 9, 8),), fma="bf16_1_2") == []
    assert (
        both(torch.nn.Conv2d(8, 6, 3), (torch.randn(2, 8, 6, 6),), fma="mxfp8") == []
    )  # groups over channels and windows


@pytest.mark.all
@pytest.mark.parametrize(
    "fma", one_in(3, ["own_twice", "own_fused", "mitchell", "by_table", "logarithmic", "saturating"])
)
def test_operators_of_users(fma: str) -> None:
    """A step, a block, a multiplier that is wrong on purpose, tables, a register: all of them are code of tiles."""
    with definitions.own_operators():
        for seed, kind in enumerate(("normal", "special")):
            inputs = operands(kind, (5, 37), seed), operands(kind, (37, 20), seed + 9)
            assert both(Product(), inputs, fma=fma) == []


def test_products_of_tensors() -> None:
    """numc.matmul on tensors, where they are: here on emulated GPUs."""
    a, b, c = torch.randn(5, 7), torch.randn(7, 3), torch.randn(5, 3)
    for start in (None, c):
        emulated = numc.matmul(a, b, start, fma="bf16_1_2", target="cuda")
        assert isinstance(emulated, torch.Tensor)
        assert difference(emulated.numpy(), numc.matmul(a, b, start, fma="bf16_1_2")) == ""
    with pytest.raises(NumcError, match=r"a: target 'cuda' takes tensors of torch in float32: use torch.as_tensor"):
        numc.matmul(a.numpy(), b, target="cuda")


@pytest.mark.all
@pytest.mark.parametrize(
    "fma",
    [
        "fma(a=bfp(16,3,2..4),acc=fp32)",
        "fma(a=bf16,b=bfp(16,3,2..4),acc=fp32)",
        "fma(a=bfp(8,3,2..4):sr4,b=bfp(8,3,4),acc=fp32)",
        "fma(a=e2..5m1..4,acc=fp32)",
    ],
)
def test_open_widths(fma: str) -> None:
    inputs = operands("wide", (5, 37), 1), operands("normal", (37, 9), 2)
    gpu = numc.compile(Product(), inputs, fma=fma, target="cuda").to("cpu")
    here = numc.compile(Product(), inputs, fma=fma)
    told = {"seed": 3} if ":sr" in fma else {}
    for widths in (None, (3, 2), (2, 3)) if fma.startswith("fma(a=e") else (None, 2, 3):
        results = [np.asarray(program(*inputs, widths=widths, **told)) for program in (gpu, here)]
        assert difference(*results) == ""


def test_calibrated_scales() -> None:
    """Those of int8 that data fixes: values beyond them saturate."""
    inputs = operands("normal", (5, 37), 1), operands("normal", (37, 9), 2)
    seen = {"a": 0.5 * np.ones((5, 37), np.float32), "b": np.ones((37, 9), np.float32)}
    gpu, here = (numc.compile(Product(), inputs, fma="int8", calibrate=seen, target=t) for t in ("cuda", "host"))
    assert difference(gpu.to("cpu")(*inputs).numpy(), np.asarray(here(*inputs))) == ""


@pytest.mark.all
def test_formats_by_their_values() -> None:
    """Rounding to so many values searches in tables, which are memory of the device."""
    powers = [float(np.float32(1.07**n - 1)) for n in range(60)]
    with definitions.undone():
        numc.format_of([*powers, *(-x for x in powers[1:]), float("nan")], name="own_list")
        for seed, numbers in enumerate(("normal", "special")):
            inputs = operands(numbers, (5, 37), seed), operands(numbers, (37, 20), seed + 9)
            assert both(Product(), inputs, fma="fma(a=own_list,acc=own_list)") == []
            assert both(torch.nn.Softplus(), (inputs[0],), ops="own_list") == []


@pytest.mark.parametrize(
    ("fma", "why"),
    [
        ("amx_bf16", ""),
        ("fma(a=bf16,acc=bf16:sr8,chunk=4)", ""),
        ("kulisch_bf16", ", whose register has 1024 bits"),
    ],
)
def test_operators_without_kernels_are_named(fma: str, why: str) -> None:
    with definitions.own_operators():
        with pytest.raises(NumcError) as refused:
            both(Product(), (torch.randn(2, 3), torch.randn(3, 4)), fma=fma)
        assert str(refused.value).startswith(f"target 'cuda' has no kernel for mm: operator '{parse_fma(fma)}'{why}")
    assert str(refused.value).endswith(": compile for another target")
