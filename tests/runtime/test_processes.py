"""Forks and ends of processes while programs run, and handles of C that are NULL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import runtime_programs as programs
from numc.runtime import Program, include_folder, library_folder, write_program

X = np.ones((3, 4), np.float32)
FORKS = 20
# Threads that never end run a program; what they do besides is in the place of WATCH.
ENDING = """
import contextlib, sys, threading, time
import numpy as np
from numc.runtime import load
program = load(sys.argv[1])
x = np.ones((3, 4), np.float32)
program(x)
def run():
    with WATCH:
        while True:
            program(x, threads=THREADS)
for _ in range(2):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.05)
"""
NOTHING, OBSERVED = "contextlib.nullcontext()", "program.observe(lambda *_: None)"


def test_a_child_of_a_fork_runs_what_other_threads_were_running() -> None:
    program, stop = Program(programs.add()), threading.Event()

    def run() -> None:
        while not stop.is_set():
            program(X, threads=1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    ends = []
    for _ in range(FORKS):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            program(X, threads=1)
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    for thread in threads:
        thread.join()
    assert ends == [0] * FORKS


@pytest.mark.parametrize(
    ("watch", "threads"), [(NOTHING, 1), (NOTHING, 2), (OBSERVED, 1)], ids=["one", "two", "observed"]
)
def test_python_ends_while_threads_run_programs(watch: str, threads: int, tmp_path: Path) -> None:
    write_program(tmp_path / "p.numc", programs.parallel() if watch == OBSERVED else programs.add())
    code = ENDING.replace("WATCH", watch).replace("THREADS", str(threads))
    if watch == OBSERVED:
        code = code.replace("np.ones((3, 4), np.float32)", "np.ones(1000, np.float32)")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "p.numc")], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_null_for_every_pointer(tmp_path: Path) -> None:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    source, program = Path(__file__).with_name("nulls.c"), tmp_path / "nulls"
    flags = [f"-I{include_folder()}", f"-L{library_folder()}", "-lnumc_runtime", f"-Wl,-rpath,{library_folder()}"]
    subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", str(source), *flags, "-o", str(program)], check=True)
    write_program(tmp_path / "add.numc", programs.add())
    done = subprocess.run([program, tmp_path / "add.numc"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "33 calls, 0 wrong\n")
