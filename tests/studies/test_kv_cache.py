"""A cache of keys and values in 8 bits: attention reads numc.round of what was written, which is kept in bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import numc

pytest.importorskip("transformers")

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

import tiny_language
from numc.studies.language.kv_cache import argument_of, cache_bytes, cache_format, cache_of

FORMATS = ("e4m3fn", "e5m2", "int8")
TEXTS = [f"{name}{shared}" for name in FORMATS for shared in ("", ":token", ":head", ":tensor")]
# One of each kind of sharing in the default tiers; all of them with `slow`.
SAMPLE = ("e4m3fn", "int8", "e4m3fn:head", "int8:tensor")


def _rounded(x: Any, text: str) -> Any:
    """What numc.round makes of keys or values, [batch, heads, tokens, size], in the groups of a format."""
    name, _, shared = text.partition(":")
    if name == "int8" and not shared:
        shared = "token"
    array = x.detach().numpy()
    if not shared:
        return torch.from_numpy(numc.round(array, name))
    groups = array.reshape({"token": (-1, array.shape[3]), "head": (array.shape[0] * array.shape[1], -1),
                            "tensor": (1, -1)}[shared])  # fmt: skip
    made = numc.round(groups, f"mx({name},{groups.shape[1]},scale=fp32)")
    return torch.from_numpy(made.reshape(array.shape))


def _values(*shape: int) -> Any:
    random = np.random.default_rng(0)
    return torch.from_numpy((random.standard_normal(shape) * 2.0 ** random.integers(-12, 4, shape)).astype(np.float32))


def _same(a: Any, b: Any, what: str) -> None:
    a, b = (x.detach().numpy() for x in (a, b))
    assert a.shape == b.shape, what
    wrong = np.argwhere((a.view(np.uint32) != b.view(np.uint32)) & ~(np.isnan(a) & np.isnan(b)))
    if len(wrong):
        place = tuple(wrong[0])
        pytest.fail(f"{what}{place}: {a[place]!r}, expected {b[place]!r}; {len(wrong)} differ")


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read_is_what_was_rounded(text) -> None:
    """Two writes, each with its own scales; groups of zeros, of subnormal numbers, with infinities and NaN."""
    first, second = _values(2, 3, 4, 8), _values(2, 3, 1, 8)
    first[0, 0], first[0, 1, 1] = 0, 2.0**-149
    first[0, 2, 0, 0] = -0.0
    if ":tensor" not in text:
        first[1, 0, 0, 0], first[1, 1, 2, 3] = torch.nan, -torch.inf
    second *= 300
    model = tiny_language.llama()
    cache = cache_of(model, cache_format(text))
    for part in (first, second):
        keys, values = cache.update(part, -part, 0)
    expected = torch.cat([_rounded(first, text), _rounded(second, text)], 2)
    _same(keys, expected, "keys")
    _same(values, torch.cat([_rounded(-first, text), _rounded(-second, text)], 2), "values")
    assert cache.layers[0].keys.itemsize == 1
    count = keys.numel()
    scales = 0 if text in ("e4m3fn", "e5m2") else 4 * count // 8
    assert cache_bytes(cache) == 2 * (count + scales)


def _compiled(text: str) -> None:
    values = _values(1, 2, 3, 8) * 100

    cache = cache_of(tiny_language.llama(), cache_format(text))

    def step(x: Any) -> Any:
        cache.update(x, x, 0)
        return cache.update(x[:, :, :1], x[:, :, :1], 0)

    torch._dynamo.reset()
    made = torch.compile(step, backend=numc.backend("fp32"))(values)
    expected = torch.cat([_rounded(values, text), _rounded(values[:, :, :1], text)], 2)
    for which, found in zip(("keys", "values"), made, strict=True):
        _same(found, expected, f"{which} in {text}")


@pytest.mark.all
def test_compiled() -> None:
    _compiled("e4m3fn")
    _compiled("int8")


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_every_format_compiled(text) -> None:
    _compiled(text)


def _reference(model: Any, text: str) -> Any:
    """A cache in float32 that rounds what it is given."""

    class Layer(DynamicLayer):
        def update(self, key_states: Any, value_states: Any, *others: Any, **named: Any) -> Any:
            return super().update(_rounded(key_states, text), _rounded(value_states, text), *others, **named)

    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        layer.__class__ = Layer
    return cache


@pytest.mark.parametrize("make", [tiny_language.llama, tiny_language.gpt2])
@pytest.mark.parametrize("text", SAMPLE)
def test_logits(text, make) -> None:
    """Those of a model whose keys and values are rounded by numc.round, to the bit."""
    model = make(2)
    ids = torch.arange(3, 9)[None]
    settings = {"max_new_tokens": 4, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    every = {"attention_mask": torch.ones_like(ids), **settings}
    name = argument_of(model)
    found = model.generate(ids, **{name: cache_of(model, cache_format(text))}, **every)
    expected = model.generate(ids, **{name: _reference(model, text)}, **every)
    plain = model.generate(ids, **every)
    assert torch.equal(found.sequences, expected.sequences)
    for mine, theirs in zip(found.logits, expected.logits, strict=True):
        _same(mine, theirs, text)
    assert not torch.equal(found.logits[1], plain.logits[1])


def test_a_sliding_window() -> None:
    """Of layers that forget tokens, the scales are forgotten with them."""
    from transformers import MistralConfig, MistralForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = MistralConfig(vocab_size=32, num_hidden_layers=1, sliding_window=4, **sizes)
    cache = cache_of(MistralForCausalLM(config), cache_format("int8:token"))
    assert isinstance(cache.layers[0], DynamicSlidingWindowLayer)
    written = [_values(1, 2, 3, 8) * factor for factor in (1, 10, 100)]
    for part in written:
        keys, _ = cache.update(part, part, 0)
    every = torch.cat([_rounded(part, "int8:token") for part in written], 2)
    _same(keys, every[:, :, -keys.shape[2] :], "keys")
    assert cache.layers[0].scales.keys.shape[2] == cache.layers[0].keys.shape[2] == 3


@pytest.mark.parametrize("text", ["e4m3", "fp8_e4m3", "int4", "e4m3fn:row", "e4m3fn:", "int8:", ":head", ""])
def test_formats_that_are_refused(text) -> None:
    trap = ": PyTorch and NVIDIA mean e4m3fn by e4m3" if "e4m3" in text and "fn" not in text else ""
    with pytest.raises(numc.NumcError) as refused:
        cache_format(text)
    allowed = "want e4m3fn, e5m2 or int8, and for scales :token, :head or :tensor after it, such as e4m3fn:head"
    assert str(refused.value) == f"--kv-cache '{text}'{trap}: {allowed}"


def test_models_that_are_refused() -> None:
    from transformers import MambaConfig, MambaForCausalLM, OpenAIGPTConfig, OpenAIGPTLMHeadModel

    gpt = OpenAIGPTLMHeadModel(OpenAIGPTConfig(vocab_size=16, n_embd=8, n_layer=1, n_head=2, n_positions=8))
    mamba = MambaForCausalLM(MambaConfig(vocab_size=16, hidden_size=8, num_hidden_layers=1))
    for model in (gpt, mamba):
        with pytest.raises(numc.NumcError, match="leave --kv-cache out"):
            cache_of(model, cache_format("e4m3fn"))
