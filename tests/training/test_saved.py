"""What a forward pass keeps for its backward pass: in fewer bytes, with the same gradients to the bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import numc  # noqa: E402
from numc.compiler.torch_compile.graphs.orders import inputs_by_strides  # noqa: E402
from numc.compiler.torch_compile.regions import seeded  # noqa: E402
from numc.numerics.policy.presets import PRESETS  # noqa: E402
from numc.support.errors import NumcError  # noqa: E402

SWITCH = "NUMC_DISABLE"


class Attention(nn.Module):
    """A block of a transformer, with dropout, and an embedding before it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(10, 8), nn.LayerNorm(8)
        self.mixed, self.wide, self.narrow = nn.Linear(8, 24), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return [n, t, 8]."""
        x = self.words(tokens)
        query, key, value = self.mixed(self.norm(x)).chunk(3, -1)
        x = x + (query @ key.transpose(1, 2)).softmax(-1) @ value
        return x + self.narrow(nn.functional.dropout(nn.functional.gelu(self.wide(x)), 0.2))


def convolutions() -> nn.Module:
    """Convolutions and dense layers with every kind of reader of what is kept."""
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=2), nn.ReLU(), nn.Conv2d(4, 3, 1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(27, 6), nn.ReLU(), nn.Linear(6, 6), nn.SiLU(), nn.Linear(6, 3)),
    )


class Recurrent(nn.Module):
    """An LSTM in both directions, and a layer for its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.last = nn.LSTM(6, 8, bidirectional=True, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 3]."""
        found: torch.Tensor = self.last(self.cells(x)[0][:, -1].relu())
        return found


def dense() -> nn.Module:
    """Two dense layers with a ReLU between them."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def bits(model: nn.Module, inputs: Any, arithmetic: str) -> tuple[list[torch.Tensor], Any]:
    """The bits of the result and of all gradients of one step, and what compiled it."""
    torch._dynamo.reset()
    model, backend = copy.deepcopy(model), numc.backend(arithmetic)
    torch.manual_seed(1)
    compiled = torch.compile(model, backend=backend)
    with seeded(count(1)):  # or else every run draws anew
        result = compiled(inputs)
        result.square().sum().backward()
    found = [result.detach(), *(p.grad for p in model.parameters())]
    return [each.view(torch.int32) for each in found], backend


