"""The denormals of a training: the largest fraction in every tensor, and when it was reached (docs/statistics.md)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from numc.compiler.arrays.statistics import FRACTIONS
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.train.observe.epoch_statistics import EpochStatistics


@dataclass(frozen=True)
class Peak:
    """The largest fraction of a tensor's elements so far, in any one execution, and the step that first had it."""

    fraction: float
    epoch: int
    step: int


@in_default_environment
class DenormalMonitor(EpochStatistics):
    """Counts the denormals in the operands and results of all contractions, in every n-th step of a training.

    It is used as EpochStatistics. Tensors are called by layer and name, as in the rows of Statistics: ``a`` and ``b``
    of layer ``conv1`` are the activations and the weights, ``a`` of ``conv1/wgrad`` is the gradient of what the layer
    returns, and ``result`` of ``conv1/dgrad`` that of its activations.
    """

    def __init__(
        self,
        *,
        every: int = 1,
        file: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take how often to count, and where to write; see EpochStatistics. No program is compiled anew for this."""
        super().__init__(1, every=every, what="denormals", file=file, tensorboard=tensorboard)

    def maxima(self, count: str = "rounded_subnormals") -> dict[tuple[str, str], Peak]:
        """Return the largest fraction of every tensor over the training so far, by layer and name of the tensor.

        count: one of the counts of TensorStatistics: subnormals after rounding, or ``flushed``, ``subnormals``, ...
        Raises NumcError for another one.
        """
        _check(count)
        peaks: dict[tuple[str, str], Peak] = {}
        for row in self.rows:
            for contraction in row.statistics.rows:
                for name, tensor in contraction.tensors.items():
                    fraction, key = tensor.most.get(count, 0.0), (contraction.layer, name)
                    if key not in peaks or fraction > peaks[key].fraction:
                        peaks[key] = Peak(fraction, row.epoch, row.step)
        return peaks

    def curve(self, layer: str, tensor: str, count: str = "rounded_subnormals") -> dict[int, float]:
        """Return the fraction of one tensor in every observed step. Raises NumcError for a tensor that is not there."""
        _check(count)
        curve: dict[int, float] = {}
        for row in self.rows:
            fractions = [
                contraction.tensors[tensor].most.get(count, 0.0)
                for contraction in row.statistics.rows
                if contraction.layer == layer and tensor in contraction.tensors
            ]
            if fractions:
                curve[row.step] = max(fractions)
        if not curve:
            known = [f"{known_layer} {name}" for known_layer, name in self.maxima()]
            near = did_you_mean(f"{layer} {tensor}", known)
            raise NumcError(f"no tensor {quoted(tensor)} of a layer {quoted(layer)} was observed{near}")
        return curve


def _check(count: str) -> None:
    if count not in FRACTIONS:
        raise NumcError(f"unknown count {quoted(count)}{did_you_mean(count, FRACTIONS)}: want {', '.join(FRACTIONS)}")
