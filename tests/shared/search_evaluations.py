"""A function that evaluates policies for numc.search, which workers import, too."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

from numc.studies.search.evaluation import identity

PLACE, KILL_AT = "SEARCH_EVALUATIONS", "SEARCH_EVALUATIONS_KILL_AT"
_BITS = re.compile(r"fmacs\(e(\d)m(\d+)\)")


def accuracy(policy: str, split: str) -> float:
    """1 in fp32, less with fewer significand bits, and much less with 3 exponent bits or fewer.

    Leaves a file in the folder PLACE, if that is set; if there are KILL_AT of them, one evaluation kills its process.
    """
    if PLACE in os.environ:
        place = Path(os.environ[PLACE])
        done = len(list(place.iterdir()))
        (place / str(hash(policy) ^ id(object()) ^ os.getpid() ^ done)).touch()
        if done >= int(os.environ.get(KILL_AT, "1000000")):
            try:
                (place / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
    widths = [(int(e), int(m)) for e, m in _BITS.findall(policy)]
    return 1.0 - sum(0.02 * 2.0**-m + 0.5 * (e < 4) for e, m in widths)


def deadly(policy: str, split: str) -> float:
    """As `accuracy`, but one policy kills the process that evaluates it."""
    if "e5m4" in policy:
        os.kill(os.getpid(), signal.SIGKILL)
    return accuracy(policy, split)


def other_in_workers() -> str:
    """As `identity`, but workers in threads of this process seem to have an older numc."""
    return identity() if threading.current_thread() is threading.main_thread() else "0.0.9"


def missing_in_workers() -> str:
    """As `identity`, but workers in threads of this process seem to have no numc."""
    if threading.current_thread() is not threading.main_thread():
        raise ModuleNotFoundError("No module named 'numc'")
    return identity()
