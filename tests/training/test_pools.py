"""Gradients of pooling and of unusual convolutions, in float64 against torch's own."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import numc  # noqa: E402
from numc.frontends.pytorch.rewrites.images.convolutions import constant_pad_nd, convolution  # noqa: E402
from numc.frontends.pytorch.rewrites.images.gradients import nll_loss_backward  # noqa: E402
from numc.frontends.pytorch.rewrites.images.pools import (  # noqa: E402
    adaptive_avg_pool_backward,
    avg_pool_backward,
    indexed_pool_backward,
    max_pool_backward,
)

aten = torch.ops.aten


@pytest.mark.parametrize("rank", [2, 3])
def test_average_pools(rank: int) -> None:
    torch.manual_seed(0)
    pool, theirs = {
        2: (aten.avg_pool2d, aten.avg_pool2d_backward),
        3: (aten.avg_pool3d, aten.avg_pool3d_backward),
    }[rank]
    x = torch.randn(2, 3, 7, 6, *[5] * (rank - 2), dtype=torch.float64)
    for kernel, stride, padding, ceil, pads, over in product((2, 3), (1, 2, 3), (0, 1), (0, 1), (0, 1), (None, 5)):
        how = ([kernel] * rank, [stride] * rank, [padding] * rank, bool(ceil), bool(pads), over)
        grad = torch.randn_like(pool(x, *how))
        torch.testing.assert_close(avg_pool_backward(grad, x, *how), theirs(grad, x, *how))


@pytest.mark.parametrize("rank", [2, 3])
def test_adaptive_pools(rank: int) -> None:
    torch.manual_seed(0)
    pool, theirs = {
        2: (aten._adaptive_avg_pool2d, aten._adaptive_avg_pool2d_backward),
        3: (aten._adaptive_avg_pool3d, aten._adaptive_avg_pool3d_backward),
    }[rank]
    x = torch.randn(2, 3, 7, 6, *[5] * (rank - 2), dtype=torch.float64)
    for sizes in ([1] * rank, [3] * rank, [7, 4, 5][:rank], [9, 6, 8][:rank]):
        grad = torch.randn_like(pool(x, sizes))
        torch.testing.assert_close(adaptive_avg_pool_backward(grad, x, rank), theirs(grad, x))


@settings(max_examples=8, derandomize=True, deadline=None)
@given(st.data())
def test_max_pools(data: st.DataObject) -> None:
    """The bits are those of sums in the order of windows, in two dimensions the last window first."""
    rank = data.draw(st.sampled_from((2, 3)))
    sizes, kernel, stride, padding, dilation = (
        data.draw(st.lists(st.integers(*limits), min_size=rank, max_size=rank))
        for limits in ((1, 9), (1, 3), (1, 4), (0, 1), (1, 2))
    )
    how = (kernel, stride, padding, dilation, data.draw(st.booleans()))
    for size, k, p, d in zip(sizes, kernel, padding, dilation, strict=True):
        assume(2 * p <= k and d * (k - 1) < size + 2 * p)
    pool, backward = {
        2: (aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward),
        3: (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward),
    }[rank]

    def gradient(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return backward(grad, x, *how, pool(x, *how)[1])

    torch.manual_seed(0)
    x = torch.randn(2, 3, *sizes).round()  # ties: the first of them counts
    y, indices = pool(x, *how)
    grad = torch.randn_like(y)
    rewrite = {backward.default: partial(max_pool_backward, rank=rank)}
    traced = make_fx(gradient, decomposition_table=rewrite)(x, grad)
    assert not any("scatter" in str(node.target) for node in traced.graph.nodes)
    assert any(node.kwargs.get("dtype") is torch.int8 for node in traced.graph.nodes)  # what a forward pass keeps
    turned = [-1, -2] if rank == 2 else []
    wanted = indexed_pool_backward(grad.flip(turned), x, indices.flip(turned), rank)
    assert torch.equal(traced(x, grad).view(torch.int32), wanted.view(torch.int32))
    torch.testing.assert_close(wanted, backward(grad, x, *how, indices))


def test_pools_that_tell_where_their_results_come_from() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 5, 4, dtype=torch.float64)
    how = ([2, 3, 2], [1, 2, 1], [1, 1, 0], [1, 1, 1], False)
    y, indices = aten.max_pool3d_with_indices(x, *how)
    want = aten.max_pool3d_with_indices_backward(y, x, *how, indices)
    torch.testing.assert_close(indexed_pool_backward(y, x, indices, 3), want)
    y, indices = aten.adaptive_max_pool2d(x[0], [4, 3])
    want = aten.adaptive_max_pool2d_backward(y, x[0], indices)
    torch.testing.assert_close(indexed_pool_backward(y, x[0], indices, 2), want)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("deep", [1, 2])
def test_depthwise_convolutions_of_volumes(deep: int, transposed: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 5, 7, dtype=torch.float64)
    weight = torch.randn(*((3, 2) if transposed else (6, 1)), deep, 3, 2, dtype=torch.float64)
    bias = torch.randn(6, dtype=torch.float64)
    for stride, padding, dilation in product((1, 2), (0, 1), (1, 2)):
        extra = [stride - 1] * 3 if transposed else [0] * 3
        how = ([stride] * 3, [padding] * 3, [dilation] * 3, transposed, extra, 3)
        torch.testing.assert_close(convolution(x, weight, bias, *how), aten.convolution(x, weight, bias, *how))


def test_padding_that_cuts() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    for pad in ([-1, 2], [1, -2, -1, -1], [-6, 1]):
        assert torch.equal(constant_pad_nd(x, pad, 3.0), aten.constant_pad_nd(x, pad, 3.0))
    assert constant_pad_nd(x, [1, 2]) is NotImplemented


def test_indices_that_do_not_come_from_the_pooling() -> None:
    """They may lie outside of their windows; those of the pooling itself need no scattered write."""
    torch.manual_seed(0)

    def gradient(grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return aten.max_pool2d_with_indices_backward(grad, x, [2, 2], [1, 1], [1, 1], [1, 1], False, indices)

    # Whole numbers, so that the order of additions does not count.
    given = torch.randint(9, (4, 7, 6)).float(), torch.rand(4, 6, 5), torch.randint(16, (4, 7, 6))
    assert torch.equal(torch.compile(gradient, backend=numc.backend())(*given), gradient(*given))
    backend = numc.backend()
    x = torch.randn(2, 3, 6, 5, requires_grad=True)
    torch.compile(lambda x: torch.max_pool2d(x * 2, 3, 2, 1), backend=backend)(x).sum().backward()
    assert not any("scf.for" in region.imported.mlir for region in backend.regions)
    found, x.grad = x.grad, None
    torch.max_pool2d(x * 2, 3, 2, 1).sum().backward()
    assert torch.equal(found, x.grad)


def test_the_gradient_of_a_loss_of_one_sample() -> None:
    def gradient(weight: torch.Tensor | None, target: torch.Tensor, reduction: int) -> torch.Tensor:
        grad = torch.rand(1 if reduction == 0 else ()) if target.dim() else torch.rand(())
        how = (grad, torch.rand(3), target, weight, reduction, 1, torch.tensor(3.0))
        torch.testing.assert_close(nll_loss_backward(*how), aten.nll_loss_backward(*how))

    for weight, target, reduction in product((None, torch.rand(3)), ([2, 0, 0], [1, 2, 2], 2, 1), (0, 1)):
        gradient(weight, torch.tensor(target), reduction)
