"""Operations that torch-mlir lacks or computes otherwise than torch, and sizes that a trace assumed something of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiers import one_in

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402

X = torch.tensor([[0.5, float("nan"), -0.75, 2.0], [-0.0, 1.5, 1.5, float("-inf")], [3.0, -2.0, 0.25, 0.5]])
Y = torch.tensor([[0.25, 1.0, float("nan"), 2.5], [-0.0, -1.5, 2.5, 1.0], [-3.0, 4.0, 0.25, -0.5]])
B = torch.tensor([[200, 3, 255, 17], [128, 127, 0, 1], [90, 250, 6, 60]], dtype=torch.uint8)
INDEX = torch.tensor([[2, 0, 1, 2], [0, 0, 1, 1], [2, 1, 0, 0]])


class Calls(torch.nn.Module):
    """A module that returns what functions make of its inputs."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Any) -> Any:
        return [function(*inputs) for function in self.functions]


def check(functions: list[Callable[..., Any]], *inputs: Any) -> None:
    """One program computes all functions as eager torch does, NaN and the places of elements included."""
    module = Calls(*functions)
    want = torch.utils._pytree.tree_leaves(module(*inputs))
    found = numc.compile(module, inputs)(*inputs)
    got = list(found.values()) if isinstance(found, dict) else [found]
    assert len(got) == len(want)
    for number, (x, y) in enumerate(zip(got, want, strict=True)):
        torch.testing.assert_close(
            x, y, rtol=1e-5, atol=1e-6, equal_nan=True, msg=lambda text, n=number: f"{n}: {text}"
        )


def test_nan_and_the_places_of_extremes() -> None:
    check(
        [
            lambda x, y: torch.maximum(x, y),
            lambda x, y: torch.minimum(x, y),
            lambda x, y: torch.clamp(x, -0.5, 0.75),
            lambda x, y: x.max(1),
            lambda x, y: x.min(0, keepdim=True),
            lambda x, y: x.argmax(),
            lambda x, y: torch.fmax(x, y),
            lambda x, y: x.cummax(1),
            lambda x, y: y.median(1),
            lambda x, y: y.nanmedian(1),
            lambda x, y: torch.copysign(x, y),
            lambda x, y: torch.signbit(x),
            lambda x, y: torch.isfinite(x),
            lambda x, y: F.gelu(y, approximate="tanh"),
            lambda x, y: torch.where(torch.ones(3, 4) == 1, y, 0.0),
            lambda x, y: torch.searchsorted(torch.tensor([-1.0, 0.25, 2.0]), y),
            *(lambda x, y: x == x, lambda x, y: (x + 1) == (x + 1), lambda x, y: F.threshold(x, 0.5, -1.0)),
            *(lambda x, y: F.relu6(x), lambda x, y: F.relu6(y * 9)),
            lambda x, y: F.rrelu(x, 0.25, 0.75),  # it draws nothing, as the next two
            lambda x, y: F.dropout(y, 1.0, training=True),
            lambda x, y: torch.native_dropout(x, 0.5, False),
            lambda x, y: torch.histc(x.nan_to_num(0.1, 3.5, -4.0), 7),
            lambda x, y: torch.histc(torch.ones_like(y), 4),
        ],
        X,
        Y,
    )


def test_a_view_of_what_has_other_strides_when_it_is_decomposed() -> None:
    """Attention as in GPT-2 with fixed sizes: eager torch has its result in the order of another transposition."""

    def attended(*heads: torch.Tensor) -> torch.Tensor:
        turned = (t.transpose(1, 2) for t in heads)
        found = F.scaled_dot_product_attention(*turned).transpose(1, 2).flatten(2).contiguous()
        return found.view(-1, found.shape[-1])

    generator = torch.Generator().manual_seed(0)
    check([attended], *(torch.randn(2, 5, 4, 8, generator=generator) for _ in range(3)))


def test_integers_with_floats_and_at_their_limits() -> None:
    wide = torch.tensor([0, 1, 2, 2**63 - 1, -(2**63), -1])
    check(
        [
            *(lambda x, y, n: x * 2.5, lambda x, y, n: x % 0.7, lambda x, y, n: x - 0.5, lambda x, y, n: x * 300),
            *(lambda x, y, n: y * 2.5, lambda x, y, n: y % 0.7, lambda x, y, n: torch.sub(x, 2.5, alpha=3)),
            *(lambda x, y, n: F.threshold(n, 0.5, -7.0), lambda x, y, n: torch.isclose(n[:, None], n)),
            lambda x, y, n: torch.pow(n[:3], torch.tensor([65536, 2**40, 65536])),
        ],
        torch.tensor([0, 1, -5, 100, 127, -128], dtype=torch.int8),
        torch.tensor([0, 1, 5, 100, 127, 255], dtype=torch.uint8),
        wide,
    )


