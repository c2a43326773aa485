"""The process that forks workers: one for each request to import or to compile a model, the former under limits.

``process.py`` starts it and speaks with it. It has one thread, reads no model, and loads the modules of the tasks once,
so that a fork takes milliseconds. A worker that crashes takes nothing else with it. All of them end when the
process that uses numc ends, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from numc.support import progress
from numc.support.environment import DefaultEnvironment
from numc.support.errors import CompilerBug, NumcError, ParseError

Parts = Sequence[Any]
Answer = tuple[dict[str, Any], Parts]
Stage = Callable[[str], None]
Task = Callable[[dict[str, Any], Parts, Stage], Answer]
"""A task gets a request (JSON, with buffers of bytes) and a function that notes how far it is; it returns its answer.

It is named as ``module:function``. Of the exceptions it may raise, NumcError and MemoryError are the model's fault.
What it tells of its progress is told to who asks.
"""

FILES = 256
FILE_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1
_in_worker = False
_memory = float("inf")


def in_worker() -> bool:
    """Whether this process is a worker."""
    return _in_worker


def memory() -> float:
    """The bytes that the task of this process may take, beyond what the worker had when it was forked."""
    return _memory


@dataclass
class Child:
    """A worker. log: a file in memory with all that it wrote to standard output and error. end: see `ended`."""

    pid: int
    log: int
    end: dict[str, Any] | None = None

    def ended(self, *, wait: bool) -> dict[str, Any] | None:
        """Return how it ended: its exit code, or minus a signal, and the last of its log. None if it is at work."""
        if self.end is None:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            if pid:
                size = os.fstat(self.log).st_size
                text = os.pread(self.log, 4096, max(0, size - 4096)).decode(errors="replace")
                os.close(self.log)
                self.end = {"status": os.waitstatus_to_exitcode(status), "log": text}
        return self.end


def fork(task: str, connection: int) -> Child:
    """Fork a worker that answers the request in `connection`, the descriptor of a socket, which it takes over."""
    log = os.memfd_create("log")
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become_worker(parent, connection, log)
            _answer(task, Connection(connection))
        finally:
            os._exit(1)
    os.close(connection)
    return Child(pid, log)


def _become_worker(parent: int, connection: int, log: int) -> None:
    global _in_worker
    _in_worker = True
    progress.forget()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGFPE):  # gmpy2 catches the last and aborts
        signal.signal(number, signal.SIG_DFL)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, connection)  # the other workers are not its business
    os.closerange(connection + 1, 1 << 20)


def _answer(task: str, connection: Connection) -> NoReturn:
    """Read a request, do its task, and send an answer or what was raised."""
    head = json.loads(connection.recv_bytes())
    buffers = [connection.recv_bytes() for _ in range(head["parts"])]

    lock = threading.Lock()  # any thread of the task may tell something

    def send(message: dict[str, Any], parts: Parts = ()) -> None:
        with lock:
            connection.send_bytes(json.dumps({**message, "parts": len(parts)}).encode())
            for part in parts:
                connection.send_bytes(part)

    def stage(name: str) -> None:
        send({"stage": name})

    def show(what: str, item: str, done: int, total: int) -> None:
        send({"stage": f"{what} {item}", "told": [what, item, done, total]})

    try:
        with contextlib.suppress(OSError):  # a path that is relative to a folder that is gone will not be found
            os.chdir(head["folder"])
        os.environ.clear()  # the server has the variables of its start
        os.environ.update(head["variables"])
        _limit(head["limits"])
        module, _, function = task.partition(":")
        run: Task = getattr(importlib.import_module(module), function)
        with DefaultEnvironment(), progress.told(show):  # a library that was loaded may have set another one
            values, parts = run(head["request"], buffers, stage)
        send({"values": values}, parts)
    except ParseError as error:
        send({"error": str(error), "parsing": True})
    except NumcError as error:
        send({"error": " ".join(str(error).split())})
    except CompilerBug as error:
        send({"bug": str(error), "traceback": traceback.format_exc()})
    except MemoryError:
        send({"memory": True})
    except BaseException as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        send({"exception": reason, "traceback": traceback.format_exc()})
    os._exit(0)


def _limit(bounds: dict[str, Any] | None) -> None:
    """Bound this process, which leaves no image of its memory in any case.

    Its ``seconds`` are of wall time, then SIGALRM ends it; ``memory``: bytes of address space beyond what is in use;
    ``stack``: bytes of the stack; ``processes``: RLIMIT_NPROC, which Linux does not apply to root.
    """
    global _memory
    limits = {resource.RLIMIT_CORE: 0}
    if bounds is not None:
        _memory = bounds["memory"]
        signal.setitimer(signal.ITIMER_REAL, bounds["seconds"])
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        limits |= {
            resource.RLIMIT_AS: used + bounds["memory"],
            resource.RLIMIT_FSIZE: FILE_BYTES,
            resource.RLIMIT_NOFILE: FILES,
            resource.RLIMIT_NPROC: bounds["processes"],
            resource.RLIMIT_STACK: bounds["stack"],
        }
    for resource_id, limit in limits.items():
        if limit is not None:
            _, most = resource.getrlimit(resource_id)
            least = limit if most == resource.RLIM_INFINITY else min(limit, most)
            resource.setrlimit(resource_id, (least, least))


def main(control: int, parent: int) -> None:
    """Serve requests until the process `parent` ends.

    control: the descriptor of a socket (SEQPACKET). A message is the name of a task, with two descriptors: a socket
    with the request, and a pipe that gets JSON when the worker has ended (see Child.ended). If the reader
    closes the pipe, the worker is killed. Without descriptors, the task is one that will come.
    """
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    requests = socket.socket(fileno=control)
    running: dict[int, Child] = {}  # by the descriptor of the pipe
    woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    events = select.poll()
    events.register(control, select.POLLIN)
    events.register(woken, select.POLLIN)
    # End of file on the socket comes late if a child of the parent holds the other end, too.
    gone = -1
    with contextlib.suppress(OSError):  # kernels before 5.3 have no such descriptor
        gone = os.pidfd_open(parent)
        events.register(gone, select.POLLIN)
    if os.getppid() != parent:
        return
    while True:
        for ready, _ in events.poll():
            if ready == gone:
                return
            if ready == control:
                message, handles, _, _ = socket.recv_fds(requests, 4096, 2)
                if not message:
                    return
                task = message.decode()
                with contextlib.suppress(Exception):  # the worker fails in the same way and says so
                    importlib.import_module(task.partition(":")[0])
                if not handles:  # the task is yet to come
                    continue
                connection, pipe = handles
                gc.freeze()  # the worker's collections copy no page
                running[pipe] = fork(task, connection)
                events.register(pipe, 0)  # an error is reported all the same: here, that the reader is gone
            elif ready == woken:
                os.read(woken, 4096)
            else:
                events.unregister(ready)
                os.kill(running[ready].pid, signal.SIGKILL)
        for pipe, child in list(running.items()):
            if end := child.ended(wait=False):
                del running[pipe]
                with contextlib.suppress(KeyError):
                    events.unregister(pipe)
                with contextlib.suppress(OSError):
                    os.write(pipe, json.dumps(end).encode())
                os.close(pipe)
