"""Cases in a process of their own: one process runs hundreds, and a crash or a hang is the finding of one of them."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120.0
"""Seconds that one case may take."""
AT_ONCE = 20_000
"""Cases that one process runs before a new one takes over: what caches keep of them stays bounded."""
MEMORY = 16 << 30
"""Bytes of address space that one process may take."""


@dataclass
class Report:
    """What became of the cases of one kind."""

    kind: str
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)  # by the number of the case
    next: int = 0  # the number of the first case that was not run


def serve(kind: str, first: int, count: int, seconds: float) -> None:
    """Run cases in this process, and write one line of JSON for each to standard output."""
    from fuzz.differential import Finding
    from fuzz.targets import KINDS

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing else may write between the lines
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    start = time.monotonic()
    for number in range(first, first + count):
        if time.monotonic() - start > seconds:
            break
        answers.write(f'{{"begin": {number}}}\n')
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            answer = {"number": number, "outcome": KINDS[kind](number)}
        except Finding as finding:
            answer = {"number": number, "finding": str(finding)}
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")


def run(
    kind: str, first: int = 0, count: int = sys.maxsize, seconds: float = 1e9, more: Mapping[str, str] | None = None
) -> Report:
    """Run `count` cases of a kind from number `first` on, for at most `seconds`; a process that dies is replaced.

    more: what these processes find in their environment besides.
    """
    report = Report(kind, next=first)
    end = time.monotonic() + seconds
    while report.cases < count and time.monotonic() < end:
        before = report.next
        left = min(count - report.cases, AT_ONCE)
        for answer in _answers(kind, report.next, left, max(end - time.monotonic(), 0.0), more or {}):
            number = int(answer["number"])
            report.cases += 1
            report.next = number + 1
            if "finding" in answer:
                report.findings[number] = str(answer["finding"])
            else:
                report.outcomes[str(answer["outcome"])] += 1
        if report.next == before:
            break
    return report


def _answers(kind: str, first: int, count: int, seconds: float, more: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """The answers of one process; if it dies, the last one is the finding that the case it was in killed it."""
    command = [sys.executable, "-m", "fuzz", "--serve", kind, str(first), str(count), str(seconds)]
    paths = [str(ROOT / "tests"), str(ROOT / "tests" / "shared"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONFAULTHANDLER": "1", **more}
    begun = None
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=ROOT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            begun = answer.get("begin")
            if begun is None:
                yield answer
        if process.wait() != 0:
            log.seek(0)
            last = log.read()[-1500:]
            if begun is None:
                raise RuntimeError(f"the process of '{kind}' ended with status {process.returncode}: {last}")
            ending = f"killed its process (status {process.returncode})"
            if "Timeout (" in last:
                ending = f"took longer than {LIMIT:g} s"
            yield {"number": begun, "finding": f"{ending}: {last}"}
