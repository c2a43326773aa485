"""Complex numbers inside of PyTorch models, as pairs of real numbers (frontends/pytorch/graphs/complex_numbers.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numc

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after importorskip

from tiers import one_in  # noqa: E402
from torch_modules import Calls  # noqa: E402

X, Y = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(0)), torch.rand(6, 4) + 0.5


def pairs(x: Any) -> Any:
    return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))


class Rotary(nn.Module):
    """Rotary position embeddings as in Meta's code of Llama, with a complex constant, buffer and parameter."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(6.0), 10000 ** (-torch.arange(4.0) / 4))
        self.turned = torch.polar(torch.ones_like(angles), angles)
        self.register_buffer("scale", torch.complex(Y, -Y))
        self.bias = nn.Parameter(torch.complex(Y, Y * Y).to(torch.complex64))

    def forward(self, x: Any) -> Any:
        turned = torch.cat(self.turned.to(x.device).split([1, 3], -1), -1)
        return torch.view_as_real(pairs(x) * turned * self.scale + self.bias).flatten(-2)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "product": lambda z: z * z.conj() * (0.5 - 2j),
    "quotients": lambda z: z / (z + 2) + 1 / z - z / 3 + 3 / (z * z),
    "sums with real numbers": lambda z: 2 - z + z.real + 1j - torch.add(z, z, alpha=2j),
    "real tensors of other shapes": lambda z: z[:1] + z.abs() - z[..., :1] * z.imag,
    "polar form": lambda z: torch.polar(z.abs(), z.angle()),
    "exponential and powers": lambda z: torch.exp(z) + z**2 - z**3,
    "matrices": lambda z: z @ z.transpose(-1, -2) @ z.mH.transpose(-1, -2).real.to(z.dtype),
    "sums of products": lambda z: torch.einsum("bij,bkj->bik", z, z.conj()),
    "linear": lambda z: torch.addmm(z[0], z[0] @ z[0].T, z[1]),
    "views": lambda z: (
        torch.cat([z.permute(1, 0, 2)[..., ::2], z.real.transpose(0, 1)[..., 1:3]], -1).flatten(1).unsqueeze(0)
    ),
    "several results": lambda z: torch.cat(
        [*z.split([1, 2, 1], -1)[::-1], *z.chunk(2, -1), torch.stack(z.unbind(-1), -1)], -1
    ),
    "padding": lambda z: nn.functional.pad(z, (1, 2), value=3.0),
    "choices": lambda z: torch.where(z.real > 0, z, z.imag) + torch.stack([z, z.flip(1)]).mean(0),
    "made": lambda z: torch.zeros_like(z) + torch.ones(4, dtype=torch.complex64) * torch.complex(z.imag, z.real),
    "indices": lambda z: z[:, torch.tensor([2, 0, 2])].sum(1, keepdim=True) + torch.roll(z, 1, -1).cumsum(-1)[:, :1],
}


def compare(module: nn.Module, *inputs: Any, **options: Any) -> None:
    """Within the accuracy of fp32: torch multiplies complex numbers with FMAs where it likes."""
    program = numc.compile(module, inputs, **options)
    with torch.no_grad():
        want = module(*inputs)
    got = torch.as_tensor(np.asarray(program(*inputs)))
    assert got.shape == want.shape
    assert float((got - want).abs().max()) <= 4e-6 * float(want.abs().max())


@pytest.mark.parametrize("free", [False, True])
def test_rotary_embeddings(free: bool) -> None:
    compare(Rotary(), X, dynamic_shapes=({0: torch.export.Dim("batch")},) if free else None)


