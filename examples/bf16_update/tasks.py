"""The task of the study: 28 x 28 digits of MNIST, some of them held out, and a convolutional network of width 64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import arrays
import numpy as np
import torch
from cifar import cifar, is_cifar
from imagenet import image_folders
from mnist import CLASSES, SIDE, mnist
from sources import DataError
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
Split = tuple[np.ndarray, np.ndarray]
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

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, the side in pixels, and the number of classes."""
        return 1, SIDE, CLASSES

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        channels, side, classes = self.shape
        return nn.Sequential(
            nn.Conv2d(channels, self.width, 3, padding=1),
            nn.BatchNorm2d(self.width),
            nn.ReLU(),
            nn.MaxPool2d(4),
            nn.Flatten(),
            nn.Linear(self.width * (side // 4) ** 2, self.width),
            nn.BatchNorm1d(self.width),
            nn.ReLU(),
            nn.Linear(self.width, classes),
        )

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield images [batch, channels, side, side] and classes [batch], in the order of a seed; never ends."""
        rng = np.random.default_rng([seed, 1])
        images, classes = self._data[0]
        while True:
            order = rng.permutation(len(images))
            for start in range(0, len(images) - self.batch + 1, self.batch):
                chosen = order[start : start + self.batch]
                yield torch.from_numpy(images[chosen]), torch.from_numpy(classes[chosen])

    def held_out(self) -> Batch:
        """Return the held-out images and their classes."""
        images, classes = self._data[1]
        return torch.from_numpy(images), torch.from_numpy(classes)

    @cached_property
    def _data(self) -> tuple[Split, Split]:
        """What is trained with, and what is held out."""
        images, digits = mnist()
        order = np.random.default_rng(0).permutation(len(images))
        scaled = ((images[order].astype(np.float64) - images.mean()) / images.std())[:, None].astype(np.float32)
        return (scaled[:TRAINED], digits[order][:TRAINED]), (scaled[TRAINED:], digits[order][TRAINED:])


@dataclass(frozen=True)
class Folder(Images):
    """The images of a folder in place of MNIST: CIFAR-10 or CIFAR-100 in their binary versions, or train and val."""

    folder: str = ""
    name: ClassVar[str] = "folder"

    @property
    def shape(self) -> tuple[int, int, int]:
        return *self._found.shape, self._found.classes

    @cached_property
    def _found(self) -> arrays.Images:
        kind = is_cifar(Path(self.folder))
        return cifar(Path(self.folder), kind) if kind else image_folders(Path(self.folder))

    @cached_property
    def _data(self) -> tuple[Split, Split]:
        mean, spread = self._found.train.mean(), self._found.train.std()
        if len(self._found.train) < self.batch:
            raise DataError(f"{self.folder}: {len(self._found.train)} images to train with: want at least {self.batch}")
        scaled = [((images - mean) / spread).astype(np.float32) for images in (self._found.train, self._found.held_out)]
        return (scaled[0], self._found.train_labels), (scaled[1], self._found.held_out_labels)
