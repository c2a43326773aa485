"""Text that a language model makes in an arithmetic, token by token."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numc.frontends.pytorch.folder import LanguageModel
from numc.numerics.policy.policy import Policy
from numc.numerics.policy.presets import Arithmetic
from numc.studies.language.kv_cache import CacheFormat, argument_of, cache_bytes, cache_of
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Sampling:
    """The choice of the next token: the most probable one, or at random if any of the first three is given.

    temperature: what logits are divided by. top_k: only so many tokens, the most probable, may be drawn. top_p: only
    the most probable tokens, as many as have this probability together. seed: of the draws, and of stochastic
    roundings.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn at random."""
        return (self.temperature, self.top_k, self.top_p) != (None, None, None)


@dataclass(frozen=True)
class Generated:
    """The answer of a model to a prompt: the tokens of both; the text without special tokens; the seconds it took.

    ended: whether the model said that the text ends. cache_bytes: the size of a cache of 8 bits at the end, else None.
    """

    prompt_tokens: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str
    ended: bool
    seconds: float
    cache_bytes: int | None = None


def generate(
    language: LanguageModel,
    prompt: str,
    policy: Policy,
    *,
    most: int,
    sampling: Sampling,
    say: Callable[[str], None],
    kv_cache: CacheFormat | None = None,
) -> Generated:
    """Continue a prompt by up to `most` tokens, all contractions and operations by `policy`.

    say: is called with each piece of text as soon as it is complete. kv_cache: the format of the cache of keys and
    values, None for float32. The number of threads changes nothing. Raises NumcError for a prompt without tokens, if
    the model's context is too short, and if there is no such cache.
    """
    import torch
    from transformers import GenerationConfig, TextStreamer

    from numc.compiler.torch_compile.backend import Backend
    from numc.compiler.torch_compile.regions import seeded

    class Streamer(TextStreamer):  # type: ignore[misc]
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            say(text)

    prompt_ids = language.encoded(prompt)
    if language.context is not None and len(prompt_ids) + most > language.context:
        raise NumcError(
            f"the prompt has {len(prompt_ids)} tokens and {most} new ones are wanted, but the context of the model has "
            f"{language.context}: want a shorter prompt or a smaller --max-new-tokens"
        )
    model, tokenizer = language.model, language.tokenizer
    # Other settings of the folder, such as penalties of repetition, would change what greedy means.
    ends: Any = model.generation_config.eos_token_id
    model.generation_config = GenerationConfig(
        eos_token_id=ends, pad_token_id=0, max_new_tokens=most, do_sample=sampling.draws, **_drawing(sampling)
    )
    cache = None if kv_cache is None else cache_of(model, kv_cache)
    ids = torch.tensor([prompt_ids])
    plain = model.forward
    model.forward = torch.compile(plain, backend=Backend(Arithmetic(given=policy)), dynamic=True)
    start = time.perf_counter()
    try:
        # Sizes are free from the first token on: one program for prompts, one for further tokens. Numbers are not.
        config = torch._dynamo.config.patch(specialize_float=True)
        with config, torch.random.fork_rng(devices=[]), seeded(itertools.count(sampling.seed)):
            torch.manual_seed(sampling.seed)
            streamer = Streamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
            kept = {} if cache is None else {str(argument_of(model)): cache}
            result = model.generate(ids, attention_mask=torch.ones_like(ids), streamer=streamer, **kept)
    finally:
        model.forward = plain
    tokens = tuple(result[0, len(prompt_ids) :].tolist())
    last = {ends} if isinstance(ends, int) else set(ends or ())
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    size = None if cache is None else cache_bytes(cache)
    return Generated(tuple(prompt_ids), tokens, text, tokens[-1] in last, time.perf_counter() - start, cache_bytes=size)


def _drawing(sampling: Sampling) -> dict[str, Any]:
    """Return the settings of transformers, whose own default is to draw from 50 tokens."""
    if not sampling.draws:
        return {}
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    return {"temperature": temperature, "top_k": sampling.top_k or 0, "top_p": sampling.top_p or 1.0}
