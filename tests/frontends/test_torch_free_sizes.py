"""PyTorch models that compute with sizes that are free: one program gives torch's results for every size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402

Function = Callable[..., Any]


class Calls(torch.nn.Module):
    """A module that returns what functions make of its inputs."""

    def __init__(self, *functions: Function) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Any) -> Any:
        return [function(*inputs) for function in self.functions]


NUMBERS: list[Function] = [
    lambda x, y: x.new_ones(torch.sym_max(x.shape[0], y.shape[0])),
    lambda x, y: x.new_ones(torch.sym_min(x.shape[0], y.shape[0])),
    lambda x, y: F.pad(x, (0, -x.shape[0] % 4)),
    lambda x, y: x * ((3 * x.shape[0] - 20) % 7),
    lambda x, y: x * (-x.shape[0] // 4),
    lambda x, y: x.new_ones((x.shape[0] >> 1) + x.shape[0] ** 2),
    lambda x, y: x.new_ones(math.floor(x.shape[0] * 0.7) + math.ceil(y.shape[0] / 3)),
    lambda x, y: F.pad(x, (0, math.trunc(2.5 * y.shape[0]))),
    lambda x, y: x * y.shape[0] ** 0.5,
    lambda x, y: x * (x.shape[0] / y.shape[0]) + 1 / y.shape[0],
    lambda x, y: x.clamp(max=y.shape[0] / 10),
]


def test_numbers_that_are_computed_of_sizes() -> None:
    free = ({0: Dim("a", min=4, max=64)}, {0: Dim("b", min=4, max=64)})
    module = Calls(*NUMBERS)
    program = numc.compile(module, (torch.randn(6), torch.randn(8)), dynamic_shapes=(free,))
    for a, b in ((6, 8), (9, 4), (4, 31), (13, 13)):
        x, y = torch.randn(a), torch.randn(b)
        for number, (want, found) in enumerate(zip(module(x, y), program(x, y).values(), strict=True)):
            assert torch.equal(found, want), (number, a, b)


IMAGES: list[Function] = [
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"),
    lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"),
    lambda x: F.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4)),
    lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).sin(), align_corners=False),
]


@pytest.mark.slow
def test_images_of_free_sizes() -> None:
    free = {0: Dim("batch", max=8), 2: Dim("height", min=4, max=64), 3: Dim("width", min=4, max=64)}
    module = Calls(*IMAGES)
    program = numc.compile(module, (torch.randn(2, 3, 8, 10),), dynamic_shapes=((free,),))
    for shape in ((2, 3, 8, 10), (1, 3, 7, 9), (3, 3, 12, 5)):
        x = torch.randn(shape)
        for number, (want, found) in enumerate(zip(module(x), program(x).values(), strict=True)):
            torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5, msg=lambda text, n=number: f"{n}: {text}")


def test_adaptive_pools_of_free_images() -> None:
    free = {0: Dim("batch", max=8), 2: Dim("height", min=4, max=64), 3: Dim("width", min=4, max=64)}
    module = Calls(*(lambda x, n=n: F.adaptive_avg_pool2d(x, n) for n in (1, 3, (2, 6))))
    program = numc.compile(module, (torch.randn(2, 3, 8, 11),), dynamic_shapes=((free,),))
    for shape in ((2, 3, 8, 11), (1, 3, 7, 9), (5, 3, 4, 64)):
        x = torch.randn(shape)
        for want, found in zip(module(x), program(x).values(), strict=True):
            torch.testing.assert_close(found, want)


def test_windows_that_are_parts_of_buffers_of_free_sizes() -> None:
    """What allocations tell of some of their sizes says nothing of the others, with which a part is compared."""
    module = Calls(lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, 3)))
    example = torch.randn(2, 4, 8, 11)
    program = numc.compile(module, (example,), dynamic_shapes=(({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},),))
    for x in (example, torch.randn(3, 4, 8, 11)):
        torch.testing.assert_close(program(x), module(x)[0])


CHECKED: list[tuple[Function, str]] = [
    (lambda x: 2 * x if -x.shape[0] % 4 == 1 else x, r"PythonMod\(-s\d+, 4\)"),
    (lambda x: 2 * x if math.trunc(x.shape[0] * 0.75) == 5 else x, r"TruncToInt\(0.75\*ToFloat\(s\d+\)\)"),
    (lambda x: 2 * x if math.ceil(x.shape[0] / 3) == 3 else x, r"CeilToInt\(IntTrueDiv\(s\d+, 3\)\)"),
]


@pytest.mark.parametrize(("function", "condition"), CHECKED)
def test_what_a_trace_assumed_of_numbers_is_checked(function: Function, condition: str) -> None:
    program = numc.compile(Calls(function), (torch.ones(7),), dynamic_shapes=(({0: Dim.AUTO},),))
    for rows in range(2, 16):
        x = torch.ones(rows)
        if torch.equal(function(x), 2 * x):
            assert torch.equal(program(x), 2 * x)
        else:
            with pytest.raises(numc.NumcError, match=f"^sizes do not fit: .*{condition}"):
                program(x)


def test_an_operation_with_a_free_size_that_cannot_be_compiled_is_named() -> None:
    class Smaller(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, size=(x.shape[2] // 2, 5), mode="bilinear", antialias=True)

    line = Smaller.forward.__code__.co_firstlineno + 1
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(Smaller(), (torch.randn(1, 2, 8, 10),), dynamic_shapes=({2: Dim("height", min=4, max=64)},))
    named = f"aten._upsample_bilinear2d_aa.default ({__file__}:{line}): "
    assert str(caught.value).startswith(f"Smaller: 1 operation cannot be compiled: {named}")


FEW: list[Function] = [
    *(lambda x, c=c: x.var(0, correction=c) for c in (0, 1, 1.5, 2)),
    lambda x: x.std(0, correction=2, keepdim=True),
    lambda x: torch.var_mean(x, (0, 1), correction=5)[0],
    lambda x: x.var(correction=2.5).to(torch.float32) + x.std(1).sum(),
    torch.median,
    torch.nanmedian,
]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_moments_and_medians_of_few_numbers_or_none() -> None:
    """A variance divides by zero where no more numbers than the correction are there, and not by a negative number."""
    module = Calls(*FEW)
    free = ({0: Dim.DYNAMIC},)
    program = numc.compile(module, (torch.randn(4, 3),), dynamic_shapes=(free,))
    for rows in (0, 1, 2, 3, 6):
        x = torch.randn(rows, 3)
        for number, (want, found) in enumerate(zip(module(x), program(x).values(), strict=True)):
            torch.testing.assert_close(found, want, equal_nan=True, msg=lambda text, n=number: f"{n}: {text}")


@pytest.mark.all
def test_deviations_of_narrow_dtypes_are_rounded_once() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = (3 * torch.randn(50, 40)).to(dtype)
        program = numc.compile(Calls(lambda x: x.std(0)), (x,), dynamic_shapes=(({0: Dim.DYNAMIC},),))
        assert torch.equal(program(x), x.std(0))


@pytest.mark.parametrize("parts", [2, 4])
def test_splits_into_parts_that_differ(parts: int) -> None:
    module = Calls(lambda x: [part + 1 for part in torch.tensor_split(x, parts)])
    program = numc.compile(module, (torch.rand(11, 2),), dynamic_shapes=(({0: Dim.AUTO},),))
    for size in (8, 9, 10, 11, 15):
        value = torch.rand(size, 2)
        for got, want in zip(program(value).values(), module(value)[0], strict=True):
            assert torch.equal(got, want), size


def test_norms_of_groups() -> None:
    """torch's own decomposition ends with a view by strides, of sizes that are free."""
    module = Calls(lambda x, w: F.group_norm(x, 4, w, w - 1))
    given = torch.randn(2, 8, 5), torch.randn(8)
    program = numc.compile(module, given, dynamic_shapes=(({0: Dim.AUTO, 2: Dim.AUTO}, {}),))
    for sizes in ((2, 8, 5), (1, 8, 1), (7, 8, 12), (0, 8, 3)):
        value = torch.randn(sizes)
        torch.testing.assert_close(program(value, given[1]), module(value, given[1])[0])


