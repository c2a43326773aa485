"""Gradients of weights that are used several times: one contraction of chunks, with the bits of a sum of several."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import numc  # noqa: E402
from tiers import one_in  # noqa: E402

Gradients = list[torch.Tensor]


class Twice(nn.Module):
    """A dense layer that is used for inputs of different numbers of rows."""

    def __init__(self, *rows: int) -> None:
        super().__init__()
        self.dense, self.rows = nn.Linear(24, 40, bias=False), rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the results of the first rows."""
        results = [self.dense(x[n, :rows]).square().sum() for n, rows in enumerate(self.rows)]
        return torch.stack(results).sum()


def gradients(make: Callable[[], nn.Module], x: torch.Tensor, fma: str) -> tuple[Gradients, list[str]]:
    """Return the gradients of all parameters, and the operators of the contractions of the backward pass."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make()
    used = numc.backend(fma)
    found = torch.compile(model, backend=used)(x)
    (found[0] if isinstance(found, tuple) else found).sum().backward()
    rows = [row for region in used.regions for p in region.programs.values() for row in p.manifest["contractions"]]
    return [p.grad for p in model.parameters()], [row["fma"] for row in rows]


def same_bits(make: Callable[[], nn.Module], x: torch.Tensor, fma: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Check that gradients have the bits of sums of contractions; return the operators with chunks."""
    got, operators = gradients(make, x, fma)
    monkeypatch.setenv("NUMC_DISABLE", "sum-products")
    want, before = gradients(make, x, fma)
    assert all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(got, want, strict=True))
    return [name for name in operators if name not in before]


OPERATORS = {
    "fp32": "fma(a=fp32,acc=fp32,chunk=3)",
    "mp": "fma(a=bf16,acc=fp32,chunk=3)",
    "bf16_1_1": "fma(a=bf16,acc=bf16,chunk=3,total=fp32)",
    "bf16_1_2": "fma(a=bf16,acc=bf16x2,chunk=3,total=fp32)",
    "bf16_2_2{3}": "fma(a=bf16x2,acc=bf16x2,products=3,chunk=3,total=fp32)",
    "mac(e6m9n)": "mac(e6m9n,chunk=3,total=fp32)",
    "fma(a=bf16,acc=e5m2:rtz,datapath=exact)": "fma(a=bf16,acc=e5m2:rtz,datapath=exact,chunk=3,total=fp32)",
    # What has an order of its own, or sees whole operands, stays as it is.
    **dict.fromkeys(("amx_bf16", "fmac(bf16,chunk=2)", "fmac(bf16,datapath=fused(l=2,bits=9))", "highbfp", "int8"), ""),
}


@pytest.mark.parametrize("fma", one_in(12, list(OPERATORS), "fmac(bf16,chunk=2)"))
def test_recurrent_weights_with_every_kind_of_operator(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5, 3, 12, generator=torch.Generator().manual_seed(1))
    assert set(same_bits(lambda: nn.LSTM(12, 16), x, fma, monkeypatch)) == {OPERATORS[fma]} - {""}


CELLS = [
    lambda: nn.RNN(12, 16, bidirectional=True),
    lambda: nn.LSTM(12, 16, bidirectional=True),
    lambda: nn.GRU(12, 16, 2),
    lambda: nn.GRU(12, 16, bidirectional=True),
    lambda: nn.RNN(12, 16, 2),
]


@pytest.mark.parametrize("number", one_in(5, range(len(CELLS))))
def test_kinds_of_cells(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(6, 2, 12, generator=torch.Generator().manual_seed(1))
    assert "fma(a=bf16,acc=bf16,chunk=2,total=fp32)" in same_bits(CELLS[number], x, "bf16_1_1", monkeypatch)


@pytest.mark.parametrize(("rows", "joined"), [((5, 5, 5), True), ((5, 4), False), ((90, 90), False)])
def test_a_weight_of_several_layers(rows: tuple[int, ...], joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of different depths, or whose operands are larger than the weight, stay apart."""
    x = torch.randn(3, 90, 24, generator=torch.Generator().manual_seed(1))
    found = same_bits(lambda: Twice(*rows), x, "bf16_1_1", monkeypatch)
    assert found == ["fma(a=bf16,acc=bf16,chunk=5,total=fp32)"] * joined


class Penalised(Twice):
    """The same, and a term that depends on the weight alone: another addend of its gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the results of the first rows, and of the weights' absolute values."""
        return super().forward(x) + self.dense.weight.abs().sum()


def test_other_addends_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 90, 24, generator=torch.Generator().manual_seed(1))
    same_bits(lambda: Penalised(5, 5, 5), x, "bf16_1_1", monkeypatch)


def test_zeros_keep_their_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products so small that they become -0: their sum is -0, too."""
    x = torch.full((2, 5, 24), -1e-30)
    got, operators = gradients(lambda: Twice(5, 5), x, "fp32")
    assert any("chunk=5" in name for name in operators)
    assert bool((got[0] == 0).all())
    assert bool(got[0].signbit().any())
    same_bits(lambda: Twice(5, 5), x, "fp32", monkeypatch)
