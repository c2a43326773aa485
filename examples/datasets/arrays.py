"""Data sets of images as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Images:
    """Images [n, channels, side, side] of 0 to 255 and class numbers [n], to train with and held out."""

    name: str
    classes: int
    train: npt.NDArray[np.uint8]
    train_labels: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.uint8]
    held_out_labels: npt.NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Channels, and the side in pixels."""
        return int(self.train.shape[1]), int(self.train.shape[2])
