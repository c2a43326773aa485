"""The five tasks, each in the kind of network that the thesis trains, of a size that trains in seconds.

A task has ``model()``, ``optimizer(parameters)``, ``batches(seed)``, which yields what the network reads and what it
should give, ``loss(outputs, target)`` and ``judge(predict)``. Its results depend on nothing but its fields.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from films import Films, films
from mnist import mnist
from sentences import Translations, Words, reviews, translations
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

sys.path.append(str(Path(__file__).parents[1] / "models"))
import zoo

from numc.train import bleu, ndcg

Inputs = tuple[Tensor, ...]
Predict = Callable[..., Tensor]
DROPS = (82, 122)
"""The epochs of 160 after which the thesis divides the rate of its convolutional networks by ten."""
HELD_OUT = 1000
"""Images, reviews, sentences that are held out; ratings are split by `films`."""


@dataclass(frozen=True)
class _Task:
    """What the tasks have in common. rate: of the optimizer. epochs: parts of the training, each of them judged."""

    batch: int
    steps: int
    rate: float
    epochs: int = 5
    name: ClassVar[str]
    title: ClassVar[str]
    quality: ClassVar[str] = "accuracy (%)"
    form: ClassVar[str] = ".2f"

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return SGD with momentum 0.9."""
        return SGD(parameters, self.rate, 0.9)

    def rate_at(self, step: int) -> float:
        """Return the rate of a step, the first of which is 0."""
        return self.rate

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross entropy."""
        return F.cross_entropy(outputs, target)

    def _chosen(self, count: int, seed: int) -> Iterator[np.ndarray]:
        """Yield the numbers of a batch's samples, in an order that is new in each round; never ends."""
        rng = np.random.default_rng([seed, 1])
        while True:
            order = rng.permutation(count)
            for start in range(0, count - self.batch + 1, self.batch):
                yield order[start : start + self.batch]


