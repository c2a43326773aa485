"""The five networks: those of examples/bf16xn with fewer steps, a VGG, and a detector of digits.

A task is as those of examples/bf16xn/problems.py. All are judged once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from average_precision import Box, mean_average_precision
from problems import HELD_OUT, Inputs, MobileNet, Predict, ResNet, Transformer, _Task
from torch import Tensor, nn
from torch.optim import Adam


@dataclass(frozen=True)
class Vgg(ResNet):
    """The images of the ResNet; two pairs of convolutions with batch norm, a pooling behind each, and dense layers."""

    steps: int = 200
    epochs: int = 1
    name: ClassVar[str] = "vgg"
    title: ClassVar[str] = "VGG"

    def model(self) -> nn.Module:
        """Return a network with random weights."""
        layers: list[nn.Module] = []
        for before, after in ((1, self.width), (self.width, 2 * self.width)):
            for channels in (before, after):
                layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
        dense = (nn.Linear(2 * self.width * 49, 8 * self.width), nn.ReLU(), nn.Linear(8 * self.width, 10))
        return nn.Sequential(*layers, nn.Flatten(), *dense)


CELL, GRID = 8, 7
"""Pixels of a cell, and cells along an image of 56 x 56."""
_SIDE = 28


@dataclass(frozen=True)
class Detector(_Task):
    """Finds two digits of MNIST in an image of 56 x 56: each cell says whether a digit's middle is in it, and which.

    As in YOLO (Redmon et al. 2016), with boxes of one size; convolutions with strides and batch norm; Adam.
    """

    batch: int = 64
    steps: int = 300
    rate: float = 0.01
    epochs: int = 1
    width: int = 8
    judged: int = 500
    name: ClassVar[str] = "detector"
    title: ClassVar[str] = "detector"
    quality: ClassVar[str] = "mAP (%)"

    def model(self) -> nn.Module:
        """Return a network with random weights: 13 numbers of each cell."""
        layers: list[nn.Module] = []
        channels = (1, self.width, 2 * self.width, 4 * self.width)
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        last = channels[-1]
        layers += [nn.Conv2d(last, last, 3, 1, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(last, 13, 1))

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Adam:
        """Return Adam."""
        return Adam(parameters, self.rate)

    def batches(self, seed: int) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield images [batch, 1, 56, 56], and of each cell the class, or -1, and the place of the middle in it."""
        images, cells = self._data
        for chosen in self._chosen(len(images) - HELD_OUT, seed):
            yield (torch.from_numpy(images[chosen]),), torch.from_numpy(cells[chosen])

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the sum over cells of the cross entropies and the squared distance, a mean over images."""
        there = (target[:, 0] >= 0).to(outputs.dtype)
        place = ((outputs[:, 1:3] - target[:, 1:].to(outputs.dtype)) ** 2).sum(1)
        classes = F.cross_entropy(outputs[:, 3:], target[:, 0].clamp(min=0).long(), reduction="none")
        found = F.binary_cross_entropy_with_logits(outputs[:, 0], there, reduction="none")
        return (found + there * (5 * place + classes)).sum() / len(outputs)

    def judge(self, predict: Predict) -> tuple[float, float]:
        """Return the mean average precision of held-out images at an overlap of a half, in per cent, and their loss."""
        images, cells = (torch.from_numpy(part[-HELD_OUT:][: self.judged]) for part in self._data)
        outputs = predict(images).double()
        loss = float(self.loss(outputs, cells))
        if outputs.isnan().any():
            return 0.0, loss
        there = cells[:, 0] >= 0
        wanted = [_box(n, y, x, cells[n, 1:, y, x], int(cells[n, 0, y, x])) for n, y, x in there.nonzero().tolist()]
        scores, classes = outputs[:, 0].sigmoid(), outputs[:, 3:].softmax(1)
        best, which = classes.max(1)
        boxes = [
            (float(scores[n, y, x] * best[n, y, x]), _box(n, y, x, outputs[n, 1:3, y, x], int(which[n, y, x])))
            for n, y, x in (scores > 0.05).nonzero().tolist()
        ]
        return 100 * mean_average_precision(boxes, wanted, _SIDE), loss

    @cached_property
    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        digits, classes = ResNet()._data
        rng = np.random.default_rng(4)
        size, count = CELL * GRID, len(digits)
        images = np.full((count, 1, size, size), digits.min(), np.float32)
        cells = np.zeros((count, 3, GRID, GRID), np.float32)
        cells[:, 0] = -1
        for n in range(count):
            for left, digit in ((0, n), (1, int(rng.integers(count - HELD_OUT)))):
                x, y = int(rng.integers(4)) + left * 25, int(rng.integers(size - _SIDE + 1))
                part = images[n, 0, y : y + _SIDE, x : x + _SIDE]
                np.maximum(part, digits[digit, 0], out=part)
                across, down = (x + _SIDE / 2) / CELL, (y + _SIDE / 2) / CELL
                cells[n, :, int(down), int(across)] = classes[digit], across % 1, down % 1
        return images, cells


def _box(image: int, row: int, column: int, place: Tensor, label: int) -> Box:
    across, down = (float(each) for each in place)
    return Box(image=image, label=label, x=CELL * (column + across), y=CELL * (row + down))


TASKS = (
    replace(ResNet(), steps=200, epochs=1),
    replace(MobileNet(), steps=200, epochs=1),
    Vgg(),
    replace(Transformer(), steps=200, epochs=1),
    Detector(),
)

Network = ResNet | MobileNet | Vgg | Transformer | Detector
