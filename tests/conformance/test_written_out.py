"""Operators that are written out in simpler ones: by scales of tiles, by units that sum elements, and rotated."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch

import arithmetic_vectorised as vectorised
import numc
from numc import reference
from numc.numerics.grammar import parse_fma
from numc.numerics.reference.hadamard import hadamard_matrix
from numc.support.errors import NumcError
from tiers import by_default, one_in

F32 = npt.NDArray[np.float32]
_E4M3 = "mx(e4m3fn,tensor,scale=fp32,rule=inverse)"
_SQUARE = "mx(e2m1fn,16,scale=e4m3fn,tensor=fp32,rows=16)"
_BLOCKS = "acc=fp32:rtz,datapath=fused(l=64,bits=35,least=-139,run=16)"
DEEPSEEK = "fma(a=mx(e4m3fn,32,scale=fp32),b=mx(e4m3fn,32,scale=fp32,rows=32),acc=fp32,unit=hopper_e4m3)"
OPERATORS = [
    DEEPSEEK,
    f"fma(a=nvfp4:sr8,b={_SQUARE},{_BLOCKS},hadamard=16,signs=3)",
    f"fma(a={_E4M3},b=mx(e5m2,tensor,scale=fp32,rule=inverse),acc=fp32,unit=hopper_e4m3_e5m2)",
    "fma(a=bf16,b=mx(uint4,32,scale=fp16),acc=fp32)",
    "mx(e4m3fn,tensor,scale=fp32)",
    "mx(e4m3fn,row,scale=fp32)",
    "fma(a=bf16,acc=fp32,hadamard=16)",
    "fma(a=mx(uint4,32,scale=fp16):sr8,b=mx(uint8,32,scale=fp32,rows=4):rtz,acc=fp32)",
    "fma(a=mx(e4m3fn,32,scale=fp32):sr8,b=mx(e4m3fn,32,scale=fp32,rows=32):sr4,acc=fp32,unit=hopper_e4m3)",
    f"fma(a=nvfp4,{_BLOCKS},hadamard=16)",
    f"fma(a=nvfp4,b={_SQUARE},{_BLOCKS})",
    "fma(a=mxfp8,b=mx(e4m3fn,32,rows=32),acc=fp32:rtz,datapath=fused(l=32,bits=25,least=-133))",
    "fma(a=mxfp6,b=mx(e5m2,16,rule=ceil),acc=fp32,hadamard=64)".replace("16,rule", "32,rule"),
    f"fma(a={_E4M3},acc=fp32,unit=fma(a=e4m3fn,acc=e8m13:rtz,datapath=fused(l=32,bits=13),chunk=64,total=fp32))",
    f"fma(a=mx(int8,tensor,scale=fp32),b={_E4M3.replace('e4m3fn', 'int4')},acc=fp32,unit=cdna3_bf16)",
]


def operands(kind: str) -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 100)).astype(np.float32), rng.standard_normal((100, 37)).astype(np.float32)
    c = rng.standard_normal((5, 37)).astype(np.float32)
    if kind == "tiny":
        a, b, c = a * np.float32(1e-30), b * np.float32(1e-12), c * np.float32(1e-40)
    if kind == "huge":
        a *= np.float32(1e30)
    if kind == "zeros":
        a[:, :40], b[3] = 0, -0.0
    if kind == "special":
        a[2, 3], b[7, 30] = np.inf, np.nan
    return a, b, c


@pytest.mark.parametrize("text", one_in(5, OPERATORS, *OPERATORS[:2]))
def test_operators_are_those_of_the_definition(text: str) -> None:
    for kind in ("normal", "tiny", "huge", "zeros", "special"):
        a, b, c = operands(kind)
        found, want = numc.matmul(a, b, c, fma=text, seed=0), reference.matmul(a, b, c, fma=text, seed=0)
        assert (difference := vectorised.first_mismatch(found, want)) is None, (kind, difference)
    assert parse_fma(str(parse_fma(text))) == parse_fma(text)


@pytest.mark.all
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_every_target_and_number_of_threads_gives_the_same_bits(target: str) -> None:
    a, b, c = operands("normal")
    want = numc.matmul(a, b, c, fma=OPERATORS[1], seed=0)
    assert np.array_equal(numc.matmul(a, b, c, fma=OPERATORS[1], seed=0, target=target, threads=2), want)


def test_tiles_and_a_unit_in_numpy() -> None:
    """DeepSeek-V3: elements by amax / 448, sums of a tile by the tensor core, and binary32 FMAs with the scales."""
    a, b, c = operands("normal")
    b = np.ascontiguousarray(b.T)

    def tiles(x: F32, rows: int) -> tuple[F32, F32]:
        whole = np.zeros((-(-len(x) // rows) * rows, 128), np.float32)
        whole[: len(x), :100] = x
        cut = whole.reshape(-1, rows, 4, 32)
        scales = np.abs(cut).max(axis=(1, 3)) / np.float32(448)
        elements = (cut / scales[:, None, :, None]).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        return elements.reshape(-1, 4, 32)[: len(x)], np.repeat(scales, rows, 0)[: len(x)]

    (x, of_x), (y, of_y) = tiles(a, 1), tiles(b, 32)
    for g in range(4):
        sums = numc.matmul(x[:, g], y[:, g].T.copy(), fma="hopper_e4m3").astype(np.longdouble)
        c = (sums * (of_x[:, g, None] * of_y[None, :, g]) + c).astype(np.float32)
    assert np.array_equal(numc.matmul(*operands("normal"), fma=DEEPSEEK), c)


@pytest.mark.parametrize("size", [4, 16, 64])
def test_rotations_change_no_product(size: int) -> None:
    """Entries are powers of two and rows are orthogonal, so that small integers have the products that they had."""
    matrix = np.array(hadamard_matrix(size, 5))
    assert np.array_equal(matrix @ matrix.T, np.eye(size))
    assert not np.array_equal(matrix, np.array(hadamard_matrix(size, 6)))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((3, 70), (70, 4)))
    text = f"fma(a=fp32,acc=fp32,hadamard={size},signs=5)"
    assert np.array_equal(numc.matmul(a, b, fma=text), a @ b)
    assert np.array_equal(reference.matmul(a, b, fma=text), a @ b)


def test_a_rotation_spreads_what_sticks_out() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 256)).astype(np.float32), rng.standard_normal((256, 16)).astype(np.float32)
    a[:, 3] *= 100
    errors = [
        np.linalg.norm(numc.matmul(a, b, fma=f"fma(a=nvfp4,{_BLOCKS}{rotation})") - a @ b)
        for rotation in ("", ",hadamard=16")
    ]
    assert np.isfinite(errors).all()
    assert errors[0] != errors[1]


def test_convolutions_are_products_of_their_windows() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    conv, x = torch.nn.Conv2d(3, 5, 3, stride=2, padding=1), torch.randn(2, 3, 9, 7)
    windows = torch.nn.functional.unfold(x, 3, stride=2, padding=1).permute(0, 2, 1).reshape(-1, 27).contiguous()
    weight = conv.weight.detach().reshape(5, -1).T.contiguous().numpy()
    start = np.broadcast_to(conv.bias.detach().numpy(), (len(windows), 5)).copy()
    text = DEEPSEEK.replace("rows=32", "rows=4")
    found = numc.compile(conv, (x,), fma=text)(x.numpy())
    want = reference.matmul(windows.numpy(), weight, start, fma=text).reshape(2, -1, 5).transpose(0, 2, 1)
    assert np.array_equal(found, want.reshape(found.shape))


_SUMS = "sums elements without their scales, want a=mx(element,g,scale=F), no datapath"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fma(a=bf16,acc=fp32,hadamard=8)", "fma(a=bf16,b=bf16,acc=fp32): hadamard=8, want 4, 16 or 64"),
        (
            "fma(a=bf16,acc=fp32,signs=8)",
            "fma(a=bf16,b=bf16,acc=fp32): signs=8 without hadamard: want hadamard=16, signs=8",
        ),
        (
            "fma(a=e4m3..5,acc=fp32,hadamard=16)",
            "fma(a=e4m3..5,b=e4m3..5,acc=fp32): hadamard=16 takes operands of fixed widths, want a=eXmY",
        ),
        (
            "fma(a=bf16:sr8,acc=fp32,hadamard=16)",
            "fma(a=bf16:sr8,b=bf16:sr8,acc=fp32): hadamard=16 is before a stochastic rounding of groups only: "
            "want a=mx(element,g):sr8, or a=bf16",
        ),
        (
            "fma(a=bf16,acc=fp32,unit=mp)",
            "fma(a=bf16,b=bf16,acc=fp32): unit=mp sums the elements of groups, and a and b are not both of groups",
        ),
        ("fma(a=mxfp8,acc=fp32,unit=mp)", f"fma(a=mxfp8_e4m3,b=mxfp8_e4m3,acc=fp32): unit=mp {_SUMS}"),
        (
            f"fma(a={_E4M3},acc=fp32,unit=hopper_e5m2)",
            f"fma(a={_E4M3},b={_E4M3},acc=fp32): unit=hopper_e5m2 takes e5m2, which has not all elements of a={_E4M3}",
        ),
        (
            f"fma(a={_E4M3},acc=fp32,unit=nvfp4)",
            f"fma(a={_E4M3},b={_E4M3},acc=fp32): unit=fma(a=nvfp4,acc=fp32), want an operator of single values that "
            "draws nothing",
        ),
        (
            "fma(a=mx(e4m3fn,tensor),acc=fp32,datapath=fused(l=32,bits=25))",
            "fma(a=mx(e4m3fn,tensor,scale=e8m0fnu),b=mx(e4m3fn,tensor,scale=e8m0fnu),acc=fp32): "
            "a=mx(e4m3fn,tensor,scale=e8m0fnu), datapath 'fused' takes groups of a number of values with scales of 8 "
            "significant bits at most, such as e4m3fn",
        ),
    ],
)
def test_errors_of_texts(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(text)
    assert str(error.value) == message


class Product(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(5, 7, 3, padding=1)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.layer(a[:, None, :, None].expand(-1, 5, -1, 4)) + b.sum()


FREE = [
    "fma(a=mx(e4m3fn,16,scale=fp32,rows=16),b=mx(e4m3fn,16,scale=fp32,rows=16),acc=fp32)",
    "te_fp8@hopper",
    "nvfp4@blackwell",
    "fma(a=mx(int4,row,scale=fp16),b=mx(int4,row,scale=fp16),acc=fp32,hadamard=16)",
    "fma(a=bf16,b=mx(uint4,16,scale=fp16),acc=fp32)",
]


@pytest.mark.parametrize(
    ("module", "fma"), by_default(one_in(9, [(m, f) for m in (Product, Images) for f in FREE]), [(Product, FREE[0])])
)
def test_free_sizes_give_the_bits_of_fixed_ones(module: type[torch.nn.Module], fma: str) -> None:
    """Rows and steps of the reduction, or images and their height, that fill no tile, one, and several."""
    torch.manual_seed(0)
    n, k = torch.export.Dim("n"), torch.export.Dim("k", min=2)
    model, first = module().eval(), (torch.randn(3, 5), torch.randn(5, 6))
    free = numc.compile(model, first, fma=fma, dynamic_shapes=({0: n, 1: k}, {0: k}))
    for rows, steps in ((1, 2), (17, 35)):
        x = torch.randn(rows, steps), torch.randn(steps, 6)
        fixed = numc.compile(model, x, fma=fma)
        found, want = (np.asarray(program(*(each.numpy() for each in x))) for program in (free, fixed))
        assert found.tobytes() == want.tobytes()
    if module is Product:
        assert np.asarray(free(np.zeros((0, 4), np.float32), np.zeros((4, 6), np.float32))).shape == (0, 6)


def test_other_reductions_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "squares.mlir"
    text.write_text(SQUARES)
    with pytest.raises(NumcError) as error:
        numc.compile(text, fma="mx(e4m3fn,tensor,scale=fp32)")
    assert str(error.value) == (
        "reduction '': 'fma(a=mx(e4m3fn,tensor,scale=fp32),acc=fp32)' needs one multiply-add, and this one does more: "
        "give it another operator"
    )


SQUARES = """
func.func @main(%a: tensor<4x8xf32>) -> tensor<4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%x: f32, %c: f32):
    %y = arith.negf %x : f32
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