def test_limits_that_are_tensors() -> None:
    """Of bool, of uint8 above 127, and of numbers and integers at once."""
    check(
        [
            lambda x, y, n, b, c: torch.clamp_min(x, y),
            lambda x, y, n, b, c: torch.clamp_max(x, n),
            lambda x, y, n, b, c: torch.clamp(n, x, y),
            lambda x, y, n, b, c: torch.clamp(b, c, n),
            lambda x, y, n, b, c: torch.clamp(b, max=c),
            lambda x, y, n, b, c: torch.clamp_min(b == 0, c < 128),
            lambda x, y, n, b, c: torch.clamp_max(b == 0, c < 128),
            lambda x, y, n, b, c: torch.clamp(c < 128, 0, 1),
            lambda x, y, n, b, c: (c < 128).mode(1),
        ],
        X,
        Y,
        INDEX - 1,
        B,
        B.flip(0),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_functions_of_narrow_numbers_are_rounded_once(dtype: Any) -> None:
    """Within a unit in the last place of the function of float64; as eager torch computes them."""
    generator = torch.Generator().manual_seed(0)
    x, y = ((torch.randn(2000, generator=generator) * 3).to(dtype) for _ in range(2))
    functions = [
        *(torch.erfc, torch.special.erfcx, torch.lgamma, torch.digamma, lambda x: F.gelu(x, approximate="tanh")),
        lambda x: torch.erfinv(x.frac()),
        lambda x: torch.logcumsumexp(x.view(-1, 8), 1),
    ]
    pairs = [
        *(torch.hypot, torch.fmod, lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: torch.addcmul(x, x, y, value=0.3)),
        lambda x, y: torch.addcdiv(x, x, y, value=0.3),
    ]
    module = Calls(*(lambda x, y, f=f: f(x) for f in functions), *pairs)
    for number, (got, exact) in enumerate(
        zip(numc.compile(module, (x, y))(x, y).values(), module(x.double(), y.double()), strict=True)
    ):
        assert got.dtype == dtype
        there = exact.to(dtype).isfinite()
        error = (got.double() - exact)[there].abs()
        # Near zeros of a function, float32 has fewer digits.
        wrong = error > torch.finfo(dtype).eps * exact[there].abs() + 1e-5
        assert not wrong.any(), (number, got[there][wrong][0], exact[there][wrong][0])


def test_remainders_with_the_sign_of_the_dividend_have_no_error() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(500, generator=generator) * 2.0 ** torch.randint(-8, 9, (500,), generator=generator)
        for _ in range(2)
    )
    x[:9] = torch.tensor([-6.0, 6.0, float("inf"), 5.0, -5.0, float("nan"), -0.0, 0.0, 1.0])
    y[:9] = torch.tensor([3.0, -3.0, 2.0, float("inf"), float("-inf"), 1.0, 2.0, -2.0, 0.0])
    got = numc.compile(Calls(torch.fmod), (x, y))(x, y)
    same = (got.view(torch.int32) == torch.fmod(x, y).view(torch.int32)) | (got.isnan() & torch.fmod(x, y).isnan())
    assert same.all(), (x[~same][0], y[~same][0])


@pytest.mark.all
def test_variances_of_too_few_numbers() -> None:
    """With no more numbers than are subtracted from their count, the sum of squares is divided by zero."""
    check(
        [
            lambda x: x.var(0, correction=3),
            lambda x: x.std(1, correction=9, keepdim=True),
            lambda x: torch.var_mean(x, (0, 1), correction=12.5),
            lambda x: torch.std_mean(x[:1], 0),
            lambda x: x[:0].var(0),
            lambda x: x[:0].std(),
            lambda x: x.var(1, correction=2.5),
        ],
        torch.nan_to_num(X, 1.0, 2.0, -2.0),
    )


