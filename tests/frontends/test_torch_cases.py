"""The kinds of operations that torch-mlir's end-to-end tests have, each as one line of tests/data/torch_cases.txt.

A line has a name, inputs, an expression of them (a, b, c ...), and a part of the error if it is refused. An input is a
letter for its dtype, + if it has no negative numbers, <N for a limit, and its sizes; those with ? stay free, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402

DATA = Path(__file__).parents[1] / "data/torch_cases.txt"
CASES = {line.split("|")[0].strip(): [part.strip() for part in line.split(" | ")] for line in DATA.open()}
DTYPES = {
    "f": torch.float32,
    "h": torch.float16,
    "B": torch.bfloat16,
    "d": torch.float64,
    "b": torch.bool,
    "y": torch.int8,
    "u": torch.uint8,
    "s": torch.int16,
    "i": torch.int32,
    "I": torch.int64,
}
INPUT = re.compile(r"(\w)(\+?)(?:<(\d+))?\[(.*)\]")


def sizes_of(text: str) -> list[str]:
    return [size for size in INPUT.fullmatch(text)[4].split(",") if size]  # type: ignore[index]


def made(text: str, more: int = 0) -> Any:
    """An input, with free sizes that are larger by `more`."""
    kind, positive, limit, _ = INPUT.fullmatch(text).groups()  # type: ignore[union-attr]
    shape = [int(size.rstrip("?")) + more * size.endswith("?") for size in sizes_of(text)]
    dtype = DTYPES[kind]
    if kind == "b":
        return torch.rand(shape) > 0.4
    if dtype.is_floating_point:
        return (3 * torch.rand(shape) if positive else 1.5 * torch.randn(shape)).to(dtype)
    most = int(limit or 10)
    return torch.randint(0 if positive or kind == "u" else -most, most, shape).to(dtype)


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def check(program: Any, function: Callable[..., Any], inputs: list[str], more: int) -> None:
    torch.manual_seed(0)
    given = [made(text, more) for text in inputs]
    try:
        result = function(*(x.clone() for x in given))
    except (RuntimeError, IndexError, ValueError):
        assert more  # the expression does not fit larger sizes
        return
    want = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
    try:
        found = program(*given)
    except numc.NumcError as error:
        if more and re.search("sizes do not fit|, want ", str(error)):
            return
        raise
    got = list(found.values()) if isinstance(found, dict) else [found]
    loose = any(text[0] in "hB" for text in inputs)
    for x, y in zip(got, want, strict=False):  # new values of inputs come last
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        bounds = {"rtol": 2e-2, "atol": 2e-2} if loose or x.dtype.itemsize < 4 else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(x, y, equal_nan=True, check_stride=False, **bounds)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_case_is_right_or_refused(name: str) -> None:
    _, inputs, expression, *reason = CASES[name]
    names = inputs.split()
    function = eval(f"lambda {','.join('abcdefg'[: len(names)])}: {expression}", {"torch": torch, "F": F})
    free = tuple({n: Dim.AUTO for n, size in enumerate(sizes_of(text)) if size.endswith("?")} for text in names)
    refused = []
    for shapes in (None, *([free] if any(free) else [])):
        try:
            torch.manual_seed(0)
            example = tuple(made(text) for text in names)
            program = numc.compile(Calls(function), example, dynamic_shapes=None if shapes is None else (shapes,))
        except numc.NumcError as error:
            refused.append(str(error))
            continue
        for more in (0,) if shapes is None else (0, 1):
            check(program, function, names, more)
    if reason:
        assert any(reason[0] in text for text in refused), refused
    else:
        assert not refused
