"""Texts that no parser expects: a valid one with a few random changes, always the same for one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

NASTY = (
    "\0", "\x1b[31m", "\u202e", "\ud800", "٣", "９", "\n", "\r\n", "\u2028", "\t", "9" * 5000, "(" * 3000, ")" * 50,
    "[" * 3000, "{" * 500, '"', "'", "e" * 400, "-", "..", "=", ",", "/", ":", "#", "1e999999999", "0" * 300, "nan",
    "inf", "-1", "\xa0", "a" * 1200, "😀", "where ", "and ", "or (", "layer ", "fma = ", "1/0", "%s", "null", "true",
    ";", "\\",
)  # fmt: skip


def mutants(seeds: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """Yield `count` mutants of the texts, half of them with one character changed."""
    choose = random.Random(seed)
    for _ in range(count):
        text = choose.choice(seeds)
        if choose.random() < 0.5:
            at = choose.randrange(len(text) + 1)
            yield text[:at] + chr(choose.randrange(32, 127)) * choose.randrange(2) + text[at + choose.randrange(2) :]
            continue
        for _ in range(choose.choice([1, 1, 2, 3, 5])):
            at = choose.randrange(len(text) + 1)
            end = min(len(text), at + choose.choice([0, 1, 2, 20]))
            new = choose.choice([choose.choice(NASTY), chr(choose.randrange(0x300)), text[at:end] * 30, text[-10:], ""])
            text = (text[:at] + new + text[end:])[:20000]
        yield text