@pytest.mark.parametrize(
    "arithmetic", ["mp", *(pytest.param(name, marks=pytest.mark.slow) for name in (*PRESETS, "mxfp8") if name != "mp")]
)
@pytest.mark.parametrize(
    ("family", "inputs"),
    [
        pytest.param(convolutions, lambda: torch.randn(2, 2, 12, 12), id="convolutions"),
        pytest.param(Attention, lambda: torch.arange(10).reshape(2, 5), id="attention", marks=pytest.mark.slow),
        pytest.param(Recurrent, lambda: torch.randn(3, 4, 6), id="recurrent", marks=pytest.mark.slow),
    ],
)
def test_no_bit_changes(
    family: Callable[[], nn.Module],
    inputs: Callable[[], torch.Tensor],
    arithmetic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model, x = family(), inputs()
    narrow, _ = bits(model, x, arithmetic)
    monkeypatch.setenv(SWITCH, "stored-codes")
    wide, _ = bits(model, x, arithmetic)
    assert all(torch.equal(one, other) for one, other in zip(narrow, wide, strict=True))


@pytest.mark.parametrize(
    ("arithmetic", "stored", "size"), [("hfp8", "e4m3", 1), pytest.param("mp", "bf16", 2, marks=pytest.mark.slow)]
)
def test_codes_keep_what_the_readers_see(
    arithmetic: str, stored: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that round to zero stay positive, NaN and infinities stay, and the bytes are those of the format."""
    model = dense()
    with torch.no_grad():
        model[0].bias.copy_(torch.tensor([1e-45, -1e-45, 1e-10, -1e-10, 0, -0.0, 1e-3, 3e38] * 2))
        model[0].weight.zero_()
        model[0].weight[8:] = torch.randn(8, 8)
    x = torch.randn(6, 8)
    x[0, 0], x[1, 1] = torch.nan, torch.inf
    narrow, backend = bits(model, x, arithmetic)
    (row,) = [each for each in backend.saved[0].rows(backend.arithmetic) if each.shape == (6, 16)]
    assert (row.bytes, row.elements) == (6 * 16 * size, 6 * 16)
    assert str(row) == f"relu [6,16]: {row.bytes} bytes, kept in {stored}"
    monkeypatch.setenv(SWITCH, "stored-codes")
    wide, _ = bits(model, x, arithmetic)
    for one, other in zip(narrow, wide, strict=True):
        same = one == other
        same |= one.view(torch.float32).isnan() & other.view(torch.float32).isnan()  # all NaNs count as one
        assert same.all()


def test_masks_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks of ReLU and dropout take bits, and what a product reads in groups takes codes along the batch."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 4)), torch.randn(20, 8)
    narrow, backend = bits(model, x, "midbfp")
    rows = backend.saved[0].rows(backend.arithmetic)
    assert sorted((row.dtype, row.format, row.bytes) for row in rows if row.shape == (20, 12)) == [
        ("bool", "bits", 30),
        ("bool", "bits", 30),
        ("float32", "bfp(16,3,3) along dimension 0", 4 + 2 * 2 * 12 + 4 * 30),
    ]
    monkeypatch.setenv(SWITCH, "stored-codes")
    wide, backend = bits(model, x, "midbfp")
    assert all(torch.equal(one, other) for one, other in zip(narrow, wide, strict=True))
    assert {row.format for row in backend.saved[0].rows(backend.arithmetic)} == {""}


def test_the_backward_pass_in_another_arithmetic() -> None:
    torch._dynamo.reset()
    model, x = dense(), torch.randn(6, 8)
    compiled = torch.compile(model, backend=numc.backend())
    with numc.arithmetic("mp"):
        loss = compiled(x).sum()
    with pytest.raises(NumcError) as caught:
        loss.backward()
    assert str(caught.value) == (
        "backward pass: the forward pass kept 'relu' in bf16, in another arithmetic, and it is read as float32 by "
        "2/wgrad here: call backward() in the arithmetic of the forward pass, or set NUMC_DISABLE=stored-codes"
    )
    kept = compiled(x).sum()  # in float32, which every arithmetic can read
    with numc.arithmetic("mp"):
        kept.backward()
        loss, found = compiled(x).sum(), []
        for again in (True, False):
            model.zero_grad()
            loss.backward(retain_graph=again)
            found.append(model[0].weight.grad)
    assert torch.equal(*found)


def test_the_report_says_how_each_tensor_is_kept() -> None:
    found = numc.explain(dense(), torch.randn(6, 8), fma="mp")
    assert [(row.name, row.format, row.bytes) for row in found.kept] == [("relu", "bf16", 192)]
    assert str(found).endswith("192 bytes are kept for the backward pass:\n  relu [6,16]: 192 bytes, kept in bf16")


@pytest.mark.parametrize(
    ("order", "is_taken"), [((1, 2, 0), True), ((1, 0, 2), True), ((0, 2, 1), True), ((2, 0, 1), False)]
)
def test_orders_of_dimensions_that_are_read_in_place(order: tuple[int, ...], is_taken: bool) -> None:
    """The first is that of the keys of attention whose batch is the second dimension, transposed."""
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = torch.empty(2, 3, 4).permute(order)
    graph.call_function(torch.ops.aten.neg.default, (node,)).meta["numc"] = ("", "", "")
    stored = {0: [order.index(d) for d in range(3)]}
    assert inputs_by_strides(graph, [node]) == (stored if is_taken else {})


def test_codes_are_widened_right_before_their_first_reader() -> None:
    """The permutation of an input is its first reader."""
    aten, graph = torch.ops.aten, torch.fx.Graph()
    inputs = [graph.placeholder(name) for name in "xy"]
    for node in reversed(inputs):
        node.meta["val"] = torch.empty(3, 2).t()
        graph.call_function(aten.neg.default, (node,)).meta["numc"] = ("", "", "")
    assert inputs_by_strides(graph, inputs) == {0: [1, 0], 1: [1, 0]}
    assert [node.name for node in graph.nodes] == [
        "x",
        "y",
        "permute_default_1",
        "neg_default",
        "permute_default",
        "neg_default_1",
    ]
