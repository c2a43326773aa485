"""Compiling in a worker: a process that trains needs its memory, and two programs compile side by side.

A worker has to load what this process has loaded, too, so that with one thread for everything this process compiles.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any

from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.frontends.workers import process
from numc.frontends.workers.worker import Parts
from numc.numerics.formats.kinds.table import DEFINED as FORMATS
from numc.numerics.operators import DEFINED as OPERATORS
from numc.runtime.container import Contents
from numc.runtime.library import default_threads
from numc.support.errors import CompilerBug, NumcError
from numc.support.freed import give_back

_WORKER = "numc.compiler.programs.worker"


def is_apart() -> bool:
    """Whether workers compile: where numc has more than one thread, and no definitions, which workers do not have."""
    return default_threads() > 1 and not OPERATORS and not FORMATS


def prepare() -> None:
    """Let a process load the compiler while this one does something else."""
    process.prepare(f"{_WORKER}:build_task")


def build(imported: Imported, options: Options) -> Contents:
    """Return what the program file of a model holds, as `build` of build.py does, which a worker calls.

    Raises NumcError for bad input. A crash is a CompilerBug, which names the IR that was kept and a command.
    """
    if is_apart():
        contents: Contents = _asked("build_task", imported, options)
        return contents
    from numc.compiler.programs.build import build

    made = build(imported, options)
    give_back()
    return made


def readings(imported: Imported, options: Options, numbers: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return how a program reads inputs of these numbers: see readings of passes/explicit/readings.py."""
    if is_apart():
        answer: dict[int, tuple[str, str]] = _asked("readings_task", imported, options, list(numbers))
        return answer
    from numc.compiler.lower import lowered
    from numc.passes.explicit.readings import readings

    read = readings(lowered(imported, options, "numc").operation, list(numbers))
    return {number: (reading.format, reading.why) for number, reading in read.items()}


def _asked(task: str, *given: Any) -> Any:
    parts = packed(given)
    try:
        return unpacked(process.ask(f"{_WORKER}:{task}", {}, parts, size=None)[1])
    except process.CrashError as death:
        if not death.is_fault:
            raise NumcError(f"the process that compiles {death}: run this again") from None
        how = str(death)
    answer, _ = process.ask(f"{_WORKER}:crashed_task", {"task": task, "how": how}, parts, size=None)
    raise CompilerBug(answer["message"])


def packed(value: Any) -> list[Any]:
    """Return a value as buffers of bytes, in which arrays are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return [head, *(each.raw() for each in buffers)]


def unpacked(parts: Parts) -> Any:
    """Return the value of `packed`, whose arrays cannot be written."""
    return pickle.loads(parts[0], buffers=parts[1:])
