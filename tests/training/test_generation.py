"""model.generate of transformers with numc as the backend: eager's tokens, with few programs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import numc  # noqa: E402
import tiny_language  # noqa: E402


def _prompts(rows: int, length: int) -> dict[str, Any]:
    """Token numbers, padded on the left by as many places as the number of the row."""
    ids = torch.randint(2, 200, (rows, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones_like(ids)
    for row in range(rows):
        ids[row, :row], mask[row, :row] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def _programs(model: Any, cases: list[dict[str, Any]], **settings: Any) -> list[int]:
    """Compare greedy generations with eager's; return how many programs each of them needed."""
    settings = {"do_sample": False, **settings}
    wanted = [model.generate(**case, **settings) for case in cases]
    torch._dynamo.reset()
    model.forward = torch.compile(model.forward, backend=numc.backend("fp32"))
    found = []
    for case, tokens in zip(cases, wanted, strict=True):
        before = numc.counters().programs
        assert torch.equal(model.generate(**case, **settings), tokens)
        found.append(numc.counters().programs - before)
    return found


@pytest.mark.slow
def test_one_generation_needs_three_programs_and_others_none() -> None:
    """The first prompt, the first cache, caches of any length; then prompts of any length."""
    cases = [_prompts(2, length) for length in (5, 9, 7, 3)]
    assert _programs(tiny_language.llama(), cases, max_new_tokens=8) == [3, 1, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny_language.gpt2, tiny_language.llama])
@pytest.mark.parametrize("cache", [None, "static"])
def test_batches_and_caches(make: Any, cache: str | None) -> None:
    cases = [_prompts(rows, length) for rows, length in ((1, 7), (1, 12), (3, 7), (3, 9), (4, 11), (1, 4))]
    settings = {} if cache is None else {"cache_implementation": cache}
    programs = _programs(make(layers=2), cases, max_new_tokens=12, **settings)
    assert programs[0] <= 3
    assert sum(programs) <= 8, programs


def test_results_keep_the_strides_that_torch_traced_for_free_sizes() -> None:
    """A result whose dimensions are permuted, numbers that are no size of a tensor, an operation that torch runs."""

    def function(x: Any, y: Any) -> Any:
        noise = torch.full((x.shape[0] * 2 + 3,), 0.5) * x.shape[0]
        sums = x.cos().transpose(0, 1) @ y
        return noise, sums.transpose(0, 1), torch.sort(x.sin().flatten()).values[: y.shape[1]], x.shape[0] + 1

    torch._dynamo.reset()
    before = numc.counters().graphs
    run = torch.compile(function, backend=numc.backend("fp32"), dynamic=True)
    for rows, columns in ((4, 6), (7, 3), (2, 9)):
        x, y = torch.randn(rows, 5), torch.randn(rows, columns)
        with torch.no_grad():
            for ours, eager in zip(run(x, y), function(x, y), strict=True):
                if isinstance(eager, int):
                    assert ours == eager
                    continue
                assert ours.stride() == eager.stride()
                torch.testing.assert_close(ours, eager)
    assert numc.counters().graphs == before + 1


def test_an_operation_for_fixed_sizes_only_has_a_program_for_each() -> None:
    def function(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, scale_factor=0.75, mode="bicubic") + 1

    torch._dynamo.reset()
    run = torch.compile(function, backend=numc.backend("fp32"), dynamic=True)
    for size in (8, 12):
        x = torch.randn(1, 1, size, size)
        torch.testing.assert_close(run(x), function(x))
