"""Scattered writes are programs of numc: values, order, rounding, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402

I = torch.tensor([0, 5, -1, 2])  # noqa: E741  (row 5 twice)
put = torch.ops.aten.index_put
WIDE = torch.tensor([[0, 7, 7]] * 6)


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def numbers(*shape: int) -> Any:
    """Integers: sums are exact in any order."""
    return torch.randint(-9, 10, shape).float()


def everything(x: Any, y: Any, z: Any) -> list[Any]:
    mask = torch.arange(8) % 3 == 0
    return [
        F.embedding(torch.tensor([[0, 5], [5, 2]]), x, padding_idx=2),
        x.index_add(0, I % 6, y, alpha=2),
        x.index_add(1, I % 6, y.T[:6, :4]),
        x.index_copy(0, torch.tensor([3, 1]), y[:2]),
        x.index_put((I, I), y[:, 0], accumulate=True),
        x.index_put((I[:, None], torch.tensor([1, 3])), y[:, :2], accumulate=True),
        put(x.reshape(3, 2, 8), [None, torch.tensor([1, 0])], z.reshape(3, 2, 8)),
        put(x.reshape(3, 2, 8), [I[:2] - I[:2], None, I[:2]], z[:2, :2], True),
        x.index_put((mask[:6],), torch.tensor(3.0)),
        x.scatter(1, WIDE[:, :2], z[:, :2]),
        x.scatter(1, WIDE, 2.0),
        x.scatter_add(1, WIDE, z[:, :3]),
        x.scatter_add(0, torch.tensor([[1, 2, 1]]), z.detach()),
        x.gather(1, WIDE) * x[:, I] [:, :3],
        torch.take(x, I),
        x.amax(1) + x.max(1)[0],
        F.interpolate(x[None], scale_factor=2)[0],
    ]  # fmt: skip


def test_scattered_writes_and_their_gradients() -> None:
    """All of them in one program and its gradient: bits of eager torch where sums are exact."""
    torch.manual_seed(0)
    inputs = [numbers(6, 8), numbers(8, 8)[:4], numbers(6, 8)]
    backend = numc.backend()
    found = []
    for function in (everything, torch.compile(everything, backend=backend)):
        values = [x.clone().requires_grad_() for x in inputs]
        results = function(*values)
        sum((r * torch.arange(r.numel()).reshape(r.shape)).sum() for r in results).backward()
        found.append([*results, *(v.grad for v in values)])
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
    assert backend.refused == []


def test_gradients_of_bags() -> None:
    """Of maxima, each gradient goes to the first row that has it; one bag is empty."""
    torch.manual_seed(0)
    table, indices, offsets = numbers(8, 4), torch.tensor([1, 2, 3, 7, 7, 1, 0]), torch.tensor([0, 2, 3, 3])

    def bags(table: Any) -> Any:
        kinds = [F.embedding_bag(indices, table, offsets, mode=mode, padding_idx=3) for mode in ("sum", "mean", "max")]
        return torch.stack(kinds) * torch.arange(48).reshape(3, 4, 4)

    found = []
    for function in (bags, torch.compile(bags, backend=numc.backend())):
        value = table.clone().requires_grad_()
        result = function(value)
        result.sum().backward()
        found.append((result, value.grad))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_additions_come_in_their_order_and_are_rounded_by_ops() -> None:
    torch.manual_seed(0)
    x, index, new = torch.randn(3, 5), torch.tensor([2, 0, 2, 2, 0]), torch.randn(5, 5)
    compiled = torch.compile(lambda x, new: x.index_add(0, index, new), backend=numc.backend(ops="bf16"))
    want = x.bfloat16().float()
    for row, added in zip(index, new, strict=True):
        want[row] = (want[row] + added.bfloat16().float()).bfloat16().float()
    got = compiled(x, new)
    assert torch.equal(got[[0, 2]], want[[0, 2]])
    assert torch.equal(got[1], x[1])  # nothing was added


def test_every_addition_draws_anew() -> None:
    compiled = torch.compile(lambda x, new: x.index_add(0, torch.arange(2), new), backend=numc.backend(ops="bf16:sr8"))
    got = compiled(torch.ones(2, 400), torch.full((2, 400), 2.0**-8))  # halfway between two numbers of bf16
    assert set(got.flatten().tolist()) == {1.0, 1.0 + 2.0**-7}
    assert not torch.equal(got[0], got[1])


@pytest.mark.parametrize("index", [[6], [-7]])
def test_an_index_out_of_range_is_an_error(index: list[int]) -> None:
    compiled = torch.compile(lambda x, i: x.index_put((i, i), x[0, :1], accumulate=True), backend=numc.backend())
    x = torch.ones(6, 8)
    assert compiled(x, torch.tensor([-6])).sum() == 49
    with pytest.raises(numc.NumcError, match="^an index is out of range"):
        compiled(x, torch.tensor(index))
