"""The metrics of a comparison, which are summed up over the batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.runtime.abi import TensorSpec
from numc.studies.shares import Share
from numc.support.errors import NumcError, did_you_mean

Array = npt.NDArray[Any]
_MOST = {"top1": 1, "top5": 5}
#: The label of a place that no metric of classes counts, as in torch.
NOT_COUNTED = -100


@dataclass(frozen=True)
class Metric:
    """A metric of the outputs of a model.

    needs: "classes" if it needs labels that are class numbers. percent: whether it is shown as a percentage. best:
    "max" or "min", whichever is better.
    """

    name: str
    about: str
    needs: str = ""
    percent: bool = False
    best: str = "max"

    def text(self, value: float) -> str:
        """Return a value as text, with the metric's number of digits."""
        if self.percent and math.isfinite(value):
            return f"{100 * value:.2f}%"
        return f"{value:.7f}" if self.name == "cosine" else f"{value:.5g}"


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("top1", "samples whose largest output is that of the label", "classes", True),
            Metric("top5", "samples whose label is among the five largest outputs", "classes", True),
            Metric("mse", "mean of (x - r)² over all outputs; r: the labels if they are values, else fp32", best="min"),
            Metric("cosine", "Σxr / √(Σx² Σr²) over all outputs; r: the labels if they are values, else fp32"),
            Metric("perplexity", "exp of the mean of -ln softmax(x)[label]", "classes", best="min"),
        )
    }
)


def check_names(names: Sequence[str]) -> None:
    """Raise NumcError for an unknown metric."""
    for name in names:
        if name not in METRICS:
            near = did_you_mean(name, METRICS)
            raise NumcError(f"unknown metric '{name}'{near}: want {', '.join(METRICS)}")


def check_share(tolerance: float, name: str) -> None:
    """Raise NumcError for a tolerance that is more than a metric can differ by, such as 2 where 2% is meant."""
    if name in METRICS and METRICS[name].percent and tolerance > 1:
        raise NumcError(
            f"tolerance: got {tolerance:g}, but {name} is a share from 0 to 1, and every result is within that: want "
            "at most 1, such as 0.01"
        )


def check_metrics(names: Sequence[str], labels: Array | None, output: TensorSpec) -> tuple[str, ...]:
    """Return the metrics; if none is named, top1 for class numbers as labels, otherwise cosine.

    Raises NumcError for an unknown metric, and for one that does not fit the labels or the output.
    """
    if not names:
        return ("top1",) if labels is not None and labels.dtype.kind in "iu" else ("cosine",)
    check_names(names)
    for name in names:
        if METRICS[name].needs and (labels is None or labels.dtype.kind == "f"):
            label_kind = "values" if labels is not None else "none"
            raise NumcError(
                f"metric '{name}': needs labels that are class numbers, got {label_kind}: give --labels FILE"
            )
    if "top5" in names and output.shape and output.shape[-1] is not None and output.shape[-1] <= 5:
        raise NumcError(f"metric 'top5': the output has {output.shape[-1]} classes: every label is among five")
    return tuple(dict.fromkeys(names))


def ranks(x: Array, labels: Array) -> Array:
    """Return how many outputs x [n, classes] are larger than that of the label [n].

    Of equal values the first counts as larger, as in argmax. A NaN counts as larger than numbers, and is never first.
    """
    of_label = np.take_along_axis(x, labels[:, None], axis=1)
    before = np.arange(x.shape[1]) < labels[:, None]
    rank: Array = ((x > of_label) | (x == of_label) & before | np.isnan(x)).sum(axis=1) + np.isnan(of_label[:, 0])
    return rank


def surprises(x: Array, labels: Array) -> Array:
    """Return -ln softmax(x)[label], [n], of float64 outputs x [n, classes]."""
    top = x.max(axis=1, keepdims=True)
    normal: Array = top[:, 0] + np.log(np.exp(x - top).sum(axis=1))
    of_label: Array = np.take_along_axis(x, labels[:, None], axis=1)
    return normal - of_label[:, 0]


