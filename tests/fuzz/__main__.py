"""python -m fuzz: run fuzzers for as long as one likes, and keep what they find."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

from fuzz import workers

STATE = Path(__file__).parent / "corpus"


def main() -> int:
    """Return 1 if there is a finding."""
    if sys.argv[1:2] == ["--serve"]:
        kind, first, count, seconds = sys.argv[2:]
        workers.serve(kind, int(first), int(count), float(seconds))
        return 0
    from fuzz.targets import KINDS

    KINDS.pop("broken")
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"default: all, that is {', '.join(KINDS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default: 60)")
    parser.add_argument("--first", type=int, help="the first case; default: where the last run of the kind ended")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="cases of each kind, at most")
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"no kind '{kind}': choose from {', '.join(KINDS)}")
    return _run(options.kinds or list(KINDS), options.seconds, options.first, options.count)


def _run(kinds: list[str], seconds: float, first: int | None, count: int) -> int:
    """Give the kinds turns of equal time."""
    STATE.mkdir(exist_ok=True)
    reports = {kind: workers.Report(kind, next=_begin(kind) if first is None else first) for kind in kinds}
    end = time.monotonic() + seconds
    turn = min(max(seconds / len(kinds) / 4, 10.0), 120.0)
    for kind in itertools.cycle(kinds):
        left = min(end - time.monotonic(), turn)
        total = reports[kind]
        if left <= 0 or all(report.cases >= count for report in reports.values()):
            break
        if total.cases >= count:
            continue
        part = workers.run(kind, total.next, count - total.cases, left)
        total.cases += part.cases
        total.outcomes += part.outcomes
        total.findings |= part.findings
        total.next = part.next
        for number, text in part.findings.items():
            print(f"FOUND {kind} {number}: {text}", flush=True)
            with open(STATE / f"{kind}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"number": number, "finding": text}) + "\n")
        if first is None:
            (STATE / f"{kind}.next").write_text(str(total.next))
    for report in reports.values():
        outcomes = ", ".join(f"{name} {n}" for name, n in report.outcomes.most_common())
        found = f"{len(report.findings)} findings"
        print(f"{report.kind}: {report.cases} cases up to number {report.next}; {outcomes}; {found}")
    return 1 if any(report.findings for report in reports.values()) else 0


def _begin(kind: str) -> int:
    file = STATE / f"{kind}.next"
    return int(file.read_text()) if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
