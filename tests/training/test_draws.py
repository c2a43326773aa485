"""Masks of dropout: equal to torch's, and so is the state of its generator after them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from numc.compiler.torch_compile import draws  # noqa: E402
from numc.runtime.library import library_of_python  # noqa: E402

bernoulli = torch.ops.aten.bernoulli.p


def _compare(like: torch.Tensor, p: float) -> None:
    before = torch.get_rng_state()
    theirs, after = bernoulli(like, p), torch.get_rng_state()
    torch.set_rng_state(before)
    mine = draws.bernoulli(like, p)
    assert mine.dtype == theirs.dtype
    assert mine.stride() == theirs.stride()
    assert torch.equal(mine, theirs)
    assert torch.equal(torch.get_rng_state(), after)


def test_masks_are_those_of_torch() -> None:
    torch.manual_seed(0)
    for number, size in enumerate([0, 1, 2, 311, 312, 313, 624, 1000, 4097] * 6):
        p = (0.0, 1.0, 0.5, 0.8, 2.0**-40, 1 - 2.0**-53, float(torch.rand(())))[number % 7]
        torch.randn(number % 3)  # the state also has a normal number
        _compare(torch.empty(size, dtype=(torch.float32, torch.bool)[number % 2]), p)
    for other in (torch.empty(6, 8).T, torch.empty(40, dtype=torch.bfloat16), torch.empty(3, 4, 5)[:, ::2]):
        _compare(other, 0.3)
    generator = torch.Generator().manual_seed(5)
    mine = draws.bernoulli(torch.empty(9), 0.4, generator=generator)
    assert torch.equal(mine, bernoulli(torch.empty(9), 0.4, generator=generator.manual_seed(5)))
    with pytest.raises(RuntimeError, match="p"):
        draws.bernoulli(torch.empty(3), 1.5)


def test_torch_draws_where_it_draws_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with MKL on Intel's processors; and from a state that is none."""
    draw, out = library_of_python().numc_bernoulli, torch.zeros(4)
    assert draw(torch.zeros(5056, dtype=torch.uint8).data_ptr(), 0.5, 0, out.data_ptr(), 4) < 0
    torch_draws = bernoulli(out, 1.0)

    class Other:
        numc_bernoulli = staticmethod(lambda state, p, *out: draw(state, 1 - p, *out))

    monkeypatch.setattr(draws, "library_of_python", Other)
    draws._draws_the_same.cache_clear()
    try:
        assert torch.equal(draws.bernoulli(out, 1.0), torch_draws)
        assert not draws._draws_the_same()
    finally:
        draws._draws_the_same.cache_clear()


def test_masks_are_kept_as_bool() -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        return x * bernoulli(torch.ops.aten.empty.memory_format([6, 8]), 0.8) + bernoulli(x, 0.5)

    x, found = torch.rand(6, 8), []
    traced = make_fx(dropped, tracing_mode="fake")(x)
    draws.narrow_masks(traced.graph)
    traced.recompile()
    for run in (dropped, traced):
        torch.manual_seed(1)
        found.append(run(x))
    assert torch.equal(*found)
    drawn = traced.graph.find_nodes(op="call_function", target=bernoulli)
    assert [node.meta["val"].dtype for node in drawn] == [torch.bool, torch.float32]
