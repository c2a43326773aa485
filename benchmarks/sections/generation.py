"""Tokens per second of model.generate of transformers, beside eager torch."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import transformers

import numc
from benchmarks.cases import GENERATION
from benchmarks.measure import in_turns, ratio

Row = dict[str, Any]
NEW_TOKENS = 32
#: The models, of random weights: two tiny layers, and the sizes of the 124M GPT-2.
MODELS = {
    "gpt2, 2 tiny layers": {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 256},
    "gpt2, 124M": {},
}


def generation(seconds: float, quick: bool) -> list[Row]:
    """Time greedy generations of NEW_TOKENS tokens after a prompt of 16, on two threads, in turns with eager torch."""
    warnings.simplefilter("ignore")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    rows = []
    for name, sizes in list(MODELS.items())[: 1 if quick else None]:
        torch.manual_seed(0)
        config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=None, pad_token_id=0)
        model = transformers.GPT2LMHeadModel(config).eval()
        ids = torch.randint(1, 256, (1, 16))
        for operator in GENERATION:
            torch._dynamo.reset()
            forwards = {"eager": model.forward, "numc": torch.compile(model.forward, backend=numc.backend(operator))}

            def run(forward: Any, model: Any = model, ids: torch.Tensor = ids) -> None:
                plain, model.forward = model.forward, forward
                model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False)
                model.forward = plain

            calls = {who: lambda forward=forward, run=run: run(forward) for who, forward in forwards.items()}
            timings = in_turns(calls, seconds=seconds, threads=2)
            row = {"model": name, "operator": operator, "ratio": ratio(timings, "numc", "eager")}
            row |= {f"{who}_tokens": NEW_TOKENS / timing.best for who, timing in timings.items()}
            rows.append({**row, "must": GENERATION[operator]})
    torch.set_num_threads(threads)
    return rows
