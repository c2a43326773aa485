"""JSON that anybody may have written: its value or a ValueError, in every reader of numc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import numc
from numc.compiler.cache import cache, file_hashes
from numc.studies.profile import roofline
from numc.studies.search.journal import NAME, Journal
from numc.studies.store import Store
from numc.support.json_values import parsed

NESTED = "[" * 100_000
DEEP = "[" * 500 + "]" * 500
HUGE = "1" + "0" * 400
TEXTS = (NESTED, DEEP, '{"a":' * 500 + "1" + "}" * 500, HUGE, f"[{HUGE}]", "9" * 5000, "{", "", "[1,]")


@pytest.mark.parametrize("text", TEXTS)
def test_only_value_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested too deeply|a number of more than 308 digits|Expecting|Illegal"):
        parsed(text)


def test_values() -> None:
    assert parsed('{"a": [1, -2.5, "x", null, true]}') == {"a": [1, -2.5, "x", None, True]}
    assert parsed("9" * 308) == 10**308 - 1
    assert parsed("[" * 99 + "]" * 99)
    assert str(parsed("[NaN]")) == "[nan]"
    with pytest.raises(ValueError, match="NaN is not a number of JSON"):
        parsed("NaN", finite=True)


READERS: dict[str, Callable[[str, Path], object]] = {
    "statistics": lambda text, _: numc.Statistics.from_json(text),
    "comparison": lambda text, _: numc.Comparison.from_json(text),
    "decision": lambda text, _: numc.train.Decision.from_json(text),
    "store": lambda _, file: Store(file, "model", "hash"),
    "journal": lambda _, file: Journal(file.parent, "digest", {}, resume=True),
}


@pytest.mark.parametrize("text", TEXTS[:4])
@pytest.mark.parametrize("reader", READERS)
def test_readers_raise_one_line_or_read_nothing(reader: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(text + "\n")
    (tmp_path / NAME).write_text(text + "\n")
    with pytest.raises(numc.NumcError, match=r"^[^\n]*$"):
        READERS[reader](text, file)


@pytest.mark.parametrize("text", TEXTS[:4])
def test_a_damaged_roofline_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    assert roofline._read(tmp_path / "file") == {}


@pytest.mark.parametrize("text", TEXTS[:4])
def test_notes_and_entries_of_the_cache_that_are_damaged_are_made_anew(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_hashes, "_NOTED", 1)
    monkeypatch.setattr(file_hashes, "_SETTLED", -1)
    notes, model = tmp_path / "cache", tmp_path / "model"
    model.write_bytes(b"model")
    want = file_hashes.noted_hash(model, notes)
    for note in notes.glob("*.note"):
        note.write_text(text)
    assert file_hashes.noted_hash(model, notes) == want
    entry = cache.Entry(notes / f"{'0' * 64}.numc")
    notes.mkdir(exist_ok=True)
    entry.about.write_text(text)
    assert entry.load() is None
