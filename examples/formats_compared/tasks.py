"""The two tasks: noisy digits for a ResNet, a random language for an LSTM; both networks are of examples/models/zoo.py.

The data come from numpy's PCG64 with a seed, so they are the same on every machine. Results of a task depend on nothing
but its fields.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[1] / "models"))
import zoo

Batch = tuple[Tensor, Tensor]
TRAINED = 1297
"""Digits to train with; the other 500 of the 1797 are held out."""
PARTS = 4
"""Held-out data come in as many parts of one size."""


@dataclass(frozen=True)
class Digits:
    """Scikit-learn's 8x8 digits under Gaussian noise, new at every step, and a residual network.

    noise: its standard deviation; that of the pixels is 1. rate, momentum: of SGD.
    """

    width: int = 16
    depths: tuple[int, ...] = (1, 1, 1)
    noise: float = 0.7
    batch: int = 128
    steps: int = 300
    rate: float = 0.002
    momentum: float = 0.9
    name: ClassVar[str] = "resnet"
    quality: ClassVar[str] = "accuracy (%)"

    @property
    def title(self) -> str:
        """The name of the network in tables."""
        return "ResNet" if self.depths[:1] in ((), (1,)) else f"ResNet of {sum(self.depths)} blocks"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return zoo.resnet18(self.width, self.depths)

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield images [batch, 3, 8, 8], of three equal channels, and labels [batch]; never ends."""
        rng = np.random.default_rng([seed, 1])
        images, labels = self._data
        while True:
            order = rng.permutation(TRAINED)
            for start in range(0, TRAINED - self.batch + 1, self.batch):
                chosen = order[start : start + self.batch]
                yield self._noisy(images[chosen], rng), torch.from_numpy(labels[chosen])

    def held_out(self) -> list[Batch]:
        """Return the held-out images, each with PARTS different noises."""
        rng = np.random.default_rng(2)
        images, labels = (part[TRAINED:] for part in self._data)
        return [(self._noisy(images, rng), torch.from_numpy(labels)) for _ in range(PARTS)]

    def score(self, logits: Tensor, labels: Tensor) -> float:
        """Return the percentage of right answers."""
        return 100 * float((logits.argmax(1) == labels).double().mean())

    def _noisy(self, images: np.ndarray, rng: np.random.Generator) -> Tensor:
        noisy = images + np.float32(self.noise) * rng.standard_normal(images.shape, np.float32)
        return torch.from_numpy(np.repeat(noisy, 3, axis=1))

    @cached_property
    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import load_digits

        found = load_digits()
        order = np.random.default_rng(0).permutation(len(found.data))
        images = found.data[order].reshape(-1, 1, 8, 8)
        images = (images - images.mean()) / images.std()
        return images.astype(np.float32), found.target[order].astype(np.int64)


@dataclass(frozen=True)
class Language:
    """A language in which two letters give the probabilities of the next one, and a two-layer LSTM that predicts it.

    The probabilities are drawn once, by a Dirichlet distribution of concentration 0.2; the text is new at every step.
    """

    letters: int = 16
    length: int = 8
    features: int = 64
    batch: int = 128
    steps: int = 1000
    rate: float = 0.2
    momentum: float = 0.9
    name: ClassVar[str] = "lstm"
    title: ClassVar[str] = "LSTM"
    quality: ClassVar[str] = "perplexity"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return zoo.Lstm(self.letters, self.features)

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield letters [batch, length] and the letter after each, [batch * length]; never ends."""
        rng = np.random.default_rng([seed, 1])
        while True:
            yield self._text(self.batch, rng)

    def held_out(self) -> list[Batch]:
        """Return text that is not used for training."""
        rng = np.random.default_rng(2)
        return [self._text(4 * self.batch, rng) for _ in range(PARTS)]

    def score(self, logits: Tensor, letters: Tensor) -> float:
        """Return the perplexity."""
        return math.exp(F.cross_entropy(logits, letters))

    def floor(self) -> float:
        """Return the perplexity of the true probabilities, which is the least possible one."""
        table, pairs = self._chain
        after_one = pairs / pairs.sum(1, keepdims=True)
        one = -(pairs * np.log(after_one)).sum()
        two = -(pairs[:, :, None] * table * np.log(np.maximum(table, 1e-300))).sum()
        return math.exp((one + (self.length - 1) * two) / self.length)

    def _text(self, count: int, rng: np.random.Generator) -> Batch:
        table, pairs = self._chain
        text = np.empty((count, self.length + 1), np.int64)
        text[:, 0], text[:, 1] = np.divmod(rng.choice(pairs.size, count, p=pairs.ravel()), self.letters)
        sums = table.cumsum(2)
        for place in range(2, self.length + 1):
            below = sums[text[:, place - 2], text[:, place - 1], :-1] < rng.random((count, 1))
            text[:, place] = below.sum(1)
        return torch.from_numpy(text[:, :-1].copy()), torch.from_numpy(text[:, 1:].reshape(-1).copy())

    @cached_property
    def _chain(self) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities of a letter given two, [first, second, third], and of pairs of letters in a long text."""
        size = self.letters
        table = np.random.default_rng(0).dirichlet(np.full(size, 0.2), (size, size))
        pairs = np.full((size, size), 1 / size**2)
        for _ in range(300):
            pairs = np.einsum("ab,abc->bc", pairs, table)
        return table, pairs / pairs.sum()


@dataclass(frozen=True)
class Attention(Language):
    """A decoder of two layers with attention, which predicts the language that the LSTM predicts."""

    steps: int = 600
    rate: float = 0.05
    heads: int = 2
    name: ClassVar[str] = "transformer"
    title: ClassVar[str] = "transformer"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return zoo.Decoder(self.letters, self.features, self.heads)


Task = Digits | Language
QUICK: tuple[Task, ...] = (Digits(4, (1,), batch=32, steps=8, rate=0.05), Language(8, 2, 8, 16, steps=8))
FULL: tuple[Task, ...] = (Digits(), Language())
SCALED: tuple[Task, ...] = (Digits(steps=100, rate=0.01), Attention(steps=200, rate=0.1))
SCALED_QUICK: tuple[Task, ...] = (QUICK[0], Attention(8, 2, 8, 16, steps=4))
"""Those of the recipes in eight and four bits."""
