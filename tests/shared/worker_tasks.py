"""Tasks for workers that do what a task should not do."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from typing import Any

from numc.frontends.onnx.reading.budget import Budget


def crash(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    stage("middle")
    ctypes.string_at(0)


def fail(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    stage("middle")
    return {}["no such\nkey"]


def leave(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    os.write(2, b"first\nlast words\n")
    os._exit(3)


def kill(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    """Kill this worker, or with `server` the process that forked it."""
    if request.get("server"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [])
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    """Note the process ids of worker and server in a file, and wait."""
    with open(request["file"], "w", encoding="ascii") as file:
        file.write(f"{os.getpid()} {os.getppid()}\n")
    time.sleep(60)


def allocate(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    return {"size": len(bytearray(2**31))}, []


def abort_for_memory(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def look(request: dict[str, Any], parts: Any, stage: Any) -> Any:
    """What this process has from others: open files, limits, and the request itself."""
    files = {}
    for handle in os.listdir("/proc/self/fd"):
        try:
            files[handle] = os.readlink(f"/proc/self/fd/{handle}")
        except OSError:  # that of listdir
            continue
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("CORE", "NOFILE", "NPROC")}
    found = {"files": files, "limits": limits, "request": request, "process": os.getpid(), "folder": os.getcwd()}
    found["memory"] = os.environ.get("NUMC_IMPORT_MEMORY", "")
    found["budget"] = Budget().limit
    return found, [bytes(reversed(part)) for part in parts]
