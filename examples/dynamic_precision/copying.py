"""The task of the sequence-to-sequence network: copy a text, or write it backwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
COPY, REVERSE, START = range(3)
"""Tokens that are no letters: the first of a source says what to do, and a target starts with START."""


class Seq2Seq(nn.Module):
    """A GRU that reads, a GRU that writes, and attention of the second to the first (Luong et al. 2015).

    length: of the source, the letters and the token before them.
    """

    def __init__(self, tokens: int, features: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.source, self.target = nn.Embedding(tokens, features), nn.Embedding(tokens, features)
        self.reader = nn.GRU(features, features, batch_first=True)
        self.writer = nn.GRU(features, features, batch_first=True)
        self.mix = nn.Linear(2 * features, features)
        self.head = nn.Linear(features, tokens)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [n, t, tokens] of the letters to write.

        x: tokens [n, length + t], a source and the target up to the last letter but one.
        """
        read, last = self.reader(self.source(x[:, : self.length]))
        written, _ = self.writer(self.target(x[:, self.length :]), last)
        weights = (written @ read.transpose(1, 2)).softmax(2)
        return self.head(torch.tanh(self.mix(torch.cat([weights @ read, written], 2))))


@dataclass(frozen=True)
class Copying:
    """Texts of random letters, new at every step, each to be copied or to be written backwards.

    rate, momentum: of SGD.
    """

    letters: int = 10
    length: int = 6
    features: int = 32
    batch: int = 64
    steps: int = 300
    rate: float = 0.2
    momentum: float = 0.9
    name: ClassVar[str] = "seq2seq"
    title: ClassVar[str] = "seq2seq"
    quality: ClassVar[str] = "validation loss"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        return Seq2Seq(START + 1 + self.letters, self.features, 1 + self.length)

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield tokens [batch, 1 + 2 * length] as the network reads them, and letters [batch * length]; never ends."""
        rng = np.random.default_rng([seed, 1])
        while True:
            yield self._texts(self.batch, rng)

    def held_out(self) -> list[Batch]:
        """Return texts that are not used for training."""
        rng = np.random.default_rng(2)
        return [self._texts(1024, rng)]

    def score(self, logits: Tensor, letters: Tensor) -> float:
        """Return the cross entropy."""
        return float(F.cross_entropy(logits, letters))

    def _texts(self, count: int, rng: np.random.Generator) -> Batch:
        backwards = rng.integers(2, size=(count, 1))
        text = rng.integers(START + 1, START + 1 + self.letters, (count, self.length))
        target = np.where(backwards, text[:, ::-1], text)
        start = np.full((count, 1), START)
        tokens = np.hstack([np.where(backwards, REVERSE, COPY), text, start, target[:, :-1]])
        return torch.from_numpy(tokens), torch.from_numpy(target.reshape(-1))
