"""Depthwise convolutions: padded where they are read, accumulated in registers from initial value to epilogue."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

import arithmetic_vectorised as reference
import numc
from numc.frontends.imported import Imported
from numc.frontends.pytorch.load import load
from numc.numerics.grammar import parse_fma
from targets_here import variants
from tiers import by_default, one_in, pairs

F32Array = npt.NDArray[np.float32]
CHANNELS = 17
IMAGES = 3


def model(
    size: int,
    out: int,
    kernel: int,
    stride: int,
    dilation: int,
    low: int,
    high: int,
    *,
    computed: bool,
    residual: bool = False,
) -> str:
    """Pad x, convolve it from c on, clip the sum with d at 6; `computed`: what is padded is -x, not x itself.

    residual: what is padded takes the place of d.
    """
    whole = size + low + high
    x, p, k, y = (
        f"tensor<{IMAGES}x{CHANNELS}x{size}x{size}xf32>",
        f"tensor<{IMAGES}x{CHANNELS}x{whole}x{whole}xf32>",
        f"tensor<{CHANNELS}x{kernel}x{kernel}xf32>",
        f"tensor<{IMAGES}x{CHANNELS}x{out}x{out}xf32>",
    )
    negated = f"%e = tensor.empty() : {x}\n  %n = linalg.negf ins(%x : {x}) outs(%e : {x}) -> {x}"
    return f"""
