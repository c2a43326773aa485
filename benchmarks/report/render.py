"""Fills the marked blocks of pages with tables from a results file, so that no number there is typed by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarks.report.report import SUMMARIES, TABLES
from benchmarks.report.tables import markdown

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
    """Return a paragraph for each machine that sections were measured on, that of the most sections first."""
    measured: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, section in results["sections"].items():
        measured.setdefault(json.dumps(section["machine"], sort_keys=True), {})[name] = section
    groups = sorted(measured.values(), key=len, reverse=True)
    return "\n\n".join(
        _paragraph(group, "" if number == 0 else ", ".join(group)) for number, group in enumerate(groups)
    )


def _paragraph(sections: Mapping[str, Mapping[str, Any]], only: str) -> str:
    """Return what sections of one machine depend on. only: their names, if another machine has measured others."""
    measured = list(sections.values())
    m = measured[0]["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    features = [name for name in m["features"] if name in FEATURES or name.startswith("amx")]
    host_type = "virtual machine" if m["virtual"] else "machine"
    dates = sorted({section["date"] for section in measured})
    commits = sorted({section["commit"] for section in measured})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    load = max(section["load"] for section in measured)
    quick = " Quick run: few repetitions." if any(section["quick"] for section in measured) else ""
    return (
        f"{f'Only for {only}: ' if only else ''}{m['processor']}, {m['cpus']} CPUs of a shared {host_type}, with "
        f"{', '.join(features)}. {versions}. Measured {when} at {', '.join(commits)}; the load average was up to "
        f"{load:.1f} when a section began, the benchmark itself included.{quick}"
    )
