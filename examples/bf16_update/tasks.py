"""The task of the study: 28 x 28 digits of MNIST, some of them held out, and a convolutional network of width 64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from mnist import mnist
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
TRAINED = 4000
"""Images to train with; the other 1000 of the 5000 are held out. One of them is 0.1 points."""


@dataclass(frozen=True)
class Images:
    """5,000 images of MNIST, a convolution, and two dense layers. rate, momentum: of SGD.

    The wgrad of the convolution adds up batch x 28 x 28 products, 100,352 of them, in every element.
    """

    width: int = 64
    batch: int = 128
    steps: int = 300
    rate: float = 0.002
    momentum: float = 0.9
    name: ClassVar[str] = "mnist"
    title: ClassVar[str] = "MNIST"
    quality: ClassVar[str] = "accuracy (%)"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return nn.Sequential(
            nn.Conv2d(1, self.width, 3, padding=1),
            nn.BatchNorm2d(self.width),
            nn.ReLU(),
            nn.MaxPool2d(4),
            nn.Flatten(),
            nn.Linear(self.width * 49, self.width),
            nn.BatchNorm1d(self.width),
            nn.ReLU(),
            nn.Linear(self.width, 10),
        )

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield images [batch, 1, 28, 28] and digits [batch], in the order of a seed; never ends."""
        rng = np.random.default_rng([seed, 1])
        images, digits = self._data
        while True:
            order = rng.permutation(TRAINED)
            for start in range(0, TRAINED - self.batch + 1, self.batch):
                chosen = order[start : start + self.batch]
                yield torch.from_numpy(images[chosen]), torch.from_numpy(digits[chosen])

    def held_out(self) -> Batch:
        """Return the held-out images and their digits."""
        images, digits = self._data
        return torch.from_numpy(images[TRAINED:]), torch.from_numpy(digits[TRAINED:])

    @cached_property
    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        images, digits = mnist()
        order = np.random.default_rng(0).permutation(len(images))
        scaled = (images[order].astype(np.float64) - images.mean()) / images.std()
        return scaled[:, None].astype(np.float32), digits[order]
