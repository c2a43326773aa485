"""Five small networks without normalisation, each with a task on scikit-learn's 8x8 digits.

Pixels, which go from 0 to 16, are offset by 16 and divided by their standard deviation: 2.7 to 5.3, mean 3.5. So
activations are far from centred. Data come from numpy's PCG64 with a seed. Results of a task depend on nothing but its
fields.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Batch = tuple[Tensor, ...]
TRAINED = 1297
"""Digits to train with; the other 500 are held out."""
OFFSET = 16.0
NODES = 128


def mlp(width: int) -> nn.Module:
    """Four linear layers: images [n, 1, 8, 8] to logits [n, 10]."""
    sizes = (64, width, width, width)
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, 10))


def cnn(width: int) -> nn.Module:
    """Three convolutions and a linear layer: images [n, 1, 8, 8] to logits [n, 10]."""
    first = (nn.Conv2d(1, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(
        *first, nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * width, 10)
    )


class UNet(nn.Module):
    """A U-Net of one level: images [n, 1, 8, 8] to logits of two classes for each pixel [n, 2, 8, 8]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.bottom = nn.Conv2d(width, 2 * width, 3, 1, 1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.right = nn.Conv2d(2 * width, width, 3, 1, 1)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of every pixel."""
        wide = F.relu(self.down2(F.relu(self.down1(x))))
        low = F.relu(self.bottom(F.max_pool2d(wide, 2)))
        return self.head(F.relu(self.right(torch.cat([self.up(low), wide], 1))))


class Lstm(nn.Module):
    """An LSTM that reads an image [n, 1, 8, 8] as four vectors of two rows, to logits [n, 10]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.cell, self.head = nn.Linear(16, width), nn.LSTMCell(width, width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits after the last rows."""
        state = None
        for rows in torch.tanh(self.first(x.reshape(-1, 4, 16))).unbind(1):
            state = self.cell(rows, state)
        return self.head(state[0])


class Gcn(nn.Module):
    """Three graph convolutions: nodes [v, 1, 8, 8] and a normalised adjacency matrix [v, v] to logits [v, 10]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Return the logits of every node."""
        hidden = F.relu(adjacency @ self.first(x.flatten(1)))
        return adjacency @ self.third(F.relu(adjacency @ self.second(hidden)))


@dataclass(frozen=True)
class Task:
    """A network and its training. rate: of SGD with momentum 0.9. layers: all but the first and the last."""

    name: str
    title: str
    layers: tuple[str, ...]
    width: int
    rate: float
    steps: int = 200
    batch: int = 64

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return {"mlp": mlp, "cnn": cnn, "unet": UNet, "lstm": Lstm, "gcn": Gcn}[self.name](self.width)

    def batches(self, seed: int) -> Iterator[tuple[Batch, Tensor]]:
        """Yield the arguments of the network and the classes that it should find; never ends."""
        rng = np.random.default_rng([seed, 1])
        while True:
            chosen = rng.permutation(TRAINED)[: NODES if self.name == "gcn" else self.batch]
            yield self._of(chosen, rng)

    def held_out(self) -> tuple[Batch, Tensor]:
        """Return what the accuracy is measured on."""
        chosen = np.arange(TRAINED, TRAINED + (NODES if self.name == "gcn" else 500))
        return self._of(chosen, np.random.default_rng(2))

    def _of(self, chosen: np.ndarray, rng: np.random.Generator) -> tuple[Batch, Tensor]:
        images, labels = digits()
        clean = images[chosen]
        if self.name == "unet":  # which pixels have ink, under noise
            noise = rng.standard_normal(clean.shape, np.float32)
            return (torch.from_numpy(clean + noise),), torch.from_numpy((clean > images.mean()).astype(np.int64)[:, 0])
        if self.name == "gcn":
            return (torch.from_numpy(clean), adjacency(clean)), torch.from_numpy(labels[chosen])
        return (torch.from_numpy(clean),), torch.from_numpy(labels[chosen])


def adjacency(images: np.ndarray, neighbours: int = 5) -> Tensor:
    """Return the normalised adjacency matrix of the nearest neighbours of images."""
    flat = images.reshape(len(images), -1).astype(np.float64)
    squares = (flat**2).sum(1)
    nearest = np.argsort(squares[:, None] + squares - 2 * flat @ flat.T, 1, "stable")[:, : neighbours + 1]
    edges = np.zeros((len(flat), len(flat)))
    np.put_along_axis(edges, nearest, 1, 1)
    edges = np.maximum(edges, edges.T)
    degree = edges.sum(1) ** -0.5
    return torch.from_numpy((degree[:, None] * edges * degree).astype(np.float32))


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images [1797, 1, 8, 8] and labels, in one random order."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))
    images = found.data[order].reshape(-1, 1, 8, 8)
    images = (images + OFFSET) / images.std()
    return images.astype(np.float32), found.target[order].astype(np.int64)


FULL = (
    Task("mlp", "MLP", ("3", "5"), 64, 0.01),
    Task("cnn", "CNN", ("2", "5"), 8, 0.01),
    Task("unet", "U-Net", ("down2", "bottom", "up", "right"), 6, 0.01),
    Task("lstm", "LSTM", ("cell",), 32, 0.03),
    Task("gcn", "GCN", ("second",), 32, 0.01),
)
QUICK = (Task("mlp", "MLP", ("3", "5"), 8, 0.001, 4, 16),)
