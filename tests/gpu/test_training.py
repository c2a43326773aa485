"""Training through torch.compile on emulated GPUs: the same parameters, bit for bit, as on this processor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import numc
from emulated_gpu import NEEDS
from numc.support.errors import NumcError

pytest.importorskip("triton", reason=NEEDS)
pytestmark = pytest.mark.all


def _network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 5),
    )


def _trained(target: str, fma: str, **arithmetic: str) -> tuple[list[float], list[torch.Tensor], Any]:
    """Losses of four steps, parameters and statistics after them, and the backend."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(6, 1, 8, 8, generator=generator)
    y = torch.randint(0, 5, (6,), generator=generator)
    network = _network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    backend = numc.backend(fma, **arithmetic, target=target, strict=True)

    @torch.compile(backend=backend)
    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(network(x), y)

    step = torch.compile(optimizer.step, backend=backend)
    losses = []
    for _ in range(4):
        loss = loss_of(x, y)
        losses.append(float(loss.detach()))
        loss.backward()
        step()
        optimizer.zero_grad()
    torch._dynamo.reset()
    return losses, [*(p.detach().clone() for p in network.parameters()), *network.buffers()], backend


@pytest.mark.slow
# The last three: operands with groups, along the reductions of all three roles.
@pytest.mark.parametrize("fma", ["bf16_1_1", "highbfp", "blackwell_mxfp8", "blackwell_nvfp4"])
def test_steps_of_adamw(fma: str) -> None:
    (losses, emulated, gpu), (expected, here, _) = (_trained(t, fma, update="fp32") for t in ("cuda", "host"))
    assert losses == expected
    assert len(set(losses)) == 4
    assert all(torch.equal(a, b) for a, b in zip(emulated, here, strict=True))
    assert {region.target for region in gpu.regions} == {"cuda"}
    assert gpu.refused == []


def test_statistics_are_those_of_this_processor() -> None:
    """What observes programs sees host programs in their place; the gradients are those of the GPU's kernels."""
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    seen = {}
    for target in ("cuda", "host"):
        network = _network()
        step = torch.compile(network, backend=numc.backend("fmac(e4m3)", target=target, strict=True))
        (step(x) ** 2).sum().backward()
        expected = [p.grad.clone() for p in network.parameters()]
        network.load_state_dict(_network().state_dict())
        network.zero_grad()
        with numc.collect_stats() as collected:
            (step(x) ** 2).sum().backward()
        torch._dynamo.reset()
        assert all(torch.equal(p.grad, was) for p, was in zip(network.parameters(), expected, strict=True))
        # The host has more graphs, and keeps some operands of the backward pass rounded.
        rows = collected.statistics.rows
        seen[target] = {(row.layer, row.role): replace(row, position=0, tensors={}) for row in rows}
    assert len(seen["host"]) == 5  # two forward, two wgrad, one dgrad
    assert seen["cuda"] == seen["host"]


def test_a_run_that_finds_widths_is_on_the_host() -> None:
    x, found = torch.randn(4, 20, generator=torch.Generator().manual_seed(3)), {}
    for target in ("cuda", "host"):
        torch.manual_seed(4)
        layer = torch.nn.Linear(20, 3)
        step = torch.compile(layer, backend=numc.backend("bfp(16,3,2..4)", target=target, strict=True))
        width = numc.WidthByRatio(0.1)
        results = []
        for _ in range(2):  # the second run knows the width
            with numc.widths(width):
                results.append(step(x).detach())
        torch._dynamo.reset()
        found[target] = width.width, width.ratio, [result.tolist() for result in results]
    assert found["cuda"] == found["host"]
    assert found["host"][0] in ((3, 2), (3, 4))


def test_an_unknown_target() -> None:
    with pytest.raises(NumcError, match="target: got gpu, want 'host', 'cuda' or None"):
        numc.backend("fp32", target="gpu")
