"""Inputs and buffers that a module changes, and the operations of language models: writes, sums, orders, experts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402
from numc.frontends.pytorch.load import load  # noqa: E402
from numc.frontends.pytorch.operators import grouped_mm  # noqa: E402

BATCH, LENGTH = Dim("batch", min=1, max=4), Dim("length", min=1, max=16)


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(16, 48)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, position: Any, keys: Any, values: Any) -> Any:
        q, k, v = self.project(x).reshape(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        self.steps.add_(1)
        mask = torch.arange(keys.shape[2]) <= position[:, None]
        return torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


def caches(batch: int) -> list[Any]:
    return [torch.zeros(batch, 2, 16, 8), torch.zeros(batch, 2, 16, 8)]


@pytest.mark.all
def test_caches_and_buffers_are_updated_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module = Attention().eval()
    example = (torch.randn(2, 3, 16), torch.arange(3), *caches(2))
    free = ({0: BATCH, 1: LENGTH}, {0: LENGTH}, {0: BATCH}, {0: BATCH})
    program = numc.compile(module, example, dynamic_shapes=free)
    assert [i.name for i in program.inputs] == ["x", "position", "keys", "values", "steps"]
    assert {o.name for o in program.outputs} == {"output", "keys", "values", "steps"}
    copied: list[Any] = []
    copyto = np.copyto
    monkeypatch.setattr(np, "copyto", lambda to, value: (copied.append(to.shape), copyto(to, value)))
    mine, theirs, steps, start = caches(3), caches(3), torch.zeros((), dtype=torch.int64), 0
    for count in (5, 1, 1, 7):
        x, position = torch.randn(3, count, 16), torch.arange(start, start + count)
        start += count
        found = program(x, position, *mine, steps)
        assert torch.allclose(found["output"], module(x, position, *theirs), atol=1e-5)
        for ours, eager in zip((*mine, steps), (*theirs, module.steps), strict=True):
            assert torch.allclose(ours, eager, atol=1e-5)
        assert found["keys"].data_ptr() == mine[0].data_ptr()
    assert (3, 2, 16, 8) not in copied  # no cache is copied

    turned = torch.zeros(3, 16, 2, 8).transpose(1, 2)  # not dense: a copy is updated and copied back
    program(x, position, turned, mine[1], steps)
    assert torch.equal(turned[:, :, position], mine[0][:, :, position])
    before = {"x": x, "position": position, "keys": mine[0], "values": mine[1], "steps": steps}
    program.by_name(before | {"x": x + 1})
    assert torch.equal(mine[0][:, :, position], turned[:, :, position])  # by_name leaves its inputs as they are

    fixed = np.zeros((1, 2, 16, 8), np.float32)
    fixed.flags.writeable = False
    one, keys, values = x[:1], *caches(1)
    for given, text in (
        ((position + 3, keys, values), "an index is out of range (in 'put_along')"),
        (
            (position, keys, keys),
            "input 'keys': the program updates it, and it shares memory with 'values': give a copy",
        ),
        ((position, keys.tolist(), values), "input 'keys': the program updates it, and got 'list': give an array or"),
        (
            (position, keys[:, :1].expand(1, 2, 16, 8), values),
            "input 'keys': the program updates it, and got one that re",
        ),
        ((position, fixed, values), "input 'keys': the program updates it, and got an array that is read-only: give a"),
        ((position, caches(2)[0], values), "size 'batch' is"),
    ):
        with pytest.raises(numc.NumcError, match=re.escape(text)):
            program(one, *given, steps)


def test_a_changed_parameter_is_refused() -> None:
    class Changes(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            self.bias.copy_(x[0, :4])
            return super().forward(x)

    want = "^Changes: it changes parameter 'bias' in place, which a program cannot keep: train with torch.compile"
    with pytest.raises(numc.NumcError, match=want), torch.no_grad():
        numc.compile(Changes(4, 4).eval(), torch.zeros(2, 4))


class Held:
    """An object that is no module, with a buffer of one."""

    def __init__(self, steps: Any) -> None:
        self.steps = steps


class Holder(torch.nn.Module):
    def __init__(self, changes: bool) -> None:
        super().__init__()
        self.register_buffer("steps", torch.ones(4))
        self.held, self.changes = Held(self.steps), changes

    def forward(self, x: Any) -> Any:
        if self.changes:
            self.steps.add_(x)
        first, last = torch.split(self.held.steps, 2)
        return first + last


def test_a_buffer_of_an_object_that_is_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    export, ways = torch.export.export, []
    monkeypatch.setattr(torch.export, "export", lambda *a, **b: (ways.append(b["strict"]), export(*a, **b))[1])
    for changes in (False, True):
        ways.clear()
        imported = load(Holder(changes).eval(), (torch.ones(4),))
        assert ways == [False, True][: 1 + changes]
        assert [a.name for a in imported.inputs] == ["x", "steps"][: 1 + changes]


def test_a_buffer_that_is_not_saved_is_no_constant_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made of it may change: the model is traced once."""

    class Unsaved(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("places", torch.arange(4), persistent=False)

        def forward(self, x: Any) -> Any:
            return torch.zeros_like(x).masked_fill_(self.places > 1, 1.0) + x

    export, ways = torch.export.export, []
    monkeypatch.setattr(torch.export, "export", lambda *a, **b: (ways.append(b["strict"]), export(*a, **b))[1])
    found = numc.compile(Unsaved().eval(), (torch.ones(4),))
    assert ways == [False]
    assert found(torch.ones(4).numpy()).tolist() == [1, 1, 2, 2]


class Operations(torch.nn.Module):
    def forward(self, cache: Any, index: Any, new: Any, mask: Any, x: Any, rows: Any, ends: Any, experts: Any) -> Any:
        return (
            cache.index_copy(2, index, new),
            cache.index_add(2, index, new),
            cache[torch.arange(2)[:, None], index, :1],
            mask.cumsum(1),
            (mask > 0).cumsum(1),
            (mask * 1.5).cumsum(0),
            cache.cumsum(-1),
            cache.cumprod(2),
            *x.topk(3, -1),
            *x.sort(-1),
            *x.sort(0, descending=True),
            *mask.sort(stable=True, dim=1),
            torch.argsort(x, -1),
            torch.histc(mask[0].float(), 4, 0, 3),
            grouped_mm(rows, experts, ends),
        )


def operands(batch: int, length: int) -> tuple[Any, ...]:
    torch.manual_seed(length)
    x = torch.randn(4, 8)
    x[0, 1], x[1, 2], x[2, 1] = torch.nan, torch.inf, -0.0
    ends = torch.tensor([0, length // 3, length // 3, length], dtype=torch.int32)
    cache, new = torch.randn(batch, 16, 16, 8), torch.randn(batch, 16, length, 8)
    index, mask = torch.randperm(16)[:length], torch.randint(0, 4, (batch, length))
    return cache, index, new, mask, x, torch.randn(length, 5), ends, torch.randn(4, 5, 6)


@pytest.mark.all
def test_writes_sums_orders_and_experts_at_free_sizes() -> None:
    free = ({0: BATCH}, {0: LENGTH}, {0: BATCH, 2: LENGTH}, {0: BATCH, 1: LENGTH}, None, {0: LENGTH}, None, None)
    module = Operations().eval()
    program = numc.compile(module, operands(2, 3), dynamic_shapes=free)
    for sizes in ((2, 3), (3, 1), (4, 16)):
        given = operands(*sizes)
        for got, want in zip(program(*given).values(), module(*given), strict=True):
            assert got.dtype == want.dtype
            assert torch.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
    with pytest.raises(numc.NumcError, match="^a slice reaches beyond its tensor .in 'grouped_mm'.$"):
        program(*given[:6], given[6] + 1, given[7])
