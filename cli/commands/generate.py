"""``numc generate``: continue a text with a language model, in an arithmetic."""

from __future__ import annotations

import sys

import click

from numc.cli import output
from numc.cli.source import Arithmetic, arithmetic_options
from numc.support.errors import NumcError, escaped

_EPILOG = """\b
MODEL is a folder with config.json, *.safetensors and a tokenizer, as save_pretrained writes it,
or a GGUF file of llama.cpp. Nothing in it is run. The next token is the most probable one,
unless --temperature, --top-k or --top-p say otherwise; then it is drawn, and the same seed draws
the same text.

\b
Examples:
  numc generate gpt2/ --prompt 'The meaning of life is'
  numc generate gpt2/ --prompt 'The meaning of life is' --fma bf16_1_2 --max-new-tokens 40
  numc generate llama/ --prompt 'Once upon a time' --policy mixed.policy --temperature 0.8 --seed 7
"""


@click.command("generate", epilog=_EPILOG)
@click.argument("folder", metavar="MODEL")
@click.option("--prompt", required=True, metavar="TEXT", help="The text that is continued.")
@click.option("--max-new-tokens", "most", type=click.IntRange(1), default=64, show_default=True, help="Stop after N.")
@click.option("--temperature", type=float, metavar="T", help="Draw the next token, from logits divided by T.")
@click.option("--top-k", type=click.IntRange(1), metavar="K", help="Draw one of the K most probable tokens.")
@click.option("--top-p", type=float, metavar="P", help="Draw one of the most probable, P of the probability together.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, help="Seed of draws and stochastic roundings.")
@click.option("--kv-cache", metavar="FORMAT", help="Keep keys and values in 8 bits: e4m3fn, e5m2, int8, e4m3fn:head.")
@arithmetic_options
@click.option("--json", "want_json", is_flag=True, help="Print tokens, text and speed as JSON, at the end.")
def generate_command(
    folder: str,
    prompt: str,
    most: int,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    kv_cache: str | None,
    arithmetic: Arithmetic,
    want_json: bool,
) -> None:
    """Continue a text with a language model, and print what it adds as it is made."""
    for option, number, highest in (("--temperature", temperature, float("inf")), ("--top-p", top_p, 1.0)):
        if number is not None and not 0 < number <= highest:
            raise NumcError(f"{option} {number:g}: want above 0{' to 1' if highest == 1 else ''}: leave it out for the "
                            "most probable token")  # fmt: skip
    if arithmetic.target not in (None, "host"):
        raise NumcError(f"--target {arithmetic.target}: the model runs on this machine: leave it out")
    policy, _ = arithmetic.options().resolved()
    from numc.frontends.pytorch.folder import LanguageModel
    from numc.studies.language.generate import Sampling, generate
    from numc.studies.language.kv_cache import cache_format

    cache = None if kv_cache is None else cache_format(kv_cache)
    with output.busy(f"reading {folder}"):
        language = LanguageModel(folder)
    generated = generate(
        language,
        prompt,
        policy,
        most=most,
        sampling=Sampling(temperature, top_k, top_p, seed),
        say=_ignored if want_json else _say,
        kv_cache=cache,
    )
    speed = len(generated.tokens) / generated.seconds
    if want_json:
        output.as_json(
            {
                "prompt_tokens": list(generated.prompt_tokens),
                "tokens": list(generated.tokens),
                "text": generated.text,
                "ended": generated.ended,
                "seconds": round(generated.seconds, 6),
                "tokens_per_second": round(speed, 3),
                **({} if generated.cache_bytes is None else {"kv_cache_bytes": generated.cache_bytes}),
            }
        )
        return
    click.echo()
    if sys.stderr.isatty():
        output.say(f"{len(generated.tokens)} tokens, {speed:.1f} a second", err=True)


def _say(text: str) -> None:
    """Print a piece of text at once; of characters that are not printable only line breaks and tabs as they are."""
    click.echo("\n".join(map(escaped, text.split("\n"))), nl=False)


def _ignored(_: str) -> None:
    pass