class Spectral(nn.Module):
    """A layer of a Fourier neural operator: weights for the lowest frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.complex(Y, Y - 1).T.reshape(2, 3, 2, 2)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        found = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], 3, x.shape[-2], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
        for rows, weight in zip((slice(None, 2), slice(-2, None)), self.weights, strict=True):
            out[:, :, rows, :2] = torch.einsum("bixy,ioxy->boxy", found[:, :, rows, :2], weight)
        return torch.fft.irfft2(out, s=x.shape[-2:])


@pytest.mark.slow
@pytest.mark.parametrize("free", one_in(2, [True, False]))
def test_a_layer_of_a_fourier_neural_operator(free: bool) -> None:
    images = torch.stack([X, X.flip(1)], 1)
    compare(Spectral(), images, dynamic_shapes=({0: torch.export.Dim("batch")},) if free else None)


@pytest.mark.parametrize("name", one_in(5, OPERATIONS))
def test_operations(name: str) -> None:
    compare(Calls(lambda x: torch.view_as_real(OPERATIONS[name](pairs(x)))), X)


def test_the_bits_of_a_product_are_those_of_its_definition() -> None:
    program = numc.compile(Calls(lambda x, y: torch.view_as_real(pairs(x) * pairs(y))), (X, X.flip(0) * 3))
    (a, b), (c, d) = ((x[..., ::2].numpy(), x[..., 1::2].numpy()) for x in (X, X.flip(0) * 3))
    got = np.asarray(program(X, X.flip(0) * 3))
    assert np.array_equal(got, np.stack([a * c - b * d, a * d + b * c], -1))


@pytest.mark.parametrize(
    "transform",
    one_in(
        3,
        [
            lambda x: torch.view_as_real(torch.fft.fft(x)),
            lambda x: torch.fft.fftn(torch.fft.fft(x, dim=-1), dim=(-2, -3)).real,
            lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), norm="ortho"),
            lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2, s=(6, 8)),
            lambda x: torch.fft.irfft(torch.fft.rfft(x), n=7),
            lambda x: torch.fft.ifft(torch.fft.fft(x, n=12)[..., :5], norm="forward").imag,
            lambda x: torch.fft.fftshift(torch.fft.fft2(x)).abs(),
            lambda x: torch.fft.hfft(torch.complex(x, x)) + torch.fft.hfft(torch.fft.ihfft(x), n=14),
        ],
    ),
)
def test_fourier_transforms(transform: Callable[[Any], Any]) -> None:
    compare(Calls(transform), X)


@pytest.mark.slow
@pytest.mark.parametrize("free", one_in(2, [True, False]))
def test_short_time_transforms_and_back(free: bool) -> None:
    def transformed(x: Any) -> Any:
        window = torch.hann_window(16)
        found = torch.stft(x, 16, 4, window=window, return_complex=True)
        magnitude = torch.stft(x, 16, 8, 12, center=False, normalized=True, return_complex=True).abs().sum((1, 2))
        back = torch.istft(found * 2, 16, 4, window=window, length=60)
        return back + magnitude[:, None] + torch.istft(found, 16, 4, window=window)[:, :60]

    signal = torch.cat([X, X], 1).flatten(1)[:, :64]
    compare(Calls(transformed), signal, dynamic_shapes=(({0: torch.export.Dim("batch")},),) if free else None)


def test_a_transform_is_a_contraction_in_the_operator() -> None:
    model = Calls(lambda x: torch.fft.rfft(x).abs())
    rough, exact = (np.asarray(numc.compile(model, (X,), fma=fma)(X)) for fma in ("bf16_1_1", "fp32"))
    assert 1e-4 < np.abs(rough - exact).max() / np.abs(exact).max() < 0.1


def test_a_file(tmp_path: Path) -> None:
    module = Rotary()
    torch.export.save(torch.export.export(module, (X,)), tmp_path / "rotary.pt2")
    program = numc.compile(tmp_path / "rotary.pt2")
    assert np.array_equal(np.asarray(program(X)), np.asarray(numc.compile(module, (X,))(X)))


def test_what_is_given_stays_as_it_is() -> None:
    exported = torch.export.export(Rotary(), (X,), strict=False)
    first, again = (np.asarray(numc.compile(exported)(X)) for _ in range(2))
    assert np.array_equal(first, again)
    assert exported.state_dict["bias"].dtype == torch.complex64
    assert exported.constants["turned"].dtype == torch.complex64


@pytest.mark.parametrize(
    ("size", "free", "end"),
    [
        (5000, False, "of at most 4096 real numbers; here the size is 5000: transform shorter pieces"),
        (64, True, "of at most 4096 real numbers; here the size is free: fix it"),
    ],
)
def test_transforms_that_are_too_large_or_of_free_size(size: int, free: bool, end: str) -> None:
    shapes = (({1: torch.export.Dim("length", min=4)},),) if free else None
    with pytest.raises(numc.NumcError, match="^Calls: a Fourier transform .*torch_modules.py") as caught:
        numc.compile(Calls(lambda x: torch.fft.rfft(x).abs()), (torch.randn(2, size),), dynamic_shapes=shapes)
    assert str(caught.value).endswith(end)


REST = "take its real and imaginary parts, as torch.view_as_real does"


@pytest.mark.parametrize(
    ("module", "inputs", "begin"),
    [
        (nn.Identity(), torch.complex(X, X), "Identity: example input [0] is complex64, not float32, "),
        (Calls(lambda x: pairs(x) * 2), X, "Calls: output is complex64, not float32, "),
        (Calls(lambda x: pairs(x).sqrt().real), X, "Calls: 1 operation cannot be compiled: aten.sqrt.default ("),
    ],
)
def test_where_only_real_numbers_may_be(module: nn.Module, inputs: Any, begin: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(module, (inputs,))
    assert str(caught.value).startswith(begin)
    assert str(caught.value).endswith(REST)
