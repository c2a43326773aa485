"""numc.collect_stats around training steps."""

from __future__ import annotations

import pytest

import numc

regions = pytest.importorskip("numc.compiler.torch_compile.regions")
torch = pytest.importorskip("torch")


def test_every_contraction_of_a_training_step_is_counted() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    compiled = torch.compile(model, backend=numc.backend("bf16_1_2", wgrad="bf16_2_2{3}"))
    x = torch.randn(5, 8)

    def step() -> list[torch.Tensor]:
        model.zero_grad()
        compiled(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    plain, before = step(), numc.counters().graphs
    with numc.collect_stats("swamping,exponents,fmas") as collected:
        for _ in range(2):
            counted = step()
    found = collected.statistics
    assert all(torch.equal(a, b) for a, b in zip(plain, counted, strict=True))
    assert numc.counters().graphs == before  # nothing is traced again
    assert {(row.layer, row.role, row.fma, row.fmas, row.executions) for row in found.rows} == {
        ("0", "forward", "bf16_1_2", 2 * 5 * 16 * 8, 2),
        ("2", "forward", "bf16_1_2", 2 * 5 * 4 * 16, 2),
        ("2/dgrad", "dgrad", "bf16_1_2", 2 * 5 * 16 * 4, 2),
        ("2/wgrad", "wgrad", "bf16_2_2{3}", 2 * 4 * 16 * 5, 2),
        ("0/wgrad", "wgrad", "bf16_2_2{3}", 2 * 16 * 8 * 5, 2),
    }
    assert all(row.swamping is not None and row.swamping.total > 0 for row in found.rows)
    (gradient,) = (row.tensors for row in found.rows if row.layer == "0/wgrad")
    # Gradients are zero where the activation was: of 80 of them, in each step.
    assert gradient["a"].elements == 160
    assert gradient["a"].most["zeros"] == gradient["a"].zeros / 160 > 0
    after = step()
    assert all(torch.equal(a, b) for a, b in zip(plain, after, strict=True))


def test_the_gradient_is_operand_a_of_a_convolution_too() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.Conv2d(3, 4, 3))
    compiled = torch.compile(model, backend=numc.backend("hfp8_fwd", dgrad="hfp8_bwd", wgrad="hfp8_bwd"))
    with numc.collect_stats("denormals,fmas") as collected:
        compiled(torch.randn(1, 2, 7, 7)).square().sum().backward()
    found = {row.layer: row for row in collected.statistics.rows if row.role != "forward"}
    assert {row.fma for row in found.values()} == {"hfp8_bwd"}
    elements = {layer: [row.tensors[name].elements for name in "ab"] for layer, row in found.items()}
    # The results have 3x5x5 and 4x3x3 numbers; dgrad pads the latter by two on each side.
    assert elements == {"2/dgrad": [4 * 7 * 7, 108], "2/wgrad": [36, 75], "0/wgrad": [75, 98]}


def test_the_multiply_adds_of_a_whole_step_are_known_by_role_and_operator() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.5)

    @torch.compile(backend=numc.backend("bf16_1_2", wgrad="bf16_2_2{3}", update="mac(e6m9)"))
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    x, parameters = torch.randn(5, 8), 16 * 8 + 16 + 4 * 16 + 4
    want = {
        ("forward", "bf16_1_2"): 5 * 16 * 8 + 5 * 4 * 16,
        ("dgrad", "bf16_1_2"): 5 * 16 * 4,
        ("wgrad", "bf16_2_2{3}"): 4 * 16 * 5 + 16 * 8 * 5,
        ("update", "mac(e6m9)"): 2 * parameters,  # weight decay, and the step
    }
    with regions.tally() as first:
        step(x)
    with numc.collect_stats("fmas") as collected, regions.tally() as second:
        step(x)
    assert first == second == want
    found = collected.statistics
    assert found.outside == {("update", "mac(e6m9)"): 2 * parameters}
    assert found.fmas() == want
    assert found.fma_mix()["mac(e6m9)"] == 2 * parameters / sum(want.values())
    assert numc.Statistics.from_json(found.to_json()) == found
