"""Profilers and debuggers are told the names of loaded functions: NUMC_PERF and NUMC_GDB (docs/profiling.md)."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numc.runtime
from numc.compiler.programs.compile import compile
from numc.frontends.imported import Argument, Imported

MATMUL = """
func.func @main(%a: tensor<?x40xf32>, %b: tensor<40x48xf32>) -> tensor<?x48xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x40xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%n) : tensor<?x48xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x48xf32>) -> tensor<?x48xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x40xf32>, tensor<40x48xf32>) outs(%start : tensor<?x48xf32>)
    -> tensor<?x48xf32>
  return %r : tensor<?x48xf32>
}"""

# Loads a program and runs it, then prints its number and the executable anonymous memory that it has.
CHILD = """
import json, os, re, sys, time, ctypes, numpy as np, numc.runtime
program = numc.runtime.load(sys.argv[1])
a, b = np.ones((64, 40), np.float32), np.ones((40, 48), np.float32)
stop = time.process_time() + float(sys.argv[2])
program(a, b)
while time.process_time() < stop:
    program(a, b)
code = {}
for line in open("/proc/self/maps"):
    found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-xp 00000000 00:00 0 *$", line)
    if found:
        begin, end = (int(text, 16) for text in found.groups())
        code[begin] = ctypes.string_at(begin, end - begin).hex()
print(json.dumps([os.getpid(), code]))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    arguments = (Argument("a", "float32", (-1, 40)), Argument("b", "float32", (40, 48)))
    made = compile(Imported(mlir=MATMUL, inputs=arguments, outputs=(Argument("y", "float32", (-1, 48)),)))
    path = tmp_path_factory.mktemp("program") / "matmul.numc"
    made.save(path)
    return path


def child(program: Path, seconds: float = 0, before: tuple[str, ...] = (), **environment: str):
    """The completed process that ran the program, its number, and its code by address."""
    command = [*before, sys.executable, "-c", CHILD, str(program), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if before and not done.stdout.rstrip().endswith("]"):
        return done, 0, {}
    assert done.returncode == 0, done.stderr
    pid, code = json.loads(done.stdout.splitlines()[-1])
    return done, pid, {int(begin): bytes.fromhex(text) for begin, text in code.items()}


def code_at(code: dict[int, bytes], address: int, size: int) -> bytes:
    """The bytes of a function, all of which lie in one range of the code."""
    for begin, data in code.items():
        if begin <= address and address + size <= begin + len(data):
            return data[address - begin : address - begin + size]
    raise AssertionError(f"{address:x}: not in the loaded code")


def check_names(names: list[str]) -> None:
    """The entry, a task and a micro-kernel are there, each function once and without the suffix of its body."""
    assert "numc_entry" in names
    assert any("task" in name for name in names)
    assert any(name.startswith("numc_fp32") for name in names)
    assert len(set(names)) == len(names)
    assert not any(name.endswith(".body") for name in names)


def test_map(program):
    _, pid, code = child(program, NUMC_PERF="map")
    path = Path(f"/tmp/perf-{pid}.map")
    try:
        lines = path.read_text().splitlines()
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        path.unlink()
    names, end = [], 0
    for line in lines:
        found = re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) (\S+)", line)
        assert found, line
        start, size = (int(text, 16) for text in found.groups()[:2])
        assert size > 0
        assert start >= end, "ascending, and none inside of another"
        end = start + size
        code_at(code, start, size)
        names.append(found[3])
    check_names(names)


