"""numc search: the tables, the folder, Ctrl-C, and errors of one line before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MLP = Path(__file__).parents[2] / "examples" / "digits" / "mlp.onnx"
FUNCTION = ("search", MLP, "--evaluate", "search_evaluations:accuracy", "--space", "e=3..5 m=1..7")


def test_tables_and_a_folder_that_a_second_command_goes_on_with(numc_run: Any, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    done = numc_run(*FUNCTION, "--tolerance", "1%", "-o", "found")
    assert done.status == 0, done.err
    first, second = (table.splitlines() for table in done.out.split("\n\n"))
    assert first[0] == "arithmetic\tbytes\tof fp32\tevaluate, search split\tevaluate, report split"
    assert [line.split("\t")[0] for line in first[1:]] == ["fp32", "uniform", "search"]
    assert second == ["layer\tFMAs\te\tm", "node_linear\t48.12%\t4\t3", "node_linear_1\t48.12%\t4\t3",
                      "node_linear_2\t3.76%\t4\t2"]  # fmt: skip
    assert {p.name for p in (tmp_path / "found").iterdir()} == {
        "best.policy", "report.html", "results.jsonl", "search.json"
    }  # fmt: skip
    assert "numc search" in (tmp_path / "found" / "report.html").read_text()
    explained = numc_run("explain", MLP, "--policy", "found/best.policy")
    assert explained.status == 0
    again = numc_run(*FUNCTION, "--tolerance", "1%", "--resume", "found", "--json")
    assert json.loads(again.out) == json.loads((tmp_path / "found" / "search.json").read_text())
    nothing = numc_run(*FUNCTION, "--tolerance", "0", "--only", "node_linear")
    assert nothing.status == 1
    assert nothing.err.endswith("numc: nothing in the space keeps evaluate within 0 of fp32: widen it\n")


def test_ctrl_c_says_where_the_rest_is(numc_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")

    def interrupt(policy: str, split: str) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("search_evaluations.accuracy", interrupt)
    done = numc_run(*FUNCTION, "--tolerance", "1%", "-o", "found")
    assert done.status == 130
    assert done.err == "numc: interrupted: 0 candidates are evaluated and kept in found: --resume found\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tolerance", "1p%"], "--tolerance '1p%': want a number such as 0.01 or 1%"),
        (["--tolerance", "-1%"], "tolerance: got -0.01, which fp32 itself misses: want a number of at least 0"),
        (["--tolerance", "1", "-o", "a", "--resume", "b"], "--output starts a search, --resume goes on with"),
        (["--tolerance", "1", "--only", "a,,b"], "--only 'a,,b': has an empty part"),
    ],
)  # fmt: skip
def test_errors_are_one_line(numc_run: Any, options: list[str], message: str) -> None:
    done = numc_run(*FUNCTION, *options)
    assert done.status == 2
    assert done.error.startswith(message)