func.func @main(%x: {x}, %k: {k}, %c: {y}, %d: {y}) -> {y} {{
  {negated if computed else ""}
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {p}
  %border = linalg.fill ins(%zero : f32) outs(%empty : {p}) -> {p}
  %p = tensor.insert_slice {"%n" if computed else "%x"} into %border[0, 0, {low}, {low}] [{IMAGES}, {CHANNELS}, {size}, {size}] [1, 1, 1, 1]
      : {x} into {p}
  %s = linalg.depthwise_conv_2d_nchw_chw {{strides = dense<{stride}> : vector<2xi64>, dilations = dense<{dilation}> : vector<2xi64>}}
      ins(%p, %k : {p}, {k}) outs(%c : {y}) -> {y}
  %z = tensor.empty() : {y}
  %six = arith.constant dense<6.0> : tensor<f32>
  %r = linalg.generic {{
      indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>,
                       affine_map<(a, b, c, d) -> ()>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%s, {"%n" if residual else "%d"}, %six : {y}, {y}, tensor<f32>) outs(%z : {y}) {{
  ^bb0(%a: f32, %b: f32, %m: f32, %o: f32):
    %t = arith.addf %a, %b : f32
    %u = arith.minimumf %t, %m : f32
    linalg.yield %u : f32
  }} -> {y}
  return %r : {y}
}}"""  # noqa: E501


def expected(
    x: F32Array, k: F32Array, c: F32Array, d: F32Array, stride: int, dilation: int, low: int, high: int, fma: str
) -> F32Array:
    padded = np.pad(x, ((0, 0), (0, 0), (low, high), (low, high)))
    reach = (k.shape[1] - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation].reshape(len(x) * CHANNELS, -1, k[0].size)
    sums = [
        reference.matmul(np.ascontiguousarray(w), n.reshape(-1, 1).copy(), s.reshape(-1, 1).copy(), fma)
        for w, n, s in zip(windows, np.tile(k, (len(x), 1, 1)), c.reshape(-1, *c.shape[2:]), strict=True)
    ]
    with np.errstate(all="ignore"):
        return np.minimum(np.stack(sums).reshape(c.shape) + d, np.float32(6))


def data(kind: str, shape: tuple[int, ...], seed: int) -> F32Array:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape).astype(np.float32)
    if kind == "wide":  # what no cheap sequence takes
        values = np.ldexp(values, rng.integers(-140, 60, shape)).astype(np.float32)
    if kind == "special":
        values.reshape(-1)[rng.integers(0, values.size, 9)] = [np.inf, -np.inf, np.nan, 0, -0.0, 1e38, -3e38, 1e-45, 1]
    return values


CASES = {  # size, kernel, stride, dilation, padding before and after
    "same": (14, 3, 1, 1, 1, 1),
    "wide": (33, 3, 1, 1, 1, 1),
    "stride 2": (19, 3, 2, 1, 1, 1),
    "stride 2, one side": (20, 3, 2, 1, 0, 1),
    "stride 3": (20, 3, 3, 1, 1, 1),
    "dilated": (15, 3, 1, 2, 2, 2),
    "5x5": (9, 5, 1, 1, 2, 2),
    "9x9": (16, 9, 1, 1, 4, 4),
    "9x9, dilated": (19, 9, 1, 2, 8, 8),
    "11x11, stride 2": (20, 11, 2, 1, 5, 5),
    "31x31": (9, 31, 1, 1, 15, 15),
    "tiny": (2, 3, 1, 1, 1, 1),
}


@pytest.mark.parametrize(("name", "fma"), one_in(3, pairs(list(CASES), ["fp32", "bf16_1_1"])))
def test_depthwise(name: str, fma: str) -> None:
    check(name, fma, "usual")


@pytest.mark.parametrize("fma", ["mp", "bf16_2_2{3}", "fmac(e6m9n)", "fma(a=bf16,acc=bf16,datapath=exact)"])
@pytest.mark.all
def test_operators(fma: str) -> None:
    check("same", fma, "usual", computed=True)


@pytest.mark.parametrize("fma", ["fp32", "bf16_1_1"])
def test_who_else_reads_the_image(fma: str) -> None:
    """The sum with what a residual block was given does not bring back the padded tensor."""
    check("same", fma, "usual", computed=True, residual=True)
    text = str(numc.lower(Imported(mlir=model(14, 14, 3, 1, 1, 1, 1, computed=True, residual=True)), to="vector"))
    assert "_fill_plane" in text
    assert "memref<3x17x16x16xf32>" not in text


class Blocks(torch.nn.Module):
    """Residual blocks whose sums are what the next block pads, or `branches` that read one image."""

    def __init__(self, *, branches: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(24, 24, 3, padding=1, groups=24) for _ in range(3))
        self.branches = branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        if self.branches:
            return sum((conv(x) for conv in self.convs), start=x)
        for conv in self.convs:
            x = x + torch.relu(conv(x))
        return x


@pytest.mark.parametrize(("branches", "fma"), one_in(2, pairs([False, True], ["fp32", "bf16_1_1"])))
def test_several_readers_of_an_image(branches: bool, fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Blocks(branches=branches).eval(), torch.randn(2, 24, 19, 19)
    imported = load(module, (x,))
    assert str(numc.lower(imported, fma=fma, to="plan")).count("padded plane") == 3
    assert "memref<2x24x21x21xf32>" not in str(numc.lower(imported, fma=fma, to="vector"))
    got = numc.compile(module, (x,), fma=fma)(x).numpy()
    monkeypatch.setenv("NUMC_DISABLE", "stage-padding")
    want = numc.compile(module, (x,), fma=fma)(x).numpy()
    assert (found := reference.first_mismatch(got, want)) is None, found


@pytest.mark.parametrize(("length", "fma"), pairs([5, 40, 200], ["fp32", "bf16_1_1", "bf16_1_2"]))
def test_lines(length: int, fma: str) -> None:
    """A convolution in one dimension reads vectors along it."""
    conv = torch.nn.Conv1d(CHANNELS, CHANNELS, 5, padding=2, groups=CHANNELS).eval()
    x = data("usual", (IMAGES, CHANNELS, length), 1)
    text = str(numc.lower(load(conv, (torch.from_numpy(x),)), fma=fma, to="plan"))
    assert "padded plane" in text
    assert f'lanes = [1, 2], layer = "convolution", operator = "{fma}"' in text
    assert f"sizes = [{IMAGES}, 1, {length}, {CHANNELS}, 1, 5]" in text
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (2, 2))), 5, axis=2)
    kernels, bias = (parameter.detach().numpy() for parameter in (conv.weight[:, 0], conv.bias))
    want = np.empty_like(x)
    for channel in range(CHANNELS):
        start = np.full((IMAGES * length, 1), reference.round(bias[channel], str(parse_fma(fma).acc)), np.float32)
        rows = np.ascontiguousarray(windows[:, channel].reshape(-1, 5))
        want[:, channel] = reference.matmul(rows, kernels[channel].reshape(5, 1), start, fma).reshape(IMAGES, length)
    got = numc.compile(conv, (torch.from_numpy(x),), fma=fma)(torch.from_numpy(x)).numpy()
    assert (found := reference.first_mismatch(got, want)) is None, found


@pytest.mark.parametrize("kind", ["wide", "special"])
@pytest.mark.parametrize("fma", ["fp32", "bf16_1_1", "bf16_1_2", "fmac(e6m9)"])
def test_the_cheap_sequence_gives_way(fma: str, kind: str) -> None:
    check("stride 2", fma, kind)


@pytest.mark.parametrize(
    ("path", "case"), pairs(variants("bf16_1_1"), [("wide", "bf16_1_1", "wide"), ("stride 2", "bf16_1_2", "usual")])
)
def test_every_path(path: tuple[str, bool], case: tuple[str, str, str]) -> None:
    target, fast = path
    check(*case, target=target, fast=fast)


@pytest.mark.parametrize(
    "switch", by_default(["stage-padding", "fuse-first", "fuse-last", "pack-weights"], ["stage-padding"])
)
@pytest.mark.all
def test_without(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMC_DISABLE", switch)
    check("same", "bf16_1_1", "usual")


DRAWING = ["fmac(e6m9:sr8)", "fma(a=bf16,b=bf16:sr8,acc=fp32)"]


@pytest.mark.parametrize("fma", by_default(DRAWING, DRAWING[1:]))
@pytest.mark.all
def test_stochastic_rounding(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws do not depend on where the padding is made; accumulators that draw are not those read in place."""
    size, kernel, stride, dilation, low, high = CASES["stride 2"]
    out = (size + low + high - kernel) // stride + 1
    planes, results = (IMAGES, CHANNELS, size, size), (IMAGES, CHANNELS, out, out)
    shapes = planes, (CHANNELS, kernel, kernel), results, results
    feeds = {f"arg{n}": data("usual", shape, n) for n, shape in enumerate(shapes)}
    source = Imported(mlir=model(size, out, kernel, stride, dilation, low, high, computed=True))
    assert ("padded plane" in str(numc.lower(source, fma=fma, to="plan"))) == ("acc=fp32" in fma)
    program = numc.compile(source, fma=fma)
    report = numc.verify(program, feeds, samples=50)
    assert report.checked > 0
    assert report.mismatches == 0, report.first
    monkeypatch.setenv("NUMC_DISABLE", "stage-padding")
    plain = numc.compile(source, fma=fma)(feeds, seed=5)
    for threads in (1, 3):
        np.testing.assert_array_equal(program(feeds, seed=5, threads=threads), plain)
    assert not np.array_equal(program(feeds, seed=6), plain)


def check(name: str, fma: str, kind: str, *, computed: bool = False, residual: bool = False, **options: object) -> None:
    size, kernel, stride, dilation, low, high = CASES[name]
    out = (size + low + high - (kernel - 1) * dilation - 1) // stride + 1
    planes, results = (IMAGES, CHANNELS, size, size), (IMAGES, CHANNELS, out, out)
    shapes = planes, (CHANNELS, kernel, kernel), results, results
    x, k, c, d = (data(kind, shape, n) for n, shape in enumerate(shapes))
    d = x if residual else d
    want = expected(x, k, reference.round(c, str(parse_fma(fma).acc)), d, stride, dilation, low, high, fma)
    text = model(size, out, kernel, stride, dilation, low, high, computed=computed, residual=residual)
    program = numc.compile(Imported(mlir=text), fma=fma, **options)  # type: ignore[arg-type]
    feeds = {"arg0": np.negative(x) if computed else x, "arg1": k, "arg2": c, "arg3": d}
    for threads in (1, 3):
        got = program(feeds, threads=threads)
        assert (found := reference.first_mismatch(got, want)) is None, (threads, found)
    report = numc.verify(program, feeds, samples=50)
    assert report.checked > 0
    assert report.mismatches == 0, report.first


def test_padding_is_made_in_cache() -> None:
    """Neither the padded tensor nor, with a constant for a bound, a load of the bound is left."""
    text = str(numc.lower(Imported(mlir=model(14, 14, 3, 1, 1, 1, 1, computed=True)), to="vector"))
    assert "_fill_plane" in text
    assert "memref<3x17x16x16xf32>" not in text
    assert "memref<f32>" not in text.split("func.func @main", 1)[1].split("return", 1)[0]
