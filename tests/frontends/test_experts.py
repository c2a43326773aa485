"""Products of groups of rows, columns or steps, as of the experts of a network: each is that of its own matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402
from arithmetic_vectorised import first_mismatch  # noqa: E402
from numc.frontends.pytorch.operators import grouped_mm  # noqa: E402

FMA = "bf16_1_2"
ENDS = torch.tensor([0, 5, 5, 13], dtype=torch.int32)
RANGES = [(0, 0), (0, 5), (5, 5), (5, 13)]


def product(left: Any, right: Any) -> np.ndarray:
    """The product of two matrices under FMA; 0 where there is nothing to add."""
    if not left.shape[1]:
        return np.zeros((left.shape[0], right.shape[1]), np.float32)
    return numc.matmul(*(np.ascontiguousarray(x.detach().numpy()) for x in (left, right)), fma=FMA)


class Groups(torch.nn.Module):
    def forward(self, rows: Any, experts: Any, columns: Any, ends: Any) -> Any:
        return (
            grouped_mm(rows, experts, ends),
            grouped_mm(experts.transpose(1, 2), columns, ends),
            grouped_mm(columns, rows, ends),
        )


@pytest.mark.parametrize("free", [False, True])
def test_groups_of_rows_columns_and_steps(free: bool) -> None:
    torch.manual_seed(0)
    rows, experts, columns = torch.randn(16, 7), torch.randn(4, 7, 6), torch.randn(7, 16)
    length = torch.export.Dim("length", min=2, max=64)
    shapes = ({0: length}, None, {1: length}, None) if free else None
    traced = (rows[:9], experts, columns[:, :9], ENDS.clamp(max=9)) if free else (rows, experts, columns, ENDS)
    program = numc.compile(Groups().eval(), traced, dynamic_shapes=shapes, fma=FMA)
    by_rows, by_columns, by_steps = program(rows, experts, columns, ENDS).values()
    for group, (start, end) in enumerate(RANGES):
        matrix = experts[group]
        assert (wrong := first_mismatch(by_rows[start:end].numpy(), product(rows[start:end], matrix))) is None, wrong
        assert (
            wrong := first_mismatch(by_columns[:, start:end].numpy(), product(matrix.T, columns[:, start:end]))
        ) is None, wrong
        assert (
            wrong := first_mismatch(by_steps[group].numpy(), product(columns[:, start:end], rows[start:end]))
        ) is None, wrong
    assert not by_rows[13:].any()  # of no group
    assert not by_columns[:, 13:].any()


class Torch(torch.nn.Module):
    def forward(self, rows: Any, experts: Any, columns: Any, more: Any, ends: Any) -> Any:
        product = torch._grouped_mm
        return (
            product(rows, experts, offs=ends),
            product(experts, columns, offs=ends),
            product(columns, more, offs=ends),
            product(experts, experts),
        )


def test_those_of_torch() -> None:
    """torch traces them in bfloat16 only; sums of products of small integers are exact."""
    torch.manual_seed(0)
    shapes = (16, 8), (4, 8, 8), (8, 16), (16, 8)
    given = *(torch.randint(-3, 4, shape).bfloat16() for shape in shapes), ENDS + 3
    program = numc.compile(Torch().eval(), given)
    for got, want in zip(program(*given).values(), Torch()(*given), strict=True):
        assert got.dtype == want.dtype == torch.bfloat16
        assert torch.equal(got, want)


def test_gradients_are_in_the_arithmetic() -> None:
    pytest.importorskip("transformers.integrations.moe")
    torch.manual_seed(0)
    rows, experts = torch.randn(16, 7, requires_grad=True), torch.randn(4, 7, 6, requires_grad=True)
    gradient = torch.randn(16, 6)
    function = torch.compile(torch.ops.transformers.grouped_mm_fallback, backend="numc", options={"fma": FMA})
    function(rows, experts, ENDS).backward(gradient)
    for group, (start, end) in enumerate(RANGES):
        part = gradient[start:end]
        assert (wrong := first_mismatch(rows.grad[start:end].numpy(), product(part, experts[group].T))) is None, wrong
        # The operator's first operand is the gradient.
        assert (wrong := first_mismatch(experts.grad[group].numpy(), product(part.T, rows[start:end]).T)) is None, wrong
