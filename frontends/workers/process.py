"""Requests to workers: importers and parsers of MLIR run apart, because some models make them crash.

So does the compiler for torch.compile, because MLIR would take the memory of the process that trains.

There is one server for a process, ``worker.py``, which is started by the first request and again if it dies. It forks a
worker for each request. Nothing is shared with a child that the process forks: the child starts its own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from numc.frontends.workers import worker
from numc.frontends.workers.worker import Parts
from numc.support.errors import CompilerBug, NumcError, ParseError
from numc.support.progress import tell
from numc.support.versions import own_folder

MEMORY = "NUMC_IMPORT_MEMORY"
TIME = "NUMC_IMPORT_TIME"
_GIB = 2**30
_SECONDS = 600.0
_MEMORY = 4 * _GIB
_MEMORY_PER_BYTE = 8
_START = (
    "import os, sys; sys.path = [p for p in sys.path if p]; from numc.frontends.workers import worker; "
    "worker.main(int(sys.argv[1]), int(sys.argv[2])); os._exit(0)"
)


class CrashError(Exception):
    """A worker ended without an answer. The message says how, in a few words: ``crashed with SIGSEGV``.

    stage: how far it was. is_fault: whether the task itself ended it.
    """

    def __init__(self, how: str, stage: str, *, is_fault: bool = True) -> None:
        super().__init__(how)
        self.stage, self.is_fault = stage, is_fault


class LimitError(NumcError):
    """A worker needed more time or memory than the limits allow."""


class _RemoteError(Exception):
    """The traceback of an exception in a worker, shown as the cause of the error that reports it."""


def ask(
    task: str,
    request: Mapping[str, Any],
    parts: Parts = (),
    *,
    size: int | None,
    seconds: float | None = None,
    stack: int | None = None,
    forks: bool = False,
) -> tuple[dict[str, Any], Parts]:
    """Let a worker do `task` (see worker.Task) for a request of JSON and of buffers of bytes; return its answer.

    size: bytes of the model to import, from which the limit of memory follows; None for a task without limits.
    seconds: a limit of time below the usual one. stack: a limit of the stack in bytes. forks: whether the task may
    start processes. What the task tells of its progress (support/progress.py) is told here. Raises NumcError,
    CompilerBug or MemoryError if the task did; LimitError if it took more time or memory than NUMC_IMPORT_TIME and
    NUMC_IMPORT_MEMORY allow; CrashError if it crashed; CompilerBug for any other exception.
    """
    limits = None if size is None else _Limits.of(size, seconds)
    bounds = None
    if limits is not None:
        bounds = {"seconds": limits.seconds, "memory": limits.memory, "stack": stack, "processes": None if forks else 0}
    variables = dict(os.environ)
    head = {"request": request, "parts": len(parts), "limits": bounds, "folder": _folder(), "variables": variables}
    stage, end = "start", None
    received: list[bytes] = []
    with _call(task) as (connection, wait):
        try:
            connection.send_bytes(json.dumps(head).encode())
            for part in parts:
                connection.send_bytes(part)
            while "stage" in (answer := json.loads(connection.recv_bytes())):
                stage = answer["stage"]
                if "told" in answer:
                    tell(*answer["told"])
            received = [connection.recv_bytes() for _ in range(answer["parts"])]
        except (EOFError, OSError):  # the worker ended, whatever it was about to say
            end = wait()
    if end is not None:
        raise _error(end, stage) if limits is None else limits.error(end, stage)
    if "values" in answer:
        return answer["values"], received
    if "error" in answer:
        raise (ParseError if "parsing" in answer else NumcError)(answer["error"])
    if "memory" in answer:
        raise MemoryError if limits is None else LimitError(limits.too_large)
    if "bug" in answer:
        raise CompilerBug(answer["bug"]) from _RemoteError(answer["traceback"])
    what = "compiler" if limits is None else "importer"
    text = f"the {what} failed (stage: {stage}): {answer['exception']}; this is a fault of numc: please report it"
    raise CompilerBug(text) from _RemoteError(answer["traceback"])


def prepare(task: str) -> None:
    """Let the server start, and load what `task` needs, while this process does something else before it asks."""
    if not worker.in_worker():
        _server.prepare(task)


@dataclass(frozen=True)
class _Limits:
    seconds: float
    memory: int

    @staticmethod
    def of(size: int, least: float | None) -> _Limits:
        """Return the limits for a model of `size` bytes. Raises NumcError for a variable that is no number."""
        seconds = _number(TIME, "seconds", "more than 0", 1e-3) or _SECONDS
        memory = _number(MEMORY, "GiB", "1 or more", 1)
        bytes_ = int(memory * _GIB) if memory else _MEMORY + _MEMORY_PER_BYTE * size
        return _Limits(min(seconds, least or seconds), bytes_)

    @property
    def too_large(self) -> str:
        return (
            f"importing the model takes more than {self.memory / _GIB:.0f} GiB of memory: a size in it may be wrong; "
            f"{MEMORY}=N allows N GiB"
        )

    def error(self, end: Mapping[str, Any], stage: str) -> LimitError | CrashError:
        """Return the error for a worker that ended as `end` says (see worker.Child.ended)."""
        status, log = end.get("status"), str(end.get("log", ""))
        if status == -signal.SIGALRM:
            return LimitError(f"import took longer than {self.seconds:g} s (stage: {stage}); {TIME}=N allows N seconds")
        if "bad_alloc" in log or "out of memory" in log:
            return LimitError(self.too_large)
        return _error(end, stage)


def _error(end: Mapping[str, Any], stage: str) -> CrashError:
    """Return the error for a worker without limits that ended as `end` says."""
    status, log = end.get("status"), str(end.get("log", ""))
    if status is None:
        return CrashError(f"was ended from outside{_last_line(log)}", stage, is_fault=False)
    if status == -signal.SIGKILL:
        return CrashError("was killed (is the machine short of memory?)", stage, is_fault=False)
    if status < 0:
        return CrashError(f"crashed with {signal.Signals(-status).name}", stage)
    return CrashError(f"ended with status {status}{_last_line(log)}", stage)


def _last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return f" ({lines[-1].strip()[:200]})" if lines else ""


def _number(name: str, unit: str, allowed: str, least: float) -> float | None:
    text = os.environ.get(name)
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if least <= (number := float(text)) < 2**31:
            return number
    raise NumcError(f"{name}={text}: a number of {unit} is wanted, {allowed}")


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return "/"


@contextlib.contextmanager
def _call(task: str) -> Iterator[tuple[Connection, Callable[[], dict[str, Any]]]]:
    """Begin a task: the connection to its worker, and a function that waits for the worker's end and says how it was.

    A worker that is still at work when the block is left is killed.
    """
    mine, theirs = socket.socketpair()
    with Connection(mine.detach()) as connection, theirs:
        if worker.in_worker():  # it forks once more
            child = worker.fork(task, theirs.detach())
            try:
                yield connection, lambda: child.ended(wait=True) or {}
            finally:
                if child.end is None:
                    os.kill(child.pid, signal.SIGKILL)
                    child.ended(wait=True)
            return
        ended, tell = os.pipe()
        with open(ended, "rb") as end:
            try:
                _server.begin(task, theirs.fileno(), tell)
            finally:
                os.close(tell)
            theirs.close()
            yield connection, lambda: json.loads(end.read() or json.dumps({"log": _server.log()}))


class _Server:
    """The process that forks workers, as seen from here; it is started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log = -1

    def begin(self, task: str, connection: int, pipe: int) -> None:
        """Let the server fork a worker for `task` (see worker.main). It is started again if it has died."""
        with self._lock:
            for attempt in (1, 2):
                if self._control is None:
                    self._start()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [task.encode()], [connection, pipe])
                    return
                except OSError as error:
                    reason = f"{error.strerror}{_last_line(self.log())}"
                    self.stop()
                    if attempt == 2:
                        raise CompilerBug(f"no process can be started that imports models: {reason}") from None

    def prepare(self, task: str) -> None:
        """Start the server, if there is none, and name a task to it that will be asked for."""
        with self._lock, contextlib.suppress(OSError, CompilerBug):  # `begin` tries again, and says what is wrong
            if self._control is None:
                self._start()
            assert self._control is not None
            self._control.send(task.encode())

    def _start(self) -> None:
        paths = [str(own_folder().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        # One thread: a process that forks must have no others.
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        env = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
        self._log = os.memfd_create("log")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable or "python3", "-c", _START, str(theirs.fileno()), str(os.getpid())]
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    env=env,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the process that asks
                )
            except OSError as error:
                self.stop()
                raise CompilerBug(f"{command[0]} cannot be started to import models: {error.strerror}") from None

    def log(self) -> str:
        """Return what the server wrote to standard error, which is how it failed."""
        return os.pread(self._log, 4096, 0).decode(errors="replace") if self._log >= 0 else ""

    def stop(self) -> None:
        """Close the connection, which ends the server and its workers, and wait for that."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Leave the server to the parent after a fork."""
        if self._process is not None:
            self._process.returncode = 0  # it is no child of this process: there is nothing to wait for
            self._process = None
        self._lock = threading.Lock()
        self.stop()


_server = _Server()
os.register_at_fork(after_in_child=lambda: _server.forget())
atexit.register(lambda: _server.stop())
