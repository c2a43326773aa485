"""The metrics by which the papers judge a training: top-k accuracy, perplexity, NDCG@k and BLEU, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.studies.metrics import ranks, surprises
from numc.support.arguments import checked_integer, checked_texts
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shortened


@in_default_environment
def top_k(scores: npt.ArrayLike, labels: npt.ArrayLike, k: int = 1) -> float:
    """Return the fraction of samples whose label is among the k classes with the largest scores.

    scores: [..., classes]. labels: class numbers [...]. Of equal scores the first counts as larger, and a NaN counts
    as larger than any number. Raises NumcError for other shapes, labels that are no classes, and k outside of 1 to
    classes.
    """
    x, y = _classes(scores, labels)
    return float((ranks(x, y) < checked_integer(k, "k", 1, x.shape[1])).mean())


@in_default_environment
def perplexity(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return exp of the mean of -ln softmax(scores)[label]; infinite if that is too large for a float.

    scores: logits [..., classes]. labels: class numbers [...]. Raises NumcError for other shapes and labels.
    """
    mean = float(surprises(*_classes(scores, labels)).mean())
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


@in_default_environment
def ndcg(scores: npt.ArrayLike, relevance: npt.ArrayLike, k: int = 20) -> float:
    """Return the normalised discounted cumulative gain of the k best items, averaged over users.

    scores, relevance: [users, items]. The gain of an item is its relevance (0 or more; 1 for items of the test set, if
    there are no grades), divided by log2(1 + place), and a user's sum is divided by the largest possible one. Users
    without relevant items do not count. Of equal scores the first item comes first.
    Raises NumcError for other shapes or values, for k outside of 1 to items, and if no user has a relevant item.
    """
    x, gains = _numbers(scores, "scores"), _numbers(relevance, "relevance")
    if x.ndim != 2 or x.shape != gains.shape:
        raise NumcError(f"ndcg: got shapes {list(x.shape)} and {list(gains.shape)}, want two equal ones [users, items]")
    if np.isnan(x).any() or not (np.isfinite(gains) & (gains >= 0)).all():
        raise NumcError("ndcg: got NaN as a score, or a relevance that is negative or not finite: want numbers")
    k = checked_integer(k, "k", 1, x.shape[1])
    counted = gains.any(axis=1)
    if not counted.any():
        raise NumcError("ndcg: no user has a relevant item: want at least one relevance above 0")
    weights = 1 / np.log2(np.arange(2, k + 2))
    dcg = np.take_along_axis(gains, np.argsort(-x, axis=1, kind="stable")[:, :k], axis=1) @ weights
    best = -np.sort(-gains, axis=1)[:, :k] @ weights
    return float((dcg[counted] / best[counted]).mean())


@in_default_environment
def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return the BLEU of a corpus in per cent, as sacrebleu computes it with its default tokeniser and smoothing.

    texts, references: one text for each sentence. Raises NumcError for lists of different or no length, and without
    the package sacrebleu.
    """
    hypotheses, wanted = checked_texts(texts, "texts"), checked_texts(references, "references")
    if len(hypotheses) != len(wanted) or not hypotheses:
        raise NumcError(f"bleu: got {len(hypotheses)} texts and {len(wanted)} references, want as many, at least one")
    try:
        import sacrebleu
    except ImportError:
        raise NumcError("bleu: needs the package sacrebleu, which is not installed: pip install 'numc[bleu]'") from None
    return float(sacrebleu.corpus_bleu(hypotheses, [wanted]).score)


def _numbers(given: npt.ArrayLike, what: str) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(given, np.float64)
    except (ValueError, TypeError):
        raise NumcError(f"{what}: got {shortened(given)}, want an array of numbers") from None


def _classes(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return float64 scores [n, classes] and labels [n]."""
    x, y = _numbers(scores, "scores"), np.asarray(labels)
    if not x.size or x.shape[:-1] != y.shape or y.dtype.kind not in "iu":
        raise NumcError(
            f"got scores {list(x.shape)} and {y.dtype} labels {list(y.shape)}, want scores [..., classes] and "
            "whole numbers [...]"
        )
    if y.min() < 0 or y.max() >= x.shape[-1]:
        wrong = y.min() if y.min() < 0 else y.max()
        raise NumcError(f"labels: got {wrong}, want 0 to {x.shape[-1] - 1}, the classes of the scores")
    return x.reshape(-1, x.shape[-1]), y.reshape(-1).astype(np.int64)
