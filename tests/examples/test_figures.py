"""The figures of docs/figures.md: every script runs, and the page's tables are what the full runs print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples" / "figures"
PAGE = ROOT / "docs" / "figures.md"


def run(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def rows(name: str, folder: Path, *options: str) -> list[dict[str, Any]]:
    done = run(name, folder, "--json", "--output", "picture.png", *options)
    assert done.returncode == 0, done.stderr
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def table(heading: str) -> list[list[str]]:
    """The rows of the first table in the section whose heading begins like that."""
    section = re.split(rf"\n##+ {heading}", PAGE.read_text())[1].split("\n#")[0]
    lines = re.findall(r"^\| (.*) \|$", section.split("|\n\n")[0] + "|\n", flags=re.MULTILINE)
    return [line.split(" | ") for line in lines[1:]]


def test_representation(tmp_path: Path) -> None:
    found = rows("representation", tmp_path)
    assert [row["significands"] for row in found] == [1 << 23] * 3
    one, two, three = found
    assert one["largest"] == 2**-8 / (1 + 2**-8)  # a tie half an ulp above 1
    assert 2**-18 < two["largest"] <= 2**-17
    assert three["largest"] == three["mean"] == 0
    shares = ("exact", "below 1e-4", "1e-6 to 1e-5", "below 1e-6")
    # Figure 7.2 of the thesis: 3.84, 58.05 and 41.95 %, and no error of bf16x3.
    assert one["below 1e-4"] == "3.8400%"
    assert [two[key] for key in shares[1:]] == ["100.0000%", "58.0530%", "41.9470%"]
    want = [
        [
            row["format"],
            *(row[key] for key in shares),
            *(f"{row[key]:.2e}" for key in ("largest", "mean", "root mean square")),
        ]
        for row in found
    ]
    assert table("Representation") == want


def test_grain(tmp_path: Path) -> None:
    found = rows("grain", tmp_path)
    depths = (16, 64, 256, 1024, 4096)
    by = {(row["format"], row["K"]): row for row in found}
    formats = list(dict.fromkeys(row["format"] for row in found))
    want = [
        [name, f"{by[name, 4096]['coarse']:.1e}", *(f"{by[name, depth]['fine']:.1e}" for depth in depths)]
        for name in formats
    ]
    assert table("Fine-grain") == want
    for name in formats:
        assert sorted(depths, key=lambda depth: by[name, depth]["fine"]) == list(depths)
        assert all(by[name, depth]["coarse"] < by[name, depth]["fine"] for depth in depths)
    factors = [by[name, 4096]["fine / coarse"] for name in formats]
    assert f"{min(factors):.0f} to {10 * round(max(factors) / 10)}" in PAGE.read_text()


def test_grain_of_the_result(tmp_path: Path) -> None:
    found = rows("grain", tmp_path, "--coarse", "result")
    assert [row["inputs"] for row in found] == ["normal", "uniform [0, 1)"]
    want = []
    for row in found:
        assert (row["M = N"], row["K"]) == (48, 2000)
        want.append([row["inputs"]])
        for kind in ("absolute", "relative"):
            fine, coarse, ratio = (row[f"{name}, {kind}"] for name in ("fine", "coarse", "fine / coarse"))
            assert ratio >= 10, "the thesis: about one order of magnitude"
            want[-1] += [f"{fine:.1e}", f"{coarse:.1e}", f"{ratio:.0f}"]
    assert table("Coarse-grain") == want


def test_exponents(tmp_path: Path) -> None:
    found = rows("exponents", tmp_path)
    shares = [*map(str, range(8)), "8+"]
    for row in found:
        assert sum(row[share] for share in shares) == pytest.approx(1, abs=1e-3)
    want = [[row["values"], str(row["g"]), *(f"{100 * row[key]:.1f}" for key in ("zeros", *shares))] for row in found]
    assert table("Exponents") == want
    for kind in ("weights", "activations"):
        means = [row["mean"] for row in found if row["values"] == kind]
        assert means == sorted(means)
        assert len(means) == 3


def test_differences_of_groups_written_out_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import exponents
    import numpy as np

    values = np.array([[8.0, -1.0, 0.0, 15.9, 0.5], [0, 0, 0, 0, 0]], np.float32)
    assert exponents.differences(values, 2).tolist() == [0, 3, 0, 0]  # (8, 1), (0, 15.9), (0.5)
    assert exponents.differences(values, 4).tolist() == [0, 3, 0, 0]
    assert exponents.differences(values, 8).tolist() == [0, 3, 0, 4]


@pytest.mark.parametrize("name", ["representation", "grain", "exponents"])
def test_quick_run_prints_a_table_and_writes_a_picture(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, "--quick")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 5
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]


def test_without_matplotlib_it_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import figure

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["grain.py"])
    assert figure.main("", "grain", lambda _: [], lambda *_: None) == 2
    assert capsys.readouterr().err == "grain.py: matplotlib is not installed: pip install matplotlib\n"
