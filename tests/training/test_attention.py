"""Attention that a backward pass computes again, a head at a time: with the same gradients to the bit."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import numc  # noqa: E402
from numc.numerics.policy.presets import PRESETS  # noqa: E402
from tests.training.test_saved import SWITCH, bits  # noqa: E402

TOKENS, HEADS, FEATURES = 157, 3, 12


class Attention(nn.Module):
    """Two layers of attention with dropout: with a causal mask, and with one that leaves some tokens out altogether."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(FEATURES, 3 * FEATURES) for _ in range(2))
        mask = torch.rand(TOKENS, TOKENS) < 0.8
        mask[5] = False
        self.mask: torch.Tensor
        self.register_buffer("mask", mask)

    def _heads(self, mixed: torch.Tensor) -> list[torch.Tensor]:
        return [each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in mixed.chunk(3, -1)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, t, features]."""
        attend = nn.functional.scaled_dot_product_attention
        y = attend(*self._heads(self.first(x)), dropout_p=0.2, is_causal=True).transpose(1, 2).flatten(2)
        z = attend(*self._heads(self.second(y)), attn_mask=self.mask)
        return y + z.transpose(1, 2).flatten(2)


def probabilities(backend: Any) -> list[str]:
    """How the tensors are kept that have an element for each pair of tokens in each head, without masks of dropout."""
    rows = backend.saved[0].rows(backend.arithmetic)
    large = (row for row in rows if row.shape[-2:] == (TOKENS, TOKENS) and row.dtype == "float32")
    return ["again" if not row.bytes else row.format or row.dtype for row in large]


def chains(backend: Any) -> int:
    """The number of chains in the backward pass."""
    (program,) = backend.regions[-1].programs.values()
    return [part["kind"] for part in program.manifest["parts"]].count("chain")


@pytest.mark.parametrize(
    "arithmetic",
    ["mp", *(pytest.param(name, marks=pytest.mark.slow) for name in (*PRESETS, "mxfp8", "macs(e6m9)") if name != "mp")],
)
def test_no_bit_changes(arithmetic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, x = Attention(), torch.randn(2, TOKENS, FEATURES)
    again, backend = bits(model, x, arithmetic)
    monkeypatch.setenv(SWITCH, "by-rows,recompute")
    kept, plain = bits(model, x, arithmetic)
    assert all(torch.equal(one, other) for one, other in zip(again, kept, strict=True))
    # Of both layers, and those that dropout leaves of the first, which is no product.
    repeats = backend.arithmetic.policy().repeats_products
    assert probabilities(backend).count("again") == (3 if repeats else 1)
    assert "again" not in probabilities(plain)
    assert chains(plain) == 0
    if arithmetic == "mp":
        assert chains(backend) == 2  # conversions of other arithmetics may need all heads


@pytest.mark.parametrize(
    ("arithmetic", "count"),
    [("bf16_1_1", 3), ("fma(a=bf16,acc=bf16:sr8)", 1)],
)
def test_products_that_would_be_drawn_anew_are_kept(arithmetic: str, count: int) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    backend = numc.backend("mp")
    with numc.arithmetic(arithmetic):
        torch.compile(Attention(), backend=backend)(torch.randn(2, TOKENS, FEATURES)).sum().backward()
    assert probabilities(backend).count("again") == count


def test_products_keep_their_names() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = numc.backend("mp")
    torch.compile(Attention(), backend=backend)(torch.randn(2, TOKENS, FEATURES)).sum().backward()
    forward, backward = (region.imported for region in backend.regions)
    products = {name for name, words in backward.nodes.items() if words.split(" ")[0] == "aten.bmm.default"}
    assert {name for name in products if backward.roles[name] == "forward"} == {"bmm", "bmm_3"} & forward.nodes.keys()


def test_short_sequences_are_kept() -> None:
    torch._dynamo.reset()
    backend = numc.backend("mp")
    attend = torch.compile(nn.functional.scaled_dot_product_attention, backend=backend)
    query, key, value = (torch.randn(1, 2, 16, 4, requires_grad=True) for _ in range(3))
    attend(query, key, value).sum().backward()
    assert [row.bytes for row in backend.saved[0].rows(backend.arithmetic) if row.shape == (1, 2, 16, 16)] == [2048]
