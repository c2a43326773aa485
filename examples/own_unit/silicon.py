"""The hardware of a unit: vectors, RTL, the bench that runs one through the other, and the area after synthesis."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from variants import Unit

import numc
from numc.hardware.areas import synthesized_area, table
from numc.hardware.emission import identifier
from numc.hardware.ports import interface
from numc.hardware.rtl import rtl
from numc.hardware.synthesis import Synthesized, check_tools, synthesized
from numc.hardware.vector_files import vectors
from numc.hardware.verilator import check_verilator
from numc.numerics.grammar import parse_fma

HERE = Path(__file__).parent
KEPT = HERE / "areas.json"


@dataclass(frozen=True)
class Bench:
    """What Verilator found: steps and dot products, and how many of each differ. reason: why it did not run, or ""."""

    steps: int = 0
    dots: int = 0
    wrong: int = 0
    reason: str = ""


def why_no_bench() -> str:
    """Why the bench cannot run here; "" if it can."""
    return _error_of(check_verilator)


def why_no_synthesis() -> str:
    """Why nothing can be synthesized here; "" if it can."""
    return _error_of(check_tools)


def _error_of(check: Callable[[], None]) -> str:
    try:
        check()
    except numc.NumcError as error:
        return str(error)
    return ""


def write(unit: Unit, kinds: tuple[str, ...], count: int, folder: Path) -> Bench:
    """Write vectors and RTL of a unit, and run them through each other. Raises NumcError, and OSError.

    Files: unit.sv, the vectors, and what the bench is built from.
    """
    op = parse_fma(unit.text)
    folder.mkdir(parents=True, exist_ok=True)
    made = vectors(op, kinds, count)
    for name, content in {**made.files, "unit.sv": rtl(op).encode()}.items():
        (folder / name).write_bytes(content)
    if reason := why_no_bench():
        return Bench(reason=reason)
    of, name = interface(op), identifier(str(op))
    length = json.loads(made.files["vectors.json"])["steps_of_a_dot"]
    values = {"STEP": name, "UNIT": f"{name}_accumulator", "STEPS": made.coverage.steps, "DOTS": made.dots}
    values |= {"LENGTH": length, "D": of.output.width} | {port.name.upper(): port.width for port in of.inputs}
    command = ["verilator", "--binary", "--top-module", "bench", "-Wno-fatal", "-CFLAGS", "-O0"]
    command += [f"-D{key}={value}" for key, value in values.items()]
    _run([*command, "unit.sv", str(HERE / "bench.sv")], folder)
    said = _run([str(folder.resolve() / "obj_dir" / "Vbench")], folder)
    counts = re.search(r"steps (\d+) wrong (\d+) dots (\d+) wrong (\d+)", said)
    if counts is None:
        raise numc.NumcError(f"the bench of {unit.name} says nothing: want its counts, see {folder}")
    steps, wrong_steps, dots, wrong_dots = map(int, counts.groups())
    shutil.rmtree(folder / "obj_dir")
    return Bench(steps, dots, wrong_steps + wrong_dots)


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        first = (done.stderr or done.stdout).strip().partition("\n")[0]
        raise numc.NumcError(f"{Path(command[0]).name} failed in {folder}: {first}")
    return done.stdout


@cache
def kept() -> dict[str, Synthesized]:
    """The areas that come with this example, by the operator's text with the version of its definition."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    return {row["operator"]: Synthesized(**row) for row in rows}


def area(unit: Unit, *, anew: bool) -> Synthesized:
    """Return a unit after synthesis: from a table, or by Yosys if `anew`, which units of numc's table never need.

    Raises NumcError for a unit that no table has, where there is no Yosys.
    """
    op = parse_fma(unit.text)
    if str(op) in table():
        return synthesized_area(op)
    if anew:
        return synthesized(op)
    if str(op) not in kept():
        raise numc.NumcError(f"{KEPT.name} has no '{op}': want yosys, or the unit that the table was made of")
    return kept()[str(op)]
