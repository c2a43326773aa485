"""The result of a profile, and the files that it writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from numc.studies.profile.page import write_page
from numc.studies.profile.rows import ProfileData
from numc.studies.profile.trace import write_trace
from numc.studies.schedule.graph import Graph
from numc.studies.schedule.schedule import Schedule, schedule
from numc.support.environment import in_default_environment
from numc.support.files import checked_path


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Profile(ProfileData):
    """The times of the parts of programs in a run, or in a step of a training: see ProfileData.

    graph: makes the graph of the parts of the fastest step, with their times.
    """

    graph: Callable[[], Graph] = field(repr=False, compare=False)

    def schedule(self, *, threads: int | None = None, memory: int | None = None) -> Schedule:
        """Return how the parts of the fastest step could run side by side, as a simulation has it (docs/streams.md).

        threads: of the machine that is simulated; None for those of the profile. memory: the bytes that buffers may
        take at once; None for no limit. Raises NumcError for a profile of runs on one thread, and for numbers that are
        not positive.
        """
        return schedule(self.graph(), self.threads if threads is None else threads, memory)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write all steps as JSON that ui.perfetto.dev and chrome://tracing open: a row for each thread.

        Raises NumcError if the file cannot be written.
        """
        write_trace(self, checked_path(path))

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write a page of HTML with the table and a bar of the layers; it needs no other file and no network.

        Raises NumcError if the file cannot be written, or if jinja2 is not installed (`numc[report]`).
        """
        write_page(self, checked_path(path))
