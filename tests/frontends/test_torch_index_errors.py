"""Indices out of range and extremes of nothing: an error in eager torch is one of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402

Function = Callable[[Any, Any], Any]
GOOD = torch.tensor([0, 2])
X = torch.arange(12.0).reshape(3, 4)


class Calls(torch.nn.Module):
    """A module that returns what each function makes of the first input and of an input of its own."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Any, *others: Any) -> Any:
        return [function(x, other) for function, other in zip(self.functions, others, strict=True)]


def _rows(index: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(2, 4)


INDICES: dict[str, Function] = {
    "one_hot": lambda x, i: F.one_hot(i, 3),
    "embedding": lambda x, i: F.embedding(i, x),
    "gather": lambda x, i: x.gather(0, _rows(i)),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i[:, None], 0),
    "index_select": lambda x, i: x.index_select(0, i),
    "scatter": lambda x, i: x.scatter(0, _rows(i), x[:2]),
    "scatter_value": lambda x, i: x.scatter(0, _rows(i), 7.0),
    "scatter_add": lambda x, i: x.scatter_add(0, _rows(i), x[:2]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, _rows(i), x[:2], "amax"),
    "index_add": lambda x, i: x.index_add(0, i, x[:2], alpha=0.5),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "nll_loss": lambda x, i: F.nll_loss(x[:2, :3], i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:2, :3], i, label_smoothing=0.1),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:2, :3], i),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x, mode="max"),
    "max_unpool1d": lambda x, i: F.max_unpool1d(x[:, :2], i.expand(3, 2), 2, 1),
    "max_unpool2d": lambda x, i: F.max_unpool2d(x[None, :, None, :2], i.expand(1, 3, 1, 2), (1, 2), 1),
}
"""Of indices from 0 to 2."""
FROM_THE_END: dict[str, Function] = {
    "index": lambda x, i: x[i],
    "index_by_two": lambda x, i: x[i, i.flip(0)],
    "take": lambda x, i: torch.take(x[:, 0], i),
    "put": lambda x, i: x[:, 0].put(i, x[0, :2]),
    "index_put": lambda x, i: x.index_put((i,), x[:2]),
    "index_put_by_two": lambda x, i: x.index_put((i, i), x[0, :2], accumulate=True),
    "index_fill": lambda x, i: x.index_fill(0, i, 3.0),
    "index_fill_of_turned": lambda x, i: x.T.index_fill(1, i, x[0, 0]),
}
"""Of indices from -3 to 2."""
OFFSETS: dict[str, Function] = {"offsets": lambda x, i: F.embedding_bag(i.new_tensor([1, 2]), x, i)}
"""Of numbers that begin with 0, up to 2."""


def refuses(run: Callable[..., Any], *given: Any) -> bool:
    try:
        run(*given)
    except numc.NumcError as error:
        return re.fullmatch(r"an index is out of range( \(in '.+'\))?", str(error)) is not None
    except (RuntimeError, IndexError, ValueError):  # of eager torch
        return True
    return False


def check(run: Callable[..., Any], functions: dict[str, Function]) -> int:
    """Compare all functions at a good index, and each of them at others; return how often torch refuses one."""
    count = 0
    good = [GOOD] * len(functions)
    found = run(X, *good)
    want = Calls(list(functions.values()))(X, *good)
    for name, x, y in zip(functions, found.values() if isinstance(found, dict) else found, want, strict=True):
        torch.testing.assert_close(x, y, msg=lambda text, name=name: f"{name}: {text}")
    for number, (name, function) in enumerate(functions.items()):
        for wrong in ([0, 3], [-1, 0], [0, -4], [1, 2], [2**40, 0]):
            index = torch.tensor(wrong)
            others = [*good[:number], index, *good[number + 1 :]]
            refused = refuses(run, X, *others)
            assert refused == refuses(function, X, index), (name, wrong)
            count += refused
    return count


ALL = {**INDICES, **FROM_THE_END, **OFFSETS}
SOME = ("one_hot", "scatter", "index_add", "index_copy", "max_unpool2d", "index_put_by_two", "index_fill", "offsets")
FEW = ("one_hot", "index_add", "max_unpool2d", "offsets")


def chosen(names: Iterable[str]) -> dict[str, Function]:
    return {name: ALL[name] for name in names}


@pytest.mark.parametrize(
    ("names", "refused"), [(SOME, 31), pytest.param(tuple(ALL), 93, marks=pytest.mark.slow)], ids=["some", "whole"]
)
def test_an_index_out_of_range_is_an_error_ahead_of_time(names: tuple[str, ...], refused: int) -> None:
    functions = chosen(names)
    program = numc.compile(Calls(list(functions.values())), (X, *[GOOD] * len(functions)))
    assert check(program, functions) == refused


@pytest.mark.parametrize(
    ("names", "refused"),
    [pytest.param(FEW, 17, marks=pytest.mark.all), pytest.param(tuple(ALL), 93, marks=pytest.mark.slow)],
    ids=["few", "whole"],
)
def test_an_index_out_of_range_is_an_error_through_torch_compile(names: tuple[str, ...], refused: int) -> None:
    torch._dynamo.reset()
    functions = chosen(names)
    compiled = torch.compile(Calls(list(functions.values())), backend=numc.backend("fp32"))
    assert check(compiled, functions) == refused


@pytest.mark.all
def test_repetitions_that_have_another_sum_than_was_said_are_an_error() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n: x.repeat_interleave(n, 0, output_size=4), backend=numc.backend("fp32"))
    assert torch.equal(compiled(X, torch.tensor([1, 0, 3])), X[[0, 2, 2, 2]])
    for wrong, text in (([1, 1, 1], "sizes do not fit"), ([5, -1, 0], "a number of repetitions is negative")):
        with pytest.raises(numc.NumcError, match=text):
            compiled(X, torch.tensor(wrong))


@pytest.mark.all
def test_a_check_of_the_model_is_one_of_the_compiled_function() -> None:
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "wants numbers above 0")
        return x * 2

    compiled = torch.compile(function, backend=numc.backend("fp32"))
    assert torch.equal(compiled(X + 1), 2 * (X + 1))
    with pytest.raises(RuntimeError, match="wants numbers above 0"):
        compiled(X)


EXTREMES: dict[str, Function] = {
    "max": lambda x, mask: x[0, mask].max(),
    "min": lambda x, mask: x[0, mask].min(),
    "max_dim": lambda x, mask: x[:, mask].int().max(1)[0],
    "min_dim": lambda x, mask: x[:, mask].int().min(1)[1],
    "min_int": lambda x, mask: x[:, mask].int().min(),
    "amax": lambda x, mask: x[:, mask].amax(1),
    "argmin": lambda x, mask: x[0, mask].argmin(0),
}


def test_the_largest_of_nothing_is_an_error() -> None:
    some, none = torch.tensor([True, False, True, True]), torch.zeros(4, dtype=torch.bool)
    module = Calls(list(EXTREMES.values()))
    good = [some.clone() for _ in EXTREMES]
    program = numc.compile(module, (X, *good))
    for name, found, want in zip(EXTREMES, program(X, *good).values(), module(X, *good), strict=True):
        assert torch.equal(found, want), name
    for number, name in enumerate(EXTREMES):
        text = "the largest or smallest of no elements is asked for|a check of the model fails"  # which is torch's own
        with pytest.raises(numc.NumcError, match=f"^({text})"):
            program(X, *good[:number], none, *good[number + 1 :])
        with pytest.raises((RuntimeError, IndexError)):
            EXTREMES[name](X, none)
