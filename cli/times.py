"""``--time-passes``: how long each pass of a compilation takes."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from numc.support.progress import told

Times = dict[tuple[str, str], float]
"""Seconds, by stage and pass; what is no pass has no stage."""


@contextlib.contextmanager
def timed(*, wanted: bool) -> Iterator[Times]:
    """Give the times of the compilation in a ``with`` block, which are complete at its end; none if not wanted."""
    times: Times = {}
    if not wanted:
        yield times
        return
    open_, since = ("", "import"), time.perf_counter()

    def close(next_: tuple[str, str]) -> None:
        nonlocal open_, since
        now = time.perf_counter()
        times[open_] = times.get(open_, 0.0) + now - since
        open_, since = next_, now

    def listen(what: str, item: str, done: int, total: int) -> None:
        if what == "pass":
            from numc.compiler.pipeline import STAGES

            close((next(stage for stage, passes in STAGES.items() if item in passes), item))
        elif what == "weight":
            close(("", "weights"))
        elif what == "machine code of":  # other threads have made it since the stage `kernels`
            close(("", "waiting for machine code"))

    with told(listen):
        yield times
    close(("", ""))


def print_times(times: Times) -> None:
    """Print a row for each pass on stderr, in the order in which they ran, and the sum."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table, total = Table("stage", "pass", box=box.SIMPLE_HEAD), sum(times.values())
    for heading in ("seconds", "share"):
        table.add_column(heading, justify="right")
    for (stage, name), seconds in times.items():
        table.add_row(stage, name, f"{seconds:.3f}", f"{seconds / total:.1%}")
    table.add_row("", "all", f"{total:.3f}", "")
    Console(stderr=True, width=None if sys.stderr.isatty() else 100).print(table)
