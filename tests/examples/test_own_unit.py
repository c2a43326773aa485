"""A unit from its specification to its page: the quick run, the page's numbers in the documentation, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import numc
from definitions import undone
from example_scripts import example
from html_pages import CHROMIUM, Page, check_in_browser

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples" / "own_unit"
DOCS = ROOT / "docs" / "own-unit.md"


@pytest.fixture
def script():
    with undone(), example(SCRIPTS) as module:
        yield module


@pytest.mark.slow
def test_the_quick_run_has_everything(script, tmp_path, capsys):
    assert script.main(["--quick", "-o", str(tmp_path)]) == 0
    rows = {row["name"]: row for row in json.loads((tmp_path / "results.json").read_text())["units"]}
    assert list(rows) == ["fp32", "own", "block 4", "H100 e4m3", "H100 bf16", "bf16 FMA"]
    for name in ("own", "block 4"):
        bench = rows[name]["bench"]
        assert bench["reason"] or (bench["steps"] >= 50 and bench["dots"] > 0)
        assert bench["wrong"] == 0
        assert 0 < rows[name]["cnn"]["error"] < 0.01
        folder = tmp_path / name.replace(" ", "-")
        assert {"unit.sv", "steps.csv", "dots.csv", "vectors.json"} <= {file.name for file in folder.iterdir()}
    assert rows["fp32"]["transformer"]["error"] == 0
    text = (tmp_path / "index.html").read_text()
    page = Page(text)
    page.check_alone(text)
    assert "8 products, 8 bits cut" in " ".join(page.texts)
    if CHROMIUM is not None:
        check_in_browser(tmp_path / "index.html", tmp_path)
    assert "block 4" in capsys.readouterr().out


def test_a_unit_that_no_table_has_is_a_line(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script.silicon, "KEPT", tmp_path / "none.json")
    script.silicon.kept.cache_clear()
    script.define()
    with pytest.raises(numc.NumcError, match="none.json has no 'fma.*own#.*': want yosys, or the unit that the table"):
        script.silicon.area(script.VARIANTS[0], anew=False)
    file = tmp_path / "file"
    file.write_text("")
    assert script.main(["--quick", "-o", str(file)]) == 2
    assert capsys.readouterr().err.startswith("run.py: ")


@pytest.mark.slow
def test_a_wrong_bit_of_the_rtl_is_found(script, tmp_path, monkeypatch):
    if script.silicon.why_no_bench():
        pytest.skip(script.silicon.why_no_bench())
    script.define()
    right = script.silicon.rtl
    monkeypatch.setattr(script.silicon, "rtl", lambda op: right(op).replace("assign d = ", "assign d = 1 ^ ", 1))
    bench = script.silicon.write(script.VARIANTS[4], ("random", "dot"), 20, tmp_path)
    assert bench.wrong >= 20


@pytest.mark.slow
def test_the_page_of_the_documentation_has_the_results(script, tmp_path):
    assert script.main(["--kept-areas", "-o", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    rows = [line.split(" | ") for line in re.findall(r"^\| (.*) \|$", DOCS.read_text(), flags=re.MULTILINE)[2:]]
    for row, unit in zip(rows, results["units"], strict=True):
        cnn, transformer = unit["cnn"], unit["transformer"]
        numbers = [f"{100 * cnn['metric']:.2f}%", f"{cnn['error']:.1e}"]
        numbers += [f"{transformer['metric']:.3f}", f"{transformer['error']:.1e}", f"{unit['gates']:.0f}"]
        assert [row[0], *row[2:]] == [unit["name"], *numbers]
