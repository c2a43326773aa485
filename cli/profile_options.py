"""The options of a command that profiles a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numc.cli import output
from numc.cli.grouped import grouped
from numc.support.errors import NumcError
from numc.support.files import check_writable

if TYPE_CHECKING:
    from numc.runtime.program import Program
    from numc.studies.profile.profile import Profile

_NEEDED = "{} is about a profile: ask for one with --profile"


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """The options that say whether and how to profile; None for one that was not given."""

    wanted: bool
    repeat: int | None
    trace: str | None
    report: str | None
    peak: float | None
    bandwidth: float | None

    def check(self) -> None:
        """Raise NumcError for options without --profile, and for files that cannot be written."""
        if not self.wanted:
            for option in ("repeat", "trace", "report", "peak", "bandwidth"):
                if getattr(self, option) is not None:
                    raise NumcError(_NEEDED.format(f"--{option}"))
        for option, suffix in (("trace", ".json"), ("report", ".html")):
            if (file := getattr(self, option)) is not None:
                if Path(file).suffix != suffix:
                    raise NumcError(f"--{option} {file}: want a name that ends in {suffix}")
                check_writable(Path(file))
        if self.report is not None:
            from numc.studies.report.write import check_installed

            check_installed("jinja2")

    def profile(self, program: Program, inputs: Mapping[str, Any], **how: Any) -> Profile | None:
        """Return the profile of a program, and write the files; None if there is nothing to do. Raises NumcError."""
        if not self.wanted:
            return None
        repeat = 10 if self.repeat is None else self.repeat
        profile: Profile = program.profile(inputs, repeat=repeat, peak=self.peak, bandwidth=self.bandwidth, **how)
        if self.trace is not None:
            profile.write_trace(self.trace)
        if self.report is not None:
            profile.write_report(self.report)
        return profile


#: Adds --profile, --repeat, --trace, --report, --peak and --bandwidth; the command gets them as `profiling`.
profile_options = grouped(
    "profiling",
    Profiling,
    click.option("--profile", "wanted", is_flag=True, help="Print what the parts of the program take of its time."),
    click.option("--repeat", type=int, metavar="N", help="Profile the fastest of N runs; default: 10."),
    click.option("--trace", metavar="FILE.json", help="Write what threads did when, for ui.perfetto.dev."),
    click.option("--report", metavar="FILE.html", help="Write the profile as a page."),
    click.option("--peak", type=float, metavar="GFLOP/S", help="Of fp32, in the roofline; default: measured."),
    click.option("--bandwidth", type=float, metavar="GB/S", help="Of memory, in the roofline; default: measured."),
)


def print_profile(found: Profile) -> None:
    """Print a row for every layer, kind and operator, the longest first."""
    columns, rows = found.cells()
    output.table(columns, rows)
