"""The sensitivity of a training step: errors of gradients beside products that are computed apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import numc
from html_pages import Page
from numc.studies.sensitivity.records import Part

OPERATOR = "fmac(e4m3)"


def parts_of(module: torch.nn.Module, x: torch.Tensor, loss) -> dict[tuple[str, str], Part]:  # type: ignore[no-untyped-def]
    found = numc.training_sensitivity(module, (x,), loss, fma=OPERATOR, widths=(7,))
    return {(part.what, part.name): part for part in found.parts}


def test_gradients_of_weights_are_products_in_the_operator() -> None:
    """Of one linear layer the gradient is wanted' x: neither the forward pass nor a gradient of the inputs is in it."""
    torch.manual_seed(1)
    layer, x, wanted = torch.nn.Linear(6, 5, bias=False), torch.randn(9, 6), torch.randn(9, 5)
    layer.weight.grad = torch.ones(5, 6)
    state = torch.random.get_rng_state()
    parts = parts_of(layer, x, lambda out: (out * wanted).sum())
    assert torch.equal(layer.weight.grad, torch.ones(5, 6))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.compile(layer, backend=numc.backend(), fullgraph=True)(x)  # which torch refuses to trace too often
    exact = numc.matmul(wanted.T.numpy(), x.numpy(), fma="fp32").astype(np.float64)
    texts = {"all": OPERATOR, "accumulator": "fma(a=e4m3,acc=e4m7)"}
    for (what, name), part in parts.items():
        if what in texts or name == "wgrad":
            narrow = numc.matmul(wanted.T.numpy(), x.numpy(), fma=texts.get(what, OPERATOR))
            assert part.error == pytest.approx(((narrow - exact) ** 2).sum() / (exact**2).sum(), rel=1e-12), what
    assert parts["role", "wgrad"].error == parts["all", "everything"].error > 0
    assert [part.share for (what, _), part in parts.items() if what == "layer"] == [0.5, 0.5]  # of no module
    assert (parts["role", "forward"].share, parts["role", "wgrad"].share, parts["role", "dgrad"].share) == (
        0.5,
        0.5,
        None,
    )
    assert parts["role", "forward"].error == parts["role", "dgrad"].error == 0


@pytest.mark.slow
def test_each_role_of_a_network_is_alone() -> None:
    """Each row is a step of torch.compile in its policy; dgrad is of the first layer's gradient alone."""
    torch.manual_seed(2)
    network = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))
    x = torch.randn(20, 8)
    parts = parts_of(network, x, lambda out: (out**2).sum())
    assert [name for what, name in parts if what == "layer"] == ["0", "2"]
    assert parts["layer", "2"].share == 9 / 25  # forward, dgrad and wgrad of 12 x 3, and two of 8 x 12
    for part in parts.values():
        gradients = []
        for policy in (part.policy, "default fp32"):
            network.zero_grad()
            torch._dynamo.reset()
            torch.compile(network, backend=numc.backend(policy=policy))(x).pow(2).sum().backward()
            gradients.append([each.grad.double().clone() for each in network.parameters()])
        narrow, exact = (torch.cat([each.ravel() for each in some]) for some in gradients)
        assert part.error == pytest.approx(float(((narrow - exact) ** 2).sum() / (exact**2).sum()), rel=1e-9), part.name
        if part.name == "0":
            assert torch.equal(gradients[0][3], gradients[1][3]) != bool(part.error)
        if part.name == "dgrad":
            assert torch.equal(gradients[0][2], gradients[1][2])
            assert not torch.equal(gradients[0][0], gradients[1][0])


def test_wrong_arguments_are_a_line() -> None:
    layer, x = torch.nn.Linear(2, 2), torch.randn(3, 2)

    def run(module=layer, inputs=(x,), loss=torch.sum, fma=OPERATOR, widths=(7,)) -> None:  # type: ignore[no-untyped-def]
        numc.training_sensitivity(module, inputs, loss, fma=fma, widths=widths)

    with pytest.raises(numc.NumcError, match="module: .*want a module of PyTorch"):
        run(module=torch.sum)
    with pytest.raises(numc.NumcError, match="inputs: .*want a sequence of tensors"):
        run(inputs=x)
    with pytest.raises(numc.NumcError, match="loss: .*want"):
        run(loss="mse")
    with pytest.raises(numc.NumcError, match="a width of widths: got 24, want .*1.*23"):
        run(widths=(24,))
    with pytest.raises(
        numc.NumcError, match="loss: want a function that returns a tensor of one number and a gradient"
    ):
        run(loss=lambda out: out)
    with pytest.raises(numc.NumcError, match="all gradients are zero in fp32, so that errors have no scale"):
        run(loss=lambda out: 0 * out.sum())
    with pytest.raises(numc.NumcError, match="the step has no contractions, and so nothing that an operator computes"):
        run(module=torch.nn.LayerNorm(2), loss=lambda out: (out**3).sum())


@pytest.mark.slow
def test_the_page_and_the_charts_are_of_gradients(tmp_path) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(3)
    network = torch.nn.Sequential()
    for name, layer in (("in[*]", torch.nn.Linear(4, 5)), ("tanh", torch.nn.Tanh()), ('"2"', torch.nn.Linear(5, 2))):
        network.add_module(name, layer)
    said: list[tuple[str, float]] = []
    found = numc.training_sensitivity(
        network, (torch.randn(6, 4),), lambda out: (out**2).sum(), fma=OPERATOR, widths=(3, 7),
        progress=lambda text, fraction: said.append((text, fraction)),
    )  # fmt: skip
    assert (found.model, found.samples, found.metrics, found.measured) == ("Sequential", 6, (), "gradients")
    assert said[0] == ("fp32", 0.0)
    layers = found.of("layer")
    assert [f"layer {part.name}" for part in layers] == [text for text, _ in said if text.startswith("layer")]
    assert [part.error > 0 for part in layers] == [True, True]  # names in which patterns have a meaning are found
    assert [fraction for _, fraction in said] == sorted({fraction for _, fraction in said})
    found.write_report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    page.check_alone(text)
    assert "the gradients x against those in fp32, r" in text
    assert "samples of one training step" in text
    assert {"e4m7", "wgrad"} <= {each.strip() for each in page.texts}
    names = {path.name for path in found.write_plots(tmp_path)}
    assert names == {f"{chart}-error.{kind}" for chart in ("layers", "accumulator") for kind in ("png", "svg")}
