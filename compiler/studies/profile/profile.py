"""The result of a profile, and the files that it writes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from numc.compiler.studies.profile.page import write_page
from numc.compiler.studies.profile.rows import ProfileData
from numc.compiler.studies.profile.trace import write_trace
from numc.compiler.support.files import checked_path


@dataclass(frozen=True)
class Profile(ProfileData):
    """What the parts of programs took of the time of a run, or of a step of a training: see ProfileData."""

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
