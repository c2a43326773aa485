"""numc report: the table, JSON, the files it writes, and errors of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainings import HIGH, LOW, made_up_run


def test_the_table_the_page_and_errors(numc_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    for name in ("one", "two"):
        made_up_run(tmp_path / name, steps=30)
    (tmp_path / "two" / "statistics.jsonl").unlink()
    done = numc_run("report", "one", "two", "-o", "run.html")
    assert done.status == 0, done.err
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["run", "loss", "top1", "val_loss", "changes of arithmetic", "multiply-adds", "most denormals"]
    assert [[row[0], row[2], row[4], row[5]] for row in rows[1:]] == [
        [name, "0.9667", "4", f"{100 * 0.99 * 16 / 30:.2f}% {HIGH}"] for name in ("one", "two")
    ]
    assert rows[2][6] == "-"
    assert done.err.splitlines() == [
        "two/statistics.jsonl: not there: nothing is known of swamping and exponents",
        "two/denormals.jsonl: not there: nothing is known of denormals",
        "wrote run.html",
    ]
    assert "<title>one, two: training</title>" in (tmp_path / "run.html").read_text()
    (one,) = json.loads(numc_run("report", "one", "--json").out)["runs"]
    assert [s["used"] for s in one["stretches"]] == [HIGH, LOW, HIGH, LOW, HIGH]
    for arguments, text in (
        (("none",), "none: there is no such folder: want the folder of a training, see numc.train.RunFolder"),
        (("one", "-o", "no/x.html"), "no/x.html: cannot write: there is no folder no: create it first"),
        (("one", "--plots", "run.html"), "run.html: is a file: name a folder for plots"),
        ((), "Missing argument 'RUN...'. (see numc report --help)"),
    ):
        done = numc_run("report", *arguments)
        assert (done.status, done.error) == (2, text)
    monkeypatch.setattr("numc.studies.report.write.find_spec", lambda name: None)
    done = numc_run("report", "one", "-o", "run.html")
    assert done.error == "a report needs jinja2, which is not installed: pip install 'numc[report]'"
