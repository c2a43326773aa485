"""Elements that are looked up: images that are resized, and chosen rows and columns, against eager torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import numc
from numc.support.errors import NumcError
from tiers import by_default


class Several(nn.Module):
    """Functions of the same tensors as one module."""

    def __init__(self, functions: list[Callable[..., Tensor]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(*inputs) for function in self.functions)


def resized(*sizes: int, **options: object) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.interpolate(x, sizes, **options)


# Vectors of a row that lie in one vector, across the end of the row, and too far apart for one; few of them and many.
NEAREST = [resized(29, 67), resized(7, 9), resized(20, 140), resized(4, 280), resized(13, 61, mode="nearest-exact")]
LINEAR = [resized(n, m, mode="bilinear", align_corners=a) for n, m, a in [(29, 67, False), (7, 39, True)]]
ROWS, COLUMNS = torch.tensor([7, -1, 0, 3, -9]), torch.randperm(83, generator=torch.Generator().manual_seed(1)) - 40
CHOSEN = [
    lambda x, i, j: x[i[:, None], j],
    lambda x, i, j: x[:, j] + 1,
    lambda x, i, j: torch.exp(x[i]),
    lambda x, i, j: x.t()[j],
    lambda x, i, j: x[:, ::2][:, j // 2],
    lambda x, i, j: (x > 0)[:, j],
    lambda x, i, j: x[:, :1].contiguous()[j % 9],  # neighbours in a dimension that is not the last one
    lambda x, i, j: x[:, j].sum(1),
    lambda x, i, j: x[i, j[:5]],
    lambda x, i, j: x[i[1:2, None], j],  # one row
    lambda x, i, j: functional.pad(x[None, None], (2, 1, 3, 2), mode="reflect"),
    lambda x, i, j: (x * 64).int()[:, torch.arange(83) // 2],  # integers that lie in one vector
]


@pytest.mark.parametrize("target", [pytest.param("x86-64-v3", marks=pytest.mark.slow), "host"])
def test_looked_up_elements_are_those_of_torch(target: str) -> None:
    torch.manual_seed(0)
    image, matrix = torch.randn(2, 3, 10, 35), torch.round(torch.randn(9, 83) * 64) / 64
    for module, inputs, error in [
        (Several(NEAREST), (image,), 0),
        (Several(LINEAR), (image,), 4e-6),
        (Several(CHOSEN), (matrix, ROWS, COLUMNS), 4e-7),
    ]:
        program = numc.compile(module, inputs, target=target)
        for want, got in zip(module(*inputs), program(*(x.numpy() for x in inputs)).values(), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=error, atol=error)


@pytest.mark.slow
def test_what_is_left_over_of_a_row() -> None:
    """It is looked up in a vector that leaves lanes out, whether its elements lie in one vector or not."""
    counts = (*range(2, 18), 31, 33)
    functions = [lambda x, i, j, n=n: x[:, i[:n]] + 1 for n in counts]
    functions += [lambda x, i, j, n=n: x[:, j[:n]] + 1 for n in counts]
    functions += [lambda x, i, j, n=n: x[i[:n, None], j[None, :n]] + 1 for n in counts]
    module, inputs = Several(functions), (torch.randn(83, 83), torch.arange(83) // 3, COLUMNS)
    program = numc.compile(module, inputs)
    for want, got in zip(module(*inputs), program(*(x.numpy() for x in inputs)).values(), strict=True):
        assert np.array_equal(got, want.numpy()), got.shape


def test_looked_up_elements_of_free_sizes() -> None:
    module = Several([lambda x, i, j: x[i[:, None], j], lambda x, i, j: x[:, j] * 2])
    inputs = torch.randn(9, 83), ROWS, COLUMNS
    free = {"inputs": ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}, None)}
    program = numc.compile(module, inputs, dynamic_shapes=free)
    for shape, rows in [((9, 83), 5), ((4, 100), 2), ((300, 90), 300)]:
        x = torch.randn(shape)
        i = torch.arange(rows) % shape[0]
        for want, got in zip(
            module(x, i, COLUMNS), program(x.numpy(), i.numpy(), COLUMNS.numpy()).values(), strict=True
        ):
            assert np.array_equal(got, want.numpy())
    with pytest.raises(NumcError, match="an index is out of range"):
        program(np.zeros((4, 100), np.float32), np.array([0, 4]), COLUMNS.numpy())


@pytest.mark.parametrize("outside", [9, -10, 2**40])
def test_one_index_for_all_elements_is_checked(outside: int) -> None:
    module = Several([lambda x, i, j: x[i[:1, None], j]])
    program = numc.compile(module, (torch.randn(9, 83), ROWS, COLUMNS))
    with pytest.raises(NumcError, match="an index is out of range"):
        program(np.zeros((9, 83), np.float32), np.array([outside, 0, 0, 0, 0]), COLUMNS.numpy())


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    "dtype",
    by_default(
        [torch.float32, torch.bool, torch.bfloat16, torch.int64, torch.float64], [torch.float32, torch.bfloat16]
    ),
)
def test_an_element_far_outside_is_not_read(dtype: torch.dtype, free: bool) -> None:
    """Indices that every element has for itself are checked before memory is read, which may not be there."""

    class Gathered(nn.Module):
        def forward(self, x: Tensor, i: Tensor) -> Tensor:
            return torch.gather(x, 1, i)

    x, indices = torch.arange(12).reshape(3, 4).to(dtype), torch.tensor([[3, 0], [1, 1], [2, 3]])
    auto = torch.export.Dim.AUTO
    sizes = ({0: auto, 1: auto}, {0: auto}) if free else None
    program = numc.compile(Gathered(), (x, indices), dynamic_shapes=sizes)
    assert torch.equal(torch.as_tensor(program(x, indices)), torch.gather(x, 1, indices))
    for outside in (4, -1, 2**20, 2**40, -(2**40), 2**63 - 1, -(2**63)):
        indices[2, 1] = outside
        with pytest.raises(NumcError, match="^an index is out of range"):
            program(x, indices)


@pytest.mark.parametrize("index", [4, 2**40, -5, -(2**40)])
def test_a_constant_index_outside(index: int) -> None:
    """Its check is in the loop that would read the element."""
    node = onnx.helper.make_node("GatherElements", ["x", "i"], ["y"], name="chosen", axis=1)
    x, y = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (3, 4)), ("y", None)))
    constant = onnx.numpy_helper.from_array(np.array([[0, index]]), "i")
    graph = onnx.helper.make_graph([node], "g", [x], [y], [constant])
    opset = onnx.helper.make_opsetid("", 18)
    program = numc.compile(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8))
    with pytest.raises(NumcError, match="^an index is out of range .in 'chosen'.$"):
        program(np.zeros((3, 4), np.float32))
