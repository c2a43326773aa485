"""as_strided reads the elements of a tensor in eager torch's order of memory, or is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402
from numc import NumcError  # noqa: E402

X = torch.arange(24.0).reshape(4, 6).cos()


class Calls(torch.nn.Module):
    """A module that returns what functions make of its input."""

    def __init__(self, *functions: Callable[[Any], Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Any) -> Any:
        return [function(x) for function in self.functions]


class Gaps(torch.nn.Module):
    """A module whose buffer is a part of a larger tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("part", torch.arange(24.0).reshape(4, 6)[:, ::2])

    def forward(self, x: Any) -> Any:
        return x + self.part.as_strided((6,), (1,))


def flat(x: Any) -> Any:
    return x.as_strided((x.numel(),), (1,))


def written(x: Any) -> Any:
    """What is written by strides is in the tensor itself."""
    found = torch.empty_strided((4, 6), (1, 4)).copy_(x)
    found.as_strided((5,), (2,)).zero_()
    return found


def test_as_strided_reads_the_memory_of_eager_torch() -> None:
    functions = [
        lambda x: flat(x.t().sort(1)[1].relu()),
        lambda x: torch.empty_strided((4, 6), (1, 4)).copy_(x).as_strided_scatter(x[0], (6,), (2,)),
        written,
    ]
    module = Calls(*functions)
    want, program = module(X), numc.compile(module, (X,))
    for number, (x, y) in enumerate(zip(program(X.numpy()).values(), want, strict=True)):
        np.testing.assert_allclose(x, y.numpy(), atol=1e-5, err_msg=str(number))


def test_an_exported_program_is_not_changed() -> None:
    module = Calls(lambda x: flat(x.t().sort(1)[1]))
    exported = torch.export.export(module, (X,))
    before = str(exported.graph)
    np.testing.assert_array_equal(numc.compile(exported)(X.numpy()), module(X)[0].numpy())
    assert str(exported.graph) == before


def test_memory_of_another_order_or_with_gaps_is_refused() -> None:
    module = Calls(
        lambda x: flat(F.scaled_dot_product_attention(x, x, x).relu()),
        lambda x: torch.empty_strided((4, 6), (1, 8)).copy_(x[0, 0]).as_strided((3,), (2,)),
    )
    with pytest.raises(NumcError, match="2 operations cannot be compiled") as found:
        numc.compile(module, (X[None, None],))
    for reason in (
        "reads memory whose order torch chooses when it computes scaled_dot_product_attention",
        "reads memory with gaps: its tensor has the strides (1, 8)",
    ):
        assert f"{reason}; copy its operand: .clone(memory_format=torch.contiguous_format)" in str(found.value)
    with pytest.raises(NumcError, match=r"reads memory with gaps: its tensor has the strides \(6, 2\)"):
        numc.compile(Gaps(), (X,))
