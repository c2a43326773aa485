"""Results that share memory in eager torch share it through torch.compile, and an empty batch has gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402


def _of_a_result(x: Any) -> Any:
    y = x * 2
    return y, y[1:], y.t(), y.view(-1), *y.chunk(2), y


def _of_what_is_no_result(x: Any) -> Any:
    return (x + 1).split(2)


def _of_an_input(x: Any) -> Any:
    x.add_(1)
    y = x * 3
    return x.t(), y, y.unbind()


def leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def shared(values: list[Any]) -> list[list[bool]]:
    places = [value.untyped_storage().data_ptr() for value in values]
    return [[one == other for other in places] for one in places]


@pytest.mark.parametrize(
    "function", [_of_what_is_no_result, *(pytest.param(f, marks=pytest.mark.all) for f in (_of_a_result, _of_an_input))]
)
def test_results_share_memory_as_in_eager_torch(function: Callable[[Any], Any]) -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    other = x.clone()
    want = leaves(function(x))
    got = leaves(torch.compile(function, backend=numc.backend("fp32"), dynamic=False)(other))
    assert shared([*got, other]) == shared([*want, x])
    for one, two in zip(got, want, strict=True):
        assert torch.equal(one, two)
        assert (one.stride(), one.storage_offset()) == (two.stride(), two.storage_offset())


@pytest.mark.all
@pytest.mark.parametrize("make", [torch.nn.Conv2d, torch.nn.ConvTranspose2d])
def test_an_empty_batch_has_gradients_of_zero(make: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    module = make(3, 4, 3)
    compiled = torch.compile(module, backend=numc.backend("fp32"))
    for batch in (2, 0):
        x = torch.randn(batch, 3, 5, 5, requires_grad=True)
        given = (x, *module.parameters())
        found, want = ((y, *torch.autograd.grad(y.sum(), given)) for y in (compiled(x), module(x)))
        for one, two in zip(found, want, strict=True):
            torch.testing.assert_close(one, two)
