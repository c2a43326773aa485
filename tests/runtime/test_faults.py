"""What fails on the way: allocations, writes, and the whole process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import numc
import runtime_programs as programs
from numc.frontends.imported import Imported
from numc.runtime import include_folder, library_folder, write_program
from small_models import THREE

HERE = Path(__file__).parent
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def run(*command: object, **environment: str) -> str:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_compiler
def test_every_allocation_may_fail(tmp_path: Path) -> None:
    """Loading and running either works or says that memory is short, and then all of it is given back."""
    flags = [f"-I{include_folder()}", f"-L{library_folder()}", "-lnumc_runtime", f"-Wl,-rpath,{library_folder()}"]
    # The compiler must not take malloc for the one it knows.
    run("cc", "-Wall", "-Wextra", "-Werror", "-fno-builtin", HERE / "faults.c", "-o", tmp_path / "faults", *flags)
    made = {m.__name__: m() for m in (programs.add, programs.add_packed, programs.parallel, programs.odd_results)}
    made["products"] = numc.compile(Imported(THREE), fma="bf16_2_2").contents
    for name, contents in made.items():
        write_program(tmp_path / f"{name}.numc", contents)
    lines = run(tmp_path / "faults", *(tmp_path / f"{name}.numc" for name in made)).splitlines()
    counts = {line.split(".numc: ")[0]: int(line.split()[1]) for line in lines}
    assert counts.keys() == made.keys()
    assert min(counts.values()) > 40


@needs_compiler
def test_every_write_may_fail(tmp_path: Path) -> None:
    run("cc", "-shared", "-fPIC", "-Wall", "-Werror", HERE / "disk.c", "-o", tmp_path / "disk.so")
    (tmp_path / "out").mkdir()
    said = json.loads(run(sys.executable, "-m", "disk_faults", tmp_path / "out", LD_PRELOAD=str(tmp_path / "disk.so")))
    assert said["wrong"] == []
    assert set(said["calls"]) == {"short", "interrupted", "full", "broken"}
    assert min(said["calls"].values()) >= 3  # the header, a section, fsync


@pytest.mark.all
def test_a_compilation_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    said = json.loads(run(sys.executable, "-m", "killed_compiles", tmp_path, 6))
    assert said["wrong"] == []
    assert said["killed"] >= 2
