"""Language models and networks of images that others wrote: every family compiles, with fixed sizes and free ones."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402
from families import FAMILIES, GPT2, GROUPED, built, encoder, tokens  # noqa: E402


@pytest.fixture(autouse=True)
def _quietly() -> Any:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


def like(name: str, value: Any, sizes: dict[str, int], free: Any) -> Any:
    """An input of other sizes; the first sequence begins with padding, where there is room."""
    shape = [sizes[free[n].__name__] if n in (free or {}) else length for n, length in enumerate(value.shape)]
    if "mask" in name:
        mask = torch.ones(shape, dtype=torch.int64)
        mask[0, : shape[1] // 3] = 0
        return mask
    return torch.randn(shape) if value.is_floating_point() else torch.randint(3, 128, shape)


def check(name: str, count: int) -> None:
    """Compare a family with eager torch, with fixed sizes, and with free ones at these and at `count` others."""
    module, inputs, free = FAMILIES[name]()
    fixed, want = numc.compile(module, inputs)(**inputs), module(**inputs)
    assert torch.allclose(fixed, want, rtol=1e-4, atol=2e-5 * float(want.abs().max()))
    program = numc.compile(module, inputs, dynamic_shapes=free)
    others = [
        {"batch": 1, "images": 3, "sequence": 1, "target": 1},
        {"batch": 3, "images": 1, "sequence": 13, "target": 4},
    ]
    torch.manual_seed(1)
    for sizes in [None, *others[:count]]:
        given = {n: v if sizes is None else like(n, v, sizes, free[n]) for n, v in inputs.items()}
        want, got = module(**given), program(**given)
        assert torch.allclose(got, want, rtol=1e-4, atol=2e-5 * float(want.abs().max()))
        assert torch.equal(got.argmax(-1), want.argmax(-1))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_family_computes_what_torch_does(name: str) -> None:
    if name == "edgenext":
        pytest.importorskip("timm")
    check(name, 2)


@pytest.mark.slow
def test_a_loop_over_the_sequence_needs_a_fixed_length() -> None:
    module, inputs, free = encoder("MambaForCausalLM", "MambaConfig", vocab_size=128, hidden_size=32, state_size=4)
    module.model.backbone.layers = module.model.backbone.layers[:2]
    assert torch.allclose(numc.compile(module, inputs)(**inputs), module(**inputs), atol=1e-5)
    with pytest.raises(numc.NumcError, match="^First: cannot be exported: Constraints violated .sequence."):
        numc.compile(module, inputs, dynamic_shapes=free)


@pytest.mark.all
def test_a_static_cache_is_written_in_place_by_prompt_and_tokens() -> None:
    """One program for a prompt and for single tokens: its cache is what eager torch has in the module's buffers."""
    executorch = pytest.importorskip("transformers.integrations.executorch")
    config = transformers.LlamaConfig(**GROUPED)
    model = built(transformers.AutoModelForCausalLM.from_config, config)
    model.generation_config.cache_implementation, model.generation_config.use_cache = "static", True
    module = executorch.TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=16).eval()
    length = Dim("length", min=1, max=16)
    example = {"input_ids": tokens(1, 7), "cache_position": torch.arange(7)}
    program = numc.compile(module, example, dynamic_shapes={"input_ids": {1: length}, "cache_position": {0: length}})
    assert len(program.inputs) == 8  # tokens, positions, and for two layers keys, values and their number
    state = {name: torch.zeros_like(buffer) for name, buffer in module.named_buffers() if "inv_freq" not in name}
    start = 0
    for count in (7, 1, 1, 4):
        given = {"input_ids": tokens(1, count), "cache_position": torch.arange(start, start + count)}
        start += count
        want, found = module(**given), program(**given, **state)
        assert torch.allclose(found["output"], want, rtol=1e-4, atol=1e-5)
        assert found["key_cache_1"].data_ptr() == state["key_cache_1"].data_ptr()
    for name, buffer in module.named_buffers():
        assert name not in state or torch.allclose(state[name], buffer, atol=1e-5), name
    with pytest.raises(numc.NumcError, match="^an index is out of range .in 'model.model.layers.0.self_attn'.$"):
        program(input_ids=tokens(1, 1), cache_position=torch.tensor([16]), **state)


@pytest.mark.slow
def test_a_growing_cache_is_an_argument_and_a_result() -> None:
    executorch = pytest.importorskip("transformers.integrations.executorch")
    executorch.register_dynamic_cache_export_support()
    config = transformers.GPT2Config(**GPT2)
    model = built(transformers.AutoModelForCausalLM.from_config, config)

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, past: Any) -> Any:
            found = self.model(input_ids=input_ids, past_key_values=past, use_cache=True)
            return found.logits, found.past_key_values

    past = transformers.DynamicCache(config=config)
    step = Step().eval()
    step(tokens(2, 7), past)
    arrays = [array.clone() for array in torch.utils._pytree.tree_leaves(past)]
    ids = tokens(2, 7)[:, :3]
    free = torch.export.ShapesCollection()
    free[ids] = {0: Dim("batch", max=4), 1: Dim("new", max=8)}
    for array in torch.utils._pytree.tree_leaves(past):
        free[array] = {0: Dim("batch", max=4), 2: Dim("past", max=32)}
    example = {"input_ids": ids, "past": past}
    program = numc.compile(step, example, dynamic_shapes=free.dynamic_shapes(step, (), example))
    assert [i.name for i in program.inputs][:2] == ["input_ids", "past_key_cache_0"]
    eager = transformers.DynamicCache(config=config)
    step(tokens(2, 7), eager)
    for count in (1, 4, 1):
        new = tokens(2, count)
        logits, *arrays = program(new, *arrays).values()
        assert torch.allclose(logits, step(new, eager)[0], rtol=1e-4, atol=1e-5)
    assert arrays[0].shape[2] == 13
