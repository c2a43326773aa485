"""numc diff and numc bisect: what they print, and what they say about bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.cli import main
from numc.studies import bisect as bisecting
from small_models import THREE, data

MP = ("--fma", "mp", "--data", "x.npz")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """three.mlir, fp32.numc and mp.numc."""
    path = tmp_path_factory.mktemp("three")
    (path / "three.mlir").write_text(THREE)
    for fma in ("fp32", "mp"):
        assert main(["compile", str(path / "three.mlir"), "--fma", fma, "-o", str(path / f"{fma}.numc")]) == 0
    return path


@pytest.fixture
def here(numc_run, made: Path):
    """Files of data in the current folder."""
    np.savez("x.npz", **data(), labels=np.zeros(5, np.int64))
    np.savez("nan.npz", **{**data(), "arg2": np.full((4, 4), np.nan, np.float32)})
    np.savez("few.npz", arg0=data()["arg0"], agr1=data()["arg1"])
    np.savez("wide.npz", **{**data(), "arg0": np.zeros((5, 7), np.float32)})
    np.save("one.npy", data()["arg0"])
    return made


def test_diff_prints_layers_and_the_first_difference(numc_run, here):
    done = numc_run("diff", here / "fp32.numc", here / "mp.numc", "--data", "x.npz", "--threads", 2)
    assert (done.status, done.err) == (0, "")
    *table, first = done.out.splitlines()
    rows = [line.split("\t") for line in table]
    assert rows[0] == ["#", "layer", "a", "b", "differ", "largest", "relative", "ulp"]
    assert [row[:4] for row in rows[1:]] == [
        ["0", "first", "fp32", "mp"],
        ["1", "second", "fp32", "mp"],
        ["2", "third", "fp32", "mp"],
        ["-", "output result0", "-", "-"],
    ]
    assert rows[1][4:] == ["0 / 20", "0", "0", "0"]
    assert rows[3][4:] == rows[4][4:]
    found = numc.diff(here / "fp32.numc", here / "mp.numc", data())
    element = found.layers[1].difference.first
    assert element is not None
    assert first == f"first difference: layer 1 'second', {element}"
    assert f"{element.a_hex} (" in first
    as_json = json.loads(numc_run("diff", here / "fp32.numc", here / "mp.numc", "--data", "x.npz", "--json").out)
    assert as_json == json.loads(json.dumps(found.to_json()))


def test_diff_of_models(numc_run, here):
    """A model is compiled first, so that both ways give the same."""
    want = numc_run("diff", here / "fp32.numc", here / "mp.numc", "--data", "x.npz").out
    three = here / "three.mlir"
    for models in (
        (three, "--fma", "fp32,mp"),
        (three, three, "--fma", "fp32,mp"),
        (here / "fp32.numc", three, *MP[:2]),
    ):
        done = numc_run("diff", *models, "--data", "x.npz")
        assert (done.status, done.out) == (0, want)


def test_diff_says_that_there_is_none(numc_run, here):
    done = numc_run("diff", here / "mp.numc", here / "mp.numc", "--data", "x.npz")
    assert done.out.splitlines()[-1] == "no difference: every bit that was compared is the same"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["fp32.numc", "none.numc", "--data", "x.npz"], "'none.numc': No such file or directory"),
        (["fp32.numc", "mp.numc", "--data", "nan.npz"], "data 'arg2': has NaN at [0, 0], 16 values in all"),
        (
            ["fp32.numc", "mp.numc", "--data", "few.npz"],
            "data: no array 'arg1' (did you mean 'agr1'?): it has 'arg0', 'agr1', the model takes 'arg0' (",
        ),
        (["fp32.numc", "mp.numc", "--data", "wide.npz"], "input 'arg0': got float32[5,7], want float32[?,4]"),
        (["fp32.numc", "mp.numc", "--data", "one.npy"], "data: one array without a name, but the model takes 'arg0' "),
        (["fp32.numc", "mp.numc", "--data", "none.npz"], "none.npz: cannot read: No such file or directory"),
        (["fp32.numc", "mp.numc"], "nothing to run the model on: give --data FILE, or --to"),
        (["fp32.numc", "mp.numc", "--fma", "mp", "--data", "x.npz"], "fp32.numc: a program is compiled already: leave"),
        (["fp32.numc", "mp.numc", "--data", "x.npz", "--seed", "-1"], "seed: got -1, want a whole number from 0 to"),
    ],
)
def test_diff_bad_input(numc_run, here, arguments, error):
    given = [here / a if (here / str(a)).is_file() else a for a in arguments]
    done = numc_run("diff", *given)
    assert done.status == 2
    assert error in done.error


def test_diff_of_other_models(numc_run, here, folder):
    done = numc_run("diff", here / "fp32.numc", folder / "matmul.numc", "--data", "x.npz")
    assert done.status == 2
    assert done.error == "not two programs of one model: the first has 4 inputs, the second 3"


def test_bisect_writes_a_policy(numc_run, here):
    done = numc_run("bisect", here / "three.mlir", *MP, "--tolerance", 0, "-o", "fixed.policy")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split("\t")[:4] for line in lines[:3]] == [
        ["#", "layer", "shape", "instead of"],
        ["1", "second", "? x 4 x 4", "mp"],
        ["2", "third", "? x 3 x 4", "mp"],
    ]
    assert lines[3].startswith("2 layers of 3 in fp32: relative error 0, at most 0; ")
    assert lines[4] == "none of them can be left out; another set may be smaller"
    assert len(lines) == 5
    text = Path("fixed.policy").read_text()
    assert text == "default fma = mp, ops = fp32\nlayer 1, 2 fma = fp32  # second, third\n"
    assert numc_run("explain", here / "three.mlir", "--policy", "fixed.policy").status == 0
    printed = numc_run("bisect", here / "three.mlir", *MP, "--tolerance", 0)
    assert printed.out.splitlines() == [*lines, *text.splitlines()]
    as_json = json.loads(numc_run("bisect", here / "three.mlir", *MP, "--tolerance", 0, "--json").out)
    assert as_json["policy"] == text
    assert [layer["position"] for layer in as_json["layers"]] == [1, 2]


def test_bisect_where_no_layer_matters(numc_run, here):
    done = numc_run("bisect", here / "three.mlir", *MP, "--metric", "top1", "--labels", "x.npz", "--tolerance", 1)
    assert done.status == 0
    assert done.out == "no layer has to be in fp32: the lost accuracy is 0, at most 1\n"


def test_bisect_where_all_layers_are_not_enough(numc_run, here, monkeypatch):
    found = bisecting.Bisection(
        layers=None,
        policy="default fp32\n",
        metric="mse",
        tolerance=0.1,
        start=0.5,
        every=0.25,
        error=0.25,
        candidates=3,
        tries=2,
    )
    monkeypatch.setattr(bisecting, "bisect", lambda *_, **__: found)
    done = numc_run("bisect", here / "three.mlir", *MP, "--tolerance", 0.1, "-o", "fixed.policy")
    assert done.status == 1
    assert done.out == (
        "fp32 in every contraction is not enough: the mean squared error is 0.25 then, above 0.1, because of other "
        "operations (--ops, or rules of `op`)\n"
    )
    assert not Path("fixed.policy").exists()


@pytest.mark.parametrize("written", [False, True])
def test_bisect_interrupted(numc_run, here, monkeypatch, written):
    real = bisecting.bisect

    def stop(last):
        if last.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(bisecting, "bisect", lambda *a, **k: real(*a, **{**k, "progress": stop}))
    done = numc_run("bisect", here / "three.mlir", *MP, "--tolerance", 0, *(["-o", "f"] if written else []))
    text = "default fma = mp, ops = fp32\nlayer 0, 1, 2 fma = fp32  # first, second, third\n"
    assert done.status == 130
    assert done.out == ("" if written else text)
    where = ", written to f" if written else ""
    said = list(filter(None, done.err.splitlines()))  # after ^C, click begins a new line
    assert said == [f"after 2 tries: 3 layers in fp32 are enough, perhaps fewer{where}", "numc: error: interrupted"]
    if written:
        assert Path("f").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--fma", "mp", "--data", "x.npz", "--tolerance", "-1"], "tolerance: got -1.0, want a number of at least 0"),
        (
            ["--data", "x.npz", "--tolerance", "1"],
            "nothing to bisect: give the arithmetic that is not",
        ),
        ([*MP], "Missing option '--tolerance'"),
        ([*MP, "--tolerance", "much"], "'much' is not a valid float"),
        ([*MP, "--tolerance", "1", "--metric", "top5"], "metric 'top5': no such metric (did you mean 'top1'?)"),
        ([*MP, "--tolerance", "1", "--metric", "top1"], "metric 'top1': needs labels"),
        (
            [*MP, "--tolerance", "1", "--metric", "top1", "--labels", "nan.npz"],
            "--labels nan.npz: it has arg0, arg1, arg2,",
        ),
        ([*MP, "--tolerance", "1", "-o", "no/such/file"], "no/such/file: cannot write: there is no folder no/such"),
        (["--fma", "mp", "--data", "nan.npz", "--tolerance", "1"], "data 'arg2': has NaN at [0, 0]"),
        (["--fma", "mp", "--data", "one.npy", "--tolerance", "1"], "data: one array without a name, but the model"),
        ([*MP, "--data", "arg0=one.npy", "--tolerance", "1"], "--data arg0=one.npy: 'arg0' is given twice"),
        (["--policy", "layer 8 mp", "--data", "x.npz", "--tolerance", "1"], "layer 8 matches nothing: the model has"),
        ([*MP, "--ops", "bf17", "--tolerance", "1"], "bf17"),
    ],
)
def test_bisect_bad_input(numc_run, here, arguments, error):
    done = numc_run("bisect", here / "three.mlir", *arguments)
    assert done.status == 2
    assert error in done.error
