"""Sorting and the choice of the first elements: values and places, to the bit, as torch's and numpy's stable sorts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import numc
from numc.frontends.lowering.sorting import MOST_INSERTED
from tiers import by_default, one_in

torch = pytest.importorskip("torch")

SPECIAL = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-45, -1e-45, 1.5, 1.5, -2.0)
COUNTS = (0, 1, MOST_INSERTED + 1)
DTYPES = (torch.float32, torch.int64, torch.bool)
OTHERS = (torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int16, torch.int8, torch.uint8)


def numbers(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers with many equal ones among them, and of integers the least and the largest."""
    generator = torch.Generator().manual_seed(columns)
    if dtype == torch.bool:
        return torch.randint(0, 2, (rows, columns), generator=generator).bool()
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        found = torch.randint(max(limits.min, -9), 9, (rows, columns), generator=generator).to(dtype)
        found[:, ::5], found[:, 3::7] = limits.min, limits.max
        return found
    found = torch.randn(rows, columns, generator=generator).mul(4).round().div(4)
    special = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), (rows, columns), generator=generator)]
    return torch.where(torch.rand(rows, columns, generator=generator) < 0.5, found, special).to(dtype)


class Sorts(torch.nn.Module):
    """All orders of a tensor, and its first elements."""

    def __init__(self, counts: tuple[int, ...] = (), dim: int = -1) -> None:
        super().__init__()
        self.counts, self.dim = counts, dim

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        both = [torch.sort(x, dim=self.dim, descending=descending) for descending in (False, True)]
        first = [torch.topk(x, k, self.dim, largest=largest) for k in self.counts for largest in (False, True)]
        return [each for pair in (*both, *first) for each in pair]


def expected(module: Sorts, x: torch.Tensor) -> list[torch.Tensor]:
    """By stable sorts: which of equal elements torch.topk takes is not defined."""
    both = [torch.sort(x, dim=module.dim, descending=d, stable=True) for d in (False, True)]
    first = [[each.narrow(module.dim, 0, k) for each in pair] for k in module.counts for pair in both]
    return [each for pair in (*both, *first) for each in pair]


def check(program: numc.Program, module: Sorts, x: torch.Tensor) -> None:
    for n, (got, want) in enumerate(zip(program(x).values(), expected(module, x), strict=True)):
        if want.dtype.is_floating_point:  # where a zero or a NaN came from is compared by the places
            np.testing.assert_array_equal(got.double().numpy(), want.double().numpy(), f"result {n}", strict=True)
        else:
            np.testing.assert_array_equal(got.numpy(), want.numpy(), f"result {n}", strict=True)


@pytest.mark.parametrize("dtype", [*DTYPES, *by_default(one_in(3, OTHERS), ())], ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    module, x = Sorts(COUNTS), numbers(3, 150, dtype)
    check(numc.compile(module, (x,)), module, x)


@pytest.mark.parametrize("dim", [0, pytest.param(1, marks=pytest.mark.all)])
def test_every_dimension(dim: int) -> None:
    module, x = Sorts((3,), dim), numbers(5, 6 * 7, torch.float32).reshape(5, 6, 7)
    check(numc.compile(module, (x,)), module, x)


def test_rows_of_free_sizes() -> None:
    module = Sorts((2,))
    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns", min=2)
    example = numbers(4, 9, torch.float32)
    program = numc.compile(module, (example,), dynamic_shapes=({0: rows, 1: columns},))
    for size in (2, 3, 31, 32, 33, 1000):
        check(program, module, numbers(2, size, torch.float32))


def test_long_rows() -> None:
    """More elements than could be compared pair by pair, and those that rise, which all enter the list."""
    module, rising = Sorts((50, 1000)), torch.arange(20_000.0).reshape(1, -1)
    program = numc.compile(module, (rising,))
    for x in (rising, rising.flip(1), numbers(1, 20_000, torch.float32)):
        check(program, module, x)


@pytest.mark.parametrize("size", [0, *(pytest.param(size, marks=pytest.mark.all) for size in (1, 2, 3, 5))])
def test_short_rows(size: int) -> None:
    module, x = Sorts(), numbers(2, size, torch.float32)
    check(numc.compile(module, (x,)), module, x)


@pytest.mark.parametrize(("k", "largest"), [(0, 1), (3, 1), (3, 0), (MOST_INSERTED + 5, 0)])
def test_top_k_of_onnx(k: int, largest: int, tmp_path: Path) -> None:
    shape = [2, 100, 3]
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1, largest=largest)
    graph = helper.make_graph(
        [node],
        "top_k",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info("values", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("places", TensorProto.INT64, None),
        ],
        [helper.make_tensor("k", TensorProto.INT64, [1], [k])],
    )
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    x = np.random.default_rng(k).integers(-9, 9, shape).astype(np.float32)
    onnx.save(model, tmp_path / "top_k.onnx")
    found = numc.compile(tmp_path / "top_k.onnx")(x)
    places = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found["places"], places, strict=True)
    np.testing.assert_array_equal(found["values"], np.take_along_axis(x, places, 1), strict=True)
