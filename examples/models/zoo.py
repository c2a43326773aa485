"""Networks in plain torch.nn, for training. A function or a class makes each of them in any size.

``SMALL`` and ``FULL`` list them with the data and the loss that one training step needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Residual(nn.Module):
    """The basic block of ResNet-18: two 3x3 convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, after, h / stride, w / stride]."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        sizes = ((before, width, 1, 1, 0), (width, width, 3, stride, 1), (width, after, 1, 1, 0))
        layers: list[nn.Module] = []
        for a, b, kernel, step, padding in sizes:
            layers += [nn.Conv2d(a, b, kernel, step, padding, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 4 * width, h / stride, w / stride]."""
        return F.relu(self.body(x) + self.shortcut(x))


def resnet18(width: int = 64, depths: tuple[int, ...] = (2, 2, 2, 2), classes: int = 10) -> nn.Module:
    """ResNet-18 for 32x32 images, without the first pooling. Other depths give other residual networks of this kind."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Residual(before, width * 2**stage, 2 if stage and not block else 1))
            before = width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def resnet50(width: int = 64, depths: tuple[int, ...] = (3, 4, 6, 3), classes: int = 10) -> nn.Module:
    """ResNet-50 for ImageNet's images."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Bottleneck(before, width * 2**stage, 2 if stage and not block else 1))
            before = 4 * width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class InvertedResidual(nn.Module):
    """The block of MobileNetV2: widen, a depthwise convolution, narrow."""

    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = before * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(before, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
        ]
        layers += [nn.Conv2d(hidden, after, 1, bias=False), nn.BatchNorm2d(after)]
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, after, h / stride, w / stride]."""
        return x + self.body(x) if self.adds else self.body(x)


MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(blocks: tuple[tuple[int, int, int, int], ...] = MOBILE, classes: int = 10) -> nn.Module:
    """MobileNetV2; blocks are (expansion, channels, count, stride)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    before = 32
    for expansion, after, count, stride in blocks:
        for block in range(count):
            layers.append(InvertedResidual(before, after, 1 if block else stride, expansion))
            before = after
    layers += [nn.Conv2d(before, 4 * before, 1, bias=False), nn.BatchNorm2d(4 * before), nn.ReLU6()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4 * before, classes)
    )


def generator3d(width: int = 16, latent: int = 64) -> nn.Module:
    """The generator of a 3-D GAN in the manner of 3DGAN: noise [n, latent] to a volume [n, 1, 16, 16, 16]."""
    return nn.Sequential(
        nn.Linear(latent, 4 * width * 64),
        nn.Unflatten(1, (4 * width, 4, 4, 4)),
        nn.ConvTranspose3d(4 * width, 2 * width, 4, 2, 1),
        nn.BatchNorm3d(2 * width),
        nn.LeakyReLU(0.2),
        nn.Upsample(scale_factor=2),
        nn.Conv3d(2 * width, width, 3, 1, 1),
        nn.BatchNorm3d(width),
        nn.LeakyReLU(0.2),
        nn.Conv3d(width, 1, 3, 1, 1),
        nn.Softplus(),
    )


def discriminator3d(width: int = 16) -> nn.Module:
    """The discriminator of a 3-D GAN: a volume [n, 1, 16, 16, 16] to a score [n, 1]."""
    return nn.Sequential(
        nn.Conv3d(1, width, 5, 2, 2),
        nn.LeakyReLU(0.2),
        nn.Conv3d(width, 2 * width, 3, 2, 1),
        nn.BatchNorm3d(2 * width),
        nn.LeakyReLU(0.2),
        nn.AvgPool3d(2),
        nn.Flatten(),
        nn.Linear(2 * width * 8, 1),
    )


class Lstm(nn.Module):
    """A two-layer LSTM language model: token numbers [n, t] to logits [n, t, words]."""

    def __init__(self, words: int = 200, features: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, features)
        self.lstm = nn.LSTM(features, features, 2, batch_first=True)
        self.head = nn.Linear(features, words)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token at every position."""
        return self.head(self.lstm(self.embedding(tokens))[0])


class Decoder(nn.Module):
    """A transformer language model: token numbers [n, t], t at most 64, to logits [n, t, words]."""

    def __init__(self, words: int = 200, features: int = 64, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, features)
        self.places = nn.Parameter(torch.randn(64, features) * 0.1)
        self.blocks = nn.ModuleList(DecoderBlock(features, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, words)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token at every position."""
        x = self.embedding(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class DecoderBlock(nn.Module):
    """Attention of every token to those before it, and two dense layers, each behind a layer norm."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.mixed, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.wide, self.narrow = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, t, features]."""
        parts = self.mixed(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mask = torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1)
        weights = F.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + mask, dim=-1)
        x = x + self.out((weights @ value).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Vae(nn.Module):
    """A convolutional variational autoencoder of images [n, 1, 8, 8]."""

    def __init__(self, width: int = 16, latent: int = 8) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1)
        self.conv3, self.conv4 = nn.Conv2d(width, 2 * width, 3, padding=1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.moments, self.spread = nn.Linear(8 * width, 2 * latent), nn.Linear(latent, 8 * width)
        self.deconv1 = nn.ConvTranspose2d(2 * width, width, 4, 2, 1)
        self.deconv2 = nn.ConvTranspose2d(width, width, 4, 2, 1)
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of the pixels, and the means and the logarithms of the variances [n, latent].

        noise: [n, latent], normally distributed.
        """
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = F.relu(layer(x))
        mean, logarithm = self.moments(x.flatten(1)).chunk(2, 1)
        y = F.relu(self.spread(mean + noise * torch.exp(0.5 * logarithm))).unflatten(1, (-1, 2, 2))
        return self.head(F.relu(self.deconv2(F.relu(self.deconv1(y))))), mean, logarithm


class Translator(nn.Module):
    """A transformer encoder-decoder: source and target tokens [n, t] to logits [n, t, words]."""

    def __init__(self, words: int = 100, features: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, features), nn.Embedding(words, features)
        self.places = nn.Parameter(torch.randn(64, features) * 0.1)
        self.body = nn.Transformer(features, heads, layers, layers, 4 * features, dropout=0.1, batch_first=True)
        self.head = nn.Linear(features, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits of the next target token at every position."""
        a = self.source(source) + self.places[: source.shape[1]]
        b = self.target(target) + self.places[: target.shape[1]]
        mask = torch.full((target.shape[1], target.shape[1]), -math.inf).triu(1)
        return self.head(self.body(a, b, tgt_mask=mask, tgt_is_causal=True))


class UNet(nn.Module):
    """A U-Net of two levels: images [n, 1, h, w] to logits of two classes [n, 2, h, w]."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down1, self.down2 = self._block(1, width), self._block(width, 2 * width)
        self.bottom = self._block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.right2 = self._block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.right1 = self._block(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(before, after, 3, padding=1), nn.ReLU()), *(nn.Conv2d(after, after, 3, padding=1), nn.ReLU())
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of every pixel."""
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        three = self.bottom(F.max_pool2d(two, 2))
        two = self.right2(torch.cat([self.up2(three), two], 1))
        return self.head(self.right1(torch.cat([self.up1(two), one], 1)))


class Gcn(nn.Module):
    """A graph convolutional network (Kipf and Welling): features [v, f] and a normalised adjacency matrix [v, v]."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Return logits [v, classes]."""
        hidden = F.relu(adjacency @ self.first(x))
        return adjacency @ self.second(self.dropout(hidden))


class Ngcf(nn.Module):
    """Neural graph collaborative filtering (Wang et al. 2019): scores of pairs of users and items."""

    def __init__(self, users: int, items: int, features: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.users = users
        self.embedding = nn.Parameter(torch.randn(users + items, features) * 0.1)
        self.direct = nn.ModuleList(nn.Linear(features, features) for _ in range(layers))
        self.crossed = nn.ModuleList(nn.Linear(features, features) for _ in range(layers))

    def forward(self, adjacency: Tensor, user: Tensor, item: Tensor) -> Tensor:
        """Return scores [n] of the pairs (user[n], item[n])."""
        value, seen = self.embedding, [self.embedding]
        for direct, crossed in zip(self.direct, self.crossed, strict=True):
            near = adjacency @ value
            value = F.leaky_relu(direct(near + value) + crossed(near * value), 0.2)
            seen.append(F.normalize(value, dim=1))
        table = torch.cat(seen, 1)
        return (table[user] * table[self.users + item]).sum(1)


@dataclass(frozen=True)
class Case:
    """A network with the data and the loss of one training step."""

    model: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    loss: Callable[[Any], Tensor]


def _labels(output: Tensor) -> Tensor:
    """The cross entropy with labels 0, 1, 2, ...: without random numbers, runs can be compared."""
    flat = output.flatten(0, -2) if output.dim() != 4 else output.permute(0, 2, 3, 1).flatten(0, 2)
    return F.cross_entropy(flat, torch.arange(flat.shape[0]) % flat.shape[1])


def _score(output: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, torch.ones_like(output))


def _tokens(words: int, *shape: int) -> Tensor:
    return torch.randint(words, shape)


def _adjacency(size: int, density: float = 0.2) -> Tensor:
    edges = (torch.rand(size, size) < density).float()
    edges = ((edges + edges.T + torch.eye(size)) > 0).float()
    degree = edges.sum(1).rsqrt()
    return degree[:, None] * edges * degree


SMALL = {
    "resnet18": Case(lambda: resnet18(4, (1, 1)), lambda: (torch.randn(4, 3, 16, 16),), _labels),
    "resnet50": Case(lambda: resnet50(4, (1, 1)), lambda: (torch.randn(4, 3, 32, 32),), _labels),
    "mobilenet_v2": Case(
        lambda: mobilenet_v2(((1, 8, 1, 1), (2, 12, 1, 2))), lambda: (torch.randn(4, 3, 16, 16),), _labels
    ),
    "generator3d": Case(lambda: generator3d(2, 8), lambda: (torch.randn(2, 8),), lambda y: y.square().mean()),
    "discriminator3d": Case(lambda: discriminator3d(2), lambda: (torch.randn(2, 1, 16, 16, 16),), _score),
    "lstm": Case(lambda: Lstm(20, 16), lambda: (_tokens(20, 3, 4),), _labels),
    "transformer": Case(lambda: Translator(20, 16, 2, 1), lambda: (_tokens(20, 2, 5), _tokens(20, 2, 4)), _labels),
    "unet": Case(lambda: UNet(4), lambda: (torch.randn(2, 1, 16, 16),), _labels),
    "gcn": Case(lambda: Gcn(8, 8, 3), lambda: (torch.randn(12, 8), _adjacency(12)), _labels),
    "ngcf": Case(lambda: Ngcf(8, 10), lambda: (_adjacency(18), _tokens(8, 6), _tokens(10, 6)), _score),
}
"""Networks that compile in seconds."""

FULL = {
    "resnet18": Case(resnet18, lambda: (torch.randn(32, 3, 32, 32),), _labels),
    "resnet50": Case(resnet50, lambda: (torch.randn(4, 3, 224, 224),), _labels),
    "mobilenet_v2": Case(mobilenet_v2, lambda: (torch.randn(8, 3, 224, 224),), _labels),
    "generator3d": Case(lambda: generator3d(32, 256), lambda: (torch.randn(8, 256),), lambda y: y.square().mean()),
    "discriminator3d": Case(lambda: discriminator3d(32), lambda: (torch.randn(8, 1, 16, 16, 16),), _score),
    "lstm": Case(lambda: Lstm(10000, 650), lambda: (_tokens(10000, 20, 35),), _labels),
    "transformer": Case(
        lambda: Translator(8000, 512, 8, 6), lambda: (_tokens(8000, 8, 32), _tokens(8000, 8, 32)), _labels
    ),
    "unet": Case(lambda: UNet(64), lambda: (torch.randn(2, 1, 128, 128),), _labels),
    "gcn": Case(lambda: Gcn(1433, 16, 7), lambda: (torch.randn(2708, 1433), _adjacency(2708, 0.001)), _labels),
    "ngcf": Case(
        lambda: Ngcf(943, 1682, 64, 3),
        lambda: (_adjacency(2625, 0.02), _tokens(943, 1024), _tokens(1682, 1024)),
        _score,
    ),
}
"""The sizes of the papers: ImageNet's images, the LSTM and the words of Penn Treebank (Zaremba et al. 2014), the base
transformer (Vaswani et al. 2017), Cora's graph (Kipf and Welling), the users and items of MovieLens 100K."""
