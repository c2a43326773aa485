"""The digits nets in the arithmetic of the thesis: accuracy on the held-out images, and the error of the logits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import numc

DIGITS = Path(__file__).resolve().parents[1] / "digits"
FILES = {"mlp": DIGITS / "mlp_pixels.onnx", "cnn": DIGITS / "cnn.onnx"}
MODELS = tuple(FILES)
LARGEST_PIXEL = {"mlp": 255, "cnn": 1}
OPEN = "e1..8m1..23"
OPERATOR = f"fma(a={OPEN}:rtz, b={OPEN}:rtz, product={OPEN}, acc=fp32)"
"""Operands are truncated, products rounded to nearest, and sums are in fp32. Each run chooses the widths."""


@dataclass(frozen=True)
class Result:
    """How well a net classifies. accuracy: a NaN counts as the largest logit, as in numpy. nan: images with a NaN.

    relative_error: sum((x - r)^2) / sum(r^2) of the logits x against the fp32 logits r; None if they are not finite.
    """

    accuracy: float
    relative_error: float | None
    nan: int


class Net:
    """A net, its held-out images, and its two programs: in fp32, and with widths that a run chooses."""

    def __init__(self, model: str) -> None:
        data = np.load(DIGITS / "heldout.npz")
        self.images: npt.NDArray[np.float32] = np.float32(LARGEST_PIXEL[model]) * data["images"]
        self.labels: npt.NDArray[np.int64] = data["labels"]
        self.file = FILES[model]
        self.exact = self._run(numc.compile(self.file))
        self.program: Any = numc.compile(self.file, fma=OPERATOR)
        self.layers = tuple(dict.fromkeys(entry.layer for entry in self.program.widths))

    def wide_sums(self, label: str) -> Result:
        """Return the result with fp32 accumulators. label: `eXmY`, or `eXmY-Y-Y` with a Y for each layer."""
        exponent, significands = label.removeprefix("e").split("m")
        bits = significands.split("-")
        bits = bits * len(self.layers) if len(bits) == 1 else bits
        widths = {layer: (int(exponent), int(n)) for layer, n in zip(self.layers, bits, strict=True)}
        return self._judge(self._run(self.program, widths=widths))

    def narrow_sums(self, name: str) -> Result:
        """Return the result if sums are rounded to the format, too. It is fixed, so every format is a program."""
        fma = f"fma(a={name}:rtz, b={name}:rtz, product={name}, acc={name})"
        return self._judge(self._run(numc.compile(self.file, fma=fma, ops=name)))

    def _run(self, program: Any, **widths: Any) -> npt.NDArray[np.float32]:
        return np.asarray(program(self.images, **widths))

    def _judge(self, found: npt.NDArray[np.float32]) -> Result:
        error = None
        if np.isfinite(found).all():
            r = self.exact.astype(np.float64)
            error = float(((found - r) ** 2).sum() / (r**2).sum())
        right = (found.argmax(1) == self.labels).mean()
        return Result(float(right), error, int(np.isnan(found).any(1).sum()))


@cache
def net(model: str) -> Net:
    """Return the net, which all experiments of a process share."""
    return Net(model)
