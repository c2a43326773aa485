"""examples/c/run.c, compiled as its first lines say, gives what Python gives."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import runtime_programs as programs
from numc.runtime import include_folder, library_folder, write_program

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "c" / "run.c"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("c") / "run"
    flags = [f"-I{include_folder()}", f"-L{library_folder()}", "-lnumc_runtime", f"-Wl,-rpath,{library_folder()}"]
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", str(SOURCE), *flags, "-o", str(program)], check=True)
    return lambda *args: subprocess.run([program, *args], capture_output=True, text=True, check=False)


def test_runs(run, tmp_path):
    write_program(tmp_path / "add.numc", programs.add())
    done = run(tmp_path / "add.numc")
    assert (done.returncode, done.stdout, done.stderr) == (0, "sum: 1 2 3 4 1 2 3 4\n", "")


def test_errors(run, tmp_path):
    done = run(tmp_path / "missing")
    assert (done.returncode, done.stderr) == (2, f"run: '{tmp_path}/missing': No such file or directory\n")
    done = run()
    assert (done.returncode, done.stderr) == (2, "run: usage: run PROGRAM\n")
