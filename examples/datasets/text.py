"""Texts: the Penn Treebank as word language models take it, and the sentence pairs of Multi30k."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sources import DataError, checked_folder

SPLITS = ("train", "valid", "test")
END, UNKNOWN = "<eos>", "<unk>"


@dataclass(frozen=True)
class Words:
    """A text as numbers of words: of each split, [n], and the words by their numbers."""

    words: tuple[str, ...]
    train: npt.NDArray[np.int64]
    valid: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


def ptb(folder: Path) -> Words:
    """Return the text of ``ptb.train.txt``, ``ptb.valid.txt`` and ``ptb.test.txt`` (Mikolov 2010).

    Lines end with <eos>. Words are numbered in the order in which the first split has them; others are <unk>, which
    then has to be there. Raises DataError.
    """
    checked_folder(folder, "the Penn Treebank", *(f"ptb.{split}.txt" for split in SPLITS))
    texts = {split: _words(folder / f"ptb.{split}.txt") for split in SPLITS}
    numbers = {word: number for number, word in enumerate(dict.fromkeys(texts["train"]))}
    coded = {}
    for split, text in texts.items():
        missing = next((word for word in text if word not in numbers), None)
        if missing is not None and UNKNOWN not in numbers:
            raise DataError(
                f"{folder / f'ptb.{split}.txt'}: {missing[:40]!r} is no word of train, which has no {UNKNOWN}"
            )
        coded[split] = np.array([numbers.get(word, numbers.get(UNKNOWN, -1)) for word in text], np.int64)
    return Words(tuple(numbers), **coded)


def _words(path: Path) -> list[str]:
    words = [word for line in lines(path) for word in (*line.split(), END)]
    if not words:
        raise DataError(f"{path}: is empty: want lines of words")
    return words


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, line by line, by the names of splits."""

    languages: tuple[str, str]
    splits: dict[str, tuple[tuple[str, str], ...]]


def multi30k(folder: Path, languages: tuple[str, str] = ("en", "de")) -> Pairs:
    """Return the pairs of ``train.en`` and ``train.de``, ``val.*`` and every ``test*.*`` (Elliott et al. 2016).

    Raises DataError if a file is missing, or if two files that belong together have not as many lines.
    """
    checked_folder(folder, "Multi30k", *(f"{split}.{language}" for split in ("train", "val") for language in languages))
    tests = sorted(path.name.removesuffix(f".{languages[0]}") for path in folder.glob(f"test*.{languages[0]}"))
    splits = {}
    for split in ("train", "val", *tests):
        checked_folder(folder, "Multi30k", *(f"{split}.{language}" for language in languages))
        first, second = (lines(folder / f"{split}.{language}") for language in languages)
        if len(first) != len(second) or not first:
            first_file, other = (f"{split}.{language}" for language in languages)
            raise DataError(f"{folder}: {first_file} has {len(first)} lines, {other} {len(second)}: want as many")
        splits[split] = tuple(zip(first, second, strict=True))
    return Pairs(languages, splits)


def lines(path: Path) -> list[str]:
    """Return the lines of a text in UTF-8, without their ends. Raises DataError."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text in UTF-8: {error}") from None