def test_jitdump(program, tmp_path):
    _, pid, code = child(program, NUMC_PERF="jitdump", JITDUMPDIR=str(tmp_path))
    data = (tmp_path / f"jit-{pid}.dump").read_bytes()
    magic, version, size, machine, padding, of_process, begun, flags = struct.unpack_from("=6I2Q", data)
    assert (magic, version, size, machine, padding, of_process, flags) == (0x4A695444, 1, 40, 62, 0, pid, 0)
    at, names, last = size, [], begun
    while at < len(data):
        record, total, time, of_process, _, address, code_address, length, index = struct.unpack_from(
            "=2IQ2I4Q", data, at
        )
        assert (record, of_process, index) == (0, pid, len(names))
        assert address == code_address
        assert time >= last
        name, _, body = data[at + 56 : at + total].partition(b"\0")
        assert len(body) == length > 0
        assert body == code_at(code, address, length)
        names.append(name.decode())
        at, last = at + total, time
    assert at == len(data)
    check_names(names)


def test_nothing_is_written_unless_asked_for(program, tmp_path):
    _, pid, _ = child(program, JITDUMPDIR=str(tmp_path))
    assert not Path(f"/tmp/perf-{pid}.map").exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("NUMC_PERF", "maps", "NUMC_PERF: got 'maps', want 'map' or 'jitdump'"),
        ("NUMC_GDB", "yes", "NUMC_GDB: got 'yes', want '1' or '0'"),
    ],
)
def test_unknown_values(program, monkeypatch, name, value, text):
    monkeypatch.setenv(name, value)
    with pytest.raises(numc.NumcError) as caught:
        numc.runtime.load(program)
    assert str(caught.value).endswith(text)
    monkeypatch.setenv(name, "")
    a, b = np.ones((2, 40), np.float32), np.ones((40, 48), np.float32)
    np.testing.assert_array_equal(numc.runtime.load(program)(a, b), np.full((2, 48), 40, np.float32))


def test_a_file_that_cannot_be_written(program, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMC_PERF", "jitdump")
    monkeypatch.setenv("JITDUMPDIR", str(tmp_path / "missing"))
    text = f"NUMC_PERF: cannot write '{tmp_path}/missing/jit-{os.getpid()}.dump': No such file or directory"
    with pytest.raises(numc.NumcError, match=re.escape(text)):
        numc.runtime.load(program)


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb(program, tmp_path):
    """A breakpoint on a task by its name, and a backtrace from there to the entry."""
    names = subprocess.run(["strings", program], capture_output=True, text=True, check=False).stdout
    task = next(iter(re.findall(r"^(\w*task\w*)_body$", names, re.MULTILINE)))
    commands = ["set pagination off", "set breakpoint pending on", "set debuginfod enabled off", f"break {task}_body"]
    script = tmp_path / "script"
    script.write_text("\n".join([*commands, "run", "bt 12", "info symbol $pc"]))
    done, _, _ = child(program, before=("gdb", "-batch", "-x", str(script), "--args"), NUMC_GDB="1")
    output = done.stdout + done.stderr
    if "ptrace" in output:
        pytest.skip("this system does not let gdb trace processes")
    assert re.search(rf"^#0 .* in {task}_body \(", output, re.MULTILINE), output
    assert re.search(r"^#\d+ .* in numc_entry \(", output, re.MULTILINE), output
    assert f"{task}_body" in output.splitlines()[-1], output


def test_loading_and_unloading_for_gdb_without_gdb(program, monkeypatch):
    monkeypatch.setenv("NUMC_GDB", "1")
    programs = [numc.runtime.load(program) for _ in range(3)]
    del programs[1]
    a, b = np.ones((2, 40), np.float32), np.ones((40, 48), np.float32)
    assert programs[1](a, b)[0, 0] == 40


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_reports_names(program, tmp_path):
    record = ("perf", "record", "-e", "cpu-clock", "-o", str(tmp_path / "perf.data"))
    done, pid, _ = child(program, 0.3, before=record, NUMC_PERF="map", NUMC_NUM_THREADS="1")
    if done.returncode:
        pytest.skip(f"perf record: {done.stderr.strip().splitlines()[-1:]}")
    try:
        report = ["perf", "report", "--stdio", "-i", str(tmp_path / "perf.data")]
        text = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    finally:
        Path(f"/tmp/perf-{pid}.map").unlink()
    assert re.search(r"\[\.\] numc_fp32_\w+", text), text
