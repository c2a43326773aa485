"""Which cases of tests only `make exhaustive` runs: ``python -m tools.tiers TIMES.xml`` writes tests/exhaustive.txt.

TIMES.xml is what ``pytest --junitxml=TIMES.xml`` writes of a whole run. Of each function of tests, the case that takes
least and those that the mutants ask for stay; others go that take LEAST seconds or more, unless they are PROMISED. A
function of a single case is left as it is: mark it slow where it is, if another test covers the same.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from tools.house import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LISTED = ROOT / "tests" / "exhaustive.txt"
LEAST = 0.2
PROMISED = (
    "tests/docs/",
    "tests/examples/",
    "tests/fuzz/",
    "tests/benchmarks/",
    "tests/gpu/test_machine_code.py",
    "tests/conformance/test_native.py",
)
"""Where each case is what the project promises of every commit: a page, a kind, an operator, a golden count."""
_HEAD = "# Cases that only `make exhaustive` runs: tools/tiers.py, which writes this file from the times of a run.\n"


def main(arguments: list[str]) -> int:
    """Write the list. Returns the exit status."""
    times = times_of(Path(arguments[0]))
    wanted = wanted_by_mutants()
    earlier = [case for case in listed() if case not in times]  # which the run left out
    chosen = sorted({*later(times, wanted), *(case for case in earlier if not _is_in(case, wanted))})
    LISTED.write_text(_HEAD + "".join(f"{case}\n" for case in chosen), encoding="utf-8")
    print(f"{len(chosen)} cases, {sum(times.get(case, 0) for case in chosen):.0f} of {sum(times.values()):.0f} seconds")
    return 0


def times_of(report: Path) -> dict[str, float]:
    """Return the seconds of each case by its id, as `pytest` has it."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        found[f"{file}::{case.attrib['name']}"] = float(case.attrib["time"])
    return found


def wanted_by_mutants() -> frozenset[str]:
    """Return the files, functions and cases that the default tier has to run for tests/mutants.toml."""
    mutants = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]
    return frozenset(test for mutant in mutants for test in mutant["tests"])


def listed() -> list[str]:
    """Return the cases of the list."""
    lines = LISTED.read_text(encoding="utf-8").splitlines() if LISTED.exists() else []
    return [line for line in lines if not line.startswith("#")]


def later(times: dict[str, float], wanted: frozenset[str], least: float = LEAST) -> list[str]:
    """Return the cases that can wait, by the times of all that ran."""
    functions = defaultdict(list)
    for case, seconds in times.items():
        functions[case.partition("[")[0]].append((seconds, case))
    found = []
    for function, cases in functions.items():
        others = [] if function.startswith(PROMISED) else sorted(cases)[1:]
        found += [case for seconds, case in others if seconds >= least and not _is_in(case, wanted)]
    return found


def _is_in(case: str, wanted: frozenset[str]) -> bool:
    function = case.partition("[")[0]
    return not wanted.isdisjoint((case, function, function.partition("::")[0]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
