"""The data of a profile: rows by layer, steps by role, and what threads did when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numc.studies.profile.roofline import Roofline
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shown

BETWEEN = "other"
"""The kind of what lies between the parts of a program: buffers are allocated and freed, and sizes are computed."""
OUTSIDE = "outside"
"""The kind of what a step of a training does outside of numc's programs."""

COLUMNS = (
    "layer",
    "role",
    "kind",
    "fma",
    "calls",
    "ms",
    "best",
    "share",
    "GFLOP/s",
    "MB",
    "GB/s",
    "roofline",
    "balance",
)
TEXTS = COLUMNS[:4]
"""The columns that say what a row is."""


@dataclass(frozen=True)
class ProfileRow:
    """The time of all parts of one layer, role, kind and operator in one run or step.

    layer: the name of the operation in the model, ``part 7`` if it has none, "" of BETWEEN and OUTSIDE. role: as in the
    table of a policy. kind: ``contraction``, ``chain``, ``elementwise``, ``reduction``, ``gather``, ``fill``, ``copy``,
    ``transpose``, ``broadcast`` or the name of another operation; BETWEEN or OUTSIDE. fma: the operator of a
    contraction, else "". calls: how often such parts ran. seconds: of wall time. best: the least that
    they took in any step. share: of the time of the run or step.
    fmas: the multiply-adds that kernels of contractions computed. bytes: the size of operands and results in memory,
    each counted once.
    roofline: the least time that the fp32 FMA instructions and the memory of the machine allow, divided by `seconds`;
    None if nothing was counted. balance: the busy time of the busiest thread divided by the mean of all threads of the
    run, from 1.0 (all equal) to their number (one did all); None for a run on one thread.
    """

    layer: str
    role: str
    kind: str
    fma: str
    calls: int
    seconds: float
    best: float
    share: float
    fmas: int = 0
    bytes: int = 0
    roofline: float | None = None
    balance: float | None = None

    @property
    def gflops(self) -> float | None:
        """Floating-point operations in a nanosecond, two for each multiply-add; None where there are none."""
        return 2e-9 * self.fmas / self.seconds if self.fmas and self.seconds else None

    @property
    def bandwidth(self) -> float | None:
        """Bytes in a nanosecond; None where there are none."""
        return 1e-9 * self.bytes / self.seconds if self.bytes and self.seconds else None


@dataclass(frozen=True)
class Step:
    """One run, or one step of a training. begin: in seconds of time.perf_counter. roles: seconds by role."""

    begin: float
    seconds: float
    roles: Mapping[str, float]


@dataclass(frozen=True)
class Event:
    """The work of one thread for a while: thread 0 is the one that ran the program, the others helped it.

    step: the number of the step. begin: in seconds of time.perf_counter.
    """

    layer: str
    role: str
    kind: str
    fma: str
    thread: int
    step: int
    begin: float
    seconds: float


@in_default_environment
@dataclass(frozen=True)
class ProfileData:
    """The times of the parts of programs in a run, or in a step of a training.

    rows: of the fastest step, the longest first; their shares add up to 1. fastest: its number. steps: all steps, in
    order. roofline: what the rows are compared with. threads: of the runs. events: of all steps, in order.
    models: the names of the files that the programs of the fastest step were compiled from; modules have none.
    """

    rows: tuple[ProfileRow, ...]
    fastest: int
    steps: tuple[Step, ...]
    roofline: Roofline
    threads: int
    events: tuple[Event, ...]
    models: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The time of the fastest step."""
        return self.steps[self.fastest].seconds

    def by(self, column: str) -> dict[str, float]:
        """Return the shares by ``layer``, ``role``, ``kind`` or ``fma``, the largest first.

        What belongs to no layer and no role is under its kind. Raises NumcError for another column.
        """
        if column not in TEXTS:
            raise NumcError(f"profile: shares by {shown(column)}: want {', '.join(TEXTS)}")
        shares: dict[str, float] = {}
        for row in self.rows:
            key = str(getattr(row, column)) or row.kind
            shares[key] = shares.get(key, 0.0) + row.share
        return dict(sorted(shares.items(), key=lambda one: -one[1]))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the table's columns, without those in which nothing is, and its rows as texts; the last is the sum."""
        rows = [_cells(row) for row in self.rows]
        rows.append(_cells(_total(self)))
        used = [n for n in range(len(COLUMNS)) if any(row[n] != "-" for row in rows)]
        return [COLUMNS[n] for n in used], [[row[n] for n in used] for row in rows]

    def table(self) -> str:
        """Return the rows as a text of aligned columns."""
        columns, rows = self.cells()
        lines = [columns, *rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column in TEXTS else cell.rjust(width)
                for cell, width, column in zip(line, widths, columns, strict=True)
            ).rstrip()
            for line in lines
        )

    def as_json(self) -> dict[str, Any]:
        """Return the profile in types that JSON has, without the events."""
        rows = [{**asdict(row), "gflops": row.gflops, "bandwidth": row.bandwidth} for row in self.rows]
        return {
            "seconds": self.seconds,
            "threads": self.threads,
            "fastest": self.fastest,
            "rows": rows,
            "steps": [asdict(step) for step in self.steps],
            "roofline": asdict(self.roofline),
        }


def _total(profile: ProfileData) -> ProfileRow:
    fmas, bytes_ = (sum(getattr(row, key) for row in profile.rows) for key in ("fmas", "bytes"))
    calls = sum(row.calls for row in profile.rows)
    bound = sum(row.roofline * row.seconds for row in profile.rows if row.roofline is not None)
    seconds, best = profile.seconds, sum(row.best for row in profile.rows)
    share, reached = sum(row.share for row in profile.rows), bound / seconds if seconds else None
    return ProfileRow(
        layer="total",
        role="",
        kind="",
        fma="",
        calls=calls,
        seconds=seconds,
        best=best,
        share=share,
        fmas=fmas,
        bytes=bytes_,
        roofline=reached,
    )


def _cells(row: ProfileRow) -> list[str]:
    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return [
        row.layer or "-",
        row.role or "-",
        row.kind or "-",
        row.fma or "-",
        str(row.calls),
        f"{1e3 * row.seconds:.4f}",
        f"{1e3 * row.best:.4f}",
        f"{row.share:.1%}",
        number(row.gflops, ".1f"),
        number(row.bytes / 1e6 if row.bytes else None, ".3f"),
        number(row.bandwidth, ".1f"),
        number(row.roofline, ".0%"),
        number(row.balance, ".2f"),
    ]
