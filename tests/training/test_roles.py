"""Arithmetics by role: what names mean, and which operation of a training graph gets which operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from numc.compiler.options import Options
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import FMAS
from numc.numerics.policy.layer import ROLES
from numc.numerics.policy.load import arithmetic
from numc.numerics.policy.presets import PRESETS, Arithmetic
from numc.support.errors import NumcError

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

import numc  # noqa: E402

EVERY = dict(zip(ROLES, ("mp", "bf16_1_1", "bf16_1_2", "bf16_1_3", "bf16_2_2{3}", "bf16_3_3{6}"), strict=True))


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_presets_and_operators_are_names() -> None:
    assert arithmetic() == arithmetic("fp32") == Arithmetic()
    assert arithmetic("bf16_1_2") == Arithmetic("bf16_1_2")
    assert {role: fma for role, fma, _ in arithmetic("mp").roles} == dict.fromkeys(
        ("norm", "softmax", "update"), "fp32"
    )
    for name in ("lowbfp", "midbfp", "highbfp", "msfp12", "int8", "int12"):
        fmas = {role: fma for role, fma, _ in arithmetic(name).roles}
        assert fmas == {"forward": name, "norm": "fp32", "softmax": "fp32", "update": "fp32"}
        assert arithmetic(name).fma == f"fma(a={name}:sr8,b={name},acc=fp32)"  # of gradients, which are A
    for name in PRESETS:
        Options(policy=arithmetic(name).policy()).resolved()


def test_what_is_given_takes_the_place_of_the_preset() -> None:
    found = arithmetic("bf16", update="bf16_1_2", norm=("mp", "bf16"), ops="fp16")
    assert (found.fma, found.ops) == ("bf16_1_1", "fp16")
    # An operator comes with the format of everything else, but fp32 is fp32.
    assert found.roles == (
        ("norm", "mp", "bf16"), ("softmax", "fp32", "fp32"), ("update", "bf16_1_2", "fp16")
    )  # fmt: skip
    assert arithmetic(found, update="fp32").roles[-1] == ("update", "fp32", "fp32")


def test_unknown_names() -> None:
    with pytest.raises(
        NumcError,
        match="^unknown role 'wgard' \\(did you mean 'wgrad' or 'forward'\\?\\): want fma, ops, forward, dgrad",
    ):
        numc.backend(wgard="mp")
    with pytest.raises(NumcError, match="bf16_1_4"):
        numc.backend("bf16_1_4")
    with pytest.raises(NumcError, match="bf61"):
        numc.arithmetic(update=("mp", "bf61"))
    with pytest.raises(NumcError, match="^fma and ops are one text each; a role may be a pair of both$"):
        numc.backend(fma=("mp", "fp32"))


def test_an_operator_with_its_operands_exchanged() -> None:
    fma = parse_fma("fma(a=e5m2,b=e4m3,acc=fp32)")
    assert fma.swapped == parse_fma("fma(a=e4m3,b=e5m2,acc=fp32)")
    assert FMAS["mp"].swapped is FMAS["mp"]


def contractions(backend: Any) -> dict[str, str]:
    """Return the operators of everything that a backend compiled, by name."""
    programs = [program for region in backend.regions for program in region.programs.values()]
    return {c["name"]: c["fma"] for program in programs for c in program.manifest["contractions"]}


class Net(nn.Module):
    """A convolution, a norm, two dense layers and a softmax between products."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        y = self.mix(torch.relu(self.norm(self.conv(x))).flatten(2))
        weights = torch.softmax(y @ y.transpose(1, 2), 2)
        return self.head(weights @ y).mean(1)


def train(model: nn.Module, backend: Any, *inputs: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=0.1)

    def step(*inputs: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*inputs), torch.arange(inputs[0].shape[0]) % 4)
        loss.backward()
        optimizer.step()
        return loss

    torch.compile(step, backend=backend)(*inputs)


def test_every_role_gets_its_operator() -> None:
    torch.manual_seed(0)
    backend = numc.backend(**EVERY)
    train(Net(), backend, torch.randn(3, 2, 8, 8))
    found = contractions(backend)
    assert found == {
        "model.conv": "mp", "model.mix": "mp", "model/bmm": "mp", "model/bmm_2": "mp", "model.head": "mp",
        "model.head/dgrad": "bf16_1_1", "model/dgrad": "bf16_1_1", "model/dgrad_2": "bf16_1_1",
        "model/dgrad_3": "bf16_1_1", "model/dgrad_4": "bf16_1_1", "model.mix/dgrad": "bf16_1_1",
        "model.head/wgrad": "bf16_1_2", "model.mix/wgrad": "bf16_1_2", "model.conv/wgrad": "bf16_1_2",
    }  # fmt: skip
    # Multiply-adds that are no contractions have the operator of their role too.
    used = [operators(region, backend) for region in backend.regions]
    forward, backward, *updates = used
    assert forward == {EVERY["forward"]}
    assert backward == {EVERY["dgrad"], EVERY["wgrad"]}
    assert set.union(*updates) == {EVERY["update"]}


