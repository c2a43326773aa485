"""tools/tiers.py: which cases wait for `make exhaustive`, and that its list is of cases that are there."""

from __future__ import annotations

import pytest

from rooms import ROOT
from tools import tiers


def test_the_list_is_of_functions_that_are_there() -> None:
    wanted = tiers.wanted_by_mutants()
    for case in tiers.listed():
        file, _, name = case.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), case
        assert wanted.isdisjoint((case, case.partition("[")[0], file)), case


def test_the_page_says_how_long_a_case_may_take() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"those that take {tiers.LEAST} seconds or more wait for" in text


def test_one_case_of_each_function_stays(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that takes least, those that mutants ask for, and those that take little; earlier ones stay listed."""
    seconds = {"a[1]": 2.0, "a[2]": 1.0, "a[3]": 0.1, "b[x]": 3.0, "b[y-z]": 4.0, "alone": 9.0, "a[4]": 0.15}
    cases = "".join(
        f'<testcase classname="tests.e2e.test_x" name="test_{name}" time="{time}"/>' for name, time in seconds.items()
    )
    report, file = tmp_path / "times.xml", "tests/e2e/test_x.py"
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    monkeypatch.setattr(tiers, "LISTED", tmp_path / "exhaustive.txt")
    tiers.LISTED.write_text(f"# A line.\n{file}::test_a[0]\n")
    monkeypatch.setattr(tiers, "wanted_by_mutants", lambda: frozenset({f"{file}::test_a[2]"}))
    assert tiers.main([str(report)]) == 0
    assert tiers.listed() == [f"{file}::test_{name}" for name in ("a[0]", "a[1]", "b[y-z]")]
    assert capsys.readouterr().out == "3 cases, 6 of 19 seconds\n"
