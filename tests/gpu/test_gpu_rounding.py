"""Arithmetic on tensors without a model, on emulated GPUs: the bits of this processor's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import numc
from emulated_gpu import NEEDS, difference, operands
from numc.support.errors import NumcError

pytest.importorskip("triton", reason=NEEDS)

SINGLE = ["e6m9", "bf16:rtz", "posit8", "e4m3fn:sr4", "int8", "int4:sr4"]
GROUPS = ["bfp(16,3,4)", "bfp(5,3,4):rup", "mxfp8", "mxfp4:sr4", "nvfp4", "mx(nf4,7,scale=fp16)"]


def same(gpu: object, here: np.ndarray) -> bool:
    """Whether a tensor has the bits of an array; what differs is printed."""
    assert isinstance(gpu, torch.Tensor)
    text = difference(gpu.numpy(), here)
    print(text)
    return text == ""


@pytest.mark.all
@pytest.mark.parametrize("to", SINGLE)
def test_values_are_rounded(to: str) -> None:
    seed = 3 if ":sr" in to else None
    for numbers in ("normal", "wide", "special"):
        x = operands(numbers, (3, 37, 4), 5)
        assert (
            difference(numc.round(x, to, target="cuda", seed=seed).numpy(), numc.round(x.numpy(), to, seed=seed)) == ""
        )  # type: ignore[attr-defined]


@pytest.mark.all
@pytest.mark.parametrize("to", GROUPS)
def test_groups_are_rounded(to: str) -> None:
    """Along every axis, with short groups."""
    seed = 3 if ":sr" in to else None
    for axis in (None, 0, 1):
        for numbers in ("normal", "special"):
            x = operands(numbers, (3, 37, 4), 5)
            gpu = numc.round(x, to, axis=axis, target="cuda", seed=seed)
            assert same(gpu, numc.round(x.numpy(), to, axis=axis, seed=seed))


def test_other_shapes_and_types() -> None:
    double = operands("normal", (7,), 5).double() * 1.0000001
    rounded = numc.round(double, "bf16", target="cuda")
    assert same(rounded, numc.round(double.numpy(), "bf16"))
    assert numc.round(torch.zeros(2, 0), "mxfp8", target="cuda").shape == (2, 0)
    moved = operands("normal", (4, 6), 5).t()
    for to in ("mxfp4", "e4m3fn"):
        gpu = numc.round(moved, to, target="cuda")
        assert same(gpu, numc.round(moved.numpy().copy(), to))


def test_what_is_refused() -> None:
    x = torch.zeros(4, 4)
    with pytest.raises(NumcError, match="round: target 'cpu', want host or cuda"):
        numc.round(x, "bf16", target="cpu")
    with pytest.raises(NumcError, match=r"x: target 'cuda' takes tensors of torch in float32: use torch.as_tensor"):
        numc.round(x.numpy(), "bf16", target="cuda")
    with pytest.raises(
        NumcError, match=r"target 'cuda' has no conversion to 'mx\(e4m3fn,2,scale=fp32,rows=2\)': round the"
    ):
        numc.round(x, "mx(e4m3fn,2,scale=fp32,rows=2)", target="cuda")
    with pytest.raises(NumcError, match=r"axis=2: x has shape \(4, 4\), want -2 to 1"):
        numc.round(x, "mxfp4", axis=2, target="cuda")
