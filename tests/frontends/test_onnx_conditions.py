"""What ONNX forbids of sizes and values that are known in a run ends the run; what it allows is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import numc
from numc.frontends.formulas import Known, decided, each_of, tensors_of
from onnx_conditions import CASES
from tiers import one_in

_ALWAYS = (
    "Split",
    "STFT",
    "Where",
    "Expand",
    "Tile",
    "Pad-reflect",
    "LSTM-lengths",
    "RotaryEmbedding",
    "Einsum-diagonal",
)


def _run(session: onnxruntime.InferenceSession | None, feeds: dict[str, Any]) -> list[Any] | None:
    """What onnxruntime computes; None if it refuses the model or the run."""
    try:
        return None if session is None else list(session.run(None, feeds))
    except Exception:
        return None


@pytest.mark.parametrize("name", one_in(10, CASES, *_ALWAYS))
def test_runs_are_those_that_onnxruntime_runs(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "m.onnx"
    onnx.save(case.model(), path)
    program = numc.compile(path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for number, run in enumerate(case.runs):
        feeds = case.feeds(run)
        wanted = _run(session, feeds)
        if not case.judged.get(number, wanted is not None):
            with pytest.raises(numc.NumcError) as caught:
                program(feeds)
            assert "(in '" in str(caught.value), run
            continue
        found = program(feeds)
        results = list(found.values()) if isinstance(found, dict) else [found]
        for got, want in zip(results, wanted or (), strict=False):
            assert got.shape == want.shape, run
            assert np.allclose(got, want, rtol=1e-4, atol=1e-5, equal_nan=True), (run, got, want)


def test_the_sweep_has_not_shrunk() -> None:
    assert (len(CASES), sum(len(case.runs) for case in CASES.values())) >= (75, 300)


TENSORS = [Known([2, None, 3]), Known([4], np.array([0, 1, 2, 3])), Known(None), Known(["n", "m", "n"])]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("size(0, 0) == 2", True),
        ("size(0, -1) * size(0, 0) == 7", False),
        ("size(0, 1) == 2", None),
        ("count(0) == 6", None),
        ("count(1) == 4", True),
        ("each(1) >= 0", True),
        ("each(1) > 0", False),
        ("total(1) == 6", True),
        ("at(1, 2) == min(2, 5)", True),
        ("max(at(1, 3), 1) % 2 == 0", False),
        ("size(0, 1) == 1 or size(0, 0) == 2", True),
        ("size(0, 1) == 1 and size(0, 0) == 3", False),
        ("size(0, 1) == 1 and size(0, 0) == 2", None),
        ("not at(1, 0) == 1", True),
        ("each(1) < size(0, 1)", None),
        ("size(2, 0) == 1", None),
        ("size(3, 0) <= size(3, 2)", True),
        ("size(3, 0) == size(3, 1)", None),
        ("size(3, 0) < size(3, 2)", None),
        ("count(3) == 8", None),
        ("size(0, 2) // 2 - 1 + size(0, 0) == 2", True),
    ],
)
def test_conditions_are_decided_where_all_is_known(text: str, holds: bool | None) -> None:
    assert decided(text, TENSORS) is holds


def test_what_a_condition_depends_on() -> None:
    assert tensors_of("size(0, 1) == 1 or each(3) < count(2)") == {0, 2, 3}
    assert each_of("each(3) < count(2)") == 3
    assert each_of("size(0, 1) == 1") is None
