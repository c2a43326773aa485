"""numc compare: the table, JSON, the files it writes, Ctrl-C, and errors of one line before any work."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numc.cli.commands.compare import split_list
from numc.studies import compare as module
from numc.studies.comparison import Comparison
from numc.support.errors import NumcError

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MLP, HELD = DIGITS / "mlp.onnx", DIGITS / "heldout.npz"
# Read at once, where an ONNX file takes a second.
TINY = """
func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x6xf32>, %c: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %y = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x6xf32>) outs(%c : tensor<?x6xf32>) -> tensor<?x6xf32>
  return %y : tensor<?x6xf32>
}
"""
ONE = "func.func @main(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {\n  return %x : tensor<?x64xf32>\n}\n"
GIVEN = ("compare", MLP, "--data", f"x={HELD}:images", "--labels", f"{HELD}:labels", "--no-stats")


def test_lists_are_split_outside_of_brackets() -> None:
    text = "fp32, bf16_2_2{3},fma(a=bf16,b=tf32, acc=fp32),fmac(bf16,chunk=8)"
    assert split_list("--fma", text) == ["fp32", "bf16_2_2{3}", "fma(a=bf16,b=tf32, acc=fp32)", "fmac(bf16,chunk=8)"]
    with pytest.raises(NumcError) as error:
        split_list("--fma", "mp,,fp32")
    assert str(error.value) == "--fma 'mp,,fp32': has an empty part: want names with one comma between them"


def test_the_table_the_page_and_what_is_kept(numc_run: Any, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    (tmp_path / "mixed.policy").write_text("default bf16_1_1\nlayer 0 fp32\n")
    arguments = (*GIVEN, "--fma", "mp,fma(a=bf16,acc=e5m7)", "--policy", "mixed.policy", "--report", "out.html",
                 "--metric", "top1,cosine")  # fmt: skip
    done = numc_run(*arguments)
    assert done.status == 0, done.err
    rows = [line.split("\t") for line in done.out.splitlines()]
    columns = ["arithmetic", "top1", "cosine", "error", "breaks at", "time", "weights", "gates", "area", "iso-area"]
    assert rows[0] == [*columns, "packed", "top1 minus fp32"]
    assert rows[1][11] == "-"
    difference, low, high = map(float, re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", rows[3][11]).groups())
    assert difference == pytest.approx(float(rows[3][1][:-1]) - float(rows[1][1][:-1]), abs=0.011)
    assert low < difference < high
    assert [row[0] for row in rows[1:]] == ["fp32", "mp", "fma(a=bf16,acc=e5m7)", "mixed"]
    assert rows[1][3:6] == ["0", "-", "1.00"]
    assert rows[2][7:10] == ["5855", "64", "9"]
    assert rows[3][7] == "-"
    assert "wrote out.html" in done.err
    page = (tmp_path / "out.html").read_text()
    assert "numc compare" in page
    assert "--policy mixed.policy" in page
    assert f"x={HELD}:images" in page
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "out.html").stat().st_mode) == 0o666 & ~umask
    assert {p.name for p in tmp_path.iterdir()} == {"mixed.policy", "out.html", "out.results.json"}

    again = numc_run(*arguments, "--json")
    comparison = Comparison.from_json(again.out)
    assert [f"{r.time:.2f}" for r in comparison.results] == [row[5] for row in rows[1:]]  # they are the kept ones
    assert comparison["mixed"].policy == "default bf16_1_1\nlayer 0 fp32\n"
    other = numc_run("compare", DIGITS / "cnn.onnx", "--data", f"x={HELD}:images", "--report", "out.html")
    assert other.status == 2
    assert other.error == (f"out.results.json: results of another model ({MLP}): name another file, or remove this one")


@pytest.mark.parametrize("display", [True, False])
def test_the_page_is_opened_and_follows_the_work(
    numc_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, display: bool
) -> None:
    pytest.importorskip("jinja2")
    page, seen = tmp_path / "out.html", []
    monkeypatch.setattr("webbrowser.open", lambda address: seen.append((address, page.read_text())) or True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    if display:
        monkeypatch.setenv("DISPLAY", ":0")
    done = numc_run(*GIVEN, "--fma", "mp,bf16_1_1", "--report", page, "--open")
    assert done.status == 0, done.err
    assert ("--open: there is no browser: open" in done.err) is not display
    final = page.read_text()
    assert "data-written" not in final
    if display:
        ((address, first),) = seen
        assert address == page.as_uri()
        assert "Finished: fp32. <span>This page loads itself again until it is finished." in first
        assert 'data-written="' in first
        assert "in 1 arithmetic</h1>" in first
    done = numc_run(*GIVEN, "--open")
    assert (done.status, done.err) == (2, "numc: error: --open is about a page: ask for one with --report\n")
    done = numc_run("search", MLP, "--data", HELD, "--tolerance", "1%", "--open")
    assert (done.status, done.err) == (2, "numc: error: --open is about a page: ask for one with --output\n")


def test_a_bar_only_on_a_terminal(numc_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done = numc_run(*GIVEN, "--fma", "fp32")
    assert "\x1b" not in done.err
    assert all(line.startswith("fp32 against onnxruntime") for line in done.err.splitlines())
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "\x1b" in numc_run(*GIVEN, "--fma", "fp32").err


def test_an_interrupt_says_how_to_go_on(numc_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    time = module._Work._time

    def stop(self: Any, program: Any) -> Any:
        if program is not self._reference:
            raise KeyboardInterrupt
        return time(self, program)

    monkeypatch.setattr(module._Work, "_time", stop)
    done = numc_run(*GIVEN, "--fma", "mp,bf16_1_1", "--report", "out.html")
    assert (done.status, done.out) == (130, "")
    assert done.err == (
        "numc: interrupted: 1 of 3 arithmetics are finished and kept in out.results.json: the same command goes on "
        "from there\n"
    )
    page = (tmp_path / "out.html").read_text()
    assert "Finished: fp32. <span>The work was stopped before its end." in page
    assert "data-written" not in page
    done = numc_run(*GIVEN, "--fma", "mp")
    assert done.err.endswith("1 of 2 arithmetics are finished and not kept: --report or --results FILE keeps them\n")
    assert {p.name for p in tmp_path.iterdir()} == {"out.results.json", "out.html"}


def test_fp32_that_disagrees_with_onnxruntime(numc_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("numc.studies.results.AGREES", -1.0)
    done = numc_run(*GIVEN, "--fma", "fp32")
    assert done.status == 1
    assert done.err.endswith("numc: fp32 does not agree with onnxruntime: do not trust the rest\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--metric", "top1,topp5"),
            "unknown metric 'topp5' (did you mean 'top5' or 'top1'?): want top1, top5,",
        ),
        (
            ("--metric", "perplexity"),
            "metric 'perplexity': needs labels that are class numbers, got none: give --labels",
        ),
        (("--report", "none/x.html"), "none/x.html: cannot write: there is no folder none: create it first"),
        (("--report", "folder"), "folder: is a folder: name a file for the output"),
        (("--plots", "file"), "file: is a file: name a folder for plots"),
        (("--plots", "none/plots"), "none/plots: cannot write: there is no folder none: create it first"),
        (("--results", "none/x.json"), "none/x.json: cannot write: there is no folder none: create it first"),
        (("--results", "file"), "file: not results of numc compare: name another file, or remove this one"),
        (
            ("--policy", 'layer "conv1" fma = mp'),
            'policy 1: policy:1: layer "conv1" matches nothing in this model: its operations have no',
        ),
        (("--fma", "bf16_1_2,"), "--fma 'bf16_1_2,': has an empty part: want names with one comma between them"),
        (("--labels", "short.npy"), "labels: got 3 of shape [3], want class numbers of shape [2] for 2 samples"),
        (("--labels", "two.npz"), "--labels two.npz: it has a, b: name one, such as two.npz:a"),
        (("--labels", "none.npy"), "none.npy: cannot read: No such file or directory: want a .npy or .npz file"),
        (("--data", "arg0=other.npy"), "--data arg0=other.npy: 'arg0' is given twice"),
        (("--no-stats", "--sample", "1/4"), "--sample is about statistics: leave it or --no-stats out"),
        (("--sample", "3/4"), "sample '3/4': want 1 or a fraction 1/n"),
        (("--data", "other.npy"), "--data other.npy: an array without a name beside others: want NAME=other.npy"),
    ],
)
def test_bad_input_is_one_line(
    numc_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.setattr(module, "contents", lambda *a: pytest.fail("compiled"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "tiny.mlir").write_text(TINY)
    x = np.zeros((2, 8), np.float32)
    np.savez(tmp_path / "x.npz", arg0=x, arg1=np.zeros((8, 6), np.float32), arg2=np.zeros((2, 6), np.float32))
    np.save(tmp_path / "other.npy", x)
    np.save(tmp_path / "short.npy", np.array([1, 2, 3]))
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(2))
    done = numc_run("compare", "tiny.mlir", "--data", "x.npz", *arguments)
    assert done.status == 2
    assert done.error.startswith(says), done.error
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("nan.npy", "data 'arg0': has NaN at [1, 3], 1 values in all that are not finite: remove them"),
        ("empty.npy", "data 'arg0': is empty (float32[0,64]): want at least one sample"),
        (
            "two.npz",
            "data: no array 'arg0' (did you mean 'arg'?): it has 'arg', the model takes 'arg0' (float32[?,64])",
        ),
        ("arg0=two.npz", "--data arg0=two.npz: it has the arrays arg: name one, such as arg0=two.npz:arg"),
        ("arg0=two.npz:xy", "two.npz:xy: there is no array 'xy' in it: it has arg"),
        ("nan.npy:x", "nan.npy:x: nan.npy is one array without a name: leave ':x' out"),
        ("text.npy", "text.npy: not a numpy file of plain numbers: want a .npy or .npz file"),
    ],
)
def test_data_that_cannot_be_compared(numc_run: Any, tmp_path: Path, data: str, says: str) -> None:
    (tmp_path / "one.mlir").write_text(ONE)
    bad = np.zeros((2, 64), np.float32)
    np.savez(tmp_path / "two.npz", arg=bad)
    bad[1, 3] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    np.save(tmp_path / "empty.npy", bad[:0])
    (tmp_path / "text.npy").write_text("numbers")
    done = numc_run("compare", "one.mlir", "--data", data)
    assert (done.status, done.error) == (2, says)


def test_operators_have_names_of_the_user(numc_run: Any) -> None:
    done = numc_run(*GIVEN, "--fma", "short=fma(a=e4m3fn,acc=fp32), mp", "--json")
    results = json.loads(done.out)["results"]
    assert [result["name"] for result in results] == ["fp32", "short", "mp"]
    assert results[1]["policy"] == "default fma = fma(a=e4m3fn,acc=fp32), ops = fp32\n"
    done = numc_run(*GIVEN, "--fma", "x=mp,x=fp32")
    assert (done.status, done.error) == (2, "--fma 'x': names two operators, want a name for each")


def test_without_the_packages_of_a_report(numc_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numc.studies.report.write.find_spec", lambda name: None)
    for option, package in (("--report", "jinja2"), ("--plots", "matplotlib")):
        done = numc_run(*GIVEN, option, "x")
        assert (done.status, done.error) == (
            2, f"a report needs {package}, which is not installed: pip install 'numc[report]'"
        )  # fmt: skip


def test_json_has_no_numbers_that_are_none(numc_run: Any) -> None:
    done = numc_run(*GIVEN, "--fma", "fmac(e3m2)", "--json")
    found = json.loads(done.out, parse_constant=lambda word: pytest.fail(word))
    assert [r["name"] for r in found["results"]] == ["fp32", "fmac(e3m2)"]


def test_options_of_tokens_that_are_refused(numc_run: Any, tmp_path: Path) -> None:
    def error(*options: object) -> Any:
        return numc_run("compare", MLP, *options).error

    assert error() == "nothing to run the model on: give --data FILE, or --tokens FILE and --length N"
    assert error("--length", 4) == "--length is about --tokens: give --tokens FILE"
    assert error("--stride", 4) == "--stride is about --tokens: give --tokens FILE"
    assert error("--tokens", "t.bin") == "--tokens needs --length N, the number of tokens that the model gets at once"
    both = "--tokens says what the inputs and the labels are: leave --data and --labels out"
    assert error("--tokens", "t.bin", "--data", "x.npy", "--length", 4) == both
    text = "t.txt: a text needs a tokenizer: name a folder as the model, or give tokens"
    assert error("--tokens", "t.txt", "--length", 4) == text
    (tmp_path / "empty").mkdir()
    reason = numc_run("compare", "empty", "--tokens", "t.txt", "--length", 4).error
    assert reason == "t.txt: cannot read: No such file or directory: want a text"
