"""The trace of a profile in the format of Chrome's trace viewer, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numc.studies.profile.rows import BETWEEN, ProfileData
from numc.support.files import write_whole

_PROCESS = 1


def write_trace(profile: ProfileData, path: Path) -> None:
    """Write the trace, completely or not at all. Raises NumcError if it cannot be written."""
    text = json.dumps(trace(profile), ensure_ascii=False, allow_nan=False)
    write_whole(path, lambda file: file.write(text.encode()))


def trace(profile: ProfileData) -> dict[str, Any]:
    """Return the trace: slices of parts on a row for each thread, inside of a slice for each step; in microseconds."""
    start = min(step.begin for step in profile.steps)

    def slice_(name: str, thread: int, begin: float, seconds: float, **more: Any) -> dict[str, Any]:
        times = {"ts": round(1e6 * (begin - start), 3), "dur": round(1e6 * seconds, 3)}
        return {"ph": "X", "name": name, "pid": _PROCESS, "tid": thread, **times, **more}

    threads = sorted({event.thread for event in profile.events})
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": _PROCESS, "args": {"name": "numc"}},
        *(
            {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": thread,
             "args": {"name": f"thread {thread}" if thread else "thread 0, which runs the program"}}
            for thread in threads
        ),
    ]  # fmt: skip
    events += [slice_(f"step {n}", 0, step.begin, step.seconds) for n, step in enumerate(profile.steps)]
    for event in profile.events:
        if event.kind != BETWEEN:
            told = {"kind": event.kind, "role": event.role, "fma": event.fma}
            events.append(
                slice_(event.layer or event.kind, event.thread, event.begin, event.seconds, cat=event.kind,
                       args={name: text for name, text in told.items() if text})
            )  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns"}
