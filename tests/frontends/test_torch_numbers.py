"""Numbers beside tensors of integers, and operations on zeros, infinities, NaN and nothing, to the bit as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402
from tests.shared.torch_modules import Calls  # noqa: E402

NAN, INF = float("nan"), float("inf")
Functions = list[Callable[..., Any]]


def found(functions: Functions, *inputs: Any) -> list[tuple[Any, Any]]:
    """What one program makes of all functions, and what eager torch does."""
    module = Calls(lambda *given: [function(*given) for function in functions])
    results = numc.compile(module, inputs)(*inputs)
    got = list(results.values()) if isinstance(results, dict) else [results]
    return list(zip(got, torch.utils._pytree.tree_leaves(module(*inputs)), strict=True))


def check(functions: Functions, *inputs: Any, rtol: float = 0.0) -> None:
    """The results are those of torch, with the signs of zeros; rtol: how far others may be from them."""
    for number, (got, want) in enumerate(found(functions, *inputs)):
        torch.testing.assert_close(
            got, want, rtol=rtol, atol=0, equal_nan=True, msg=lambda text, n=number: f"{n}: {text}"
        )
        if want.is_floating_point():
            zero = (want == 0) & (got == 0)
            assert torch.equal(got.signbit() & zero, want.signbit() & zero), number


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        pytest.param("uint8", -7, marks=pytest.mark.all),
        ("int8", 300),
        *(pytest.param(*given, marks=pytest.mark.slow) for given in (("int16", 70000), ("int32", 2**40 + 3))),
    ],
)
def test_numbers_become_the_integers_of_the_tensor(dtype: str, number: int) -> None:
    limits = torch.iinfo(getattr(torch, dtype))
    value = torch.tensor([limits.min, limits.max, 1, 2, 3, 7, 44, limits.max - 1], dtype=getattr(torch, dtype))
    scalar = torch.tensor(number)
    check(
        [
            *(lambda x: x > number, lambda x: x == number, lambda x: x > scalar, lambda x: x != scalar),
            *(lambda x: x % number, lambda x: torch.remainder(x, scalar), lambda x: torch.remainder(number, x | 1)),
            *(lambda x: x // number, lambda x: torch.div(x, scalar, rounding_mode="trunc"), lambda x: x - number),
            *(lambda x: x * number, lambda x: x - 3, lambda x: x * 5, lambda x: x % 3),
            *(lambda x: torch.maximum(x, scalar), lambda x: torch.bitwise_and(number, x)),
            lambda x: torch.isin(x, number),
        ],
        value,
    )


def test_numbers_beside_floats() -> None:
    value = torch.tensor([-2.0, 0.5, 3.0])
    check(
        [lambda x: 2**x, lambda x: 2.5**x, lambda x: torch.remainder(7, x), lambda x: torch.fmod(x, 300)],
        value,
        rtol=2e-7,
    )
    check([lambda x: 2**x, lambda x: torch.remainder(7.5, x)], torch.tensor([1, 2, 3]))


def test_zeros_keep_their_signs_in_relu() -> None:
    value = torch.tensor([-0.0, 0.0, -1.0, 1.0, NAN, INF, -INF])
    check([torch.relu, lambda x: torch.relu(x.half()), lambda x: torch.relu(x.double())], value)
    for kind, dtype in ((TensorProto.FLOAT, torch.float32), (TensorProto.DOUBLE, torch.float64)):
        value = value.to(dtype)
        given, made = (helper.make_tensor_value_info(name, kind, [7]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [given], [made])
        model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        got = torch.as_tensor(numc.compile(model)(value.numpy()))  # as onnxruntime has it
        want = torch.relu(value)
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.nan_to_num(), want.nan_to_num())
        assert torch.equal(got.signbit() & (got == 0), want.signbit() & (want == 0))


def test_moments_and_sums_of_powers_do_not_overflow_on_the_way() -> None:
    large = torch.tensor([3e38, -3e38, 1e38, 2e38])
    check([torch.std, lambda x: x.std(0, correction=0), lambda x: torch.std_mean(x)[0], torch.var], large, rtol=2e-7)
    small, smaller = torch.tensor([0.0, 0.0, 5.0, INF, -INF, NAN]), torch.tensor([-30.0, -25.0, -40.0, INF, -INF, 1])
    check([torch.logaddexp2, torch.logaddexp], small, smaller, rtol=3e-7)


@pytest.mark.all
def test_determinants_exchange_rows() -> None:
    matrices = torch.tensor(
        [[[0.0, 1], [1, 0]], [[1, 2], [2, 4]], [[0, 0], [0, 0]], [[1, 3], [-4, 2]], [[4, 2], [1, 1]]]
    )
    check([torch.det, torch.linalg.slogdet], matrices, rtol=1e-6)


def test_the_median_of_nothing() -> None:
    free = (({0: Dim.AUTO},),)
    program = numc.compile(Calls(lambda x: x.median()), (torch.arange(4),), dynamic_shapes=free)
    for given in ([], [5, 1, 4, 2], [5, 1, 4], [-(2**63), 7]):
        value = torch.tensor(given, dtype=torch.int64)
        assert program(value) == value.median(), given


@pytest.mark.all
def test_what_lies_between_an_infinity_and_its_neighbour() -> None:
    lines = torch.tensor([[[INF, 1.0, NAN, 4.0, 5.0], [2.0, 3.0, -INF, 6.0, 7.0]]])
    image = lines.reshape(1, 2, 5, 1).expand(1, 2, 5, 3).contiguous()
    check(
        [
            lambda x, y: F.interpolate(x, 9, mode="linear"),
            lambda x, y: F.interpolate(x, 4, mode="linear", align_corners=True),
            lambda x, y: F.interpolate(x, scale_factor=1.7, mode="linear"),
            lambda x, y: F.interpolate(y, (8, 7), mode="bilinear"),
            lambda x, y: F.interpolate(y[None], (4, 8, 7), mode="trilinear"),
        ],
        lines,
        image,
        rtol=1e-6,
    )
    # Along a dimension that keeps its size, torch multiplies the infinity by 0.
    ((got, _),) = found([lambda x: F.interpolate(x[None], (2, 9), mode="bilinear")], lines)
    torch.testing.assert_close(got[0], F.interpolate(lines, 9, mode="linear"), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param([("bilinear", "zeros", False)], marks=pytest.mark.all),
        pytest.param([("bilinear", "border", True), ("bilinear", "reflection", False)], marks=pytest.mark.slow),
        pytest.param([("nearest", "zeros", False), ("nearest", "reflection", True)], marks=pytest.mark.slow),
        pytest.param([("bicubic", "zeros", True), ("bicubic", "border", False)], marks=pytest.mark.slow),
    ],
)
def test_images_are_sampled_outside_of_numbers(modes: list[tuple[str, str, bool]]) -> None:
    torch.manual_seed(0)
    odd = [(NAN, 0.3), (0.3, NAN), (NAN, NAN), (INF, 0.3), (-INF, 0.3), (0.3, INF), (3e38, 0.3), (1e5, 0.3), (-0.0, 0)]
    grid = torch.cat([torch.tensor(odd), 3 * torch.rand(11, 2) - 1.5]).reshape(1, 4, 5, 2)
    functions = [
        lambda x, y, m=m, p=p, c=c: F.grid_sample(x, y, mode=m, padding_mode=p, align_corners=c) for m, p, c in modes
    ]
    for number, (got, want) in enumerate(found(functions, torch.randn(1, 2, 3, 4), grid)):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True, msg=lambda t, n=number: f"{n}: {t}")
