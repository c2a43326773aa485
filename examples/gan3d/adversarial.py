"""The alternating training of a generator and a discriminator of showers, from one seed in one arithmetic."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import showers
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

sys.path.append(str(Path(__file__).parents[1] / "models"))
import zoo

import numc


@dataclass(frozen=True)
class Gan:
    """The settings of a training. A batch has each energy equally often. judged: batches that the profiles come from.

    energy: the weight, in the generator's loss, of the relative error of the deposited energy.
    """

    width: int = 4
    latent: int = 16
    batch: int = 8
    steps: int = 800
    rate: float = 0.002
    energy: float = 2.0
    judged: int = 64
    name: ClassVar[str] = "gan3d"
    title: ClassVar[str] = "3DGAN"


QUICK, FULL = Gan(2, 4, steps=4, judged=2), Gan()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: profiles of generated showers, and the losses of both networks at every step."""

    profiles: dict[str, list[float]]
    discriminator: list[float]
    generator: list[float]
    cpu_seconds: float


def truth(gan: Gan) -> dict[str, list[float]]:
    """Return the profiles of as many showers of the simulation as those of a run come from."""
    energies = np.tile(_energies(gan), gan.judged)
    return showers.profiles(showers.showers(energies, np.random.default_rng(2)), energies)


def _energies(gan: Gan) -> np.ndarray:
    return np.tile(showers.ENERGIES, gan.batch // len(showers.ENERGIES))


class Trainer:
    """Trains the networks, once for each run; torch traces them only once."""

    def __init__(self, gan: Gan) -> None:
        """Make the networks."""
        self.gan = gan
        self._generator = zoo.generator3d(gan.width, gan.latent)
        self._discriminator = zoo.discriminator3d(gan.width)
        self._generate = torch.compile(self._generator, backend=numc.backend())
        self._judge = torch.compile(self._discriminator, backend=numc.backend())

    def run(self, seed: int, arithmetic: str, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train from the weights and with the showers of a seed. torch computes losses and updates, in fp32."""
        start = time.process_time()
        torch.manual_seed(seed)
        gan, rng = self.gan, np.random.default_rng([seed, 1])
        self._generator.load_state_dict(zoo.generator3d(gan.width, gan.latent).state_dict())
        self._discriminator.load_state_dict(zoo.discriminator3d(gan.width).state_dict())
        creator, critic = (
            torch.optim.Adam(network.parameters(), gan.rate) for network in (self._generator, self._discriminator)
        )
        energies, losses = _energies(gan), ([], [])
        with numc.arithmetic(arithmetic):
            for _ in range(gan.steps):
                real = torch.from_numpy(showers.showers(energies, rng))
                fake = self._generate(self._noise(rng))
                critic.zero_grad()
                # All inputs have gradients, needed or not, so that one graph of the discriminator serves them all.
                seen = [volumes.detach().requires_grad_() for volumes in (real, fake)]
                loss = _cross_entropy(self._judge(seen[0]), 1) + _cross_entropy(self._judge(seen[1]), 0)
                loss.backward()
                critic.step()
                losses[0].append(float(loss.detach()))
                creator.zero_grad()
                loss = _cross_entropy(self._judge(fake), 1) + gan.energy * _error(fake, real)
                loss.backward()
                creator.step()
                losses[1].append(float(loss.detach()))
                tick()
            rng = np.random.default_rng([seed, 2])
            made = [self._generate(self._noise(rng)).detach().numpy() for _ in range(gan.judged)]
        found = showers.profiles(np.concatenate(made), np.tile(energies, gan.judged))
        return Outcome(found, *losses, time.process_time() - start)

    def _noise(self, rng: np.random.Generator) -> Tensor:
        """Return the generator's inputs: noise of norm 1, multiplied by the energy of the primary particle."""
        noise = rng.standard_normal((self.gan.batch, self.gan.latent))
        noise *= (_energies(self.gan) / np.linalg.norm(noise, axis=1))[:, None]
        return torch.from_numpy(noise.astype(np.float32))


def _cross_entropy(scores: Tensor, label: int) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, label))


def _error(fake: Tensor, real: Tensor) -> Tensor:
    """Return the mean relative error of the deposited energy."""
    found, wanted = (volumes.sum((1, 2, 3, 4)) for volumes in (fake, real))
    return ((found - wanted) / wanted).abs().mean()
