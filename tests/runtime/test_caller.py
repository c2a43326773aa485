"""Arrays and tensors as inputs and results: no copy where they are dense, and the same where they are not."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import runtime_programs as programs  # noqa: E402
from numc.runtime import Abi, Input, Program, TensorSpec  # noqa: E402
from numc.runtime.abi import DTYPES  # noqa: E402
from numc.runtime.caller import orders_of  # noqa: E402
from numc.runtime.tensors import array_dtype, bits_dtype  # noqa: E402
from numc.support.errors import NumcError  # noqa: E402

X = torch.arange(24.0).reshape(6, 4)
WANT = X + torch.arange(4.0)


class Stepped(np.ndarray):
    """A subclass of arrays, as those of files are."""


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


def test_every_kind_of_array_gives_the_same(add: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    x, want = X.numpy(), WANT.numpy()
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    for each in (
        np.asfortranarray(x),
        x[::-1][::-1],
        x[::-1].copy()[::-1],
        unaligned,
        x.astype(">f4"),
        x.view(Stepped),
    ):
        np.testing.assert_array_equal(add(each), want)
    read_only = x.copy()
    read_only.flags.writeable = False
    monkeypatch.setattr(Program, "_bind", None)  # what follows is taken as it is
    for each, rows in ((x, 6), (x[1:], 5), (read_only, 6), (x[:0], 0), (np.empty((0, 4), np.float32), 0)):
        got = add(each)
        assert type(got) is np.ndarray
        assert got.flags.carray
        np.testing.assert_array_equal(got, want[6 - rows :])
    got[...] = 1


def test_every_dtype_goes_through_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [(name, bits_dtype(name), (n + 1, 2)) for n, name in enumerate(DTYPES)]
    types = [f"memref<{n}x2xi{8 * kind.itemsize}>" for _, kind, (n, _) in specs]
    names = [f"%a{n}" for n in range(len(specs))]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    text = f"""func.func @main({arguments}) -> ({", ".join(types)}) {{
  return {", ".join(names)} : {", ".join(types)}
}}"""
    inputs = tuple(Input(f"a{n}", name, shape) for n, (name, _, shape) in enumerate(specs))
    results = tuple(TensorSpec(f"r{n}", name, shape) for n, (name, _, shape) in enumerate(specs))
    program = Program(programs.make(text, Abi(entry="numc_entry", arguments=inputs, results=results)))
    given = [np.arange(2 * shape[0]).reshape(shape).astype(kind) for _, kind, shape in specs]
    monkeypatch.setattr(Program, "_bind", None)
    for (name, kind, _), value, got in zip(specs, given, program(*given).values(), strict=True):
        assert got.dtype == array_dtype(name)
        np.testing.assert_array_equal(got.view(kind), value)


def test_objects_are_released(add: Program) -> None:
    x, odd = np.zeros((3, 4), np.float32), Program(programs.odd_results())
    a, flag = np.zeros((2, 3), np.float32), np.array(True)
    add(x), add(X), odd(a, flag)
    held = (x, a, flag, X, None, np.ndarray, torch.Tensor, bits_dtype("float32"), type(add(x).base))
    gc.collect()
    before = [sys.getrefcount(each) for each in held]
    for _ in range(100):
        add(x), add(X), odd(a, flag), add(x.tolist()), add(X.T.contiguous().T)
        with pytest.raises(NumcError):
            add(X.T)
    gc.collect()
    after = [sys.getrefcount(each) for each in held]
    assert all(abs(now - then) < 90 for now, then in zip(after, before, strict=True)), (before, after)


def test_arrays_and_tensors_may_be_mixed_up_to_the_results(add: Program) -> None:
    assert isinstance(add(X.numpy()), np.ndarray)
    assert isinstance(add({"x": X}), torch.Tensor)
