"""examples/trainbf/layers.py: the page has its table, errors are the stored bits, and bad input is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from example_scripts import example

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def layers() -> Iterator[ModuleType]:
    with example(DOCS.parent / "examples" / "trainbf"):
        yield import_module("layers")


def test_the_page_has_the_table(layers: ModuleType) -> None:
    page = (DOCS / "trainbf.md").read_text(encoding="utf-8")
    rows = [layers.Row(**row) for row in json.loads((DOCS / "trainbf" / "layers.json").read_text(encoding="utf-8"))]
    assert layers.table(rows) in page
    time = {row.layers: row.time for row in rows}
    assert f"{100 * (time[layers.ALL] - 1):.0f} %" in page


@pytest.mark.slow
def test_errors_are_the_stored_bits(layers: ModuleType, tmp_path: Path) -> None:
    assert layers.main(["--turns", "1", "--results", str(tmp_path / "layers.json")]) == 0
    stored, again = (
        json.loads((folder / "layers.json").read_text(encoding="utf-8")) for folder in (DOCS / "trainbf", tmp_path)
    )
    assert [(row["layers"], row["error"]) for row in again] == [(row["layers"], row["error"]) for row in stored]
    torch._dynamo.reset()


def test_bad_input_is_one_line(layers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        layers.main(["--turns", "0"])
    assert "argument --turns: got '0', want a whole number from 1" in capsys.readouterr().err