def test_a_size_up_to_a_limit_may_be_1_and_0() -> None:
    """torch traces it as 2 at least, whatever the model does, and runs what it has traced for less."""
    table = torch.randn(20)
    program = numc.compile(
        Calls(lambda x: x + table[: x.shape[0]]), (torch.randn(8),), dynamic_shapes=(({0: Dim.AUTO},),)
    )
    for size in (8, 1, 0, 20):
        value = torch.randn(size)
        assert torch.equal(program(value), value + table[:size])
    with pytest.raises(numc.NumcError, match="is 21, want 0 to 20"):
        program(torch.randn(21))


def test_slices_from_what_a_free_size_leaves_of_a_fixed_one() -> None:
    """Of a row for all, such as positions of alibi, everything is taken, however long the sequence is."""
    row, table = torch.randn(1, 1, 20), torch.randn(1, 20)
    module = Calls(
        lambda x: x + row[:, max(0, row.shape[1] - x.shape[1]) :, max(0, 20 - x.shape[2]) :],
        lambda x: x[0] + table[:, max(0, 20 - x.shape[2]) :],
    )
    program = numc.compile(module, (torch.randn(2, 8, 8),), dynamic_shapes=(({1: Dim.AUTO, 2: Dim.AUTO},),))
    for sizes in ((2, 8, 8), (2, 3, 12), (2, 1, 20), (2, 30, 5)):
        value = torch.randn(sizes)
        for got, want in zip(program(value).values(), module(value), strict=True):
            assert torch.equal(got, want)


def test_how_slices_lie_in_memory_is_no_condition_of_a_run() -> None:
    """torch asks whether a slice is contiguous, which the program has no need to know."""
    module = Calls(
        lambda x: x[:, : min(5, x.shape[1])] * 2,
        lambda x: x[:, max(x.shape[1] - 4, 0) :] * 2,
        lambda x: x.narrow(1, 0, min(x.shape[1], 6)) + 1,
        lambda x: x[:, : x.shape[1] // 2].sum(1),
    )
    program = numc.compile(module, (torch.randn(2, 8, 4),), dynamic_shapes=(({1: Dim.AUTO},),))
    for size in (8, 12, 5, 4, 3, 1, 0):
        value = torch.randn(2, size, 4)
        for got, want in zip(program(value).values(), module(value), strict=True):
            torch.testing.assert_close(got, want)
