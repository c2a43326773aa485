"""The accuracy of functions on the paths that a user takes, and not of the operations that they should become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import numc
from accuracies import TABLE, Accuracy, errors, points, rendered
from torch_modules import Calls

_PAGE = Path(__file__).parents[2] / "docs/math-functions.md"
_PLACES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _rows(dtype: torch.dtype) -> Mapping[str, Accuracy]:
    return {name: row for name, row in TABLE.items() if row.bounds[_PLACES.index(dtype)] is not None}


def _operands(dtype: torch.dtype, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = points(dtype, count)
    return x, x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))]


def _module(rows: Mapping[str, Accuracy]) -> Calls:
    """All functions in one module, so that one program serves them."""
    return Calls(lambda *operands: tuple(row.function(*operands[: row.operands]) for row in rows.values()))


def _check(rows: Mapping[str, Accuracy], found: Any, operands: tuple[torch.Tensor, ...]) -> None:
    """Print the largest error of every function, and want all within their bounds."""
    wrong = []
    for (name, row), got in zip(rows.items(), found, strict=True):
        given = operands[: row.operands]
        error = errors(row, got, *given)
        worst, bound = int(error.argmax()), row.bounds[_PLACES.index(got.dtype)]
        assert bound is not None
        text = f"{name}: {error[worst]:.6g} ulp of {bound} at {[float(x[worst]).hex() for x in given]}: {got[worst]!r}"
        print(text)
        wrong += [text] if not error[worst] <= bound else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("dtype", "count"),
    [
        (torch.float32, 4_000),
        *(pytest.param(dtype, 1_000_000, marks=pytest.mark.slow) for dtype in _PLACES),
    ],
)
def test_functions_of_torch(dtype: torch.dtype, count: int) -> None:
    """The table on a module of fixed sizes; of dtypes of 16 bits, all numbers."""
    rows, operands = _rows(dtype), _operands(dtype, count)
    _check(rows, list(numc.compile(_module(rows), operands)(*operands).values()), operands)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_paths_have_the_same_bits(dtype: torch.dtype) -> None:
    """A free size, and torch.compile of float32, give what a module of fixed sizes gives."""
    rows, operands = _rows(dtype), _operands(dtype, 4_000)
    module = _module(rows)
    fixed = list(numc.compile(module, operands)(*operands).values())
    size = torch.export.Dim("size", min=2)
    free = numc.compile(module, operands, dynamic_shapes=(({0: size}, {0: size}),))(*operands).values()
    compiled = torch.compile(module, backend="numc", dynamic=False)(*operands) if dtype == torch.float32 else fixed
    for name, want, *others in zip(rows, fixed, free, compiled, strict=True):
        for got in others[: 1 if name in _IN_DOUBLE else 2]:
            assert np.array_equal(got.numpy(), want.numpy(), equal_nan=True), name


_IN_DOUBLE = ("special.erfcx", "erfinv", "lgamma", "digamma")
"""torch.compile leaves float64 to torch, and has them in float32."""


@pytest.mark.slow
def test_operators_of_onnx() -> None:
    """The table on a model; activations are compositions of functions there, so small results have absolute errors."""
    rows = {name: row for name, row in TABLE.items() if row.operator}
    operands = _operands(torch.float32, 1_000_000)
    nodes = [helper.make_node(row.operator, ["x", "y"][: row.operands], [row.operator]) for row in rows.values()]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(operands[0])]) for name in ("x", "y")}
    results = [helper.make_tensor_value_info(row.operator, TensorProto.FLOAT, ["n"]) for row in rows.values()]
    graph = helper.make_graph(nodes, "functions", list(values.values()), results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    onnx.checker.check_model(model)
    found = numc.compile(model)(*(x.numpy() for x in operands))
    operators = {
        name: replace(row, least=0.5, bounds=TABLE["sigmoid"].bounds) if name in _COMPOSED else row
        for name, row in rows.items()
    }
    _check(operators, [torch.from_numpy(found[row.operator]) for row in rows.values()], operands)


_COMPOSED = ("elu", "celu", "selu", "softsign", "sigmoid", "softplus", "gelu", "mish", "hardswish")


def test_the_page_has_the_table() -> None:
    assert rendered() in _PAGE.read_text(encoding="utf-8")


def test_numbers_are_doubles_beside_doubles() -> None:
    """A number minus a tensor of float64: torch's decomposition rounds the number to float32."""
    x = torch.tensor([0.25, 1.0, 3.0], dtype=torch.float64)
    assert torch.equal(numc.compile(Calls(lambda x: 0.1 - x), (x,))(x), 0.1 - x)
