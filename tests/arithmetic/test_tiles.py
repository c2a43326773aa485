"""Scales of tiles, rows and tensors, and integers with zero points: conversions, bytes, texts and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc import reference
from numc.numerics.grammar import parse_group_conversion
from numc.support.errors import NumcError
from tiers import one_in

F32 = npt.NDArray[np.float32]
FORMATS = (
    "mx(e4m3fn,tensor,scale=fp32)",
    "mx(e4m3fn,tensor,scale=fp32,rule=inverse)",
    "mx(e5m2,row,scale=fp32,rule=inverse)",
    "mx(int4,row,scale=fp16)",
    "mx(e4m3fn,8,scale=fp32,rows=4)",
    "mx(e4m3fn,128,scale=fp32,rule=ceil,rows=128)",
    "mx(e2m1fn,16,scale=e4m3fn,tensor=fp32,rows=16)",
    "mx(e4m3fn,16,scale=e8m0fnu,rows=3)",
    "mx(uint4,8,scale=fp16)",
    "mx(uint3,tensor,scale=bf16)",
    "mx(uint8,4,scale=fp32,rows=3)",
)
CASES = [
    f"{text}{rounding}" for text in FORMATS for rounding in ("", ":rtz", ":rup", ":rdn", ":rna", ":odd", ":sr8", ":sr3")
]


def tensors() -> list[F32]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 37)).astype(np.float32)
    special, zeros = x.copy(), x.copy()
    special[2, 3], special[7, 30] = np.inf, np.nan
    zeros[:, :20], zeros[0, 1] = 0, -0.0
    wide = x * np.exp2(rng.integers(-100, 100, x.shape)).astype(np.float32)
    return [x, x * np.float32(1e-42), x * np.float32(8e37), special, zeros, wide]


@pytest.mark.parametrize("text", one_in(7, CASES, *FORMATS[1::3]))
def test_conversions_are_those_of_the_definition(text: str) -> None:
    seed = {"seed": 0} if ":sr" in text else {}
    axes = ({},) if "(e4m3fn,tensor" in text or "(uint3,tensor" in text else ({"axis": 0}, {"axis": 1})
    for x in tensors():
        for axis in axes:
            found, want = numc.round(x, text, **axis, **seed), reference.round_groups(x, text, **axis)
            assert (difference := vectorised.first_mismatch(found, want, x)) is None, difference
            if not seed:
                again = numc.unpack(numc.pack(x, text, **axis))
                assert (difference := vectorised.first_mismatch(again, found, x)) is None, difference


def test_the_scale_of_a_tensor_in_numpy() -> None:
    """Transformer Engine: x times 448 / amax, and the inverse of that number, all in float32."""
    for x in tensors()[:3]:
        with np.errstate(over="ignore"):
            by = np.minimum(np.float32(448) / np.abs(x).max(), np.finfo(np.float32).max)
        elements = np.clip(x * by, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        assert np.array_equal(numc.round(x, "mx(e4m3fn,tensor,scale=fp32,rule=inverse)"), elements * (1 / by))


def test_square_tiles_are_the_same_in_both_directions() -> None:
    x = tensors()[0]
    for text in ("mx(e4m3fn,4,scale=fp32,rows=4)", "mx(e2m1fn,16,scale=e4m3fn,tensor=fp32,rows=16)"):
        assert np.array_equal(numc.round(x, text, axis=0), numc.round(x, text, axis=1))
        tile = x[:4, :4] if text.startswith("mx(e4m3fn") else None
        if tile is not None:
            scale = np.abs(tile).max() / np.float32(448)
            want = (tile / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale
            assert np.array_equal(numc.round(x, text)[:4, :4], want)
    single = "mx(e4m3fn,4,scale=fp32)"
    assert not np.array_equal(numc.round(x, single, axis=0), numc.round(x, single, axis=1))


def test_zero_points_in_numpy() -> None:
    """GPTQ's quantiser, with the scale in float16."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((12, 32)) + rng.integers(-3, 4, (12, 1))).astype(np.float32)
    low, high = np.minimum(x.min(1, keepdims=True), 0), np.maximum(x.max(1, keepdims=True), 0)
    scale = ((high - low) / np.float32(15)).astype(np.float16).astype(np.float32)
    zero = np.minimum(np.rint(-low / scale), 15)
    q = np.clip(np.rint(x / scale) + zero, 0, 15)
    assert np.array_equal(numc.round(x, "mx(uint4,32,scale=fp16)"), (q - zero) * scale)
    packed = numc.pack(x, "mx(uint4,32,scale=fp16)")
    assert len(packed.data) == -(-12 * (16 + 4 + 32 * 4) // 8)


def test_texts() -> None:
    for text in (*FORMATS, "mx(uint4,128,scale=fp16,rows=2):rtz"):
        assert str(parse_group_conversion(text)) == text
    one_row = parse_group_conversion("mx(e4m3fn,32,scale=fp32,rows=1)")
    assert one_row == parse_group_conversion("mx(e4m3fn,32,scale=fp32)")


_ZERO = "zero points come with a scale by the range of a group: want scale=fp16, bf16 or fp32, and neither a rule nor"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mx(e4m3fn,4,scale=fp16,rule=inverse)",
            "format 'mx(e4m3fn,4,scale=fp16,rule=inverse)': rule=inverse multiplies by a number in fp32: "
            "want scale=fp32",
        ),
        ("mx(e4m3fn,tensor,rows=3)", "format 'mx(...)': rows='3', the group is the tensor: leave rows out"),
        ("mx(e4m3fn,4,rows=0)", "format 'mx(e4m3fn,4,scale=e8m0fnu,rows=0)': rows=0, want 1 or more"),
        ("mx(uint4,4)", f"format 'mx(uint4,4,scale=e8m0fnu)': {_ZERO} tensor=fp32"),
        ("mx(uint4,4,scale=fp16,rule=ceil)", f"format 'mx(uint4,4,scale=fp16,rule=ceil)': {_ZERO} tensor=fp32"),
        (
            "mx(e4m3fn,tensor,scale=e4m3fn,tensor=fp32)",
            "format 'mx(e4m3fn,tensor,scale=e4m3fn,tensor=fp32)': the group is the tensor, which has one scale: "
            "leave tensor=fp32 out",
        ),
        (
            "mx(e4m3fn,all,scale=fp32)",
            "format 'mx(...)': want mx(element,g,rule=floor,scale=e8m0fnu): a format such as e2m1fn, the size of a "
            "group, row or tensor, a rule (floor, ceil, nearest, amax, inverse), the format of scales, rows=n for a "
            "scale of n rows, and tensor=fp32 for a scale of the tensor, too",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_group_conversion(text)
    assert str(error.value) == message


@pytest.mark.all
def test_against_torchao() -> None:
    """Needs torchao, which the tests do not install: it warns on every machine without a GPU."""
    pytest.importorskip("torchao")
    import torch
    from torchao.float8.config import ScalingGranularity
    from torchao.float8.float8_scaling_utils import hp_tensor_to_float8_dynamic
    from torchao.float8.float8_training_tensor import GemmInputRole, LinearMMConfig
    from torchao.quantization.quant_primitives import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    x = torch.from_numpy(np.random.default_rng(2).standard_normal((96, 256)).astype(np.float32))
    axis = {"scaling_granularity": ScalingGranularity.AXISWISE, "axiswise_dim": -1}
    role = GemmInputRole.INPUT
    for element, dtype in (("e4m3fn", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        for group, more in (("tensor", {}), ("row", axis)):
            made = hp_tensor_to_float8_dynamic(x, dtype, LinearMMConfig(), gemm_input_role=role, **more)
            want = made._data.float() * (1 / made._scale.float())
            assert np.array_equal(numc.round(x.numpy(), f"mx({element},{group},scale=fp32,rule=inverse)"), want)
    for scale, dtype in (("fp16", torch.float16), ("fp32", torch.float32)):
        kinds = {"scale_dtype": dtype, "zero_point_dtype": torch.int32}
        of_groups, zeros = choose_qparams_affine(x, MappingType.ASYMMETRIC, (1, 32), torch.uint8, 0, 15, **kinds)
        about = (1, 32), of_groups.float(), zeros, torch.uint8, 0, 15
        want = dequantize_affine(quantize_affine(x, *about), *about, output_dtype=torch.float32)
        # torchao has the zero point of the scale before its rounding, and here it is that of the scale which is stored.
        lows = x.reshape(-1, 32).amin(1).clamp(max=0)
        same = torch.round(-lows / of_groups.float().reshape(-1)) == zeros.reshape(-1)
        got = numc.round(x.numpy(), f"mx(uint4,32,scale={scale})")
        assert np.array_equal(got.reshape(-1, 32)[same], want.reshape(-1, 32)[same])
        assert (~same).sum() < 10 if scale == "fp16" else same.all()
