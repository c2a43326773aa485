"""NUMC_CHECK=1: what it finds in programs that are wrong, and that it finds nothing in those that are compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import runtime_programs as programs
from fuzz import workers
from numc.runtime import Program
from numc.support.errors import NumcError

ROOT = Path(__file__).resolve().parents[2]
FOUND = " (found by NUMC_CHECK)"
READS_ANOTHER = (
    "result 'y' depends on memory that the program has not written or on the number of threads: "
    "element 0 is 0x7ff4dead, then 0x3fc00000" + FOUND
)
WROTE_BESIDE = "the program wrote beside a buffer of 80 bytes" + FOUND
READ_ONLY = "the program writes into an input or a weight of 80 bytes" + FOUND
NO_BUFFER = "the program reads or writes at an address that is in no buffer" + FOUND

# Fault of tests/shared/faulty_programs.py -> index -> what the run says. Buffers have 20 elements.
SAID = {
    "reads x": {
        5: "",
        20: "the program reads 1 bytes behind the end of a buffer of 80 bytes" + FOUND,
        -1: "the program reads 4 bytes before a buffer of 80 bytes" + FOUND,
        1 << 40: NO_BUFFER,
    },
    # Weights begin at a multiple of 64 bytes: what lies between their end and the next page differs in both runs.
    "reads w": {5: "", 20: READS_ANOTHER, -1: "the program reads 4 bytes before a buffer of 80 bytes" + FOUND},
    "writes y": {5: "", 20: WROTE_BESIDE, -1: WROTE_BESIDE, 1 << 40: NO_BUFFER},
    "writes x": {
        5: READ_ONLY,
        20: "the program writes 1 bytes behind the end of a buffer of 80 bytes" + FOUND,
        -1: "the program writes 4 bytes before a buffer of 80 bytes" + FOUND,
    },
    "writes w": {0: READ_ONLY, 5: READ_ONLY},
    "reads fresh memory": {0: READS_ANOTHER, 5: READS_ANOTHER},
    "reads freed memory": {0: "the program reads a buffer of 80 bytes that it has freed" + FOUND},
    "writes beside its buffer": {5: "", 20: WROTE_BESIDE, -1: WROTE_BESIDE},
    "divides": {0: "the program stopped at an instruction (SIGFPE)" + FOUND, 5: ""},
    "depends on threads": {
        5: "result 'y' depends on memory that the program has not written or on the number of threads: "
        "element 0 is 0x40000000, then 0x42a00000" + FOUND
    },
}


def test_every_fault_is_found() -> None:
    environment = {**os.environ, "NUMC_CHECK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "faulty_programs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert {
        fault: {index: json.loads(done.stdout)[fault][str(index)] for index in said} for fault, said in SAID.items()
    } == SAID


@pytest.mark.parametrize(("count", "runs"), [(2, 400), pytest.param(8, 2000, marks=pytest.mark.slow)])
def test_nothing_is_found_in_many_runs(count: int, runs: int) -> None:
    report = workers.run("guarded", count=count, more={"NUMC_CHECK": "1"})
    assert report.findings == {}
    assert sum(int(outcome.split()[0]) * number for outcome, number in report.outcomes.items()) >= runs


def test_the_switch_has_two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMC_CHECK", "yes")
    with pytest.raises(NumcError, match="program: NUMC_CHECK: got 'yes', want '1' or '0'"):
        Program(programs.add())
