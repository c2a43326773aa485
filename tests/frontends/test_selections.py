"""Sizes that depend on data, in PyTorch models: each result has the shape and the values that eager torch computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import numc
from tiers import by_default, one_in

Tensors = torch.Tensor | tuple[torch.Tensor, ...]


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[torch.Tensor], Tensors]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Tensors:
        return self.function(x)


def written(x: torch.Tensor) -> torch.Tensor:
    mask, found = x.sum(-1) > 0, torch.zeros_like(x)
    found[mask] = x[mask] * 2
    return found


def added(x: torch.Tensor) -> torch.Tensor:
    places = torch.nonzero(x.sum(-1) > 0).squeeze(1)
    return torch.zeros_like(x).index_add(0, places, x[places])


def of_planes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    planes = torch.stack([x, -x, x * 0.5])
    chosen = planes[planes.sum(-1) > 0]
    return nn.functional.layer_norm(chosen, [5]).softmax(-1), planes[:, x.sum(-1) > 0].sum(1)


def coordinates(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, columns = torch.where(x > 0)
    return torch.nonzero(x > 0), x[rows, columns], rows, columns, torch.nonzero(x.round().long())


def detections(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    score = x.sigmoid().amax(-1)
    kept = score > 0.6
    return x[kept][score[kept].argsort()], score[kept], torch.nonzero(kept).squeeze(1)


def scattered(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones_like(x, dtype=torch.bool).tril()
    return torch.zeros_like(x).masked_scatter(mask, x[mask] * 2)


def shaped(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    chosen = x[x.sum(-1) > 0]
    return chosen.view(-1, 5, 1).transpose(0, 1), chosen.reshape(chosen.shape[0] * 5), chosen @ chosen.T


def checked(x: torch.Tensor) -> torch.Tensor:
    chosen = x[x.sum(-1) > -100]
    torch._check(chosen.shape[0] > 2)
    torch._check(chosen.shape[0] % 2 == 0)
    return chosen.reshape(2, -1)


FUNCTIONS: dict[str, Callable[[torch.Tensor], Tensors]] = {
    "elements": lambda x: x[x > 0],
    "rows": lambda x: torch.relu(x[x.sum(-1) > 0]).sum(0),
    "mean": lambda x: (x[x > 0] ** 2).mean(),
    "masked_select": lambda x: torch.masked_select(x, x[:, :1] > 0),
    "joined": lambda x: torch.cat([x[x > 0], x[x <= 0]]).sort()[0],
    "outer": lambda x: x[x > 1][:, None] * x[x < -1][None, :],
    "unique": lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "consecutive": lambda x: torch.unique_consecutive((x > 0).long(), return_inverse=True, return_counts=True),
    "repeated": lambda x: torch.repeat_interleave(x, (x.sum(-1) > 0).long() + 1, dim=0),
    "never": lambda x: torch.repeat_interleave(x, (x.sum(-1) > 0).long(), dim=0),
    "written": written,
    "added": added,
    "planes": of_planes,
    "coordinates": coordinates,
    "detections": detections,
    "scattered": scattered,
    "shaped": shaped,
    "replaced": lambda x: x.masked_scatter(x > 0, x[x > 0] * 2),
}


CASES = [(name, free) for n, name in enumerate(FUNCTIONS) for free in (n % 2 == 0, n % 2 == 1)]
USUAL = [
    (name, free)
    for name in ("elements", "written", "planes", "coordinates", "unique", "never", "replaced")
    for free in (False, True)
]


class Experts(nn.Module):
    """A mixture of experts as in Mixtral: each expert computes the tokens that the router has given it."""

    def __init__(self, experts: int = 4, width: int = 5) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        layers = (nn.Sequential(nn.Linear(width, 8), nn.SiLU(), nn.Linear(8, width)) for _ in range(experts))
        self.experts = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(self.router(x).softmax(-1), 2)
        mask = nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        found = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(mask[number])
            found.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return found


def compare(module: nn.Module, *, free: bool) -> None:
    torch.manual_seed(0)
    example = torch.randn(6, 5)
    shapes = ({0: torch.export.Dim("n", min=2, max=64)},) if free else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = numc.compile(module, (example,), dynamic_shapes=shapes)
    for x in (example, torch.full((6, 5), 2.0), torch.full((6, 5), -1.0), *([torch.randn(9, 5)] if free else [])):
        with torch.no_grad():
            want: Any = module(x)
        wants = want if isinstance(want, tuple) else (want,)
        got = list(program.by_name({program.inputs[0].name: x.numpy()}).values())
        for one, other in zip(wants, got, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "free"), by_default(one_in(9, CASES), USUAL))
def test_selections(name: str, free: bool) -> None:
    """All rows, some or none of them are selected."""
    compare(Function(FUNCTIONS[name]), free=free)


def test_experts() -> None:
    torch.manual_seed(1)
    compare(Experts().eval(), free=True)


def test_contractions_of_a_selection_take_the_operator() -> None:
    module = Function(lambda x: x[x.sum(-1) > 0] @ x.T)
    x = torch.arange(30.0).reshape(6, 5) - 12
    program = numc.compile(module, (x,), fma="bf16_1_1")
    chosen = x[x.sum(-1) > 0].numpy()
    np.testing.assert_array_equal(program(x.numpy()), numc.matmul(chosen, x.numpy().T, fma="bf16_1_1"))


def test_what_a_model_checks_of_a_size() -> None:
    program = numc.compile(Function(checked), (torch.ones(6, 5),))
    assert program(np.ones((6, 5), np.float32)).shape == (2, 15)
    few = np.full((6, 5), -1000, np.float32)
    few[0] = few[1] = few[2] = 1
    text = "a check of the model fails: a size or a number that depends on data is not as it wants"
    for x in (few, np.full((6, 5), -1000, np.float32)):  # three, which is odd, and none
        with pytest.raises(numc.NumcError, match=text):
            program(x)


def test_what_a_model_checks_of_numbers() -> None:
    class Checking(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
            torch._check_tensor_all(x > 0)
            torch._assert_async(n.sum() == 3, "three")
            torch._check(m.max().item() < n.numel())
            return x * 2

    x, n, m = np.ones((3, 4), np.float32), np.array([1, 2]), np.array([[1, 0]], np.int32)
    program = numc.compile(Checking(), tuple(map(torch.from_numpy, (x, n, m))))
    np.testing.assert_array_equal(program(x, n, m), x * 2)
    for others in ((x * np.float32(-1), n, m), (x, n + 1, m), (x, n, m + 1)):
        with pytest.raises(numc.NumcError, match="a check of the model fails: a size or a number that depends on data"):
            program(*others)


def test_a_size_that_a_model_fixes() -> None:
    def three(x: torch.Tensor) -> torch.Tensor:
        chosen = x[x.sum(-1) > 0]
        torch._check(chosen.shape[0] == 3)
        return chosen.reshape(3, 5) @ torch.ones(5, 2)

    program = numc.compile(Function(three), (torch.ones(6, 5),))
    x = np.full((6, 5), -1, np.float32)
    x[1] = x[3] = x[5] = 1
    np.testing.assert_array_equal(program(x), np.full((3, 2), 5))
    with pytest.raises(numc.NumcError, match="sizes do not fit: one that depends on data"):
        program(np.ones((6, 5), np.float32))


def test_a_largest_element_of_nothing_is_an_error() -> None:
    program = numc.compile(Function(lambda x: x[x.sum(-1) > 0].amax(0)), (torch.ones(6, 5),))
    assert program(np.ones((6, 5), np.float32)).shape == (5,)
    with pytest.raises(numc.NumcError, match="a check of the model fails: a size or a number that depends on data"):
        program(-np.ones((6, 5), np.float32))


def test_negative_repetitions_are_an_error() -> None:
    module = Function(lambda x: torch.repeat_interleave(x, x[:, 0].long(), dim=0))
    program = numc.compile(module, (torch.ones(3, 2),))
    assert program(np.full((3, 2), 2, np.float32)).shape == (6, 2)
    with pytest.raises(numc.NumcError, match="a number of repetitions is negative"):
        program(np.full((3, 2), -1, np.float32))


def test_numbers_that_depend_on_data_are_refused() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        count = (x.sum(-1) > 0).sum().item()
        torch._check(count >= 0)
        torch._check(count <= 6)
        return x[:count]  # type: ignore[misc]

    with pytest.raises(numc.NumcError) as caught:
        numc.compile(Function(first), (torch.ones(6, 5),))
    assert str(caught.value).startswith("Function: 1 operation cannot be compiled: aten._local_scalar_dense.default")
    assert "a size or number depends on data" in str(caught.value)


def test_an_exported_file(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Function(FUNCTIONS["rows"]), (torch.ones(6, 5),)), tmp_path / "m.pt2")
    x = np.linspace(-1, 2, 30, dtype=np.float32).reshape(6, 5)
    want = FUNCTIONS["rows"](torch.from_numpy(x))
    assert isinstance(want, torch.Tensor)
    np.testing.assert_allclose(numc.compile(tmp_path / "m.pt2")(x), want.numpy(), rtol=1e-6)
