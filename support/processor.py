"""The name of the processor, which Linux tells in /proc/cpuinfo."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path


def processor_name() -> str:
    """The model of the first processor, as people know it; the architecture where it is not told."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