class Sums:
    """The sums over batches, in float64, from which metrics are computed."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        self.error = SquaredError()  # relative to fp32
        self._wanted = SquaredError()  # relative to fp32, or to labels that are values
        self._count = 0
        self._sum = dict.fromkeys(metrics, 0.0)
        self._pairs = {name: np.zeros(2, np.int64) for name in metrics if name in _MOST}  # gained, lost
        self._xr = self._xx = self._rr = 0.0

    def add(self, output: Array, reference: Array, labels: Array | None) -> None:
        """Add a batch: its outputs, the outputs of the program in fp32, and its labels."""
        self.error.add(output, reference)
        with np.errstate(all="ignore"):
            if labels is not None and labels.dtype.kind in "iu":
                self._classes(output.astype(np.float64), reference.astype(np.float64), labels.astype(np.int64))
                wanted = reference
            else:
                wanted = reference if labels is None else labels
            if "mse" in self._sum:
                self._wanted.add(output, wanted)
            if "cosine" in self._sum:
                self._products(output.astype(np.float64).ravel(), wanted.astype(np.float64).ravel())

    def _classes(self, x: Array, reference: Array, labels: Array) -> None:
        x, reference, labels = x.reshape(-1, x.shape[-1]), reference.reshape(-1, x.shape[-1]), labels.reshape(-1)
        if (counted := labels != NOT_COUNTED).sum() < len(labels):
            x, reference, labels = x[counted], reference[counted], labels[counted]
        self._count += len(labels)
        if self._pairs:
            rank, of_fp32 = ranks(x, labels), ranks(reference, labels)
            for name, pair in self._pairs.items():
                mine, other = rank < _MOST[name], of_fp32 < _MOST[name]
                self._sum[name] += int(mine.sum())
                pair += (mine & ~other).sum(), (other & ~mine).sum()
        if "perplexity" in self._sum:
            self._sum["perplexity"] += float(surprises(x, labels).sum())

    def _products(self, x: Array, r: Array) -> None:
        self._xr += float((x * r).sum())
        self._xx += float((x * x).sum())
        self._rr += float((r * r).sum())

    def shares(self) -> dict[str, Share]:
        """Return the metrics that are shares of samples, beside those of fp32."""
        return {name: Share(int(self._sum[name]), self._count, *map(int, self._pairs[name])) for name in self._pairs}

    def values(self) -> dict[str, float]:
        """Return the metrics over all batches added so far."""
        metrics = {}
        for name in self.metrics:
            if name == "mse":
                metrics[name] = self._wanted.mean
            elif name == "cosine":
                product = math.sqrt(self._xx) * math.sqrt(self._rr)
                metrics[name] = _cosine(self._xr / product) if product else (1.0 if self._xx == self._rr else 0.0)
            else:
                mean = self._sum[name] / self._count
                metrics[name] = _exp(mean) if name == "perplexity" else mean
        return metrics


def _cosine(x: float) -> float:
    return x if math.isnan(x) else max(-1.0, min(1.0, x))  # rounding may give more than 1


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


class SquaredError:
    """Sums of squared errors of values x relative to r, those of fp32 or the labels (docs/arithmetic.md, section 7)."""

    def __init__(self) -> None:
        self._error = self._norm = 0.0
        self._count = 0

    def add(self, x: Array, r: Array) -> None:
        """Add arrays of equal shape."""
        with np.errstate(all="ignore"):
            wide = r.astype(np.float64)
            difference = x.astype(np.float64)
            difference -= wide
            # Equal infinities have no difference.
            self._error += float(np.square(difference, where=x != r, out=np.zeros_like(wide)).sum())
            self._norm += float(np.square(wide, out=wide).sum())
        self._count += r.size

    @property
    def relative(self) -> float:
        """Σ(x - r)² / Σr²; infinite if only the denominator is 0, NaN if a value was NaN."""
        if self._error == 0 or math.isnan(self._error):
            return self._error
        return self._error / self._norm if self._norm else math.inf

    @property
    def mean(self) -> float:
        """The mean of (x - r)²; 0 if there are no values."""
        return self._error / self._count if self._count else 0.0
