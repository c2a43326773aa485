"""Profiles of training steps, by role."""

from __future__ import annotations

import math

import torch

import numc


def test_steps_by_role() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)
    x, y = torch.randn(24, 16), torch.arange(24) % 4

    @torch.compile(backend=numc.backend("bf16_1_2", wgrad="bf16_2_2{3}", update="fp32"))
    def train_step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    train_step()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plain = [train_step() for _ in range(3)]
    model.load_state_dict(before)
    with numc.profile(peak=100, bandwidth=10) as profiled:
        seen = []
        for _ in range(3):
            seen.append(train_step())
            profiled.step()
    assert [a.item() for a in seen] == [b.item() for b in plain]  # no bit differs
    found = profiled.profile
    assert len(found.steps) == 3
    assert all(step.roles.keys() >= {"forward", "dgrad", "wgrad", "update", "outside"} for step in found.steps)
    assert all(math.isclose(sum(step.roles.values()), step.seconds) for step in found.steps)
    assert math.isclose(sum(row.share for row in found.rows), 1)
    operators = {(row.layer, row.role): (row.fma, row.fmas) for row in found.rows if row.kind == "contraction"}
    assert operators == {
        ("model.0", "forward"): ("bf16_1_2", 24 * 16 * 32),
        ("model.2", "forward"): ("bf16_1_2", 24 * 32 * 4),
        ("model.2/dgrad", "dgrad"): ("bf16_1_2", 24 * 32 * 4),
        ("model.2/wgrad", "wgrad"): ("bf16_2_2{3}", 24 * 32 * 4),
        ("model.0/wgrad", "wgrad"): ("bf16_2_2{3}", 24 * 16 * 32),
    }
    assert all(row.role for row in found.rows if row.layer and not row.layer.startswith("part "))
