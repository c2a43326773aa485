"""The four networks and their data: those of examples/formats_compared where it has them.

A task has ``model()``, ``optimizer(parameters)``, ``batches(seed)``, which yields the network's inputs and the target,
and ``loss(outputs, target)``. Its results depend on nothing but its fields.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
import tasks

zoo = tasks.zoo
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class _Observed:
    """What all tasks have in common.

    smaller: a constant factor of the loss, which gradients are freed from before the update. every: denormals are
    counted in every so many steps.
    """

    smaller: float = 2.0**-8
    every: int = 5


class _Classified(_Observed):
    """What the networks with a cross entropy have in common."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross entropy."""
        return F.cross_entropy(logits.flatten(0, -2), labels)

    def inputs(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield the network's inputs and the labels."""
        for x, y in self.batches(seed):  # type: ignore[attr-defined]
            yield (x,), y


@dataclass(frozen=True)
class ResNet(_Classified, tasks.Digits):
    """The residual network of examples/formats_compared, half as wide and with two stages."""

    width: int = 8
    depths: tuple[int, ...] = (1, 1)
    steps: int = 100
    rate: float = 0.02

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the optimizer, which torch runs in fp32."""
        return SGD(parameters, self.rate, self.momentum)


@dataclass(frozen=True)
class Lstm(_Classified, tasks.Language):
    """The LSTM of examples/formats_compared, half as wide, on half as long texts."""

    length: int = 4
    features: int = 32
    steps: int = 100
    rate: float = 0.01

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the optimizer, which torch runs in fp32."""
        return Adam(parameters, self.rate)


@dataclass(frozen=True)
class Transformer(Lstm):
    """A decoder of one layer on texts of the same language."""

    length: int = 8
    layers: int = 1
    rate: float = 0.003
    name: ClassVar[str] = "transformer"
    title: ClassVar[str] = "transformer"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return zoo.Decoder(self.letters, self.features, layers=self.layers)


@dataclass(frozen=True)
class Vae(_Observed):
    """A convolutional variational autoencoder of scikit-learn's digits, with pixels from 0 to 1."""

    width: int = 16
    latent: int = 8
    batch: int = 64
    steps: int = 100
    rate: float = 0.003
    name: ClassVar[str] = "vae"
    title: ClassVar[str] = "CVAE"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return zoo.Vae(self.width, self.latent)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return the optimizer, which torch runs in fp32."""
        return Adam(parameters, self.rate)

    def inputs(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield images [batch, 1, 8, 8] with noise [batch, latent], and the images again; never ends."""
        rng = np.random.default_rng([seed, 1])
        while True:
            images = self._images[rng.integers(len(self._images), size=self.batch)]
            noise = torch.from_numpy(rng.standard_normal((self.batch, self.latent), np.float32))
            yield (images, noise), images

    def loss(self, outputs: tuple[Tensor, Tensor, Tensor], images: Tensor) -> Tensor:
        """Return the mean of the negative evidence lower bound of an image."""
        logits, mean, logarithm = outputs
        seen = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        divergence = 0.5 * (mean.square() + logarithm.exp() - 1 - logarithm).sum()
        return (seen + divergence) / len(images)

    @cached_property
    def _images(self) -> Tensor:
        from sklearn.datasets import load_digits

        return torch.from_numpy((load_digits().images / 16).astype(np.float32)[:, None])


Task = ResNet | Lstm | Transformer | Vae
QUICK: tuple[Task, ...] = (
    ResNet(4, (), batch=16, steps=4),
    Lstm(8, 2, 8, 16, steps=4),
    Transformer(8, 4, 8, 16, steps=4),
    Vae(4, 2, 16, steps=4),
)
FULL: tuple[Task, ...] = (ResNet(), Transformer(), Lstm(), Vae())
