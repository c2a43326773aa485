"""numc doctor: what it finds, and that it goes on where something is missing."""

from __future__ import annotations

import json
import re
from importlib import import_module

import numc
from numc.compiler.targets import TARGETS
from rooms import ROOMS, ROOT

doctor = import_module("numc.cli.commands.doctor")  # the package has the command under this name


def test_a_machine_on_which_numc_works(numc_run, monkeypatch):
    monkeypatch.setenv("NUMC_FUTURE", "x\x1b[31m")
    done = numc_run("doctor", "--json")
    found = json.loads(done.out)
    assert (done.status, found["problems"]) == (0, [])
    assert found["versions"]["numc"] == numc.__version__
    assert found["targets"]["host"] in found["targets"]["run here"]
    assert sorted(found["targets"]["run here"] + found["targets"]["compile only"]) == sorted(TARGETS)
    assert found["variables"]["NUMC_FUTURE"] == "x\x1b[31m"
    monkeypatch.setattr(doctor, "_product", lambda: None)
    text = numc_run("doctor").out
    assert "  NUMC_FUTURE: 'x\\x1b[31m' (numc does not read it)\n" in text
    assert "\nproblems: none\n" in text


def test_what_is_missing_and_what_is_broken(numc_run, monkeypatch, tmp_path):
    """Each part of the report is there without the others."""
    monkeypatch.setattr(doctor, "version_of", lambda _: None)
    monkeypatch.setenv("NUMC_RUNTIME_LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setattr("numc.runtime.library.library", numc.runtime.library.library.__wrapped__)
    monkeypatch.setenv("NUMC_CACHE_SIZE", "much")

    def fails() -> None:
        raise ValueError("two\nlines")

    monkeypatch.setattr(doctor, "_product", fails)
    done = numc_run("doctor", "--json")
    found = json.loads(done.out)
    assert done.status == 1
    assert found["missing"]["torch"] == "PyTorch modules, .pt2 files, torch.compile: pip install torch"
    assert (found["runtime"], found["cache"], found["versions"]["onnx"]) == (None, None, None)
    assert found["problems"][-1] == "ValueError: two\\nlines"
    assert any("NUMC_CACHE_SIZE: got 'much'" in problem for problem in found["problems"])
    assert any(f"no file '{tmp_path}/none.so'" in problem for problem in found["problems"])


def test_every_variable_that_numc_reads_is_listed():
    sources = [f for room in ROOMS for f in (ROOT / room).rglob("*")]
    read = {
        name
        for source in sources
        if source.suffix in (".py", ".cpp")
        for name in re.findall(r'"(NUMC_[A-Z_]+)"', source.read_text(encoding="utf-8"))
    }
    assert read == set(doctor.VARIABLES)
