"""Contractions of every operator on emulated GPUs: the bits of this processor's kernels."""

from __future__ import annotations

import pytest
import torch

import definitions
import numc
from emulated_gpu import NEEDS, both, difference, operands
from numc.numerics.grammar import parse_fma
from numc.numerics.units import UNITS
from numc.support.errors import NumcError

pytest.importorskip("triton", reason=NEEDS)

# A step, a compound one, chunks, random bits, a block; then a record with subnormals and one without, a product of its
# own format, one rounding of all, splits, a table, and units of the other datapaths.
OPERATORS = ["bf16_1_1", "bf16_2_2{3}", "fma(a=e5m2,acc=fp16,chunk=8)", "fma(a=bf16:sr4,acc=fp16:sr8)", "hopper_e4m3"]
OPERATORS += ["mxfp8"]
MORE = [
    *("fp32", "mp", "bf16_1_2", "bf16_2_2", "bf16_3_3{6}", "fmac(e6m9)", "fmac(fp16)", "fma(a=posit8,acc=fp32)"),
    *("fma(a=e4m3fn,product=bf16,acc=bf16)", "fma(a=bf16,acc=bf16x2,datapath=exact)", "fma(a=bf16,acc=bf16:rtz)"),
    *("fma(a=mxint8,acc=fp32)", "fma(a=mxfp6,b=mxfp4,acc=fp32)", "fma(a=bf16,b=mxfp4,acc=bf16)"),
    *("fma(a=bf16,acc=fp32,splits=3)", "cdna1_bf16", "cdna2_bf16", "cdna3_fp16"),
]
# Those with groups of operands, whole numbers, and scales have no kernels yet.
SINGLE = [name for name in UNITS if all(to is None for to in parse_fma(name).grouped) and "int" not in name]


class Product(torch.nn.Module):
    """Two factors as they come."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


@pytest.mark.parametrize(
    "fma",
    [
        *OPERATORS,
        *(pytest.param(fma, marks=pytest.mark.all) for fma in MORE),
        *(pytest.param(fma, marks=pytest.mark.slow) for fma in SINGLE),
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


def test_windows() -> None:
    """Convolutions with strides, dilations, groups and padding are products of windows."""
    for how in ({}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}, {"groups": 4, "bias": False}):
        layer = torch.nn.Conv2d(4, 8, 3, **how)  # type: ignore[arg-type]
        assert both(layer.eval(), (torch.randn(2, 4, 9, 8),), fma="bf16_1_2") == []
    assert (
        both(torch.nn.Conv2d(8, 6, 3), (torch.randn(2, 8, 6, 6),), fma="mxfp8") == []
    )  # groups over channels and windows


@pytest.mark.all
@pytest.mark.parametrize("fma", ["own_twice", "own_fused", "mitchell"])
def test_operators_of_users(fma: str) -> None:
    """A step, a block, and a multiplier that is wrong on purpose: the graph of a definition is code of tiles, too."""
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


@pytest.mark.parametrize("fma", ["nvfp4", "int8", "amx_bf16", "fma(a=bfp(16,3,4),acc=fp32)", "blackwell_mxfp8"])
def test_operators_without_kernels_are_named(fma: str) -> None:
    with pytest.raises(NumcError) as refused:
        both(Product(), (torch.randn(2, 3), torch.randn(3, 4)), fma=fma)
    assert str(refused.value).startswith(f"target 'cuda' has no kernel for mm: operator '{parse_fma(fma)}'")
    assert str(refused.value).endswith(": compile for another target")
