"""Every operator of torch on the samples of torch's own tests: none may be wrong.

Through torch.compile, in which torch runs what numc cannot, with its gradients, and ahead of time, where the operators
that are refused are those of tests/data/torch_known_failures.json, by a part of what the error says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's tables of operators import it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import numc  # noqa: E402

SAMPLES = 3
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
"""Their results have no defined values."""
CASES = {
    f"{op.name}.{op.variant_test_name}".rstrip("."): op
    for op in op_db
    if torch.float32 in op.supported_dtypes("cpu") and op.name not in UNDEFINED and not op.name.startswith("sparse")
}


def tensors(value: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def samples(op: Any, *, requires_grad: bool = False) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Functions of tensors and the tensors, spread over the samples of an operator."""
    found = list(op.sample_inputs("cpu", torch.float32, requires_grad=requires_grad))
    for sample in found[:: max(1, len(found) // SAMPLES)][:SAMPLES]:
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def function(*given: Any, leaves=leaves, spec=spec, places=places) -> Any:  # type: ignore[no-untyped-def]
            filled = list(leaves)
            for place, value in zip(places, given, strict=True):
                filled[place] = value
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return op.get_op()(*args, **kwargs)

        yield function, [leaves[n] for n in places]


DATA = Path(__file__).parents[1] / "data/torch_known_failures.json"
KNOWN = {name: reason for reason, names in json.loads(DATA.read_text()).items() for name in names}


class Calls(torch.nn.Module):
    """A module that calls a function; it has one more input, because some operators have none."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given[:-1]), given[-1].clone()


def compare(got: list[Any], want: list[Any], atol: float = 1e-4) -> None:
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
    # Sums and functions of numc have other last bits than those of torch's libraries.
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-3, atol=atol, equal_nan=True, check_stride=False)


def wanted(function: Callable[..., Any], given: list[Any]) -> list[Any]:
    torch.manual_seed(1)
    return tensors(function(*(x.clone() for x in given)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_right_through_torch_compile(name: str) -> None:
    for function, given in samples(CASES[name]):
        want = wanted(function, given)
        torch._dynamo.reset()
        torch.manual_seed(1)
        compare(tensors(torch.compile(function, backend=numc.backend("fp32"))(*(x.clone() for x in given))), want)


def gradients(function: Callable[..., Any], given: list[Any]) -> list[Any]:
    """The gradients of a weighted sum of all results."""
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in given]
    torch.manual_seed(1)
    results = [y for y in tensors(function(*inputs)) if y.requires_grad]
    variables = [x for x in inputs if x.requires_grad]
    if not results or not variables:
        return []
    weights = [torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.dtype) for y in results]
    found = torch.autograd.grad(results, variables, weights, allow_unused=True)
    return [torch.zeros(()) if x is None else x for x in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, op in CASES.items() if op.supports_autograd])
def test_gradients_of_an_operator_are_right_through_torch_compile(name: str) -> None:
    for function, given in samples(CASES[name], requires_grad=True):
        try:
            want = gradients(function, given)
        except (RuntimeError, NotImplementedError):  # torch has no gradient of such a sample
            continue
        torch._dynamo.reset()
        # Normalisations of very few elements multiply the last bits by thousands.
        compare(gradients(torch.compile(function, backend=numc.backend("fp32")), given), want, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_right_or_refused_ahead_of_time(name: str) -> None:
    refused = []
    for function, given in samples(CASES[name]):
        if not (want := wanted(function, given)):
            continue
        inputs = tuple(x.clone().contiguous() for x in (*given, torch.ones(2)))
        try:
            program = numc.compile(Calls(function), inputs)
        except numc.NumcError as error:
            refused.append(str(error))
            continue
        found = list(program(*inputs).values())  # new values of inputs come last
        compare(found[: len(want)], want)
    if name in KNOWN:
        assert any(KNOWN[name] in reason for reason in refused), refused
    else:
        assert not refused


def test_known_failures_are_operators() -> None:
    assert set(KNOWN) <= set(CASES)
