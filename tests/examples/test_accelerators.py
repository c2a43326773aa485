"""The page of matrix units: its tables are those of the results file, and what the file says is measured again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import numc
from example_scripts import example

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "accelerators" / "results.json"


@pytest.fixture
def script():
    with example(ROOT / "examples" / "accelerators") as module:
        yield module


@pytest.fixture(scope="module")
def rows():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_tables_of_the_page_are_those_of_the_results(script, rows) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page.written(text, rows) == text
    assert text.count("\n| `") > 2 * len(rows)


def test_every_unit_is_there_and_none_differs_from_its_model(script, rows) -> None:
    assert [name for row in rows for name in row["names"]][: len(script.measured.PLAIN)] == list(script.measured.PLAIN)
    units = rows[len(script.measured.PLAIN) :]
    assert {name for row in units for name in row["names"]} == set(numc.units)
    for row in units:
        if numc.units[row["names"][0]].datapath.name == "int":
            assert row["published"] is None
        else:
            assert row["published"]["steps"] >= 1_000_000
            assert row["published"]["differ"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("names", [["cdna1_bf16"], ["mp", "hopper_e4m3", "blackwell_nvfp4", "turing_int8"]])
def test_what_is_measured_again_is_the_same(script, rows, names: list[str]) -> None:
    """One unit of each kind: the errors of the networks and of dot products, to the last bit."""
    found = {row["names"][0]: row for row in rows}
    errors = script.measured.networks(names, progress=lambda _: None)
    for name in names:
        for network, error in errors[name].items():
            assert json.loads(json.dumps(script.measured.as_json(error))) == found[name]["errors"][network]
        assert script.measured.as_json(script.measured.dots(name)) == found[name]["dots"]


@pytest.mark.slow
def test_units_are_printed(script, capsys, tmp_path) -> None:
    """A few steps of one unit; nothing is written. A results file that is not there is one line."""
    pytest.importorskip("mmasim")
    assert script.main(["volta_fp16", "--steps", "1000"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("| `volta_fp16` | ")
    assert out.splitlines()[-1].endswith(" | 0 |")
    assert script.main(["--render", "-o", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.startswith("run.py: ")
