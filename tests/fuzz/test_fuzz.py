"""The fuzzers for some seconds each: always the same cases, so that what fails here fails again."""

from __future__ import annotations

import pytest

from fuzz import workers

DEFAULT = {"operators": 300, "policies": 500, "packed": 1500, "programs": 150, "commands": 150, "onnx": 150}
"""Cases of each kind in the default tier."""
MORE = {"graphs": 12, "compiled": 2, "values": 3, "special": 2, "modes": 60}
"""Cases of the kinds that compile, in the tier `all`."""
MOST = {
    "operators": 2000,
    "policies": 6000,
    "packed": 8000,
    "programs": 600,
    "commands": 600,
    "onnx": 600,
    "modules": 8,
    "values": 56,
    "products": 16,
    "special": 16,
    "modes": 3000,
}
"""Cases in the tier `slow`."""
CASES = [
    *DEFAULT.items(),
    *(pytest.param(kind, count, marks=pytest.mark.all) for kind, count in MORE.items()),
    *(pytest.param(kind, count, marks=pytest.mark.slow) for kind, count in MOST.items()),
]


@pytest.mark.parametrize(("kind", "count"), CASES)
def test_nothing_is_found(kind: str, count: int) -> None:
    report = workers.run(kind, 1_000_000, count)  # numbers that no long run has begun with
    assert report.findings == {}
    assert report.cases == count
    # Most cases of a kind of texts and files are refused, and most models run: what makes them is not idle.
    assert len(report.outcomes) > (1 if kind in ("operators", "policies", "programs", "onnx") else 0)
    if kind in ("graphs", "modules"):
        assert report.outcomes["ran"] > count // 2


def test_a_case_that_dies_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 1 of the kind `broken` kills its process, case 2 is a finding; the others are run by a second process."""
    report = workers.run("broken", 0, 4)
    assert sorted(report.findings) == [1, 2]
    assert report.findings[1].startswith("killed its process (status -11): ")
    assert report.findings[2] == "ValueError: 'no' from case 2"
    assert report.outcomes == {"answered": 2}
