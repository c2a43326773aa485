"""Around a training step: gradient scaling, several processes, verification of training programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from zoo import SMALL  # noqa: E402

import numc  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
X = torch.linspace(-1, 1, 24).reshape(3, 8)


@pytest.fixture
def model() -> nn.Module:
    torch._dynamo.reset()
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_gradient_scaling(model: nn.Module) -> None:
    """Overflows are seen, the step is skipped, and the scale shrinks; torch's scaler and numc's agree."""
    compiled = torch.compile(model, backend=numc.backend("mp"))
    for scaler in (torch.amp.GradScaler("cpu", init_scale=4.0), numc.DynamicLossScale(init_scale=4.0)):
        optimizer = torch.optim.SGD(model.parameters(), 0.001)
        scales = []
        for x in (X, X * 1e38, X):
            optimizer.zero_grad()
            before = model[0].weight.detach().clone()
            scaler.scale(compiled(x).square().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append((scaler.get_scale(), not torch.equal(before, model[0].weight)))
        assert scales == [(4.0, True), (2.0, False), (2.0, True)]
    assert (scaler.skipped, scaler.steps) == (1, 3)


def test_scaling_by_a_power_of_two_changes_no_gradient(model: nn.Module) -> None:
    compiled = torch.compile(model, backend=numc.backend("bf16_1_2"))
    found = []
    for scale in (1.0, 256.0):
        model.zero_grad()
        (compiled(X).square().sum() * scale).backward()
        found.append([p.grad / scale for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_gradients_of_gradients_are_refused(model: nn.Module) -> None:
    x = torch.ones(3, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.compile(model, backend=numc.backend())(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


@pytest.mark.slow
def test_two_processes_make_the_bits_of_one() -> None:
    found = []
    for processes in (1, 2):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command += [str(ROOT / "examples/data_parallel/train.py"), "--arithmetic", "bf16_1_2", "--steps", "4"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0] == found[1]
    assert found[0][0] == "weights"


def test_every_contraction_of_a_training_step_verifies(model: nn.Module) -> None:
    """Sampled outputs of forward, dgrad and wgrad contractions are what the reference computes."""
    backend = numc.backend("bf16_1_2", wgrad="bf16_2_2{3}")
    compiled = torch.compile(model, backend=backend)
    with numc.verify_training(samples=10) as watched:
        compiled(torch.randn(5, 8)).square().sum().backward()
    report = watched.report()
    assert report.mismatches == 0, report.first
    assert {row.name: row.fma for row in report.rows} == {
        "0": "bf16_1_2", "2": "bf16_1_2", "2/dgrad": "bf16_1_2", "2/wgrad": "bf16_2_2{3}", "0/wgrad": "bf16_2_2{3}",
    }  # fmt: skip
    assert all(row.checked > 0 for row in report.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm", "resnet18"])
def test_whole_steps_verify_and_switch(name: str) -> None:
    """Forward, dgrad, wgrad and update in one step: what ran is what was asked for, and nothing is compiled twice."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    case = SMALL[name]
    model, inputs = case.model(), case.inputs()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    @torch.compile(backend=numc.backend())
    def step(*inputs: Any) -> Any:
        optimizer.zero_grad()
        loss = case.loss(model(*inputs))
        loss.backward()
        optimizer.step()
        return loss

    operators = ("bf16_1_1", "bf16_2_2{3}")
    rows = {}
    for operator in operators:
        with numc.arithmetic(operator), numc.verify_training(samples=4) as watched:
            before = [p.detach().clone() for p in model.parameters()]
            step(*inputs)
        report = watched.report()
        assert report.mismatches == 0, report.first
        assert {row.fma for row in report.rows} == {operator}
        assert all(row.checked > 0 for row in report.rows)
        rows[operator] = {row.name for row in report.rows}
        if operator == "bf16_1_1":  # the update is a multiply-add of the same operator
            rate = torch.tensor(-0.01).bfloat16().float()
            for p, old in zip(model.parameters(), before, strict=True):
                new = p.grad.bfloat16().float() * rate + old.bfloat16().float()
                assert torch.equal(p.detach(), new.bfloat16().float())
    assert rows["bf16_1_1"] == rows["bf16_2_2{3}"]
    assert {"dgrad", "wgrad"} <= {part.split("_")[0] for row in rows["bf16_1_1"] for part in row.split("/")}
    seen = numc.counters()
    for operator in operators * 2:
        with numc.arithmetic(operator):
            step(*inputs)
    now = numc.counters()
    assert (now.graphs, now.programs, now.compilations) == (seen.graphs, seen.programs, seen.compilations)
    assert now.calls > seen.calls


def test_a_product_with_a_constant_is_a_contraction() -> None:
    """The first state of a recurrent network is zero."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda w: torch.full((3, 4), 0.3) @ w, backend=numc.backend("1/6/9"))
    with numc.verify_training(samples=12) as watched:
        compiled(torch.linspace(-1, 1, 20).reshape(4, 5))
    (row,) = watched.report().rows
    assert (row.fma, row.mismatches) == ("fma(a=e6m9n,acc=e6m9n,chunk=8)", 0)
    assert row.checked > 0


def test_verification_finds_a_wrong_bit(model: nn.Module) -> None:
    backend = numc.backend("bf16_1_1")
    compiled = torch.compile(model, backend=backend)
    compiled(torch.randn(5, 8)).sum().backward()
    for region in backend.regions:
        for program in region.programs.values():
            for contraction in program.manifest["contractions"]:
                contraction["fma"] = "bf16_1_2"
    with numc.verify_training(samples=50) as watched:
        compiled(torch.randn(5, 8)).square().sum().backward()
    report = watched.report()
    assert report.mismatches > 0
    assert "got 0x" in str(report.first)


def test_verification_needs_programs_that_run() -> None:
    with numc.verify_training() as watched:
        pass
    with pytest.raises(
        numc.NumcError, match="^nothing was verified: torch.compile ran no program of numc in the block$"
    ):
        watched.report()
