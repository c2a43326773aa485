"""The graph of people and films of MovieLens-100k that NGCF takes, and the ratings that it should find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from movielens import movielens
from sources import DataError

SHARE = 0.2
"""Of the ratings of each person that are held out."""


@dataclass(frozen=True)
class Films:
    """Which films a person is known to have rated, and which ratings are held out: bool, [users, items]."""

    known: np.ndarray
    held_out: np.ndarray

    def graph(self) -> np.ndarray:
        """Return the normalised adjacency D^-1/2 A D^-1/2 of users and items by known ratings, float32, square."""
        users, items = self.known.shape
        edges = np.zeros((users + items,) * 2)
        edges[:users, users:] = self.known
        edges += edges.T
        scale = 1 / np.sqrt(np.maximum(edges.sum(1), 1))
        return (scale[:, None] * edges * scale).astype(np.float32)


def films(users: int, items: int) -> Films:
    """Return the ratings of the films with most of them by the people with most of these; of equals the first.

    Raises DataError if there are not as many, or if someone has rated fewer than five of the films.
    """
    found = movielens()
    rated = np.zeros((found.users.max() + 1, found.films.max() + 1), bool)
    if users > rated.shape[0] or items > rated.shape[1]:
        raise DataError(f"MovieLens: {rated.shape[0]} people and {rated.shape[1]} films: want {users} and {items}")
    rated[found.users, found.films] = True
    rated = rated[:, np.argsort(-rated.sum(0), kind="stable")[:items]]
    rated = rated[np.argsort(-rated.sum(1), kind="stable")[:users]]
    if rated.sum(1).min() < 1 / SHARE:
        raise DataError(f"MovieLens: someone has rated {rated.sum(1).min()} of {items} films: want at least five")
    rng = np.random.default_rng(0)
    held_out = np.zeros_like(rated)
    for row, ratings in zip(held_out, rated, strict=True):
        which = np.flatnonzero(ratings)
        row[rng.permutation(which)[: int(SHARE * len(which))]] = True
    return Films(rated & ~held_out, held_out)
