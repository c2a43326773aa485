"""What the system refuses: a full disk, closed streams, too little memory, no working folder. Each in a line."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import numc


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    file = tmp_path / "inputs.npz"
    arrays = {"arg0": np.ones((2, 4)), "arg1": np.ones((4, 3)), "arg2": np.ones((2, 3))}
    np.savez(file, **{name: value.astype(np.float32) for name, value in arrays.items()})
    return file


def test_a_full_disk(numc_run, folder, inputs, tmp_path):
    for name in ("y.npy", "y.npz", "s.json"):
        (tmp_path / name).symlink_to("/dev/full")
    run = ("run", folder / "matmul.numc", "--input", inputs)
    for options in (["-o", "y.npy"], ["-o", "y.npz"], ["--stats", "fmas", "--stats-output", "s.json"]):
        done = numc_run(*run, *options)
        assert (done.status, done.error) == (2, f"{options[-1]}: cannot write: No space left on device")


def test_a_limit_of_file_sizes(numc_run, folder, tmp_path):
    """As `ulimit -f`; no part of a file is left."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        done = numc_run("compile", folder / "matmul.mlir", "--no-cache", "-o", "m.numc")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.status == 2
    assert done.error.startswith(("m.numc: ", "'m.numc': "))
    assert "File too large" in done.error
    assert not list(tmp_path.iterdir())


def test_a_folder_for_outputs_that_takes_no_files(numc_run, folder):
    done = numc_run("compile", folder / "matmul.mlir", "-o", "/proc/m.numc")
    assert done.status == 2
    assert "/proc/m.numc" in done.error
    done = numc_run("compile", folder / "matmul.mlir", "--dump-dir", "/dev/null")
    assert (done.status, done.error) == (2, "/dev/null: is a file: name a folder for the IR")
    with pytest.raises(numc.NumcError, match="^dump_dir: there is no folder 'nowhere': create it first$"):
        numc.compile(folder / "matmul.mlir", dump_dir="nowhere")


def test_a_working_folder_that_is_gone(numc_run, folder, inputs, monkeypatch):
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").rmdir()
    done = numc_run("run", folder / "matmul.numc", "--input", inputs)
    assert (done.status, done.out.split()[0]) == (0, "output"), done.err
    done = numc_run("compile", folder / "matmul.mlir")
    assert done.status == 2
    assert "No such file or directory" in done.error


def test_too_little_memory(numc_run, folder):
    done = numc_run("run", folder / "matmul.numc", "--random-input", "0", "--batch", str(10**14))
    assert (done.status, done.error.partition(":")[0]) == (2, "out of memory")


def test_an_error_of_the_system_names_its_file(numc_run, folder, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/numc-onnx-1/main.mlir")

    monkeypatch.setattr("numc.compiler.programs.compile.to_file", fail)
    done = numc_run("compile", folder / "matmul.mlir")
    assert (done.status, done.error) == (2, "/tmp/numc-onnx-1/main.mlir: No space left on device")


def test_a_fault_is_told_where_nothing_can_be_kept(numc_run, folder, monkeypatch, tmp_path):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("why")

    monkeypatch.setattr("numc.compiler.programs.compile.to_file", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    done = numc_run("compile", folder / "matmul.mlir")
    assert (done.status, done.error.partition(";")[0]) == (1, "ZeroDivisionError: why")
    assert done.error.endswith("report it with the output of `numc doctor`")


def test_streams_that_are_full_or_closed():
    numc_command = f"{sys.executable} -m numc"
    script = f"{numc_command} list stages > /dev/full; echo $?; {numc_command} list stages >&- 2>&-; echo $?"
    env = {**os.environ, "PYTHONPATH": str(Path(numc.__file__).parents[1])}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.stdout == "2\n0\n"
    assert done.stderr == "numc: error: standard output: No space left on device\n"


def test_names_of_files_cannot_control_the_terminal(numc_run, tmp_path):
    for name in ("x\x1b[31m\n.mlir", "\u202exyz.mlir", os.fsdecode(b"\xff.mlir")):
        done = numc_run("compile", name)
        assert done.status == 2
        assert done.error.isprintable()
        assert done.error.endswith(": no such file: want a model")
        Path(name).write_text("\x1b[31m not MLIR \u202e")
        said = numc_run("compile", name).err.splitlines()
        assert len(said) == 3  # the message, the line of the file, and a caret
        assert all(line.isprintable() for line in said)
        done = numc_run("run", "--random-input", "0", "a\0b")
        assert done.error == r"'a\x00b': no file has such a name: name another one"
