"""Profiles: numc.profile and Program.profile (docs/profiling.md)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import numc
import runtime_programs as programs
from numc.cli import main
from numc.compiler.cache import cache
from numc.runtime.library import library
from numc.studies.profile import roofline
from numc.studies.profile.count import SPAN, Interval, profile_of

EXAMPLES = Path(__file__).parents[2] / "examples"
X = np.random.default_rng(0).standard_normal((24, 64)).astype(np.float32)
GIVEN = {"peak": 100, "bandwidth": 10}


@pytest.fixture(scope="module")
def program() -> numc.Program:
    return numc.compile(EXAMPLES / "digits" / "mlp.onnx", fma="bf16_1_1")


@pytest.fixture(scope="module")
def found(program: numc.Program) -> numc.Profile:
    return program.profile(X, threads=2, repeat=3, **GIVEN)


def fmas_by_layer(program: numc.Program, *inputs: np.ndarray) -> dict[tuple[str, str, str], int]:
    with numc.collect_stats("fmas") as collected:
        program(*inputs)
    total: Counter[tuple[str, str, str]] = Counter()
    for row in collected.statistics.rows:
        total[row.layer, row.role, row.fma] += row.fmas
    return dict(total)


def contractions(profile: numc.Profile) -> dict[tuple[str, str, str], int]:
    return {(row.layer, row.role, row.fma): row.fmas for row in profile.rows if row.kind == "contraction"}


def test_rows_add_up_and_count_what_statistics_count(program: numc.Program, found: numc.Profile) -> None:
    assert math.isclose(sum(row.share for row in found.rows), 1)
    assert math.isclose(sum(row.seconds for row in found.rows), found.seconds)
    assert found.seconds == min(step.seconds for step in found.steps) == found.steps[found.fastest].seconds
    assert len(found.steps) == 3
    assert all(math.isclose(sum(step.roles.values()), step.seconds) for step in found.steps)
    assert list(found.rows) == sorted(found.rows, key=lambda row: -row.seconds)
    assert contractions(found) == fmas_by_layer(program, X)
    first = next(row for row in found.rows if (row.layer, row.kind) == ("node_linear", "contraction"))
    weight, bias = (
        next(w.nbytes for w in program.contents.abi.weights if name in w.name) for name in ("(packed)", "bias")
    )
    assert first.bytes == 4 * 24 * (64 + 128) + weight + bias  # the batch is free: counted at run time
    assert first.roofline == max(2 * first.fmas / 100e9, first.bytes / 10e9) / first.seconds
    assert first.gflops == 2e-9 * first.fmas / first.seconds
    assert first.balance is not None
    assert 1 <= first.balance <= 2
    (other,) = (row for row in found.rows if row.kind == "other")
    assert (other.layer, other.bytes, other.roofline, other.balance) == ("", 0, None, None)
    assert found.by("kind").keys() >= {"contraction", "other"}
    assert math.isclose(sum(found.by("layer").values()), 1)


def test_the_thread_of_the_run_has_no_gaps(found: numc.Profile) -> None:
    for number, step in enumerate(found.steps):
        mine = [event for event in found.events if event.step == number and event.thread == 0]
        ends = [event.begin + event.seconds for event in mine]
        assert np.allclose([event.begin for event in mine[1:]], ends[:-1], rtol=0, atol=1e-8)
        assert np.isclose(ends[-1], mine[0].begin + step.seconds, rtol=0, atol=1e-8)


def test_waiting_is_not_busy(program: numc.Program) -> None:
    names = "begin", "end", "waited", "fmas", "bytes", "part", "thread"
    spans = np.zeros(4, SPAN)
    rows = [(0, 100, 0, 0, 0, -2, 2), (0, 90, 30, 7, 11, 0, 0), (10, 50, 0, 0, 0, 0, 3), (90, 100, 0, 0, 0, -1, 0)]
    for n, row in enumerate(rows):
        spans[n] = row
    assert spans.dtype.names == names
    slower = spans.copy()
    slower["end"][1] += 5
    steps = [Interval(0, 170, [(program, slower)]), Interval(0, 150, [(program, spans)])]
    found = profile_of(steps, 100, 10, inside=False)
    assert found.fastest == 1
    first, outside, other = found.rows
    assert (first.seconds, first.fmas, first.calls) == (pytest.approx(90e-9), 7, 1)
    assert first.best == first.seconds
    assert first.balance == 60 / 50  # 60 and 40 ns, of two threads
    assert (outside.kind, outside.share, other.kind, other.share) == ("outside", 50 / 150, "other", 10 / 150)


def test_no_bit_changes_and_a_failed_run_ends_its_profile(program: numc.Program) -> None:
    before = program(X, threads=2)
    with numc.profile(**GIVEN) as profiled:
        inside = program(X, threads=2)
    assert np.array_equal(before, inside)
    assert [row.kind for row in profiled.profile.rows if row.kind == "outside"] == ["outside"]
    assert math.isclose(sum(row.share for row in profiled.profile.rows), 1)
    failing = numc.Program(programs.parallel())
    with numc.profile(**GIVEN) as profiled:
        with pytest.raises(numc.NumcError, match="x: a value above 1e6"):
            failing(np.full(100, 2e6, np.float32), threads=2)
        failing(np.ones(100_000, np.float32), threads=2)
    assert {event.thread for event in profiled.profile.events} >= {0}
    assert {row.kind for row in profiled.profile.rows} == {"other", "outside"}


def test_parts_without_a_name_are_apart(program: numc.Program) -> None:
    parts = [{**part, "layer": ""} for part in program.manifest["parts"]]
    nameless = numc.Program(dataclasses.replace(program.contents, manifest={**program.manifest, "parts": parts}))
    found = nameless.profile(X, threads=1, repeat=1, **GIVEN)
    assert {row.layer for row in found.rows} == {"", *(f"part {n}" for n in range(len(parts)))}
    assert {row.fma for row in found.rows if row.kind == "contraction"} == {"bf16_1_1"}


def test_the_trace_has_a_row_for_each_thread(found: numc.Profile, tmp_path: Path) -> None:
    found.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert threads[0] == "thread 0, which runs the program"
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["tid"] for event in slices} == threads.keys()
    steps = [event for event in slices if event["name"].startswith("step ")]
    inner = [event for event in slices if event not in steps]
    assert [event["name"] for event in steps] == ["step 0", "step 1", "step 2"]
    assert {event["name"] for event in inner} == {row.layer for row in found.rows if row.layer}
    inside = [any(s["ts"] <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 0.01 for s in steps) for e in inner]
    assert all(inside)


def test_the_page_has_every_row_and_a_bar(found: numc.Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    named = dataclasses.replace(found, rows=(dataclasses.replace(found.rows[0], layer="<i>&"), *found.rows[1:]))
    named.write_report(tmp_path / "profile.html")
    page = (tmp_path / "profile.html").read_text()
    assert "&lt;i&gt;&amp;" in page
    assert re.search(r"<h1>[^<]+ in \S+: [0-9.]+ ms</h1>", page)
    assert ("More than 100% is no mistake" in page) == any((row.roofline or 0) > 1 for row in found.rows)
    assert "<i>&" not in page
    assert all(row.layer in page for row in found.rows[1:])
    widths = [float(width) for width in re.findall(r'<a class="s"[^>]*;width:([0-9.]+)%', page)]
    assert 95 < sum(widths) <= 100.1
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    monkeypatch.setattr("numc.studies.report.write.find_spec", lambda name: None)
    with pytest.raises(numc.NumcError, match="a report needs jinja2, which is not installed: pip install 'numc"):
        found.write_report(tmp_path / "profile.html")


def test_the_table(found: numc.Profile) -> None:
    header, *lines, total = found.table().splitlines()
    assert header.split() == [
        *(
            "layer",
            "role",
            "kind",
            "fma",
            "calls",
            "ms",
            "best",
            "share",
            "GFLOP/s",
            "MB",
            "GB/s",
            "roofline",
            "balance",
        )
    ]
    assert len(lines) == len(found.rows)
    assert total.split()[0] == "total"
    assert "100.0%" in total
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["layer"] == found.rows[0].layer


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"repeat": 0}, "repeat: got 0, want a whole number from 1 to 1000000"),
        ({"repeat": 2.5}, "repeat: got 2.5, want a whole number from 1 to 1000000"),
        ({"peak": 0}, "peak: got 0, want a number of GFLOP/s above 0"),
        ({"bandwidth": "fast"}, "bandwidth: got 'fast', want a number of GB/s above 0"),
        ({"bandwidth": math.inf}, "bandwidth: got inf, want a number of GB/s above 0"),
        ({"threads": 0}, "threads: got 0, want a whole number from 1 to 1024"),
    ],
)
def test_errors(program: numc.Program, given: dict[str, object], text: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        program.profile(X, **{**GIVEN, **given})
    assert str(caught.value) == text


def test_what_cannot_be_profiled(program: numc.Program, found: numc.Profile, tmp_path: Path) -> None:
    old = dataclasses.replace(program.contents, manifest={})
    with pytest.raises(numc.NumcError, match="the program has no table of its parts: compile it again with this"):
        numc.Program(old).profile(X)
    with numc.profile() as profiled:
        numc.Program(old)(X)
    with pytest.raises(numc.NumcError, match="^no profile: no program of numc ran in the block$"):
        _ = profiled.profile
    with pytest.raises(numc.NumcError, match="^profile: shares by 'name': want layer, role, kind, fma$"):
        found.by("name")
    with pytest.raises(numc.NumcError, match="Is a directory"):
        found.write_trace(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_roofline_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure(threads: int) -> tuple[float, float]:
        measured.append(threads)
        return 2e9 * threads, 1e9

    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(roofline, "_measure", measure)
    roofline._measured.cache_clear()
    assert roofline.roofline(2) == roofline.Roofline(4e9, 1e9, "measured")
    roofline._measured.cache_clear()  # as in another process
    assert roofline.roofline(2, bandwidth=3) == roofline.Roofline(4e9, 3e9, "partly given")
    assert roofline.roofline(1, 5, 6) == roofline.Roofline(5e9, 6e9, "given")
    assert measured == [2]
    (tmp_path / "cache" / cache.ROOFLINE).write_text('{"x": [1]}')
    roofline._measured.cache_clear()
    assert roofline.roofline(2).flops == 4e9
    cache.clear()
    roofline._measured.cache_clear()
    roofline.roofline(2)
    roofline._measured.cache_clear()
    assert measured == [2, 2, 2]


def test_numc_run(program: numc.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    program.save("mlp.numc")

    def run(*options: str) -> tuple[int, str, str]:
        status = main(["run", "mlp.numc", "--random-input", "0", *options])
        return status, *capsys.readouterr()

    given = ("--profile", "--repeat", "2", "--peak", "100", "--bandwidth", "10")
    status, out, _ = run(*given, "--threads", "1", "--trace", "t.json")
    lines = [line.split("\t") for line in out.splitlines()[2:]]
    assert status == 0
    assert lines[0][-1] == "roofline"  # no balance of one thread
    assert lines[-1][0] == "total"
    assert json.loads(Path("t.json").read_text())["displayTimeUnit"] == "ns"
    listed = json.loads(run(*given, "--json")[1])
    assert listed["profile"]["roofline"]["source"] == "given"
    assert len(listed["profile"]["steps"]) == 2
    Path("folder.json").mkdir()
    for options, text in (
        (("--trace", "t.json"), "--trace is about a profile: ask for one with --profile"),
        (("--repeat", "3"), "--repeat is about a profile: ask for one with --profile"),
        (("--profile", "--trace", "t.txt"), "--trace t.txt: want a name that ends in .json"),
        (("--profile", "--report", "p.htm"), "--report p.htm: want a name that ends in .html"),
        (("--profile", "--trace", "folder.json"), "folder.json: is a folder: name a file for the output"),
        (("--profile", "--repeat", "0"), "repeat: got 0, want a whole number from 1 to 1000000"),
    ):
        assert run(*options) == (2, "", f"numc: error: {text}\n")


@pytest.mark.all
def test_this_machine_can_do_something() -> None:
    flops, bandwidth = roofline._measure(2)
    assert flops > 1e8
    assert bandwidth > 1e7
    assert library().numc_peaks(5000, None, None, None) != 0


@pytest.mark.all
def test_a_checked_run_is_not_profiled(program: numc.Program, tmp_path: Path) -> None:
    program.save(tmp_path / "mlp.numc")
    command = [sys.executable, "-m", "numc", "run", tmp_path / "mlp.numc", "--random-input", "0", "--profile"]
    done = subprocess.run(command, env={**os.environ, "NUMC_CHECK": "1"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "numc: error: profile: NUMC_CHECK is set, which runs every program twice: unset it\n"


@pytest.mark.all
def test_parts_in_loops() -> None:
    program = numc.compile(EXAMPLES / "models" / "lstm.onnx")
    x = np.load(EXAMPLES / "models" / "lstm.npz")["input"]
    found = program.profile(x, threads=1, repeat=2, **GIVEN)
    assert contractions(found) == fmas_by_layer(program, x)
    # Of 16 steps one product each; the other one, of all inputs with their weights, lies before the loop.
    assert max(row.calls for row in found.rows if row.kind == "contraction") == 17
    (gather,) = (row for row in found.rows if row.kind == "gather")
    assert gather.bytes > 0
