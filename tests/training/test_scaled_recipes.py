"""Training by the recipes of FP8 and FP4: every role has its operator, and the bits are those of the seed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402
from numc.numerics.grammar import parse_fma  # noqa: E402
from numc.numerics.recipes import BF16, RECIPES  # noqa: E402

pytestmark = pytest.mark.all


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(48, 40), torch.nn.ReLU(), torch.nn.Linear(40, 32), torch.nn.Linear(32, 4)
    )


def gradients(name: str, sizes: tuple[int, ...] = (24,), seed: int = 0) -> list[list[torch.Tensor]]:
    torch._dynamo.reset()
    model = network()
    compiled = torch.compile(model, backend=numc.backend(name), dynamic=True if len(sizes) > 1 else None)
    found = []
    for size in sizes:
        model.zero_grad()
        x = torch.randn(size, 48, generator=torch.Generator().manual_seed(seed))
        recipe = numc.train.Static(name)
        with recipe:
            compiled(x).square().sum().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters()])
    return found


@pytest.mark.parametrize("name", ["te_fp8@hopper", "nvfp4@blackwell"])
def test_gradients_are_near_those_of_fp32_and_have_their_bits_again(name: str) -> None:
    (exact,), (once,), (again,) = gradients("fp32"), gradients(name), gradients(name)
    for one, two, three in zip(exact, once, again, strict=True):
        assert torch.equal(two, three)
        distance = float((one - two).norm() / one.norm())
        assert distance < 0.5
    assert any(not torch.equal(one, two) for one, two in zip(exact, once, strict=True))


def test_every_role_has_its_operator() -> None:
    operators = RECIPES["nvfp4@blackwell"]
    table = numc.explain(network(), (torch.randn(24, 48),), policy="nvfp4@blackwell")
    rows = [row for row in table.layers if row["position"] is not None]
    last, others = (
        [row for row in rows if (row["layer"].split("/")[0] == "3") == is_last] for is_last in (True, False)
    )
    assert {row["role"] for row in rows} == {"forward", "dgrad", "wgrad"}
    assert {row["fma"] for row in last} == {str(parse_fma(BF16))}
    for row in others:
        assert row["fma"] == str(parse_fma(operators[row["role"]]))


def test_free_sizes_are_compiled_for_each_combination() -> None:
    once, twice = gradients("te_fp8@hopper", (24, 16))
    assert all(torch.isfinite(x).all() for x in (*once, *twice))
