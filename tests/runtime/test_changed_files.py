"""Program files that change while they are loaded, or after that."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import runtime_programs as programs
from numc.runtime import Program, load, read_program
from numc.runtime.library import ErrorText, Tensor, library
from numc.support.errors import NumcError

X = np.zeros((1, 4), np.float32)
SUM = np.array([[0, 1, 2, 3]], np.float32)

# Puts either file in the place of p.numc, by turns, until it is told to stop.
REPLACING = """
import os, sys, itertools
for n in itertools.count():
    os.link("ab"[n % 2], "next")
    os.replace("next", "p.numc")
    if n == 1: print("ready", flush=True)
    if os.path.exists("stop"): break
"""


def test_a_file_that_is_replaced_all_the_time(tmp_path):
    """The two programs have other inputs, other results, and other manifests: parts of both would not fit."""
    parallel = programs.parallel()
    Program(programs.add()).save(tmp_path / "a")
    Program(parallel).save(tmp_path / "b")
    found = set()
    process = subprocess.Popen([sys.executable, "-c", REPLACING], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        for n in range(400):
            program = load(tmp_path / "p.numc", copy_weights=n % 2 == 0)
            first = program.manifest["fma"] == "add"
            found.add(first)
            assert (program.contents.code == parallel.code) is not first
            got = program(X) if first else program(X[0])
            np.testing.assert_array_equal(got, SUM if first else X[0])
    finally:
        (tmp_path / "stop").touch()
        assert process.wait(timeout=60) == 0
    assert found == {True, False}


def c_sum(path) -> np.ndarray | str:
    """The result of numc_program_load and numc_run, after `path` was cut off in place; or the text of the error."""
    error = ErrorText()
    program = library().numc_program_load(os.fsencode(path), error.reference())
    if not program:
        return error.take()
    os.truncate(path, 0)
    given, taken = (Tensor * 1)(), (Tensor * 1)()
    given[0].data, given[0].dtype, given[0].rank, given[0].dims[:2] = X.ctypes.data, 0, 2, (1, 4)
    assert library().numc_run(program, given, taken, 0, error.reference()) == 0
    got = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 4).from_address(taken[0].data)).copy()
    library().numc_tensor_release(taken)
    library().numc_program_free(program)
    return got


def test_a_copy_does_not_change_with_its_file(tmp_path, monkeypatch):
    path = tmp_path / "p.numc"
    made = Program(programs.add())

    def cut(**how) -> Program:
        made.save(path)
        program = load(path, **how)
        os.truncate(path, 0)  # without the copy, reading the weights would be SIGBUS
        return program

    np.testing.assert_array_equal(cut(copy_weights=True)(X), SUM)
    monkeypatch.setenv("NUMC_COPY_WEIGHTS", "1")
    np.testing.assert_array_equal(cut()(X), SUM)
    made.save(path)
    np.testing.assert_array_equal(c_sum(path), SUM[0])
    assert c_sum(path) == f"'{path}': not a numc program file"


def test_all_but_the_weights_is_a_copy(tmp_path):
    """What is written over a loaded file shows in its weights, as in any mapped file, and nowhere else."""
    path = tmp_path / "p.numc"
    Program(programs.add()).save(path)
    before = path.read_bytes()
    program = load(path)
    with open(path, "r+b") as file:
        file.write(bytes(len(before) - 16))
        file.write(np.full(4, 7, np.float32).tobytes())
    np.testing.assert_array_equal(program(X), np.full((1, 4), 7, np.float32))
    assert program.contents.ir == programs.ADD
    program.save(path)
    assert programs.sections_of(path.read_bytes())["abi"] == programs.sections_of(before)["abi"]


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "p.numc"
    Program(programs.add()).save(path)
    true = os.preadv

    def cut(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        os.truncate(path, 100)
        return true(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", cut)
    with pytest.raises(NumcError, match=r"p.numc': damaged program file \(it became shorter while it was read\)$"):
        read_program(path)
