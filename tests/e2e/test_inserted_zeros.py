"""Transposed convolutions with weights that are not finite: nothing multiplies them by zeros that the model lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import numc
from numc.passes.tensors.products.inserted_zeros import FINITE, LARGEST

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

Array = npt.NDArray[np.float32]
INF = float("inf")

# Sizes of the image and of the weight, and what else the operation takes.
SHAPES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "image": ((2, 4, 4, 5), (4, 2, 3, 3), {"stride": (2, 3), "padding": 1, "output_padding": (1, 0)}),
    "stride 1": ((1, 2, 4, 4), (2, 3, 3, 3), {"dilation": 2}),
    "line in groups": ((2, 4, 6), (4, 1, 4), {"stride": 2, "groups": 2}),
    "volume in groups": ((1, 4, 3, 2, 4), (4, 2, 2, 3, 2), {"stride": 2, "groups": 2}),
    "depthwise": ((1, 4, 4, 4), (4, 1, 3, 2), {"stride": 2, "groups": 4}),
    "padding beyond windows": ((2, 2, 4, 5), (2, 2, 1, 3), {"stride": 2, "padding": (1, 1)}),
}


class Transposed(torch.nn.Module):
    """A transposed convolution whose weight is its own, or its second input."""

    def __init__(self, weight: torch.Tensor, options: dict[str, Any]) -> None:
        super().__init__()
        self.weight, self.options = torch.nn.Parameter(weight), options
        self.function = getattr(F, f"conv_transpose{weight.dim() - 2}d")

    def forward(self, x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        """The convolution."""
        found: torch.Tensor = self.function(x, self.weight if weight is None else weight, None, **self.options)
        return found


def drawn(shape: tuple[int, ...], *special: float) -> torch.Tensor:
    """Numbers, with special ones at places of their own."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    for n, value in enumerate(special):
        made.view(-1)[(5 + 7 * n) % made.numel()] = value
    return made


def eager(function: Any, *arguments: Any) -> Array:
    """What torch computes by products of matrices alone: oneDNN, too, multiplies some zeros."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        found: Array = function(*arguments).detach().numpy()
    finally:
        torch._C._set_mkldnn_enabled(before)
    return found


def same_specials(found: Array, wanted: Array) -> bool:
    """Whether NaN and both infinities are at the same places."""
    return all(np.array_equal(kind(found), kind(wanted)) for kind in (np.isnan, np.isposinf, np.isneginf))


OPERATORS = ("fp32", "bf16_1_1", "fmac(e6m9, chunk=8)", "amx_bf16", "fmac(bf16, datapath=fused(l=4,bits=9))")
SPECIALS = ((INF,), (INF, -INF), (float("nan"), INF))
QUICK = [("line in groups", "fp32", SPECIALS[1]), ("padding beyond windows", "fmac(e6m9, chunk=8)", SPECIALS[2])]


@pytest.mark.parametrize(
    ("name", "fma", "special"),
    [
        *QUICK,
        *(
            pytest.param(name, fma, special, marks=pytest.mark.slow)
            for name in SHAPES
            for fma in (*OPERATORS, "avx512_bf16", "mac(e6m9)", "fmac(e6m9:sr8)")
            for special in SPECIALS
            if (name, fma, special) not in QUICK
        ),
    ],
)
def test_a_weight_reaches_what_it_reaches_in_torch(name: str, fma: str, special: tuple[float, ...]) -> None:
    size, kernel, options = SHAPES[name]
    x, weight = drawn(size), drawn(kernel, *special)
    module = Transposed(weight, options)
    wanted = eager(module, x)
    seed = {"seed": 1} if ":sr" in fma else {}
    given = numc.compile(module, (x, weight), fma=fma)
    found = given(x.numpy(), weight.numpy(), **seed)
    assert same_specials(found, wanted)
    # What no special weight reaches has the bits that it has without them.
    finite = np.isfinite(wanted)
    assert finite.any()
    without = given(x.numpy(), torch.where(weight.isfinite(), weight, 0).numpy(), **seed)
    assert found[finite].tobytes() == without[finite].tobytes()
    own = numc.compile(module, (x,), fma=fma)(x.numpy(), **seed)
    assert same_specials(own, wanted)
    assert own[finite].tobytes() == found[finite].tobytes()


def test_a_weight_that_its_format_has_not_is_an_infinity_there() -> None:
    x, weight = drawn((1, 2, 3, 4)), drawn((2, 3, 3, 3), 1e6)
    module = Transposed(weight, {"stride": 2})
    infinite = Transposed(torch.where(weight == 1e6, INF, weight), {"stride": 2})
    found = numc.compile(module, (x,), fma="fma(a=fp16,acc=fp32)")(x.numpy())
    assert same_specials(found, eager(infinite, x))


def test_nothing_is_done_for_weights_that_are_known_to_be_finite() -> None:
    x, weight = drawn((1, 2, 3, 4)), drawn((2, 3, 3, 3))
    module = Transposed(weight, {"stride": 2})
    assert LARGEST in str(numc.lower(module, (x,), to="linalg"))
    known, given = (str(numc.lower(module, inputs, to="tensors")) for inputs in ((x,), (x, weight)))
    assert "maximumf" not in known  # no run looks at them
    assert "maximumf" in given
    assert FINITE not in known


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"padding": 1}, marks=pytest.mark.all),
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in ({"stride": 2, "padding": 1}, {"stride": 2, "groups": 2}, {"dilation": 2, "padding": 1})
        ),
    ],
)
def test_gradients_of_inputs(options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    x, weight = drawn((2, 2, 5, 6)), drawn((4, 2 // groups, 3, 3), INF, -INF)

    def gradient(function: Any) -> torch.Tensor:
        value = x.clone().requires_grad_()
        result = function(value, weight)
        result.backward(drawn(tuple(result.shape)))
        assert value.grad is not None
        return value.grad

    def convolved(value: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        return F.conv2d(value, kernel, None, **options)

    found = gradient(torch.compile(convolved, backend=numc.backend()))
    assert same_specials(found.numpy(), eager(gradient, convolved))


@pytest.mark.parametrize(
    ("pads", "kernel"),
    [
        ((1, 0, 1, 0), (1, 3)),
        *(
            pytest.param(pads, kernel, marks=pytest.mark.slow)
            for pads, kernel in (((1, 1, 1, 1), (3, 3)), ((1, 0, 0, 1), (3, 2)))
        ),
    ],
)
def test_onnx(pads: tuple[int, ...], kernel: tuple[int, int]) -> None:
    x, weight = drawn((1, 4, 4, 5)).numpy(), drawn((4, 2, *kernel), INF, -INF).numpy()
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=pads, strides=[2, 2])
    graph = helper.make_graph(
        [node],
        "transposed",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with np.errstate(invalid="ignore"):
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert same_specials(numc.compile(model)(x), wanted)


def test_zeros_of_the_model_are_multiplied() -> None:
    x, weight = drawn((1, 2, 4, 4)), drawn((3, 2, 3, 3), INF)

    class Padded(torch.nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            wide = torch.zeros(1, 2, 7, 7)
            wide[:, :, ::2, ::2] = value
            return F.conv2d(wide, weight, padding=1)

    assert same_specials(numc.compile(Padded(), (x,))(x.numpy()), eager(Padded(), x))
