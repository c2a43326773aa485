"""Fills the marked blocks of pages with tables from a results file, so that no number there is typed by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.report import SUMMARIES, TABLES
from benchmarks.tables import markdown

Results = Mapping[str, Any]
FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "fma")  # those that decide which code runs
BLOCK = re.compile(r"(<!-- benchmarks: (\S+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def render(page: str, results: Results) -> str:
    """Return `page` with every block ``<!-- benchmarks: NAME --> ... <!-- end -->`` filled from `results`.

    Raises KeyError for a name that is no table, no summary and not "machine". A block
    of a section that was not measured says so.
    """

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}{block(match[2], results)}\n{match[3]}"

    return BLOCK.sub(fill, page)


def block(name: str, results: Results) -> str:
    """Return the text of one block."""
    if name == "machine":
        return machine(results)
    if name in SUMMARIES:
        return markdown(SUMMARIES[name](results["sections"]))
    section, table, _ = TABLES[name]
    measured = results["sections"].get(section)
    return markdown(table(measured["rows"])) if measured else "Not measured."


def machine(results: Results) -> str:
    """Return a paragraph on the machine and the versions that the results depend on."""
    m = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    features = [name for name in m["features"] if name in FEATURES or name.startswith("amx")]
    kind = "virtual machine" if m["virtual"] else "machine"
    measured = list(results["sections"].values())
    dates = sorted({section["date"] for section in measured})
    commits = sorted({section["commit"] for section in measured})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    load = max(section["load"] for section in measured)
    quick = " Quick run: few repetitions." if any(section["quick"] for section in measured) else ""
    return (
        f"{m['processor']}, {m['cpus']} CPUs of a shared {kind}, with {', '.join(features)}. {versions}. "
        f"Measured {when} at {', '.join(commits)}; the load average was up to {load:.1f} when a section began, the "
        f"benchmark itself included.{quick}"
    )
