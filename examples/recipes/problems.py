"""The three tasks: digits, spoken vowels and ratings of films, each real data of an installed package.

A task has ``model()``, ``batches(seed)``, ``held_out()`` and the settings of its training, which are its fields. Its
results depend on nothing but these.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from mnist import mnist
from movielens import movielens
from series import series
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[1] / "models"))
import zoo

Inputs = np.ndarray
Batch = tuple[Tensor, Tensor]
Split = tuple[Inputs, np.ndarray]


@dataclass(frozen=True)
class _Task:
    """What the tasks have in common. rate, momentum: of SGD. last: the steps of what is called the last epoch."""

    width: int
    batch: int
    steps: int
    rate: float
    momentum: float = 0.9
    last: int = 20
    name: ClassVar[str]
    title: ClassVar[str]
    measure: ClassVar[str] = "accuracy (%)"

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield inputs and classes, in the order of a seed; never ends."""
        rng = np.random.default_rng([seed, 1])
        inputs, classes = self._data[0]
        while True:
            order = rng.permutation(len(inputs))
            for start in range(0, len(inputs) - self.batch + 1, self.batch):
                chosen = order[start : start + self.batch]
                yield torch.from_numpy(inputs[chosen]), torch.from_numpy(classes[chosen])

    def held_out(self) -> Batch:
        """Return the held-out inputs and their classes."""
        inputs, classes = self._data[1]
        return torch.from_numpy(inputs), torch.from_numpy(classes)

    @property
    def _data(self) -> tuple[Split, Split]:
        """What is trained with, and what is held out."""
        raise NotImplementedError


@dataclass(frozen=True)
class Pictures(_Task):
    """5,000 images of MNIST of 28 x 28, 1,000 of them held out; two convolutions and two dense layers, batch norm.

    The wgrad of the first convolution adds up 128 x 14 x 14 products, 25,088.
    """

    width: int = 8
    batch: int = 128
    steps: int = 200
    rate: float = 0.01
    name: ClassVar[str] = "mnist"
    title: ClassVar[str] = "MNIST"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        width = self.width
        return nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(width * 49, 8 * width),
            nn.BatchNorm1d(8 * width),
            nn.ReLU(),
            nn.Linear(8 * width, 10),
        )

    @cached_property
    def _data(self) -> tuple[Split, Split]:
        images, digits = mnist()
        order = np.random.default_rng(0).permutation(len(images))
        scaled = ((images[order].astype(np.float64) - images.mean()) / images.std())[:, None].astype(np.float32)
        return (scaled[:4000], digits[order][:4000]), (scaled[4000:], digits[order][4000:])


class _Vowels(nn.Module):
    """Attention of each time to those before it, and two dense layers, over 12 coefficients at each of 25 times."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into, self.block, self.head = nn.Linear(12, width), zoo.DecoderBlock(width, 2), nn.Linear(width, 9)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the speakers."""
        return self.head(self.block(self.into(x)).mean(1))


@dataclass(frozen=True)
class Vowels(_Task):
    """JapaneseVowels: 270 series of 12 coefficients by nine speakers, and 370 held out; one transformer block."""

    width: int = 16
    batch: int = 54
    steps: int = 150
    rate: float = 0.01
    name: ClassVar[str] = "vowels"
    title: ClassVar[str] = "JapaneseVowels"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return _Vowels(self.width)

    @cached_property
    def _data(self) -> tuple[Split, Split]:
        found = series("JapaneseVowels")
        mean, spread = (part(found.train, axis=(0, 2), keepdims=True) for part in (np.mean, np.std))
        both = [((x - mean) / spread).transpose(0, 2, 1).astype(np.float32) for x in (found.train, found.held_out)]
        return (both[0], found.train_labels), (both[1], found.held_out_labels)


@dataclass(frozen=True)
class Ratings(_Task):
    """MovieLens-100k: whether a person rates a film with 4 or 5; 90,000 ratings, and the 10,000 others are held out.

    The inputs are the mean and the logarithm of the number of the ratings of the person and of the film among the
    90,000, scaled; the network has three dense layers.
    """

    width: int = 32
    batch: int = 512
    steps: int = 200
    rate: float = 0.05
    name: ClassVar[str] = "movielens"
    title: ClassVar[str] = "MovieLens"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        width = self.width
        return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    @cached_property
    def _data(self) -> tuple[Split, Split]:
        found = movielens()
        order = np.random.default_rng(0).permutation(len(found.ratings))
        known, ratings = order[:90_000], found.ratings
        columns = []
        for ids in (found.users, found.films):
            count = np.bincount(ids[known], minlength=ids.max() + 1)
            total = np.bincount(ids[known], weights=ratings[known], minlength=ids.max() + 1)
            mean = np.where(count, total / np.maximum(count, 1), ratings[known].mean())
            columns += [mean[ids], np.log1p(count)[ids]]
        inputs = np.stack(columns, axis=1)[order]
        inputs = ((inputs - inputs[:90_000].mean(0)) / inputs[:90_000].std(0)).astype(np.float32)
        liked = (ratings[order] >= 4).astype(np.int64)
        return (inputs[:90_000], liked[:90_000]), (inputs[90_000:], liked[90_000:])


Task = Pictures | Vowels | Ratings
TASKS: tuple[Task, ...] = (Pictures(), Vowels(), Ratings())
