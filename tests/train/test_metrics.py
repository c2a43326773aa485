"""Metrics of a training against values computed by hand, and NDCG against scikit-learn's."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import numc
from numc.train import bleu, ndcg, perplexity, top_k

SCORES = [[0.1, 0.9, 0.5], [0.3, 0.2, 0.1], [0.5, 0.5, math.nan]]
LABELS = [2, 2, 1]


def test_top_k() -> None:
    # The labels have the second and the third place; in the last row, an equal score and a NaN come before it.
    assert [top_k(SCORES, LABELS, k) for k in (1, 2, 3)] == [0, 1 / 3, 1]
    assert top_k([SCORES], np.array([LABELS], np.int32), 2) == 1 / 3  # [n, t, classes], as of a sequence


def test_perplexity() -> None:
    # The probabilities of the labels are 3/4 and 1/4.
    assert perplexity([[math.log(3), 0], [math.log(3), 0]], [0, 1]) == pytest.approx(4 / math.sqrt(3))
    assert perplexity(np.zeros((2, 5, 7)), np.zeros((2, 5), int)) == pytest.approx(7)
    assert perplexity([[1000.0, 0]], [1]) == math.inf


def test_ndcg() -> None:
    # Places 1 to 3 are of items 1, 2, 0. Found at 2: 1 / log2(3) from item 2; possible: 1 / log2(2) + 1 / log2(3).
    scores, relevance = [[0.1, 0.9, 0.5]], [[1, 0, 1]]
    by_hand = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert ndcg(scores, relevance, 2) == pytest.approx(by_hand)
    assert ndcg([*scores, [1, 2, 3]], [*relevance, [0, 0, 0]], 2) == pytest.approx(by_hand)
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 50)), rng.integers(0, 4, (20, 50))
    assert ndcg(x, y, 10) == pytest.approx(sklearn.ndcg_score(y, x, k=10))


def test_bleu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sacrebleu")
    # Of 1 to 4 words in a row, 6 of 6, 4 of 5, 2 of 4 and 1 of 3 are in the reference, and lengths are equal.
    found = bleu(["the cat sat on the mat"], ["the cat lay on the mat"])
    precisions = 5 / 6 * 3 / 5 * 1 / 4 * (1 / 2) / 3  # no four in a row: half of one, by the smoothing
    assert found == pytest.approx(100 * precisions ** (1 / 4))
    assert bleu(["a b c d e"], ["a b c d e"]) == pytest.approx(100)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(
        numc.NumcError, match="bleu: needs the package sacrebleu, which is not installed: pip install 'numc.bleu.'"
    ):
        bleu(["a"], ["a"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_k(SCORES, LABELS, 4), "k: got 4, want a whole number from 1 to 3"),
        (lambda: top_k(SCORES, [0, 1]), "got scores [3, 3] and int64 labels [2], want scores [..., classes] and whole"),
        (lambda: top_k(SCORES, [0.0, 1, 2]), "float64 labels"),
        (lambda: perplexity(SCORES, [0, 1, 3]), "labels: got 3, want 0 to 2, the classes of the scores"),
        (lambda: perplexity([["a"]], [0]), "scores: got [['a']], want an array of numbers"),
        (lambda: ndcg([[1.0, 2]], [[1.0]]), "ndcg: got shapes [1, 2] and [1, 1], want two equal ones [users, items]"),
        (lambda: ndcg([[1.0, 2]], [[-1.0, 1]]), "a relevance that is negative"),
        (lambda: ndcg([[1.0, 2]], [[0, 0]], 1), "ndcg: no user has a relevant item"),
        (lambda: bleu(["a"], []), "bleu: got 1 texts and 0 references, want as many, at least one"),
        (lambda: bleu("a", "a"), "texts: got a, want a sequence of texts"),
    ],
)
def test_refused(call, message: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        call()
    assert message in str(caught.value)
