"""Workers: how they end, what they may use, what they inherit, and that none of them is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from numc.frontends.workers import process
from numc.support.errors import CompilerBug, NumcError

ROOT = Path(__file__).resolve().parents[2]
SHARED = str(ROOT / "tests" / "shared")


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server of its own, which finds the tasks of tests/shared/worker_tasks.py."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), SHARED]))
    own = process._Server()
    monkeypatch.setattr(process, "_server", own)
    yield own
    own.stop()


def ask(task: str, parts: Any = (), **request: Any) -> Any:
    return process.ask(f"worker_tasks:{task}", request, parts, size=0)


def gone(pids: list[int], seconds: float = 20) -> bool:
    """Whether all processes end in time; a zombie has ended."""

    def is_gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    deadline = time.monotonic() + seconds
    while not all(map(is_gone, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def written(file: Path) -> list[int]:
    """The process ids that the task `sleep` writes to a file."""
    deadline = time.monotonic() + 20
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [int(pid) for pid in file.read_text().split()]


def test_how_workers_end(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for task, text, stage in (
        ("crash", "crashed with SIGSEGV", "middle"),
        ("kill", "was killed (is the machine short of memory?)", "start"),
        ("leave", "ended with status 3 (last words)", "start"),
    ):
        with pytest.raises(process.CrashError) as caught:
            ask(task)
        assert (str(caught.value), caught.value.stage) == (text, stage)
    with pytest.raises(CompilerBug) as bug:
        ask("fail")
    assert str(bug.value) == (
        "the importer failed (stage: middle): KeyError: 'no such\\nkey'; this is a fault of numc: please report it"
    )
    assert 'return {}["no such\\nkey"]' in str(bug.value.__cause__)
    for task in ("allocate", "abort_for_memory"):
        monkeypatch.setenv(process.MEMORY, "1")
        with pytest.raises(process.LimitError) as memory:
            ask(task)
        assert str(memory.value) == (
            "importing the model takes more than 1 GiB of memory: a size in it may be wrong; "
            "NUMC_IMPORT_MEMORY=N allows N GiB"
        )
    monkeypatch.delenv(process.MEMORY)
    monkeypatch.setenv(process.TIME, "0.1")
    with pytest.raises(process.LimitError) as late:
        ask("sleep", file="/dev/null")
    assert str(late.value) == "import took longer than 0.1 s (stage: start); NUMC_IMPORT_TIME=N allows N seconds"
    one = server._process.pid
    monkeypatch.delenv(process.TIME)
    with pytest.raises(process.CrashError, match="^was ended from outside$"):
        ask("kill", server=True)
    assert gone([one])
    assert ask("look")[0]["request"] == {}  # another server has been started
    assert server._process.pid != one


def test_a_server_that_is_started_before_it_is_needed(server: Any) -> None:
    process.prepare("worker_tasks:look")
    started = server._process.pid
    process.prepare("worker_tasks:look")
    ask("look")
    assert server._process.pid == started


def test_a_server_that_does_not_start(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    process.prepare("worker_tasks:look")  # who asks is told
    with pytest.raises(CompilerBug, match="^/no/python cannot be started to import models: No such file or directory$"):
        ask("look")
    start = server._start
    monkeypatch.setattr(server, "_start", lambda: (start(), server._process.wait()))
    monkeypatch.setattr(sys, "executable", "/bin/cat")  # which has no option -c
    with pytest.raises(CompilerBug, match=r"^no process can be started that imports models: Broken pipe \(.*cat.*\)$"):
        ask("look")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (process.TIME, "0", "NUMC_IMPORT_TIME=0: a number of seconds is wanted, more than 0"),
        (process.TIME, "1h", "NUMC_IMPORT_TIME=1h: a number of seconds is wanted, more than 0"),
        (process.MEMORY, "nan", "NUMC_IMPORT_MEMORY=nan: a number of GiB is wanted, 1 or more"),
    ],
)
def test_limits_that_are_none(name: str, value: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(NumcError) as caught:
        ask("look")
    assert str(caught.value) == text


def test_what_a_worker_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open(tmp_path / "open", "w") as file, socket.socket() as connection:
        for handle in (file.fileno(), connection.fileno()):
            os.set_inheritable(handle, True)
        found, parts = ask("look", [b"abc", b""], what=[1, None])
    kinds = sorted(name.partition(":")[0] for name in found["files"].values())
    assert kinds == ["/dev/null", "/memfd", "/memfd", "socket"]
    assert found["limits"] == {"CORE": [0, 0], "NOFILE": [256, 256], "NPROC": [0, 0]}
    assert (found["request"], found["folder"]) == ({"what": [1, None]}, str(tmp_path))
    assert parts == [b"cba", b""]


def test_workers_of_workers_have_the_limits_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for gib in ("2", ""):  # not those with which the server was started
        monkeypatch.setenv(process.MEMORY, gib)
        assert ask("look")[0]["memory"] == gib


def test_what_a_model_may_ask_for_does_not_depend_on_the_server(server: Any) -> None:
    """One that has imported much has more address space in use."""
    found, _ = process.ask("worker_tasks:look", {}, (), size=2**20)
    assert found["budget"] == 4 * 2**30 + 8 * 2**20


def test_threads_and_forks(server: Any) -> None:
    with ThreadPoolExecutor(4) as pool:
        parts = [os.urandom(300_000) for _ in range(8)]
        answers = list(pool.map(lambda part: ask("look", [part]), parts))
    assert [found[1] for found in answers] == [[bytes(reversed(part))] for part in parts]
    assert len({found["process"] for found, _ in answers}) == 8

    parent = server._process.pid
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ask("look")
            status = 0 if server._process.pid != parent else 2
            server.stop()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ask("look")[0]["request"] == {}
    assert server._process.pid == parent


def test_an_interrupted_request_ends_its_worker(server: Any, tmp_path: Path) -> None:
    def interrupt() -> None:
        written(tmp_path / "pids")
        signal.pthread_kill(asking, signal.SIGINT)  # a signal to the process may reach a thread of another test

    asking, thread = threading.get_ident(), threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ask("sleep", file=str(tmp_path / "pids"))
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert gone(written(tmp_path / "pids")[:1])
    assert ask("look")[0]["request"] == {}


def test_no_process_outlives_the_one_that_asked(tmp_path: Path) -> None:
    """Not even if a child of it that holds copies of its files lives on."""
    file = str(tmp_path / "pids")
    code = (
        "import ctypes, os, threading, time\nfrom numc.frontends.workers import process\n"
        f"asking = dict(target=process.ask, args=('worker_tasks:sleep', {{'file': {file!r}}}), kwargs={{'size': 0}})\n"
        "threading.Thread(**asking).start()\n"
        f"while not os.path.exists({file!r}): time.sleep(0.01)\n"
        "child = ctypes.PyDLL(None).fork()\n"  # os.fork would close the copies
        "if child: print(child, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        child = int(asking.stdout.readline())
        try:
            pids = written(tmp_path / "pids")
            asking.kill()
            assert gone(pids)
            assert not gone([child], 0)
        finally:
            os.kill(child, signal.SIGKILL)
