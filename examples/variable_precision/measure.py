"""The digits nets under an arithmetic: accuracy on the held-out images, and the error of the logits against fp32."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import numc

DIGITS = Path(__file__).resolve().parents[1] / "digits"
MODELS = ("mlp", "cnn")


@dataclass(frozen=True)
class Images:
    """Images, (n, 64) float32, and their labels, (n,) int64."""

    x: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    def part(self, which: slice) -> Images:
        """Some of them."""
        return Images(self.x[which], self.labels[which])


@dataclass(frozen=True)
class Result:
    """How well a net classifies. accuracy: a NaN counts as the largest logit, as in numpy. nan: images with a NaN.

    relative_error: sum((x - r)^2) / sum(r^2) of the logits x against the fp32 logits r; None if they are not finite.
    """

    accuracy: float
    relative_error: float | None
    nan: int


def held_out(limit: int | None = None) -> Images:
    """Return the held-out images of examples/digits, or the first `limit` of them."""
    data = np.load(DIGITS / "heldout.npz")
    return Images(data["images"], data["labels"]).part(slice(limit))


def logits(model: str, images: Images, **arithmetic: Any) -> npt.NDArray[np.float32]:
    """Return the logits, (n, 10), under fma and ops or a policy. Raises numc.NumcError for what does not exist."""
    program: Any = numc.compile(DIGITS / f"{model}.onnx", **arithmetic)
    return np.asarray(program(images.x))


def accuracy(found: npt.NDArray[np.float32], images: Images) -> float:
    """Return the share of images whose largest logit is that of their label."""
    return float((found.argmax(1) == images.labels).mean())


def judge(found: npt.NDArray[np.float32], exact: npt.NDArray[np.float32], images: Images) -> Result:
    """Return the accuracy of the logits, and their error against the fp32 logits."""
    error = None
    if np.isfinite(found).all():
        r = exact.astype(np.float64)
        error = float(((found - r) ** 2).sum() / (r**2).sum())
    return Result(accuracy(found, images), error, int(np.isnan(found).any(1).sum()))