def operators(region: Any, backend: Any) -> set[str]:
    """Return the operators in the IR of a region."""
    return set(re.findall(r'fma = "([^"]*)"', region.program(backend.arithmetic).contents.ir))


def test_the_gradient_is_the_first_operand_of_the_operator() -> None:
    torch.manual_seed(0)
    backend = numc.backend("fma(a=e5m2,b=e4m3,acc=fp32)", forward="mp")
    train(nn.Sequential(nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 4)), backend,
          torch.randn(3, 2, 8, 8))  # fmt: skip
    found = {name: fma for name, fma in contractions(backend).items() if "/" in name}
    # In the graph, a convolution's wgrad is a convolution of the input with the gradient.
    first, second = "hfp8_bwd", "fma(a=e4m3,b=e5m2,acc=fp32)"
    assert found == {
        "model.3/dgrad": first, "model.3/wgrad": first, "model.1/dgrad": first,
        "model.1/wgrad": second, "model.0/wgrad": second,
    }  # fmt: skip


POLICY = """
default bf16_1_1
layer "model.mix" mp
op conv, layer_norm bf16_1_2
role dgrad, wgrad fma = fma(a=e5m2, b=e4m3, acc=fp32)
layer "*.head/dgrad" acc = bf16
role update bf16_2_2{3}
"""


@pytest.mark.slow
def test_a_policy_chooses_layer_by_layer_in_training(tmp_path: Any) -> None:
    """Rules that match nothing in one of the graphs of a step are no errors: another graph has the layer."""
    torch.manual_seed(0)
    (tmp_path / "net.policy").write_text(POLICY)
    backend = numc.backend(policy=tmp_path / "net.policy")
    train(Net(), backend, torch.randn(3, 2, 8, 8))
    found = contractions(backend)
    first, second = "hfp8_bwd", "fma(a=e4m3,b=e5m2,acc=fp32)"
    assert {found[name] for name in found if name.endswith("wgrad")} <= {first, second}
    assert {name: found[name] for name in ("model.conv", "model.mix", "model.head", "model.head/dgrad")} == {
        "model.conv": "bf16_1_2", "model.mix": "mp", "model.head": "bf16_1_1",
        "model.head/dgrad": "fma(a=e5m2,b=e4m3,acc=bf16)",
    }  # fmt: skip
    assert set.union(*(operators(region, backend) for region in backend.regions[2:])) == {"bf16_2_2{3}"}
    with numc.arithmetic(policy="default mp"):
        train(Net(), backend, torch.randn(3, 2, 8, 8))
    with pytest.raises(
        NumcError, match="^a policy says what every operation computes in: leave operators, formats and"
    ):
        numc.backend("mp", policy=POLICY)
    with pytest.raises(
        NumcError, match="^a policy says what every operation computes in: leave operators, formats and"
    ):
        numc.backend(policy=POLICY, update="fp32")


def test_explain_has_the_table_of_both_directions() -> None:
    explained = numc.explain(Net(), torch.randn(3, 2, 8, 8), policy="default bf16_1_1\nrole wgrad mp")
    assert {(row["role"], row["fma"]) for row in explained.layers if row["position"] is not None} == {
        ("forward", "bf16_1_1"), ("dgrad", "bf16_1_1"), ("wgrad", "mp")
    }  # fmt: skip
    found = numc.cost(Net(), torch.randn(3, 2, 8, 8), policy="default mp")
    assert len(found.costs) == sum(row["position"] is not None for row in explained.layers)
    assert found.iso_area == 9
    assert ("softmax", None) in {(row["role"], row["fma"]) for row in explained.layers}


def test_fp32_roles_are_untouched_by_the_format_of_other_operations() -> None:
    backend = numc.backend("bf16")
    train(nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 4)), backend, torch.randn(6, 8))
    forward, backward, *updates = (r.program(backend.arithmetic).contents.ir for r in backend.regions)
    assert 'numc.round"' in forward
    assert 'numc.round"' in backward
    assert not any("numc.round" in text for text in updates)
    assert 'loc("model.0/norm")' in forward


def test_recomputed_operations_have_the_arithmetic_of_the_forward_pass() -> None:
    """Whatever the backward pass computes again instead of keeping: the gradient of exp is exp."""
    backend = numc.backend(ops="fp32", forward=("fp32", "e4m3fn"), dgrad="fp32", wgrad="fp32")
    x = torch.linspace(-1, 1, 16, requires_grad=True)
    y = torch.compile(lambda x: (x.cos() * 2).exp(), backend=backend)(x)
    y.sum().backward()
    assert torch.equal(numc_round(y.detach()), y.detach())
    kept = torch.compile(lambda x: (x.cos() * 2).exp(), backend=numc.backend(ops="fp32"))(x)
    assert not torch.equal(kept, y)


def numc_round(x: Any) -> Any:
    return torch.from_numpy(numc.round(x.numpy(), "e4m3fn"))
