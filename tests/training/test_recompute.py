"""What a backward pass computes again in place of keeping it: with the same gradients to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import numc  # noqa: E402
from numc.numerics.policy.presets import PRESETS  # noqa: E402
from tests.training.test_saved import SWITCH, bits  # noqa: E402


class Normalised(nn.Module):
    """Blocks with residuals, whose results a loop makes of what normalisation reads, and a buffer it overwrites."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = (nn.Conv2d(n, 8, k) for n, k in ((3, 1), (8, 3), (8, 1)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))
        self.act = nn.ReLU(inplace=True)
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.ones(8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 8, h - 2, w - 2]."""
        one = self.act(self.norms[0](self.first(x)))
        two = self.act(self.norms[1](self.second(one)) + one[:, :, 1:-1, 1:-1])
        three = self.norms[2](self.last(two)) + self.shift
        self.shift.mul_(0.5)
        return self.last(self.act(three))


class Frozen(Normalised):
    """The same, with the statistics of a training before."""

    def train(self, mode: bool = True) -> Frozen:
        """Leave normalisation as it is."""
        super().train(mode)
        self.norms.eval()
        return self


class Mixed(nn.Module):
    """Normalisation, gates, dropout and a checkpoint, and results that are read several times."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.gate, self.narrow = (
            nn.LayerNorm(8),
            nn.Linear(8, 16),
            nn.Linear(8, 16),
            nn.Linear(16, 8),
        )

    def _gated(self, x: torch.Tensor) -> torch.Tensor:
        return self.wide(x).clamp(-1, 1) * nn.functional.silu(self.gate(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 8]."""
        x = self.norm(x)
        y = nn.functional.dropout(nn.functional.hardswish(self._gated(x)), 0.3)
        z = self.narrow(checkpoint(self._gated, self.narrow(y) + x, use_reentrant=False))
        return z * self.narrow(y) + self.norm(z)


FAMILIES = [
    pytest.param(Normalised, lambda: torch.randn(4, 3, 7, 7).transpose(2, 3), id="convolutions"),
    pytest.param(Frozen, lambda: torch.randn(4, 3, 7, 7), id="frozen", marks=pytest.mark.slow),
    pytest.param(Mixed, lambda: torch.randn(64, 8), id="dense", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(
    "arithmetic",
    ["mp", *(pytest.param(name, marks=pytest.mark.slow) for name in (*PRESETS, "mxfp8", "macs(e6m9)") if name != "mp")],
)
@pytest.mark.parametrize(("family", "inputs"), FAMILIES)
def test_no_bit_changes(
    family: Callable[[], nn.Module],
    inputs: Callable[[], torch.Tensor],
    arithmetic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model, x = family().train(), inputs()
    again, backend = bits(model, x, arithmetic)
    less = backend.saved[0].rows(backend.arithmetic)
    monkeypatch.setenv(SWITCH, "recompute")
    kept, backend = bits(model, x, arithmetic)
    more = backend.saved[0].rows(backend.arithmetic)
    assert all(torch.equal(one, other) for one, other in zip(again, kept, strict=True))
    assert any(row.bytes == 0 for row in less)
    assert all(row.bytes for row in more)
    assert sum(row.bytes for row in less) < sum(row.bytes for row in more)


def test_the_report_says_what_is_computed_again() -> None:
    torch.manual_seed(0)
    found = numc.explain(Normalised(), torch.randn(4, 3, 7, 7).transpose(2, 3), fma="mp")
    assert [str(row) for row in found.kept if not row.bytes] == [
        "relu [4,8,7,7]: computed again from convolution by 5 operations",
        "relu_1 [4,8,5,5]: computed again from convolution_1, convolution by 11 operations",
        "permute_12 [3,4,7,7]: computed again from primals_3",
    ]
    # What is made of a buffer that the forward pass overwrites is kept.
    assert [(row.name, row.format) for row in found.kept if row.shape == (4, 8, 5, 5) and row.format] == [
        ("relu_2", "bf16")
    ]


def test_sizes_that_are_free() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4))
    backend = numc.backend("mp")
    compiled = torch.compile(model, backend=backend)
    for rows in (32, 48):
        x = torch.randn(rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x).sum().backward()
    # One program for both; what has a free size is kept: whether it is worth computing again depends on the size.
    assert [list(saved.again) for saved in backend.saved] == [["permute_2"]]


def test_what_is_read_may_not_be_overwritten() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4))
    loss = torch.compile(model, backend=numc.backend("mp"))(torch.randn(32, 8)).sum()
    with torch.no_grad():
        model[1].bias.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_is_rounded_stochastically_is_kept() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4))
    for ops, count in (("bf16", 1), ("bf16:sr8", 0)):
        torch._dynamo.reset()
        backend = numc.backend("mp", ops=ops)
        torch.compile(model, backend=backend)(torch.randn(32, 8)).sum().backward()
        assert len(backend.saved[0].again) == count


class Stashed(torch.autograd.Function):
    """Twice a tensor, which it remembers without save_for_backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.factor = x * 0 + 2
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * ctx.factor


def test_what_a_function_remembers() -> None:
    class Model(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(Stashed.apply(x * 3).relu())

    model = Model(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4))
    found, _ = bits(model, torch.randn(6, 8, requires_grad=True), "fp32")
    assert len(found) == 7


REGIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dropout": lambda x: nn.functional.dropout(x.sin(), 0.3).exp(),
    "noise": lambda x: (x.sin() * torch.randn_like(x)).exp(),
    "rrelu": lambda x: nn.functional.rrelu(x.sin(), training=True).exp(),
}


@pytest.mark.parametrize("name", REGIONS)
def test_a_checkpoint_draws_once(name: str) -> None:
    torch._dynamo.reset()
    layers = nn.Linear(8, 8), nn.Linear(8, 8)
    x = torch.randn(16, 8, requires_grad=True)
    read = [x, *(p for layer in layers for p in layer.parameters())]

    def region(x: torch.Tensor) -> torch.Tensor:
        return layers[1](REGIONS[name](layers[0](x))).sin()

    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: checkpoint(region, x, use_reentrant=False), x, use_reentrant=False).square()

    backend = numc.backend("fp32")
    compiled = torch.compile(function, backend=backend)
    for seed in range(3):
        found = []
        for run in (function, compiled):
            torch.manual_seed(seed)
            result = run(x)
            gradients = torch.autograd.grad(result.sum(), read)
            found.append((result, *gradients, torch.get_rng_state()))
        torch.testing.assert_close(found[1], found[0])
    if name == "dropout":  # nothing else is kept than the mask
        assert [(row.format, row.bytes) for row in backend.saved[0].rows(backend.arithmetic)] == [("bits", 16)]


def test_a_checkpoint_without_the_state_of_the_generator_has_one_mask() -> None:
    torch._dynamo.reset()

    def dropped(x: torch.Tensor) -> torch.Tensor:
        def region(x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x, 0.3).sin()

        return checkpoint(region, x, use_reentrant=False, preserve_rng_state=False)

    compiled = torch.compile(dropped, backend=numc.backend("fp32"))
    for _ in range(3):
        x = torch.rand(16, 8).add(0.1).requires_grad_()
        result = compiled(x)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient == 0, result == 0)
        assert 0 < (result == 0).sum() < result.numel()
