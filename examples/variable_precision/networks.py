"""MLP2 and CNN2, the two networks of the thesis, and how they are trained here: on MNIST's images of 28 x 28 pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from mnist import mnist
from torch import Tensor, nn

HELD_OUT = 1000
CLASSES = 10


@cache
def _images() -> tuple[Tensor, Tensor]:
    """Return the 5,000 images [5000, 784], pixels from 0 to 255, and their digits, in an order of their own."""
    images, digits = mnist()
    order = np.random.default_rng(0).permutation(len(images))
    flat = images[order].reshape(len(images), -1).astype(np.float32)
    return torch.from_numpy(flat), torch.from_numpy(digits[order])


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What both have in common. steps: of Adam, at a rate that falls to 0 along a cosine."""

    steps: int
    rate: float
    batch: int = 64
    decay: float = 1e-4
    name: ClassVar[str]
    title: ClassVar[str]
    largest_pixel: ClassVar[float]

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images and their digits, in the order of a seed; never ends."""
        images, digits = (each[HELD_OUT:] for each in _images())
        rng = np.random.default_rng([seed, 1])
        while True:
            order = torch.from_numpy(rng.permutation(len(images)))
            for chosen in order.split(self.batch)[: len(images) // self.batch]:
                yield self._scaled(images[chosen]), digits[chosen]

    def held_out(self) -> tuple[Tensor, Tensor]:
        """Return the held-out images, 1,000, and their digits."""
        images, digits = (each[:HELD_OUT] for each in _images())
        return self._scaled(images), digits

    def _scaled(self, images: Tensor) -> Tensor:
        return images * (self.largest_pixel / 255)

    def model(self) -> nn.Module:
        """Return the network with random weights. It takes images [batch, 784] and gives logits [batch, 10]."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Mlp2(_Task):
    """Dense layers of 128, 64 and 10. deviation: the standard deviation of the weights before the training."""

    steps: int = 3000
    rate: float = 5e-3
    deviation: float = 1.1
    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP2"
    largest_pixel: ClassVar[float] = 255

    def model(self) -> nn.Module:
        layers = (nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES))
        model = nn.Sequential(*layers)
        for weight in model.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=self.deviation)
        return model


@dataclass(frozen=True, kw_only=True)
class Cnn2(_Task):
    """Convolutions of 3 x 3 with 4, 8 and 16 channels, each before a maximum of 2 x 2; dense layers of 1000 and 10."""

    steps: int = 1200
    rate: float = 2e-3
    name: ClassVar[str] = "cnn"
    title: ClassVar[str] = "CNN2"
    largest_pixel: ClassVar[float] = 1

    def model(self) -> nn.Module:
        def stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
            return nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)

        dense = nn.Flatten(), nn.Linear(16 * 3 * 3, 1000), nn.ReLU(), nn.Linear(1000, CLASSES)
        return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), *stage(1, 4), *stage(4, 8), *stage(8, 16), *dense)


Task = Mlp2 | Cnn2
TASKS: dict[str, Task] = {task.name: task for task in (Mlp2(), Cnn2())}
