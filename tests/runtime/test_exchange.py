"""Tensors of torch as inputs and results: no copy where they are dense, and the same errors where they are not."""

from __future__ import annotations

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import runtime_programs as programs  # noqa: E402
from numc.compiler.support.errors import NumcError  # noqa: E402
from numc.runtime import Program  # noqa: E402
from numc.runtime.caller import orders_of  # noqa: E402

X = torch.arange(24.0).reshape(6, 4)
WANT = X + torch.arange(4.0)


class Marked(torch.Tensor):
    """A subclass, whose memory may mean anything."""


@pytest.fixture(scope="module")
def add() -> Program:
    return Program(programs.add())


def test_every_kind_of_tensor_gives_the_same(add: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = torch.zeros(6, 8)
    wide[:, ::2] = X
    shifted = torch.cat([torch.zeros(1), X.flatten()])[1:].reshape(6, 4)
    for x in (
        torch.nn.Parameter(X),
        shifted,
        X.T.contiguous().T,
        wide[:, ::2],
        torch._neg_view(-X),
        X.as_subclass(Marked),
    ):
        got = add(x)
        assert type(got) is torch.Tensor
        assert not got.requires_grad
        assert torch.equal(got, WANT)
    assert torch.equal(add(torch._neg_view(-X[:1])), WANT[:1])
    assert add(X[:0]).shape == (0, 4)
    monkeypatch.setattr(Program, "_bind", None)  # what follows needs no array of numpy
    kept = [add(x) for x in (X, X[1:], shifted, torch.nn.Parameter(X), X[:0])]
    del add
    gc.collect()
    assert torch.equal(kept[0], WANT)
    assert torch.equal(kept[1], WANT[1:])
    assert torch.equal(kept[3], WANT)
    kept[0].add_(1)
    assert torch.equal(kept[0], WANT + 1)
    assert torch.equal(kept[2], WANT)


def test_results_in_another_order(add: Program) -> None:
    (got,) = add.run((X,), orders=orders_of({0: [1, 0]}, 1))
    assert got.stride() == (1, 4)
    assert torch.equal(got, WANT.T)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (X.double(), "got float64[6,4], want float32[?,4]: convert it with .to(torch.float32)"),
        (X.T, "got float32[4,6], want float32[?,4]"),
        (X.to("meta"), "on device meta; programs run on the CPU: use .to('cpu')"),
        (X.to_sparse(), "got a sparse tensor, which no array can hold: use .to_dense()"),
        (X.int(), "got int32[6,4], want float32[?,4]: convert it with .to(torch.float32)"),
    ],
)
def test_errors(add: Program, x: torch.Tensor, text: str) -> None:
    with pytest.raises(NumcError) as caught:
        add(x)
    assert str(caught.value) == f"input 'x': {text}"


def test_arrays_and_tensors_may_be_mixed_up_to_the_results(add: Program) -> None:
    assert isinstance(add(X.numpy()), np.ndarray)
    assert isinstance(add({"x": X}), torch.Tensor)
