"""Every operator of torch on the samples of torch's own tests, through torch.compile: none may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def samples(op: Any) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Functions of tensors and the tensors, spread over the samples of an operator."""
    found = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
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


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_right(name: str) -> None:
    for function, given in samples(CASES[name]):
        torch.manual_seed(1)
        want = tensors(function(*(x.clone() for x in given)))
        torch._dynamo.reset()
        torch.manual_seed(1)
        got = tensors(torch.compile(function, backend=numc.backend("fp32"))(*(x.clone() for x in given)))
        assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
        # Sums and functions of numc have other last bits than those of torch's libraries.
        for x, y in zip(got, want, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-4, equal_nan=True)