@dataclass(frozen=True)
class ResNet(_Task):
    """5,000 images of MNIST of 28 x 28, 1,000 of them held out; three residual blocks behind a convolution."""

    batch: int = 64
    steps: int = 300
    rate: float = 0.02
    width: int = 8
    name: ClassVar[str] = "resnet"
    title: ClassVar[str] = "ResNet"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        width = self.width
        return nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1, bias=False),
            *(nn.BatchNorm2d(width), nn.ReLU()),
            *(zoo.Residual(width, width, 1), zoo.Residual(width, 2 * width, 2), zoo.Residual(2 * width, 4 * width, 2)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10)),
        )

    def rate_at(self, step: int) -> float:
        """Return the rate, which is divided by ten after 82 and after 122 of 160 parts of the training."""
        return self.rate / 10 ** sum(160 * step >= part * self.steps for part in DROPS)

    def batches(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield images [batch, 1, 28, 28] and digits [batch]."""
        images, digits = self._data
        for chosen in self._chosen(len(images) - HELD_OUT, seed):
            yield (torch.from_numpy(images[chosen]),), torch.from_numpy(digits[chosen])

    def judge(self, predict: Predict) -> tuple[float, float]:
        """Return the accuracy in per cent and the loss of held-out images."""
        images, digits = (torch.from_numpy(part[-HELD_OUT:]) for part in self._data)
        logits = predict(images).double()
        return 100 * float((logits.argmax(1) == digits).double().mean()), float(self.loss(logits, digits))

    @cached_property
    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        images, digits = mnist()
        order = np.random.default_rng(0).permutation(len(images))
        scaled = ((images[order].astype(np.float64) - images.mean()) / images.std())[:, None].astype(np.float32)
        return scaled, digits[order]


@dataclass(frozen=True)
class MobileNet(ResNet):
    """The same images; inverted residual blocks of depthwise convolutions."""

    rate: float = 0.05
    name: ClassVar[str] = "mobilenet"
    title: ClassVar[str] = "MobileNetV2"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        width = self.width
        return nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1, bias=False),
            *(nn.BatchNorm2d(width), nn.ReLU6()),
            zoo.InvertedResidual(width, width, 1, 1),
            *(zoo.InvertedResidual(width, 2 * width, 2, 4), zoo.InvertedResidual(2 * width, 2 * width, 1, 4)),
            *(nn.Conv2d(2 * width, 8 * width, 1, bias=False), nn.BatchNorm2d(8 * width), nn.ReLU6()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10)),
        )


@dataclass(frozen=True)
class Lstm(_Task):
    """Two layers of LSTM predict the words of reviews of clothes, as far as these are among the most frequent ones."""

    batch: int = 64
    steps: int = 400
    rate: float = 0.2
    words: int = 256
    length: int = 10
    features: int = 32
    name: ClassVar[str] = "lstm"
    title: ClassVar[str] = "LSTM"
    quality: ClassVar[str] = "perplexity"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return _Flat(zoo.Lstm(self.words, self.features))

    def batches(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield words [batch, length] and the word after each, [batch * length]."""
        texts = self._data.texts[:-HELD_OUT]
        for chosen in self._chosen(len(texts), seed):
            yield self._parts(texts[chosen])

    def judge(self, predict: Predict) -> tuple[float, float]:
        """Return the perplexity and the loss of held-out texts."""
        (words,), following = self._parts(self._data.texts[-HELD_OUT:])
        loss = self.loss(predict(words).double(), following)
        return float(loss.exp()), float(loss)

    @staticmethod
    def _parts(texts: np.ndarray) -> tuple[Inputs, Tensor]:
        return (torch.from_numpy(texts[:, :-1].copy()),), torch.from_numpy(texts[:, 1:].reshape(-1).copy())

    @cached_property
    def _data(self) -> Words:
        return reviews(self.words, self.length + 1)


class _Flat(nn.Module):
    """A language model whose logits are those of one place after the other."""

    def __init__(self, model: nn.Module, first: int = 0) -> None:
        super().__init__()
        self.model, self.first = model, first

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [n * (t - first), words] of the tokens after places `first` and later ones."""
        return self.model(tokens)[:, self.first :].flatten(0, 1)


@dataclass(frozen=True)
class Transformer(_Task):
    """A transformer reads a date in English words and writes it in French; Adam."""

    batch: int = 64
    steps: int = 200
    rate: float = 0.002
    features: int = 32
    layers: int = 2
    judged: int = 200
    name: ClassVar[str] = "transformer"
    title: ClassVar[str] = "transformer"
    quality: ClassVar[str] = "BLEU"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        data = self._data
        decoder = zoo.Decoder(len(data.words), self.features, 2, self.layers)
        return _Flat(decoder, data.source - 1)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return Adam with the thesis' coefficients."""
        return Adam(parameters, self.rate, (0.9, 0.98), 1e-9)

    def batches(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield both sentences of each pair, [batch, t], and the words of the second one, [batch * length]."""
        tokens = self._data.tokens[:-HELD_OUT]
        for chosen in self._chosen(len(tokens), seed):
            yield self._parts(tokens[chosen])

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross entropy of words that are there."""
        return F.cross_entropy(outputs, target, ignore_index=self._data.nothing)

    def judge(self, predict: Predict) -> tuple[float, float]:
        """Return the BLEU of the most probable words, each after those before it, and the loss of held-out pairs."""
        data = self._data
        tokens = data.tokens[-HELD_OUT:][: self.judged]
        (words,), target = self._parts(tokens)
        loss = self.loss(predict(words).double(), target)
        written = words.clone()
        written[:, data.source :] = data.nothing
        for place in range(data.source, data.tokens.shape[1]):
            best = predict(written).unflatten(0, (len(words), -1))[:, place - data.source].argmax(1)
            if place < written.shape[1]:
                written[:, place] = best
        sentences = torch.cat([written, best[:, None]], 1).numpy()
        return bleu(data.told(sentences), data.told(tokens)), float(loss)

    def _parts(self, tokens: np.ndarray) -> tuple[Inputs, Tensor]:
        source = self._data.source
        return (torch.from_numpy(tokens[:, :-1].copy()),), torch.from_numpy(tokens[:, source:].reshape(-1).copy())

    @cached_property
    def _data(self) -> Translations:
        return translations()


class _Scores(nn.Module):
    """NGCF over a graph that does not change."""

    def __init__(self, graph: Tensor, users: int, features: int, layers: int) -> None:
        super().__init__()
        self.register_buffer("graph", graph)
        self.body = zoo.Ngcf(users, len(graph) - users, features, layers)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """Return scores [n] of the pairs (user[n], item[n])."""
        return self.body(self.graph, user, item)


@dataclass(frozen=True)
class Ngcf(_Task):
    """NGCF ranks the films of MovieLens-100k: those with most ratings, and people with most ratings of them; Adam."""

    batch: int = 512
    steps: int = 300
    rate: float = 0.001
    users: int = 300
    items: int = 400
    features: int = 16
    layers: int = 2
    name: ClassVar[str] = "ngcf"
    title: ClassVar[str] = "NGCF"
    quality: ClassVar[str] = "NDCG@20 (%)"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return _Scores(torch.from_numpy(self._data.graph()), self.users, self.features, self.layers)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return Adam."""
        return Adam(parameters, self.rate)

    def batches(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield people and films that they have rated, [batch], and then the same people and films that they have not.

        The target is that the first score be the larger one.
        """
        known = self._data.known
        rng = np.random.default_rng([seed, 3])
        pairs = np.argwhere(known)
        free = [np.flatnonzero(~row) for row in known]
        for chosen in self._chosen(len(pairs), seed):
            user, item = pairs[chosen].T
            other = [free[n][rng.integers(len(free[n]))] for n in user]
            both = torch.from_numpy(np.tile(user, 2)), torch.from_numpy(np.concatenate([item, other]))
            yield both, torch.ones(self.batch)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the mean of -log sigmoid(score - other score) (Rendle et al. 2009)."""
        liked, other = outputs.unflatten(0, (2, -1)).unbind(0)
        return F.binary_cross_entropy_with_logits(liked - other, target.to(outputs.dtype))

    def judge(self, predict: Predict) -> tuple[float, float]:
        """Return 100 NDCG@20 of the held-out ratings, among films not known to be rated, and the loss of all pairs.

        A network that has become NaN ranks nothing: its NDCG is 0.
        """
        data = self._data
        user, item = (torch.from_numpy(each.reshape(-1)) for each in np.indices(data.known.shape))
        scores = predict(user, item).double().reshape(data.known.shape)
        loss = self._held_out_loss(scores)
        if scores.isnan().any():
            return 0.0, loss
        hidden = np.where(data.known, -np.inf, scores.numpy())
        return 100 * ndcg(hidden, data.held_out.astype(float), 20), loss

    def _held_out_loss(self, scores: Tensor) -> float:
        """Return the loss of all pairs of a held-out film of a person and one that they have not rated."""
        data, found = self._data, []
        for row, liked, known in zip(scores, data.held_out, data.known, strict=True):
            other = row[torch.from_numpy(~(liked | known))]
            found.append(F.softplus(other - row[torch.from_numpy(liked)][:, None]).flatten())
        return float(torch.cat(found).mean())

    @cached_property
    def _data(self) -> Films:
        return films(self.users, self.items)


Task = ResNet | MobileNet | Lstm | Transformer | Ngcf
TASKS: tuple[Task, ...] = (ResNet(), MobileNet(), Lstm(), Transformer(), Ngcf())
