"""The README's main job: examples/digits/run.py gives the accuracy it says, in every form of output."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT, README = ROOT / "examples" / "digits" / "run.py", ROOT / "README.md"


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rows(digits: ModuleType, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, float]]:
    assert digits.main(["--json", "--repeat", "1", *arguments]) == 0
    return {row["operator"]: row for row in json.loads(capsys.readouterr().out)}


@pytest.mark.slow
def test_cnn_under_every_default_operator(digits, capsys):
    got = rows(digits, capsys)
    assert list(got)[: len(digits.OPERATORS)] == list(digits.OPERATORS)
    right = {name: round(row["accuracy"] * 360) for name, row in got.items()}
    # The same on every machine: the bits of the logits are defined. One image is 0.28 %.
    assert right["fp32"] == right["mp"] == right["bf16_1_1"] == right["bf16_1_2"] == right["bf16_2_2{3}"] == 354
    assert (right["fmac(e6m9)"], right["fmac(e5m2)"], right["fmac(e4m3)"]) == (354, 335, 351)
    error = {name: row["relative_error"] for name, row in got.items()}
    assert error["fp32"] == 0
    assert 0 < error["bf16_2_2{3}"] < error["bf16_1_2"] < error["bf16_1_1"] < error["fmac(e5m2)"]
    assert 0 < error["mp"] < error["bf16_1_1"]
    if digits.BASELINE in got:
        assert error[digits.BASELINE] < 1e-10
    table = re.findall(r"^\| `([^`]+)`[^|]*\| ([\d.]+%) \| ([^|]+) \|", README.read_text(), flags=re.MULTILINE)
    assert table == [
        (name, f"{got[name]['accuracy']:.2%}", f"{error[name]:.1e}" if error[name] else "0")
        for name in digits.OPERATORS
    ]


def test_mlp_and_a_chosen_operator(digits, capsys):
    got = rows(digits, capsys, "--model", "mlp", "--fma", "bf16_1_1")
    assert list(got)[:2] == ["fp32", "bf16_1_1"]
    assert min(row["accuracy"] for row in got.values()) > 0.95


def test_table(digits, capsys):
    assert digits.main(["--model", "mlp", "--fma", "fp32", "--repeat", "1", "--threads", "2"]) == 0
    said = capsys.readouterr().out
    assert "mlp.onnx on 360 held-out images, 2 thread(s)" in said
    assert "test accuracy" in said


def test_a_page_and_what_to_try_next(digits, capsys, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "demo.html"
    assert digits.main(["--model", "mlp", "--fma", "mp", "--repeat", "1", "--page", str(page)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"wrote {page}: open it in a browser. {digits.NEXT}"
    assert "mlp.onnx in 2 arithmetics" in page.read_text(encoding="utf-8")


def test_what_to_try_next_works(digits, tmp_path, monkeypatch):
    """The command of the last line, in the folder that the README speaks of."""
    from numc.cli import main

    monkeypatch.chdir(ROOT)
    words = shlex.split(digits.NEXT.partition(": ")[2])
    assert words[0] == ".venv/bin/numc"
    assert main([*words[1:-1], str(tmp_path / words[-1]), "--no-stats"]) == 0
    assert "mine" in (tmp_path / "mine.html").read_text(encoding="utf-8")


def test_unknown_operator_is_one_line(digits, capsys):
    assert digits.main(["--model", "mlp", "--fma", "bf16_1_l"]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("run.py: unknown FMA operator 'bf16_1_l'")


def test_plot_without_matplotlib_is_one_line(digits, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    assert digits.main(["--plot", "x.png"]) == 2
    assert capsys.readouterr().err == (
        "run.py: --plot needs matplotlib, which is not installed: pip install matplotlib\n"
    )