@pytest.mark.all
def test_bytes_are_unsigned_and_wrap() -> None:
    check(
        [
            lambda b: b + b,
            lambda b: b * 3,
            lambda b: b.sum(0),
            lambda b: b / 3,
            lambda b: b % 7,
            lambda b: b.max(1),
            lambda b: -b,
            lambda b: b >> 1,
            lambda b: b > 100,
            lambda b: b.float() / 255,
            lambda b: b.any(0),
            lambda b: b.float().to(torch.uint8),
            lambda b: b.view(4, 3).mT,
        ],
        B,
    )


@pytest.mark.all
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_writes_that_combine() -> None:
    new = torch.arange(12.0).reshape(3, 4) - 5
    functions: list[Callable[..., Any]] = [
        lambda x, i, n, how=how, keep=keep: x.scatter_reduce(0, i, n, how, include_self=keep)
        for how in ("prod", "mean", "amax", "amin")
        for keep in (True, False)
    ]
    functions += [
        lambda x, i, n: x.index_reduce(1, i[0], n, "amax"),
        lambda x, i, n: x.masked_scatter(i > 0, n),
        lambda x, i, n: x.index_put((i > 0,), n.flatten()[:7]),
        lambda x, i, n: F.embedding_bag(i[0], x, i.new_tensor([0, 3]), mode="sum", per_sample_weights=n[2]),
        lambda x, i, n: F.embedding_bag(i, x, mode="max"),
    ]
    check(functions, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), INDEX, new)


@pytest.mark.all
def test_a_size_of_which_the_trace_assumed_something_is_checked() -> None:
    """A branch that looked at a free size is not taken for sizes of which the same is not true."""
    module = Calls(lambda x: x * 2 if x.shape[0] % 2 else x * 3)
    program = numc.compile(module, (torch.ones(7, 2),), dynamic_shapes=(({0: Dim.AUTO},),))
    for rows in (3, 7, 9):
        assert torch.equal(program(torch.ones(rows, 2)), torch.full((rows, 2), 2.0))
    with pytest.raises(numc.NumcError, match=r"^sizes do not fit: the model was traced for sizes with Ne\(Mod\("):
        program(torch.ones(6, 2))


@pytest.mark.all
def test_a_cache_that_torch_does_not_know_is_refused_in_one_line() -> None:
    transformers = pytest.importorskip("transformers")

    class Returned(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x, transformers.DynamicCache()

    want = "DynamicCache of transformers is an argument or a result: call .*use_cache=False"
    with pytest.raises(numc.NumcError, match=want):
        numc.compile(Returned(), torch.ones(2))


def test_the_nearest_element_is_that_of_torch() -> None:
    """Of 35 elements, 161 are taken by float32 products; quotients would take two others."""
    row = torch.arange(35.0).reshape(1, 1, 1, 35)
    check(
        [
            lambda x: F.interpolate(x, size=(2, 161), mode="nearest"),
            lambda x: F.interpolate(x[:, 0], scale_factor=4.6, mode="nearest"),
            lambda x: F.interpolate(x.reshape(1, 1, 1, 5, 7), size=(2, 82, 123), mode="nearest"),
            lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        ],
        row,
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_are_resized_smoothly(mode: str) -> None:
    """Smaller, larger, as large and by a factor; what is infinite is in its own windows only."""
    x = torch.randn(1, 2, 9, 11, generator=torch.Generator().manual_seed(0))
    x[0, 0, 3, 4] = float("inf")

    def resized(**given: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: F.interpolate(x, mode=mode, antialias=True, **given)

    sizes: list[dict[str, Any]] = [{"size": (5, 7)}, {"size": (20, 4)}, {"size": (9, 11)}, {"scale_factor": (0.3, 1.7)}]
    check([resized(**one) for one in (*sizes, {**sizes[0], "align_corners": True})], x)


@pytest.mark.parametrize("reduction", one_in(2, ["none", "mean", "sum"]))
def test_classes_from_the_first_minus_one_on_do_not_count(reduction: str) -> None:
    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.multilabel_margin_loss(x, target, reduction=reduction)

    targets = torch.tensor([[1, 2, -1, 0], [3, -1, 2, -1], [-1, 0, 1, 2], [0, 3, 1, 2]])
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    check([loss, lambda x, target: loss(x[0], target[0])], x, targets)
    torch._dynamo.reset()
    compiled, found = torch.compile(loss, backend=numc.backend("fp32")), []
    for function in (loss, compiled):
        given = x.clone().requires_grad_()
        result = function(given, targets)
        found.append((result, *torch.autograd.grad(result.sum(), given)))
    torch.testing.assert_close(found[1], found[0])
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, targets), found[0][0])
